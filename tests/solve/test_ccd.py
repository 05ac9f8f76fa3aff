"""`solver="ccd"`, the published algorithm, agrees with the default solver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import steropes
from steropes.backends.cpu import CpuBackend
from steropes.backends.cpu.descent.cyclic_descent_kernels import LINEAR, _step, sweep
from steropes.design_matrix import as_design
from steropes.fit import Problem
from steropes.likelihoods import CoxLikelihood
from steropes.solve.cyclic_descent import _cox_sweeper, solve_ccd

N = 200
PRIORS = {
    "none": None,
    "laplace": steropes.Laplace(0.05),
    "normal": steropes.Normal(0.2),
    "elastic net": steropes.ElasticNet(0.05, 0.3),
    "laplace, two left out": steropes.Laplace(0.02, exclude=["x0", 5]),
    "laplace, one variance each": steropes.Laplace(np.geomspace(0.01, 1.0, 9)),
}
FAMILIES = {
    "linear": (steropes.LinearRegression, {}),
    "logistic": (steropes.LogisticRegression, {}),
    "logistic without intercept": (steropes.LogisticRegression, {"fit_intercept": False}),
    "poisson": (steropes.PoissonRegression, {}),
    "cox efron": (steropes.CoxRegression, {"ties": "efron"}),
    "cox breslow": (steropes.CoxRegression, {"ties": "breslow"}),
    "case series": (steropes.SelfControlledCaseSeries, {}),
    "matched sets": (steropes.ConditionalLogisticRegression, {"method": "breslow"}),
}


def simulate(family: str):
    rng = np.random.default_rng(3)
    X = np.column_stack(
        [rng.normal(size=(N, 3)) * [1.0, 10.0, 0.1] + [0.0, 3.0, 0.0], rng.random((N, 6)) < 0.25]
    ).astype(float)
    eta = (X - X.mean(axis=0)) @ (rng.normal(size=9) * np.r_[0.5, 0.05, 5.0, np.full(6, 0.7)])
    data = {
        "sample_weight": rng.choice([0.0, 0.5, 1.0, 2.0], N),
        "offset": rng.normal(size=N) * 0.3,
    }
    if family == "linear":
        y = eta + rng.normal(size=N)
    elif family.startswith("logistic"):
        y = (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int)
    elif family == "poisson":
        y = rng.poisson(np.exp(np.clip(eta, -4.0, 3.0)))
        data["exposure"] = rng.uniform(0.5, 2.0, N)
    elif family == "case series":
        y = rng.poisson(np.exp(np.clip(eta, -4.0, 2.0)))
        data["exposure"] = rng.uniform(0.5, 2.0, N)
        data["strata"] = rng.integers(0, 25, N)
    elif family == "matched sets":
        y = (rng.random(N) < 1 / (1 + np.exp(1 - eta))).astype(int)
        data["strata"] = rng.integers(0, 25, N)
    else:
        time = np.ceil(rng.exponential(np.exp(-eta)) * 10) / 10  # many ties
        y = steropes.Surv(time, rng.random(N) < 0.6)
        data["strata"] = rng.choice(["b", "a", "c", "d"], N)
    return X, y, data


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("family", FAMILIES)
def test_same_optimum_as_newton(family, prior, kind):
    X, y, data = simulate(family)
    X = sparse.csr_array(X) if kind == "sparse" else X
    Model, settings = FAMILIES[family]
    settings = {**settings, "prior": PRIORS[prior]}
    fast = Model(**settings, tol=1e-9).fit(X, y, **data)
    slow = Model(**settings, tol=1e-9, solver="ccd", max_iter=2000).fit(X, y, **data)
    assert slow.converged_
    assert slow.optimality_ <= 1e-9
    scale = np.std(X.toarray() if kind == "sparse" else X, axis=0)
    np.testing.assert_allclose(slow.coef_ * scale, fast.coef_ * scale, atol=1e-7)
    np.testing.assert_array_equal(slow.coef_ == 0, fast.coef_ == 0)
    np.testing.assert_allclose(slow.log_likelihood_, fast.log_likelihood_, atol=1e-6)
    if hasattr(fast, "intercept_"):
        np.testing.assert_allclose(slow.intercept_, fast.intercept_, atol=1e-6)


@pytest.mark.parametrize("family", ["linear", "logistic", "poisson", "cox efron"])
def test_a_stopped_fit_is_not_converged(family):
    X, y, data = simulate(family)
    Model, settings = FAMILIES[family]
    model = Model(**settings, solver="ccd", max_iter=1, prior=steropes.Laplace(0.5))
    with pytest.warns(steropes.NotConvergedWarning, match="KKT violation"):
        model.fit(X, y, **data)
    assert not model.converged_
    assert model.optimality_ > model.tol
    assert model.n_iter_ == 1


def test_steps_follow_the_sign_test_and_the_trust_region():
    # From zero: into the direction that the gradient supports beyond λ, or nowhere.
    assert _step(-3.0, 2.0, 0.0, 1.0, 10.0) == 1.0
    assert _step(3.0, 2.0, 0.0, 1.0, 10.0) == -1.0
    assert _step(0.9, 2.0, 0.0, 1.0, 10.0) == 0.0
    # Away from zero: Newton's step, which may not cross zero where there is a Laplace prior.
    assert _step(-3.0, 2.0, 0.5, 1.0, 10.0) == 1.0
    assert _step(9.0, 2.0, 0.5, 1.0, 10.0) == -0.5
    assert _step(9.0, 2.0, 0.5, 0.0, 10.0) == -4.5
    # No step is longer than the half-width; a column without information goes to zero.
    assert _step(9.0, 2.0, 5.0, 1.0, 0.25) == -0.25
    assert _step(0.0, 0.0, 5.0, 1.0, 10.0) == -5.0
    assert _step(0.0, 0.0, 0.0, 1.0, 10.0) == 0.0


def test_half_widths_follow_the_steps():
    """Δ becomes max(2|δ|, Δ/2), per column (Genkin, Lewis and Madigan 2007)."""
    X = sparse.csc_array(np.diag([1.0, 1.0, 1.0]))
    y, eta, beta = np.array([10.0, 0.2, 0.0]), np.zeros(3), np.zeros(3)
    half_width, hessian = np.ones(3), np.zeros(3)
    sweep(
        LINEAR, X.indptr, X.indices, X.data, y, np.ones(3), eta, beta, np.zeros(3), np.zeros(3),
        half_width, hessian,
    )  # fmt: skip
    np.testing.assert_allclose(beta, [1.0, 0.2, 0.0])  # the first step is cut to Δ = 1
    np.testing.assert_allclose(eta, beta)
    np.testing.assert_allclose(half_width, [2.0, 0.5, 0.5])
    np.testing.assert_allclose(hessian, 1.0)


def test_large_linear_predictors_do_not_overflow():
    """A column in the thousands moves η by hundreds in a sweep; exp is shifted anew."""
    rng = np.random.default_rng(0)
    x = np.zeros((60, 2))
    x[:, 0] = rng.normal(size=60)
    x[0, 1] = 5e3
    time = rng.exponential(1.0, 60)
    y = steropes.Surv(time, np.ones(60, int))
    offset = np.where(np.arange(60) == 1, 900.0, 0.0) + np.where(np.arange(60) == 2, -900.0, 0.0)
    offset[time > time[1]] += 900.0  # so that no risk set of an event is empty
    prior = steropes.Normal(1.0)
    fits = [
        steropes.CoxRegression(prior=prior, solver=solver).fit(x, y, offset=offset)
        for solver in ("newton", "ccd")
    ]
    assert fits[1].converged_
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-6, atol=1e-9)


def test_rates_are_shifted_anew_within_a_sweep():
    """One step lifts two rows by 900 and 850: they stay 50 apart, so the second matters little."""
    X = sparse.csc_array([[900.0, 0.0], [850.0, 1.0], [0.0, 0.0]])
    likelihood = CoxLikelihood(np.ones(3), np.array([1, 1, 0]), CpuBackend(1), ties="breslow")
    order, w = likelihood.order, np.ones(3)
    sweep_cox = _cox_sweeper(likelihood, X[order].tocsc(), w)
    eta, beta, zero = np.array([-20.0, -20.0, 0.0])[order], np.zeros(2), np.zeros(2)
    sweep_cox(eta, beta, zero, zero, np.ones(2), np.zeros(2))
    # −η_1 − η_2 + 2 log Σ e^η has the slope 2 e^−50 − 1 in the second column then.
    np.testing.assert_array_equal(beta, [1.0, 1.0])
    assert list(eta[np.argsort(order)]) == [880.0, 831.0, 0.0]


def test_column_without_information_under_a_normal_prior_stays_at_zero():
    """The same in every risk set: what information it seems to have is rounding."""
    rng = np.random.default_rng(1)
    strata = np.arange(60) % 4
    X = np.column_stack([rng.normal(size=60), 0.1 * (strata + 1) / 3])
    y = steropes.Surv(rng.exponential(size=60), np.ones(60, int))
    model = steropes.CoxRegression(prior=steropes.Normal(1.0), solver="ccd")
    model.fit(sparse.csr_array(X), y, strata=strata)
    assert model.converged_
    assert abs(model.coef_[1]) < 1e-12


def test_one_stratum_does_not_touch_another():
    """The last row of a stratum an event: running sums start from nothing in the next."""
    X = np.array([[1.0], [0.0], [1.0], [0.0], [1.0], [0.5]])
    y = steropes.Surv([3.0, 2.0, 1.0, 3.0, 2.0, 1.0], [0, 1, 1, 1, 0, 1])
    model = steropes.CoxRegression(prior=steropes.Normal(1.0), solver="ccd")
    model.fit(X, y, strata=[0, 0, 0, 1, 1, 1])
    b = model.coef_[0]

    def gradient(b):
        r = np.exp(b * X[:, 0])
        sets = [([0, 1], 1), ([0, 1, 2], 2), ([3], 3), ([3, 4, 5], 5)]
        return b - sum(X[e, 0] - (r[s] @ X[s, 0]) / r[s].sum() for s, e in sets)

    assert abs(gradient(b)) < 1e-7
    assert model.converged_


def test_after_a_cross_validation():
    """The variance comes from the fast solver's folds, the fit from the sweeps."""
    X, y, data = simulate("logistic")
    cv = steropes.CrossValidation(3, search=[0.01, 0.1], random_state=0)
    fits = [
        steropes.LogisticRegression(prior=steropes.Laplace(), cv=cv, solver=solver).fit(
            X, y, **data
        )
        for solver in ("newton", "ccd")
    ]
    assert fits[1].variance_ == fits[0].variance_
    assert fits[1].n_iter_ != fits[0].n_iter_
    np.testing.assert_allclose(fits[1].coef_, fits[0].coef_, atol=1e-6)


