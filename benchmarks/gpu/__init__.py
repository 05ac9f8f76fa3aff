"""Checks and measurements of the PyTorch backend on a GPU; see ``python -m benchmarks.gpu -h``."""
