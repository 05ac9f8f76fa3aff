"""Violations of columns outside of a working set."""

import numpy as np
import pytest

from steropes.solve.optimality import violations_outside_working_set
from steropes.solve.optimality.optimality_certificate import violations
from steropes.solve.optimality.violations_outside_working_set import outside_violations


@pytest.mark.parametrize("at_once", [1, 7, 1 << 15])
@pytest.mark.parametrize("B", [1, 4, 12])
def test_violations_follow_from_the_optimality_conditions(monkeypatch, rng, B, at_once):
    monkeypatch.setattr(violations_outside_working_set, "ENTRIES_AT_ONCE", at_once)
    p = 53
    g, l1 = rng.normal(size=(p, B)), rng.exponential(size=(p, B))
    l1[rng.random((p, B)) < 0.1] = 0.0
    inside = rng.random(p) < 0.3
    zero = np.zeros((p, B))
    v = violations(g, zero, l1, zero) / np.where(l1 > 0, l1, 1.0)
    v[inside] = 0.0
    before = g.copy(), l1.copy()
    urgency, largest = outside_violations(g, l1, inside)
    np.testing.assert_array_equal(urgency, v.max(axis=1))
    np.testing.assert_array_equal(largest, v.max(axis=0))
    np.testing.assert_array_equal(before, (g, l1))


def test_a_slope_that_is_nan_is_a_violation():
    g, l1 = np.array([[0.5], [np.nan], [0.2]]), np.ones((3, 1))
    urgency, largest = outside_violations(g, l1, np.zeros(3, bool))
    assert np.isnan(urgency[1])
    assert np.isnan(largest[0])


def test_no_columns_have_no_violation():
    urgency, largest = outside_violations(np.zeros((0, 4)), np.zeros((0, 4)), np.zeros(0, bool))
    assert urgency.shape == (0,)
    np.testing.assert_array_equal(largest, np.zeros(4))