def test_undetermined_columns_are_named():
    X = np.column_stack([np.arange(8.0), np.zeros(8)])
    with pytest.raises(steropes.SeparationError, match="x1"):
        steropes.LogisticRegression(solver="ccd").fit(X, [0, 1, 0, 1, 1, 0, 1, 0])


def test_entry_times_are_refused():
    X, time = np.arange(4.0)[:, None], np.array([2.0, 3.0, 4.0, 5.0])
    y = steropes.Surv(time, np.ones(4, int), entry=time - 2)
    model = steropes.CoxRegression(prior=steropes.Normal(1.0), solver="ccd")
    with pytest.raises(steropes.DataError, match="solver='newton'"):
        model.fit(X, y)


def test_other_likelihoods_are_refused():
    class Other(CoxLikelihood):
        """A family that the algorithm has no derivatives for."""

    y = steropes.Surv([1.0, 2.0, 3.0], [1, 1, 1])
    likelihood = Other(y["time"], y["event"], CpuBackend(1))
    problem = Problem(as_design(np.eye(3)), likelihood, np.ones(3), None, None, ["a", "b", "c"])
    with pytest.raises(steropes.DataError, match="Other"):
        solve_ccd(problem, np.ones(3), np.zeros(3), 1e-8, 10)


def test_an_overflow_is_an_error_and_no_result():
    rng = np.random.default_rng(3)
    n = 2000
    X = (rng.random((n, 20)) < np.geomspace(2 / n, 0.5, 20)).astype(float)
    y = rng.negative_binomial(0.5, 0.01, n)
    with pytest.raises(steropes.DataError, match=r"overflowed after .* sweeps"):
        steropes.PoissonRegression(prior=steropes.Laplace(1000.0), solver="ccd").fit(X, y)


def test_limits_are_refused_by_their_name():
    prior = steropes.Normal(1.0, lower=0.0)
    with pytest.raises(steropes.DataError, match="'ccd' has no limits of coefficients"):
        steropes.LogisticRegression(prior=prior, solver="ccd").fit(np.eye(3), [0, 1, 1])
