"""The order of a survival model's rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steropes.backends import get_backend
from steropes.likelihoods.risk_sets import sort_survival

TIMES = {
    "days": lambda rng, n: rng.integers(0, 30, n) * 1.0,
    "years": lambda rng, n: rng.random(n),
    "far apart": lambda rng, n: rng.integers(0, 10**6, n) * 1.0,
    "halves": lambda rng, n: rng.integers(-5, 5, n) * 0.5,
    "from far": lambda rng, n: 1e15 + rng.integers(0, 9, n),
}


@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
@pytest.mark.parametrize("times", TIMES)
@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 80), strata=st.sampled_from([0, 4, 10**6]), seed=st.integers(0, 10**6))
def test_by_stratum_then_from_late_to_early_then_those_without_the_event(
    device, times, n, strata, seed
):
    if device == "torch-cpu":
        pytest.importorskip("torch")
    rng = np.random.default_rng(seed)
    time, event = TIMES[times](rng, n), rng.integers(0, 2, n).astype(np.int8)
    codes = rng.integers(0, strata, n) if strata else None
    keys = (event, -time) if codes is None else (event, -time, codes)
    order = sort_survival(time, event, codes, get_backend(device, 1))
    np.testing.assert_array_equal(order, np.lexsort(keys))
