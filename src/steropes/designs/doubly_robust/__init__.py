"""Doubly robust estimates: nuisance models, targeting and influence functions as arrays."""
