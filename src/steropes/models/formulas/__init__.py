"""Formulas: parsing, evaluation with data, and limits of what they may contain."""
