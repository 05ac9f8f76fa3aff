"""Layouts of result tables, their identifiers, and files that are written whole."""
