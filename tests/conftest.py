"""Fixtures that every room's tests share; `simulators` and `reference` hold the functions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings

# The same examples on every run: a failure is a change of the code, not of the dice.
settings.register_profile("steropes", derandomize=True, deadline=None)
settings.load_profile("steropes")


@pytest.fixture
def rng():
    return np.random.default_rng(20240901)


@pytest.fixture
def eager_threads(monkeypatch):
    """Chunks go to threads however short they are, as only those of large data do."""
    for least in ("FEW", "LONG"):
        monkeypatch.setattr(f"steropes.backends.thread_pool.{least}", 0)
