"""Triton kernels of the PyTorch backend, each with a twin in plain torch operations.

A twin is the specification of its kernel and replaces it where Triton is absent or tensors are on
the CPU. No kernel uses atomic operations. The sizes of the arguments fix the order of all sums, so
repeated runs give the same bits. Positions are computed in 64 bits.
"""
