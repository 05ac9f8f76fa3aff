"""Random problems of all families, fitted and then held against dense NumPy."""
