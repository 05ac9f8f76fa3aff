"""Kernels of likelihoods, over rows, strata, intervals and risk sets."""
