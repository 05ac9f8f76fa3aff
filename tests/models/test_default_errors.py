"""Robust errors are the default where weights are not whole numbers, as in R's coxph."""

import pickle

import numpy as np
import pytest

from every_family import EVERY, case

FAMILIES = [name for name in EVERY if name != "conditional exact"]


@pytest.mark.parametrize("name", FAMILIES)
def test_errors_are_robust_by_default_with_fractions_and_named(name, rng):
    c = case(name, rng)
    whole = rng.integers(1, 3, len(c.X)) * 1.0
    for weight, kind in ((whole, "model"), (whole * 0.7, "robust")):
        m = c.make().fit(c.X, c.y, sample_weight=weight, **c.extras)
        np.testing.assert_array_equal(m.vcov(), m.vcov(kind))
        table = m.summary()
        assert table.attrs["errors"] == kind
        assert ("robust errors" in repr(table)) == (kind == "robust")
        np.testing.assert_array_equal(table, m.summary(kind=kind))
        np.testing.assert_array_equal(m.confint(), m.confint(method=kind))
        last = table.index[-1]
        p = m.inference.linear_hypothesis([last]), m.inference.linear_hypothesis([last], kind=kind)
        assert p[0]["chisq"] == p[1]["chisq"]
    V = m.vcov()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(m)).vcov(), V)
