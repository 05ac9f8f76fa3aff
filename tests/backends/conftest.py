"""Tests of the PyTorch backend are collected only where PyTorch is installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else [
    "test_kernel_twins.py", "test_pytorch_backend.py", "test_triton_kernels.py",
]  # fmt: skip
