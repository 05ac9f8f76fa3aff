"""Preconditioners of conjugate gradients: blocks of correlated columns, or a partial factor."""
