"""Sparse matrices by rows or columns: conversions, products and Gram matrices."""
