"""Sums of many numbers, with the rounding errors of the additions."""
