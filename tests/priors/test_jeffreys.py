"""Firth's penalised likelihood: R's numbers, and its score equations by slow dense mathematics."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import reference
import survival_reference
from every_family import case
from person_intervals import expand, simulate
from steropes import (
    ConditionalLogisticRegression,
    ConditionalPoissonRegression,
    CoxRegression,
    DataError,
    FineGrayRegression,
    Jeffreys,
    LogisticRegression,
    PoissonRegression,
    PooledLogisticRegression,
    SelfControlledCaseSeries,
    SeparationError,
    Surv,
)

ENDOMETRIAL = Path(__file__).parent / "data" / "endometrial.csv"


# glm(HG ~ NV + PI + EH, binomial, endometrial, method = "brglmFit", type = "AS_mean",
#     epsilon = 1e-12), brglm2 0.9: the estimates and errors of logistf too.
@pytest.mark.parametrize("as_x", [np.asarray, sparse.csc_array, lambda x: x])
def test_separated_endometrial_data_as_in_r(as_x):
    data = pd.read_csv(ENDOMETRIAL, comment="#")
    X = as_x(data[["NV", "PI", "EH"]].astype(float))
    model = LogisticRegression(prior=Jeffreys()).fit(X, data["HG"])
    table = model.summary()
    np.testing.assert_allclose(
        table["coef"], [3.774559713647, 2.929273353197, -0.03475175987, -2.604163925294], rtol=1e-7
    )
    np.testing.assert_allclose(
        table["se"], [1.488691663436, 1.550763729453, 0.0395781473478, 0.7760176425016], rtol=1e-7
    )
    assert model.converged_


# The same penalised likelihood maximised over the others by R's optim, its limits by uniroot; the
# intervals that logistf prints.
def test_penalised_profile_intervals_as_in_r():
    data = pd.read_csv(ENDOMETRIAL, comment="#")
    model = LogisticRegression(prior=Jeffreys()).fit(data[["NV", "PI", "EH"]], data["HG"])
    lower = [1.08253712, 0.6097244364, -0.12445872085, -4.365183244]
    upper = [7.209280495, 7.8546316981, 0.04045547321, -1.232721062]
    limits = model.confint(method="profile")
    np.testing.assert_allclose(limits, np.stack([lower, upper], 1), rtol=1e-6)
    top = model.inference.profile("NV", [model.coef_[0]])  # less the penalty, at the estimate
    assert top["log_likelihood"][0] == pytest.approx(-24.0372678007)
    assert abs(top["gradient"][0]) < 1e-5


# glm(y ~ x + z + offset(o), poisson, weights = w, method = "brglmFit", type = "AS_mean")
def test_weighted_poisson_rates_as_in_r():
    X = np.column_stack([np.arange(1.0, 9.0), [0, 1, 0, 0, 1, 0, 0, 1]])
    y = [0, 0, 1, 3, 0, 2, 4, 0]
    exposure, w = np.array([1, 2, 1, 1, 2, 1, 1, 1.0]), [1, 2, 1, 1, 1, 3, 1, 1]
    model = PoissonRegression(prior=Jeffreys()).fit(X, y, exposure=exposure, sample_weight=w)
    table = model.summary()
    coef = [-0.662569922421, 0.27459632692, -3.11872491488]
    np.testing.assert_allclose(table["coef"], coef, rtol=1e-7)
    se = [0.943170918901, 0.162948314468, 1.382526660467]
    np.testing.assert_allclose(table["se"], se, rtol=1e-7)


def test_a_two_by_two_table_has_half_a_row_added_to_each_cell():
    x, y = np.repeat([0, 1], [12, 7]), np.r_[np.repeat([0, 1], [9, 3]), np.ones(7, int)]
    model = LogisticRegression(prior=Jeffreys(), tol=1e-10).fit(x[:, None], y)
    odds = np.log(3.5 / 9.5)
    assert model.intercept_ == pytest.approx(odds, abs=1e-9)
    assert model.coef_[0] == pytest.approx(np.log(7.5 / 0.5) - odds, abs=1e-9)


def _conditional_poisson(eta, y, w, sets):
    loss, g = 0.0, -w * y
    for s in np.unique(sets):
        at = sets == s
        r, total = w[at] * np.exp(eta[at]), (w * y)[at].sum()
        loss += total * np.log(r.sum())
        g[at] += total * r / r.sum()
    return loss - (w * y * eta).sum(), g


def _score(gradient, beta, X, step=2e-5):
    """X'r − ½ ∂ log |I| / ∂β by differences of differences; ``gradient`` is in η."""
    p = len(beta)

    def information(b):
        sides = [[X.T @ gradient(X @ (b + s * step * e)) for s in (1, -1)] for e in np.eye(p)]
        return np.array([(up - down) / (2 * step) for up, down in sides])

    def log_det(b):
        return np.linalg.slogdet(information(b))[1]

    slope = [(log_det(beta + 1e-3 * e) - log_det(beta - 1e-3 * e)) / 2e-3 for e in np.eye(p)]
    return X.T @ gradient(X @ beta) - 0.5 * np.array(slope)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("entry", [False, True])
