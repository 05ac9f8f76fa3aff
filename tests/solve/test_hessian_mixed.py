"""Hessians of small groups with sparse and dense columns."""

import numpy as np
import pytest
from scipy import sparse

from steropes.backends import get_backend
from steropes.design_matrix import Design, RowMatrix, as_design
from steropes.likelihoods import ConditionalPoissonLikelihood, CoxLikelihood
from steropes.solve.hessian import hessian


def mixed_design(rng, n):
    """40 columns with few ones, two of them with values, and two dense ones."""
    few = (rng.random((n, 40)) < 0.02).astype(float)
    few[:, :2] *= rng.normal(size=(n, 2))
    blocks = as_design(sparse.csc_array(few)).blocks + as_design(rng.normal(size=(n, 2))).blocks
    return Design(blocks)


def families(rng, n):
    strata = rng.integers(0, n // 4, n)
    backend = get_backend("cpu", 2)
    yield ConditionalPoissonLikelihood(rng.poisson(0.5, n) * 1.0, strata, backend)
    time = rng.integers(2, 9, n) * 1.0
    event = rng.integers(0, 2, n)
    for entry in (None, time - rng.integers(1, 4, n)):
        for ties in ("efron", "breslow"):
            yield CoxLikelihood(time, event, backend, entry, strata, ties)


@pytest.mark.parametrize("first", [0, 17])
def test_hessian_is_the_derivative_of_the_gradient(first, rng):
    n = 240
    design = mixed_design(rng, n)
    chosen = rng.permutation(design.p)
    for likelihood in families(rng, n):
        rows = RowMatrix(design, chosen, likelihood.order, likelihood.backend)
        beta = rng.normal(0, 0.3, (design.p, 1))
        w = likelihood.weigh(rng.integers(0, 3, (likelihood.n, 1)) * 1.0)
        H = hessian(rows, likelihood.curvature(rows.matmul(beta), w, exact=True), first)
        for j in range(first, design.p):
            h = np.zeros((design.p, 1))
            h[j] = 1e-5
            up = rows.rmatmul(likelihood.evaluate(rows.matmul(beta + h), w)[1])
            down = rows.rmatmul(likelihood.evaluate(rows.matmul(beta - h), w)[1])
            slope = (up - down)[:, 0] / 2e-5
            np.testing.assert_allclose(H[first:, j], slope[first:], rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(H[j, first:], slope[first:], rtol=1e-5, atol=1e-6)
