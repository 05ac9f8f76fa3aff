"""The Hessian of the columns from a compact curvature is X' H_η X."""

import numpy as np
import pytest
from scipy import sparse

from simulators import mixed_matrix, outcome
from steropes.backends import get_backend
from steropes.design_matrix import RowMatrix, as_design
from steropes.likelihoods import CoxLikelihood
from steropes.solve.hessian import hessian


def cox(rng, n, ties, strata=False, entry=False):
    eta = rng.normal(size=n)
    time, event = outcome("cox", eta, rng)
    codes = rng.integers(0, 30, n) if strata else None
    late = time - rng.integers(1, 5, n) if entry else None
    return eta, CoxLikelihood(time, event, get_backend("cpu", 2), late, codes, ties)


def columns_hessian(design, likelihood, eta, w, exact=True):
    order = likelihood.order
    bound = likelihood.weigh(np.ascontiguousarray(w[order][:, None]))
    curvature = likelihood.curvature(np.ascontiguousarray(eta[order][:, None]), bound, exact=exact)
    rows = RowMatrix(design, np.arange(design.p), order, likelihood.backend)
    H = hessian(rows, curvature) * design.scale[:, None] * design.scale
    return H


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("strata", [False, True])
@pytest.mark.parametrize("entry", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse", "few ones"])
def test_hessian_is_the_derivative_of_the_gradient(rng, ties, strata, entry, kind):
    n, p = 150, 6
    X = mixed_matrix(rng, n, p)
    if kind == "few ones":
        X = (rng.random((n, p)) < 0.03).astype(float)
    design = as_design(X if kind == "dense" else sparse.csc_array(X))
    eta, likelihood = cox(rng, n, ties, strata, entry)
    w = rng.integers(0, 3, n).astype(float)
    H = columns_hessian(design, likelihood, eta, w)
    order = likelihood.order
    bound = likelihood.weigh(np.ascontiguousarray(w[order][:, None]))

    def gradient(beta):
        at = (eta + X @ beta)[order][:, None]
        return X[order].T @ likelihood.evaluate(np.ascontiguousarray(at), bound)[1][:, 0]

    h = 1e-5
    for j in range(p):
        e = np.zeros(p)
        e[j] = h
        np.testing.assert_allclose(H[j], (gradient(e) - gradient(-e)) / (2 * h), atol=1e-6)


def test_pooled_event_times_approximate_the_exact_curvature(rng):
    n = 3000
    X = rng.normal(size=(n, 3))
    eta = X @ np.array([0.5, -0.5, 0.2])
    time, event = outcome("cox", eta, rng, ties=False)
    likelihood = CoxLikelihood(time, event, get_backend("cpu", 1))
    design = as_design(X)
    exact = columns_hessian(design, likelihood, eta, np.ones(n))
    pooled = columns_hessian(design, likelihood, eta, np.ones(n), exact=False)
    assert not np.array_equal(exact, pooled)
    np.testing.assert_allclose(pooled, exact, rtol=0, atol=0.02 * exact.max())
