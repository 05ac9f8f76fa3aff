"""Tests of the PyTorch backend are collected only where PyTorch is installed."""

from importlib.util import find_spec

collect_ignore = (
    [] if find_spec("torch") else ["test_device_budgets.py", "test_device_minimiser.py"]
)
