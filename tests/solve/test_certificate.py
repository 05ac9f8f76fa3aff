"""The certificate depends on X alone, not on a working copy of the rows or an old Hessian."""

import warnings

import numpy as np
import pytest
from scipy import sparse, special

import steropes
import steropes.models.fitting.fit_steps
from drawn_families import FAMILIES, N, drawn
from every_family import case
from steropes.solve.data_term import WorkingColumns
from steropes.solve.linear_predictor import linear_predictor
from steropes.solve.optimality.optimality_certificate import certificate, violations

MATCHED = ("conditional exact", "conditional efron", "conditional poisson", "case series")


@pytest.mark.parametrize("prior", [None, steropes.Normal(1.0), steropes.Laplace(1.0)])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_working_copy_that_is_wrong_shows(monkeypatch, family, storage, prior, rng):
    model, settings, X, y, more, _ = drawn(family, rng)
    join = WorkingColumns.join

    def corrupted(self, columns):
        out = join(self, columns)
        rows = getattr(self.rows, "X", self.rows)
        if out and rows.dense is not None:
            rows.dense = rows.dense.copy()  # X may share its memory, and must remain right
            rows.dense[:40] *= 1.01
        if out and rows.lines is not None:
            rows.lines.data[:40] *= 1.01
        return out

    monkeypatch.setattr(WorkingColumns, "join", corrupted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", steropes.NotConvergedWarning)
        m = model(**settings, prior=prior).fit(storage(X), y, **more)
    assert not m.converged_
    assert m.optimality_ > 1e-4


@pytest.mark.parametrize("prior", [None, steropes.Normal(1.0), steropes.Laplace(1.0)])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_fit_is_an_optimum_by_the_certificate_from_x(family, prior, rng):
    model, settings, X, y, more, _ = drawn(family, rng)
    m = model(**settings, prior=prior).fit(X, y, **more)
    problem = m._problem
    l1, l2 = problem.penalties(m.prior_)
    assert m.converged_
    assert certificate(problem, m._beta, l1, l2) <= 1e-8


@pytest.mark.parametrize("family", FAMILIES)
def test_separation_checks_reuse_the_final_linear_predictors(monkeypatch, family, rng):
    model, settings, X, y, more, _ = drawn(family, rng)
    given = []

    def seen(problem, beta, l1, l2, eta=None):
        given.append((problem, beta, eta))

    monkeypatch.setattr(steropes.models.fitting.fit_steps, "refuse_separated", seen)
    model(**settings, prior=steropes.Laplace(1.0)).fit(X, y, **more)
    assert given
    for problem, beta, eta in given:
        own = linear_predictor(problem, beta * problem.design.scale)
        assert np.array_equal(eta, own)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["logistic", "poisson"])
def test_the_unit_of_a_ridges_certificate_is_the_curvature_at_its_end(kind, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 6)) * [1, 10, 1e3, 1, 1, 1e-3]
    eta = 2 + 3 * X[:, 0]
    if kind == "logistic":
        model, y = steropes.LogisticRegression, (rng.random(N) < special.expit(eta)).astype(int)
    else:
        model, y = steropes.PoissonRegression, rng.poisson(np.exp(eta))
    m = model(prior=steropes.Normal(5.0), tol=1e-3).fit(X, y)
    eta = m.intercept_ + X @ m.coef_
    mean = special.expit(eta) if kind == "logistic" else np.exp(eta)
    v = mean * (1 - mean) if kind == "logistic" else mean
    Z = np.column_stack([np.ones(N), X - m._problem.design.center[1:]])
    slope = Z.T @ (mean - y) + np.append(0, m.coef_) / 5.0
    exact = np.abs(slope / np.sqrt(v @ Z**2)).max()
    assert m.optimality_ == pytest.approx(exact, rel=1e-3, abs=1e-11)
    assert exact <= 1e-3


def test_the_certificate_knows_no_unit_of_columns_and_weights(rng):
    X = rng.normal(size=(N, 4))
    y = (rng.random(N) < special.expit(X[:, 0])).astype(int)
    units = np.array([1e-6, 1.0, 1e5, 3.0])
    values = []
    for size in (np.ones(4), units):
        m = steropes.LogisticRegression().fit(X * size, y)
        beta = m._beta * 1.01
        none = np.zeros(5)
        values.append(certificate(m._problem, beta, none, none))
    assert values[0] > 1e-3
    assert values[1] == pytest.approx(values[0], rel=1e-6)


@pytest.mark.sampled
@pytest.mark.parametrize("family", ["cox by step", "cox strata", "fine gray", *MATCHED])
@pytest.mark.parametrize("form", [np.asarray, sparse.csc_array], ids=["dense", "sparse"])
def test_columns_without_information_are_at_their_optimum_under_a_ridge(family, form):
    """Constant in each stratum, or at all: what rounding leaves of their curvature is no unit."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        c = case(family, rng, n=200, p=6)
        codes = c.extras.get("strata", np.zeros(len(c.X)))
        codes = np.unique(codes, return_inverse=True)[1]
        level = rng.normal(size=codes.max() + 1)[codes]
        c.X = np.column_stack([c.X, np.ones(len(c.X)), level, level * (level > 0)])
        for variance in (1e-6, 1e-3, 1.0):
            m = c.fit(form(c.X), prior=steropes.Normal(variance))
            assert m.converged_
            np.testing.assert_allclose(m.coef_[-3:], 0.0, atol=1e-10)


@pytest.mark.parametrize("shape", [(40, 900), (33000, 1), (3, 40000)])
def test_violations_in_pieces_are_those_of_each_coefficient(shape, rng):
    g, beta, l1, l2 = rng.normal(size=(4, *shape))
    beta[rng.random(shape) < 0.5] = 0.0
    v = violations(g, beta, l1, l2)
    for at in zip(rng.integers(0, shape[0], 50), rng.integers(0, shape[1], 50), strict=True):
        assert v[at] == violations(g[at], beta[at], l1[at], l2[at])
