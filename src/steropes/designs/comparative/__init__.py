"""Comparisons of groups of people from any table: weights, matching, balance and effects."""
