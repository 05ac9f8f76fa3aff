"""Synthesis of released archives of several databases."""
