"""What has gone wrong elsewhere: threads, leftovers, weights, unfinished fits."""

import numpy as np
import pytest
from sklearn.base import clone

import steropes
from survival_reference import cox_loss, fine_gray_loss

MODELS = {
    "cox": lambda **k: steropes.CoxRegression(**k),
    "steps": lambda **k: steropes.CoxRegression(time_varying={"x1": [4.0]}, **k),
    "fine_gray": lambda **k: steropes.FineGrayRegression(**k),
}


def people(name, n=300):
    rng = np.random.default_rng(1)
    X = (rng.random((n, 5)) < 0.3).astype(float)
    time = np.ceil(10 * rng.exponential(size=n))
    code = rng.integers(0, 3, n)
    y = steropes.Surv(time, code if name == "fine_gray" else code == 1)
    return X, y, rng.integers(0, 4, n), rng.integers(0, 3, n).astype(float)


@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("name", MODELS)
def test_nothing_depends_on_the_number_of_threads(name):
    X, y, strata, w = people(name)
    cv = steropes.CrossValidation(3, search=[0.05, 1.0], random_state=0)
    prior = steropes.Laplace(1.0)
    one, two = (
        MODELS[name](prior=prior, cv=cv, n_jobs=j).fit(X, y, strata=strata, sample_weight=w)
        for j in (1, 2)
    )
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.cv_results_.to_numpy(), two.cv_results_.to_numpy())


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_leaves_nothing_behind(name):
    X, y, strata, w = people(name)
    m = MODELS[name]()
    first = m.fit(X, y).coef_.copy()
    m.fit(X, y, strata=strata, sample_weight=w, offset=X[:, 0])
    with pytest.raises(steropes.DataError):
        m.fit(X, y, sample_weight=-w)
    np.testing.assert_array_equal(m.fit(X, y).coef_, first)
    np.testing.assert_array_equal(clone(m).fit(X, y).coef_, first)
    assert "stratum" not in m.curves.baseline_hazard(level=None)


@pytest.mark.parametrize("name", ["cox", "fine_gray"])
def test_weights_enter_numerator_and_denominator(name):
    X, y, strata, w = people(name, 120)
    m = MODELS[name]().fit(X, y, strata=strata, sample_weight=w)
    time, code = y["time"], y["event"]
    loss = (
        cox_loss(X @ m.coef_, time, code, w, None, strata)
        if name == "cox"
        else fine_gray_loss(X @ m.coef_, time, code, 1, w, strata)
    )
    assert m.log_likelihood_ == pytest.approx(-loss, rel=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_success_is_an_optimum(name):
    """The certificate is the gradient's: no step from the point gains anything."""
    X, y, strata, _ = people(name)
    m = MODELS[name](prior=steropes.Laplace(0.5), tol=1e-9).fit(X, y, strata=strata)
    assert m.converged_
    assert m.optimality_ <= 1e-9
    kept = np.flatnonzero(m.coef_)
    assert len(kept) > 0
    lam = np.sqrt(2 / 0.5)
    batch = m._problem.batch()
    batch.start_at((m.coef_ * m._problem.design.scale)[:, None])
    g = batch.gradients()[:, 0] * m._problem.design.scale
    # The gradient in the user's units is that in the scaled ones times the columns' scale.
    np.testing.assert_allclose(g[kept], -lam * np.sign(m.coef_[kept]), atol=1e-6)
    assert np.all(abs(g) <= lam + 1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_a_column_that_separates_is_named(name):
    X, y, _, _ = people(name)
    X = np.column_stack([X, (y["event"] == 1).astype(float)])
    with pytest.raises(steropes.SeparationError, match="x5"):
        MODELS[name]().fit(X, y)


@pytest.mark.parametrize("name", MODELS)
def test_a_constant_column_is_named(name):
    X, y, strata, _ = people(name)
    X = np.column_stack([X, strata])
    with pytest.raises(steropes.SeparationError, match="x5"):
        MODELS[name]().fit(X, y, strata=strata)
