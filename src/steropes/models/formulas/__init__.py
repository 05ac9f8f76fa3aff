"""Formulas: parsing, evaluation with data, and limits of their content."""