def test_the_score_equations_of_a_cox_model(ties, entry):
    rng = np.random.default_rng(3)
    n = 60
    X = np.column_stack([rng.normal(size=n) + 2, rng.random(n) < 0.3])
    time = rng.integers(2, 12, n).astype(float)
    event = (rng.random(n) < 0.6).astype(int)
    event[X[:, 1] > 0] = 0  # an infinite hazard ratio, but for the prior
    start = rng.integers(0, 2, n) * 1.5 if entry else None
    w, strata, offset = rng.integers(0, 3, n).astype(float), rng.integers(0, 2, n), X[:, 0] * 0.1
    model = CoxRegression(prior=Jeffreys(), ties=ties)
    y = Surv(time, event, start)
    model.fit(X, y, sample_weight=w, strata=strata, offset=offset)

    def gradient(eta):
        return reference.cox(eta + offset, (time, event), w, ties, strata, start)[1]

    assert np.abs(_score(gradient, model.coef_, X)).max() < 1e-4
    assert model.converged_


@pytest.mark.parametrize("family", ["logistic", "poisson", "conditional poisson", "case series"])
def test_the_score_equations_with_weights_and_offset(family):
    rng = np.random.default_rng(5)
    n = 60
    X = np.column_stack([rng.normal(size=n), rng.random(n) < 0.4])
    w, offset = rng.integers(0, 4, n).astype(float), rng.normal(size=n) * 0.3
    sets = rng.permutation(np.repeat(np.arange(12), 5))
    y = rng.poisson(0.7, n).astype(float)
    if family == "logistic":
        y = np.minimum(y, 1)
    kind, extras = {
        "logistic": (LogisticRegression, {}),
        "poisson": (PoissonRegression, {}),
        "conditional poisson": (ConditionalPoissonRegression, {"strata": sets}),
        "case series": (SelfControlledCaseSeries, {"strata": sets}),
    }[family]
    model = kind(prior=Jeffreys()).fit(X, y, sample_weight=w, offset=offset, **extras)
    if extras:
        Z, beta = X, model.coef_

        def gradient(eta):
            return _conditional_poisson(eta + offset, y, w, sets)[1]

    else:
        Z, beta = np.column_stack([np.ones(n), X]), np.append(model.intercept_, model.coef_)

        def gradient(eta):
            return getattr(reference, family)(eta + offset, y, w)[1]

    assert np.abs(_score(gradient, beta, Z)).max() < 1e-4


def test_matched_sets_are_strata_of_one_time():
    rng = np.random.default_rng(2)
    X, sets = rng.normal(size=(60, 2)), np.repeat(np.arange(12), 5)
    y = (rng.random(60) < 0.4).astype(int)
    a = ConditionalLogisticRegression(prior=Jeffreys(), method="breslow").fit(X, y, strata=sets)
    b = CoxRegression(prior=Jeffreys(), ties="breslow").fit(X, Surv(np.ones(60), y), strata=sets)
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-7)


