"""Residuals of conditional, case-series and pooled models: sums, refits, R's numbers, long rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from steropes import (
    ConditionalLogisticRegression,
    ConditionalPoissonRegression,
    CoxRegression,
    DataError,
    Laplace,
    LogisticRegression,
    Normal,
    PooledLogisticRegression,
    SelfControlledCaseSeries,
    Surv,
)


def sets(rng, counts, n=80):
    X = pd.DataFrame(
        {"a": rng.normal(5.0, 1.0, n), "b": rng.random(n) < 0.4}, index=[f"r{i}" for i in range(n)]
    ).astype(float)
    strata = rng.permutation(np.arange(n) // 5)
    y = rng.poisson(0.7, n) if counts else (rng.random(n) < 0.3).astype(int)
    return X, y.astype(float), strata


MODELS = {
    "exact": (ConditionalLogisticRegression(), False),
    "efron": (ConditionalLogisticRegression(method="efron"), False),
    "breslow": (ConditionalLogisticRegression(method="breslow"), False),
    "poisson": (ConditionalPoissonRegression(), True),
    "series": (SelfControlledCaseSeries(), True),
}


def fitted(rng, name, prior=None, store=lambda X: X):
    model, counts = MODELS[name]
    X, y, strata = sets(rng, counts)
    given = {"strata": strata, "offset": rng.normal(size=len(y)) * 0.3}
    weight = np.where(strata % 4 == 1, 2.0, 1.0) * (strata != 3)
    if counts:
        given["exposure"] = rng.uniform(1, 3, len(y))
    m = type(model)(**{**model.get_params(), "prior": prior})
    return m.fit(store(X), y, sample_weight=weight, **given), X, y, weight, given


@pytest.mark.parametrize("store", [lambda X: X, lambda X: sparse.csc_array(X.to_numpy())])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_expected_of_a_stratum_is_what_it_has(name, store, rng):
    m, X, _, w, given = fitted(rng, name, store=store)
    some = w > 0
    M = m.checks.residuals("martingale")
    assert np.isnan(M[~some]).all()
    sums = np.bincount(given["strata"][some], M[some])
    np.testing.assert_allclose(sums, 0.0, atol=1e-9)
    score = m.checks.residuals("score").to_numpy()[some]
    np.testing.assert_allclose(w[some] @ score, 0.0, atol=1e-6)
    # The sum over a stratum is that of x times the residual.
    for s in np.unique(given["strata"][some]):
        at = np.flatnonzero((given["strata"] == s) & some)
        expected = X.to_numpy()[at].T @ M[at]
        own = m.checks.residuals("score").to_numpy()[at].sum(axis=0)
        np.testing.assert_allclose(own, expected, atol=1e-9)
    D = m.checks.residuals("deviance")
    assert np.isnan(D[~some]).all()
    assert (np.sign(D[some]) == np.sign(M[some])).all()


@pytest.mark.parametrize("name", ["poisson", "series", "breslow"])
def test_dfbeta_is_the_derivative_in_a_row_s_weight(name, rng):
    m, X, y, w, given = fitted(rng, name, Normal(0.5))
    influence = m.checks.residuals("dfbeta")
    assert list(influence.index) == list(X.index)
    for i in np.flatnonzero(w > 0)[[0, 7, 20]]:
        ends = []
        for change in (1e-4, -1e-4):
            moved = w.copy()
            moved[i] *= 1 + change
            ends.append(clone(m).fit(X, y, sample_weight=moved, **given).coef_)
        slope = (ends[0] - ends[1]) / 2e-4
        np.testing.assert_allclose(influence.iloc[i], slope, atol=2e-6)


def test_strata_leave_an_exact_model_as_their_influences_say(rng):
    m, X, y, w, given = fitted(rng, "exact")
    by = m.checks.residuals("dfbeta").groupby(given["strata"]).sum()
    s = 1
    ends = []
    for change in (1e-4, -1e-4):
        moved = np.where(given["strata"] == s, w * (1 + change), w)
        ends.append(ConditionalLogisticRegression().fit(X, y, sample_weight=moved, **given).coef_)
    np.testing.assert_allclose(by.loc[s], (ends[0] - ends[1]) / 2e-4, atol=2e-6)


def test_the_approximations_are_those_of_coxph(rng):
    m, X, y, w, given = fitted(rng, "efron")
    given = {"strata": given["strata"], "offset": given["offset"], "sample_weight": w}
    cox = CoxRegression().fit(X, Surv(np.ones(len(y)), y), **given)
    for kind in ("martingale", "deviance", "score", "dfbeta"):
        ours, theirs = np.asarray(m.checks.residuals(kind)), np.asarray(cox.checks.residuals(kind))
        informative = ~np.isnan(theirs) & ~np.isnan(ours)
        np.testing.assert_allclose(ours[informative], theirs[informative], atol=1e-7)


def test_a_case_series_deviance_is_that_of_its_counts(rng):
    m, _, y, w, _ = fitted(rng, "series")
    some, events = w > 0, (w > 0) & (y > 0)
    mu = (y - m.checks.residuals("martingale"))[events]
    deviance = 2 * (y[events] * np.log(y[events] / mu)).sum()  # Σ (y − μ) is zero
    assert np.sum(m.checks.residuals("deviance")[some] ** 2) == pytest.approx(deviance)


@pytest.mark.parametrize("varying", [None, {"a": 1}])
def test_pooled_residuals_are_sums_over_person_intervals(varying, rng):
    n = 60
    X = pd.DataFrame({"a": rng.normal(3.0, 1.0, n), "b": rng.normal(size=n)}, index=range(5, 5 + n))
    time, event = np.ceil(rng.exponential(3, n)), (rng.random(n) < 0.7).astype(int)
    time = np.minimum(time, 4.0)
    m = PooledLogisticRegression(
        interval=1, baseline=1, time_varying=varying, prior=Normal(0.5)
    ).fit(X, Surv(time, event))
    person = np.repeat(np.arange(n), time.astype(int))
    t = np.concatenate([np.arange(1, k + 1) for k in time]).astype(float)
    y = (event[person] == 1) & (t == time[person])
    long = np.column_stack([t, X.to_numpy()[person]])
    if varying:
        long = np.column_stack([long, long[:, 1] * t])
    rows = LogisticRegression(prior=Normal(0.5, exclude=[0])).fit(long, y)

    def per_person(x):
        return np.bincount(person, x, n)

    M = m.checks.residuals("martingale")
    np.testing.assert_allclose(M, per_person(rows.checks.residuals("response")), atol=1e-7)
    deviance = per_person(rows.checks.residuals("deviance") ** 2)
    np.testing.assert_allclose(m.checks.residuals("deviance") ** 2, deviance, atol=1e-7)
    for kind in ("score", "dfbeta", "dfbetas"):
        ours = m.checks.residuals(kind)
        assert list(ours.index) == list(X.index)
        theirs = rows.checks.residuals(kind).to_numpy()
        summed = np.column_stack([per_person(x) for x in theirs.T])
        np.testing.assert_allclose(ours, summed, atol=1e-6)


def test_what_there_is_none_of_is_refused(rng):
    m, *_ = fitted(rng, "poisson", Laplace(0.1))
    with pytest.raises(DataError, match="kind must be one of 'martingale'"):
        m.checks.residuals("schoenfeld")
    with pytest.raises(DataError, match="none of under a Laplace prior"):
        m.checks.residuals("dfbeta")
    with pytest.raises(DataError, match="have no columns"):
        m.checks.residuals("martingale", params="a")


CENTRES = {
    "none": lambda x: np.column_stack([x - x.mean(), x**2 - (x**2).mean()]),
    "adding up to zero": lambda x: np.column_stack([x + 3.0, -(x + 3.0)[::-1]]),
    "apart": lambda x: np.column_stack([x + 3.0, (x - 40.0)[::-1]]),
    "of one column": lambda x: np.column_stack([x + 3.0, x > 0]),
}


@pytest.mark.sampled
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array])
@pytest.mark.parametrize("baseline", [0, 1, 2, "interval"])
@pytest.mark.parametrize("centre", CENTRES)
def test_scores_of_a_baseline_are_those_at_zero_wherever_columns_have_their_centres(
    centre, baseline, storage, weights, rng
):
    """Σ (y − p) b(k) over a person's intervals for the baseline, and with x for x."""
    n = 128
    x = np.sort(np.round(64 * rng.normal(size=n)) / 64)  # means have all their digits
    X = CENTRES[centre](x).astype(float)
    y = Surv(rng.integers(1, 4, n), rng.random(n) < 0.6)
    w = rng.integers(1, 4, n).astype(float) if weights else None
    m = PooledLogisticRegression(interval=1.0, baseline=baseline)
    m.fit(storage(X), y, sample_weight=w)
    score = m.checks.residuals("score").to_numpy()
    p = m.predict_hazard(storage(X))
    k = np.arange(1, 4)
    at_risk = y["time"][:, None] >= k
    r = np.where(at_risk, (y["event"] == 1)[:, None] * (y["time"][:, None] == k) - p, 0.0)
    basis = np.eye(3) if baseline == "interval" else k[:, None] ** np.arange(baseline + 1.0)
    expected = np.column_stack([r @ basis, r.sum(axis=1)[:, None] * X])
    np.testing.assert_allclose(score, expected, atol=1e-7 * (1 + np.abs(X).max()))
