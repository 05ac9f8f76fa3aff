"""The Hessian's diagonal computed without the matrix equals that of the matrix."""

import numpy as np
import pytest
from scipy import sparse

import steropes
from drawn_families import FAMILIES, drawn
from steropes.solve.hessian import diagonal, hessian
from steropes.solve.linear_predictor import bound_weights, linear_predictor


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_diagonal_is_that_of_the_hessian(family, storage, exact, rng):
    model, settings, X, y, more, _ = drawn(family, rng)
    m = model(**settings, prior=steropes.Normal(1.0)).fit(storage(X), y, **more)
    check(m, exact)


@pytest.mark.parametrize("exact", [True, False])
def test_the_diagonal_of_effects_that_change_and_of_late_entry(exact, rng):
    X = np.column_stack([rng.normal(size=900), rng.random(900) < 0.3])
    entry = rng.random(900)
    y = steropes.Surv(entry + rng.exponential(size=900), rng.integers(0, 2, 900), entry)
    changing = steropes.CoxRegression(time_varying={0: [0.7, 1.2]})
    for m in (steropes.CoxRegression(), changing):
        check(m.fit(X, y, strata=np.arange(900) % 3), exact)


def check(m, exact):
    problem, p = m._problem, m._problem.design.p
    eta = linear_predictor(problem, m._beta * problem.design.scale)
    curvature = problem.likelihood.curvature(eta, bound_weights(problem), exact=exact)
    rows = problem.design.by_rows(
        np.arange(p), problem.likelihood.order, problem.likelihood.backend
    )
    H = hessian(rows, curvature)
    np.testing.assert_allclose(diagonal(rows, curvature), np.diag(H), rtol=1e-9)
