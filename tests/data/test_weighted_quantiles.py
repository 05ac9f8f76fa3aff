"""Quantiles of values with weights agree with those of repeated values."""

import numpy as np

from steropes.data.weighted_quantiles import weighted_quantiles


def test_whole_weights_repeat_values(rng):
    x, w = rng.normal(size=40), rng.integers(0, 4, 40)
    q = np.linspace(0, 1, 23)
    expected = np.quantile(np.repeat(x, w), q)
    np.testing.assert_allclose(weighted_quantiles(x, w.astype(float), q), expected, rtol=1e-12)


def test_weights_below_one_are_relative(rng):
    x, q = rng.normal(size=40), [0.0, 0.1, 0.5, 1.0]
    found = weighted_quantiles(x, np.full(40, 1 / 40), q)
    np.testing.assert_allclose(found, np.quantile(x, q), rtol=1e-9)
