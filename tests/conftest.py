"""Fixtures that every room's tests share; `simulators` and `reference` hold the functions."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(20240901)