def _exact(eta, y, w, sets):
    """Gradient of the exact conditional likelihood by looking at every choice of cases."""
    g = -w * y
    for s in np.unique(sets):
        at = np.flatnonzero(sets == s)
        choices = list(combinations(at, int(y[at].sum())))
        size = np.exp([eta[list(chosen)].sum() for chosen in choices])
        for chosen, p in zip(choices, size / size.sum(), strict=True):
            g[list(chosen)] += w[at[0]] * p
    return g


@pytest.mark.parametrize("most", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_the_score_equations_of_exact_matched_sets(most):
    rng = np.random.default_rng(6)
    sets = np.repeat(np.arange(10), 6)
    X = np.column_stack([rng.normal(size=60) * 3 + 50, rng.random(60) < 0.3])
    y = np.concatenate(
        [rng.permutation(np.arange(6) < rng.integers(1, most + 1)) for _ in range(10)]
    )
    y = (y | (X[:, 1] > 0)).astype(float)  # every one of the exposed: separated
    w, offset = rng.integers(0, 3, 10).astype(float)[sets], X[:, 0] * 0.1
    model = ConditionalLogisticRegression(prior=Jeffreys())
    model.fit(X, y, strata=sets, sample_weight=w, offset=offset)
    assert model.converged_
    Z = X - X.mean(axis=0)

    def gradient(eta):
        return _exact(eta + offset - offset.mean(), y, w, sets)

    assert np.abs(_score(gradient, model.coef_, Z)).max() < 1e-4


@pytest.mark.parametrize("size", [3, 40])
def test_one_case_a_set_and_all_but_one_are_mirrors(size):
    rng = np.random.default_rng(8)
    sets = np.repeat(np.arange(20), size)
    X = rng.normal(size=(20 * size, 2))
    y = (np.arange(20 * size) % size == 0).astype(int)
    one = ConditionalLogisticRegression(prior=Jeffreys()).fit(X, y, strata=sets)
    cox = ConditionalLogisticRegression(prior=Jeffreys(), method="breslow").fit(X, y, strata=sets)
    other = ConditionalLogisticRegression(prior=Jeffreys()).fit(X, 1 - y, strata=sets)
    np.testing.assert_allclose(one.coef_, cox.coef_, rtol=1e-7)
    np.testing.assert_allclose(one.coef_, -other.coef_, rtol=1e-7)


def test_the_score_equations_of_fine_and_gray():
    rng = np.random.default_rng(3)
    n = 30
    X = np.column_stack([rng.normal(size=n), rng.random(n) < 0.3])
    code = rng.integers(0, 3, n)
    code[(X[:, 1] > 0) & (code == 1)] = 2  # no event of the cause among them
    time = rng.integers(1, 15, n).astype(float)
    w, strata, offset = rng.integers(1, 3, n).astype(float), rng.integers(0, 2, n), X[:, 0] * 0.1
    model = FineGrayRegression(prior=Jeffreys())
    model.fit(X, Surv(time, code), sample_weight=w, strata=strata, offset=offset)
    assert model.converged_

    def loss(b):
        return survival_reference.fine_gray_loss(
            X @ b + offset, time, code, weight=w, strata=strata
        )

    def gradient(b):
        return survival_reference.numeric_gradient(loss, b, 3e-3)

    def log_det(b):
        sides = [gradient(b + d) - gradient(b - d) for d in 3e-3 * np.eye(2)]
        return np.linalg.slogdet(np.array(sides))[1]

    slope = [log_det(model.coef_ + d) - log_det(model.coef_ - d) for d in 0.02 * np.eye(2)]
    assert np.abs(gradient(model.coef_) + np.array(slope) * -0.5 / 0.04).max() < 1e-3


@pytest.mark.parametrize("changing", [None, {0: 1}])
def test_a_pooled_model_is_that_of_its_intervals(changing):
    X, y = simulate(80)
    X, breaks = X[:, :2], [0, 2, 4, 6, 8]
    model = PooledLogisticRegression(
        breaks=breaks, baseline=1, time_varying=changing, prior=Jeffreys()
    ).fit(X, y)
    assert model.converged_
    _, k, hit, _, rows = expand(X, y, breaks)
    Z = [k, rows[:, 0], rows[:, 1]] + ([rows[:, 0] * k] if changing else [])
    other = LogisticRegression(prior=Jeffreys()).fit(np.column_stack(Z), hit)
    found = model.summary()["coef"].to_numpy()
    np.testing.assert_allclose(found, other.summary()["coef"], atol=1e-6)
    a = model.confint(2, method="profile").to_numpy()
    b = other.confint(2, method="profile").to_numpy()
    np.testing.assert_allclose(a, b, rtol=1e-4)


def test_effects_by_step_are_a_cox_model_of_pieces():
    rng = np.random.default_rng(0)
    own = case("cox by step", rng, n=60, p=2)
    model = own.fit(prior=Jeffreys())
    X, y, c = own.X, own.y, 3.0
    late = np.flatnonzero(y["time"] > c)
    Z = np.zeros((60 + len(late), 3))
    Z[:60, :2] = X
    Z[60:, 0], Z[60:, 2] = X[late, 0], X[late, 1]
    early = np.minimum(y["time"], c)
    pieces = Surv(
        np.r_[early, y["time"][late]], np.r_[y["event"] * (y["time"] <= c), y["event"][late]],
        np.r_[np.zeros(60), np.full(len(late), c)],
    )  # fmt: skip
    other = CoxRegression(prior=Jeffreys()).fit(Z, pieces)
    assert model.converged_
    np.testing.assert_allclose(np.sort(model.coef_), np.sort(other.coef_), atol=1e-6)


def test_a_weight_is_a_repeated_row_and_order_means_nothing():
    rng = np.random.default_rng(1)
    X, w = rng.normal(size=(30, 3)), rng.integers(0, 4, 30)
    y = rng.integers(0, 2, 30)
    weighted = LogisticRegression(prior=Jeffreys()).fit(X, y, sample_weight=w)
    rows = rng.permutation(np.repeat(np.arange(30), w))
    repeated = LogisticRegression(prior=Jeffreys()).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-7)
    again = weighted.fit(X * 1000, y, sample_weight=w)  # invariant to units, and a second use
    np.testing.assert_allclose(again.coef_ * 1000, repeated.coef_, atol=1e-7)


