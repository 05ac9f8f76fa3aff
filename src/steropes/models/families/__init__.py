"""Families of models: the measures of performance and scores that each has."""
