"""First-order changes of optima with their penalties solve a linear system on each support."""

import numpy as np
import pytest
from test_batch import batch_of, setting, weights_of

from simulators import FAMILIES
from steropes.solve.subproblem import QuadraticModel


def fitted(family, rng, B=3):
    _, _, likelihood, design, free = setting(family, rng, n=300)
    batch = batch_of(design, likelihood, weights_of(rng, 300, B), B=B)
    free = np.arange(design.p) < free

    def at(lam, solve=True):
        l1 = np.where(free, 0.0, lam)
        l2 = np.where(free, 0.0, 0.1)
        if solve:
            batch.solve(l1, l2, tol=1e-10)
        return l1, l2

    return batch, at


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("change", [0.9995, 1.0005])
def test_the_response_is_the_difference_of_nearby_fits(family, change, rng):
    """Of coefficients that stay in a support; the others are told where they would be."""
    batch, at = fitted(family, rng)
    lam = 3.0
    at(lam * change)
    there = batch.beta
    at(lam)
    here = batch.beta
    response = batch.response(*at(lam * change, solve=False))
    while response.step():
        pass
    moved = batch.beta - here
    both = (here != 0) & (there != 0)
    assert both.any(axis=0).all()
    assert not moved[here == 0].any()
    np.testing.assert_allclose(moved[both], (there - here)[both], rtol=0.1, atol=1e-6)


def test_a_coefficient_that_comes_to_zero_goes_on(rng):
    """It is a derivative: what would change its sign moves as if it had not.

    If it stopped, others would go where the derivative does not, and if its penalty changed its
    sign too, there would be no end.
    """
    batch, at = fitted("logistic", rng, B=1)
    low, high = 0.5, 20.0
    at(low)
    whole = np.count_nonzero(batch.beta)
    for _ in range(50):  # where one is about to leave
        middle = 0.5 * (low + high)
        at(middle)
        low, high = (middle, high) if np.count_nonzero(batch.beta) == whole else (low, middle)
    at(low)
    before = batch.beta
    smallest = np.abs(before[before != 0]).min()
    assert smallest < 1e-6
    response = batch.response(*at(low * 1.01, solve=False))
    taken = 0
    while response.step():
        taken += 1
        assert taken < 8
    after = batch.beta
    crossed = (before * after < 0).ravel()
    assert np.count_nonzero(crossed) == 1
    # The same as from a little before, where it does not come to zero.
    at(low * 0.9)
    start = batch.beta
    response = batch.response(*at(low * 0.9 + 0.01 * low, solve=False))
    while response.step():
        pass
    np.testing.assert_allclose(after - before, batch.beta - start, rtol=0.3, atol=1e-4)


def test_a_lasso_without_a_zero_has_no_dense_factor(rng, monkeypatch):
    """One of thousands of columns for each replicate would take seconds."""
    batch, at = fitted("logistic", rng)
    at(1e-3)
    there = batch.beta
    assert (there[np.asarray(batch.term.W)] != 0).all()

    def refuse(*_):
        raise AssertionError("a dense factor")

    monkeypatch.setattr(QuadraticModel, "_solve", refuse)
    response = batch.response(*at(1e-3 * 1.01, solve=False))
    assert response.step()
