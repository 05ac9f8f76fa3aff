"""Layouts of result tables, identifiers of rows, and files written completely or not at all."""
