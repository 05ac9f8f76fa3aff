"""Hessians of the quadratic models: shared between replicates, updated (BFGS) and recomputed."""
