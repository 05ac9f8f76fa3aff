"""Sparse lines of X, their conversions, products and Gram matrices."""
