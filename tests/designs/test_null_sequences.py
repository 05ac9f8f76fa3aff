"""Sequential tests keep their error in 10,000 sequences without an effect."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.null_sequences import DESIGNS, SEED

COUNTED = [
    name
    for name in DESIGNS
    if "tree" not in name and "each arm" not in name and "not cal" not in name
]


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTED)
def test_false_signals_are_as_rare_as_planned(name):
    share, alpha, sequences = DESIGNS[name](np.random.default_rng(SEED + 1), 10_000)
    error = np.sqrt(alpha * (1 - alpha) / sequences)
    assert share == pytest.approx(alpha, abs=3.5 * error)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DESIGNS if "tree" in name])
def test_false_signals_of_scans_are_not_more_than_planned(name):
    # Statistics of counts are discrete, so that the error is a little below the planned one.
    share, alpha, sequences = DESIGNS[name](np.random.default_rng(SEED + 1), 2_000)
    assert share < alpha + 3.5 * np.sqrt(alpha * (1 - alpha) / sequences)