@pytest.mark.parametrize("name", ["linear", "cumulative"])
def test_families_without_it_say_so(name):
    own = case(name, np.random.default_rng(0))
    with pytest.raises(DataError, match=r"Jeffreys.* is "):
        own.fit(prior=Jeffreys())


def test_what_it_does_not_go_with_is_refused():
    rng = np.random.default_rng(0)
    own = case("logistic", rng)
    with pytest.raises(DataError, match="no variance to choose"):
        own.fit(prior=Jeffreys(), cv=3)
    with pytest.raises(DataError, match="needs solver='newton'"):
        own.fit(prior=Jeffreys(), solver="ccd")
    wide = sparse.csc_array(np.eye(2001))
    with pytest.raises(DataError, match="at most 2,000"):
        LogisticRegression(prior=Jeffreys()).fit(wide, np.arange(2001) % 2)


def test_bootstrap_draws_are_finite_where_they_are_separated():
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.normal(size=40), rng.random(40) < 0.15])
    y = np.where(X[:, 1] > 0, 1, rng.integers(0, 2, 40))
    drawn = LogisticRegression(prior=Jeffreys()).fit(X, y).inference.bootstrap(8, random_state=0)
    assert np.isfinite(drawn.coef[~np.isnan(drawn.coef)]).all()
    assert drawn.converged.all()


@pytest.mark.parametrize("name", ["logistic", "poisson", "cox", "conditional exact"])
def test_columns_that_have_no_information_are_named(name):
    own = case(name, np.random.default_rng(0))
    own.X = np.column_stack([own.X, np.zeros(len(own.X))])
    with pytest.raises(SeparationError, match="do not identify"):
        own.fit(prior=Jeffreys())
    own.X[:, -1] = 2.0 * own.X[:, 0]
    with pytest.raises(SeparationError, match="Collinear"):
        own.fit(prior=Jeffreys())
