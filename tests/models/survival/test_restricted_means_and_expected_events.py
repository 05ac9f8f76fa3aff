"""Conditional survival, restricted means and expected events: lifelines, R and definitions."""

import numpy as np
import pandas as pd
import pytest
from lifelines import CoxPHFitter
from test_cox_against_r import CASES, fit, outcome

from reference_numbers import data
from steropes import (
    CoxRegression,
    DataError,
    FineGrayRegression,
    Laplace,
    PooledLogisticRegression,
    Surv,
)

RNG = np.random.default_rng(21)
N = 150
X = RNG.normal(size=(N, 2))
TIME = np.ceil(8 * RNG.exponential(np.exp(-0.7 * X[:, 0])))
EVENT = (RNG.random(N) < 0.7) * 1
GIVEN = {
    "strata": np.array(["b", "a"])[RNG.integers(0, 2, N)], "offset": 0.2 * RNG.normal(size=N),
}  # fmt: skip


def models():
    y = Surv(TIME, EVENT)
    plain = CoxRegression().fit(X, y, **GIVEN)
    varying = CoxRegression(time_varying={0: [4.0]}).fit(X, y, **GIVEN)
    return {"plain": plain, "time-varying": varying}


MODELS = models()


@pytest.mark.filterwarnings("ignore")
def test_conditional_survival_agrees_with_lifelines():
    time = TIME + 0.1 * RNG.random(N)  # no ties, whose baselines differ
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(t=time, d=EVENT)
    theirs = CoxPHFitter().fit(frame, "t", "d")
    ours = CoxRegression().fit(X, Surv(time, EVENT))
    # lifelines counts times from the condition, and interpolates between its times.
    after, *at = np.quantile(time, [0.3, 0.4, 0.6, 0.8], method="nearest")
    expected = theirs.predict_survival_function(
        frame.iloc[:5], times=np.array(at) - after, conditional_after=np.full(5, after)
    )
    got = ours.predict_survival(X[:5], at, after=after)
    np.testing.assert_allclose(got, expected.T, rtol=1e-5)


@pytest.mark.parametrize("kind", MODELS)
def test_conditional_survival_is_a_ratio(kind):
    m = MODELS[kind]
    at = np.array([2.0, 5.0, 9.0])
    whole = m.predict_survival(X, at, **GIVEN)
    np.testing.assert_array_equal(m.predict_survival(X, at, after=0.0, **GIVEN), whole)
    given = m.predict_survival(X, at, after=5.0, **GIVEN)
    np.testing.assert_allclose(given[:, 2], whole[:, 2] / whole[:, 1], rtol=1e-10)
    assert (given[:, :2] == 1).all()
    own = RNG.choice(at[:2], N)
    each = m.predict_survival(X, at, after=own, **GIVEN)
    past = np.where(own == 2.0, whole[:, 0], whole[:, 1])
    np.testing.assert_allclose(each[:, 2], whole[:, 2] / past, rtol=1e-10)
    assert np.isnan(m.predict_survival(X, at, after=1e6, **GIVEN)).all()


@pytest.mark.parametrize("kind", MODELS)
def test_conditional_quantiles_are_where_conditional_curves_come_down(kind):
    m = MODELS[kind]
    own = RNG.choice([0.0, 3.0, 6.0], N)
    found = m.curves.quantile(X, 0.4, after=own, **GIVEN)
    at = m.unique_times_
    curves = m.predict_survival(X, at, after=own, **GIVEN)
    for i in range(N):
        below = np.flatnonzero(curves[i] <= 0.6 + 1e-10)
        expected = at[below[0]] if len(below) else np.nan
        np.testing.assert_allclose(found[i], expected)


@pytest.mark.parametrize("kind", MODELS)
def test_restricted_means_are_areas_under_curves(kind):
    m = MODELS[kind]
    fine = np.arange(0, 9, 0.25)  # all events are at whole times
    curves = m.predict_survival(X, fine, **GIVEN)
    ours = m.curves.restricted_mean(X, [4.5, 9.0], **GIVEN)
    np.testing.assert_allclose(ours[:, 1], 0.25 * curves.sum(axis=1), rtol=1e-10)
    np.testing.assert_allclose(ours[:, 0], 0.25 * curves[:, fine < 4.5].sum(axis=1), rtol=1e-10)
    own = RNG.choice([0.0, 2.5], N)
    after = m.curves.restricted_mean(X, 9.0, after=own, **GIVEN)
    curves = m.predict_survival(X, fine, after=own, **GIVEN)
    expected = 0.25 * (curves * (fine >= own[:, None])).sum(axis=1)
    np.testing.assert_allclose(after, expected, rtol=1e-10)
    assert np.isnan(m.curves.restricted_mean(X, 1e6, **GIVEN)).all()


def test_a_restricted_mean_is_that_of_standardized_survival():
    m = CoxRegression().fit(X, Surv(TIME, EVENT))
    table = m.curves.standardized_survival(X, [7.0]).restricted_means
    ours = m.curves.restricted_mean(X, 7.0).mean()
    np.testing.assert_allclose(table["mean"], ours, rtol=1e-9)


@pytest.mark.parametrize("kind", MODELS)
def test_observed_less_expected_is_the_martingale_residual(kind):
    m = MODELS[kind]
    expected = m.curves.expected_events(X, Surv(TIME, EVENT), **GIVEN)
    if kind == "plain":
        breslow = CoxRegression(ties="breslow").fit(X, Surv(TIME, EVENT), **GIVEN)
        expected = breslow.curves.expected_events(X, Surv(TIME, EVENT), **GIVEN)
        np.testing.assert_allclose(
            EVENT - expected, breslow.checks.residuals("martingale"), atol=1e-9
        )
    late = np.where(np.arange(N) % 2, 1.0, 0.5)
    both = [m.curves.expected_events(X, Surv(t, EVENT), **GIVEN) for t in (TIME, late)]
    some = TIME > 1
    given = {k: v[some] for k, v in GIVEN.items()}
    y = Surv(TIME[some], EVENT[some], late[some])
    after = m.curves.expected_events(X[some], y, **given)
    np.testing.assert_allclose(after, (both[0] - both[1])[some], atol=1e-12)


@pytest.mark.parametrize("kind", MODELS)
def test_standard_errors_are_those_of_the_curves(kind):
    m = MODELS[kind]
    rows = np.arange(12)
    some = {k: v[rows] for k, v in GIVEN.items()}
    y = Surv(TIME[rows], EVENT[rows])
    expected, se = m.curves.expected_events(X[rows], y, **some, return_se=True)
    for i in rows:
        own = {k: v[[i]] for k, v in GIVEN.items()}
        line = m.curves.survival(X[[i]], [TIME[i]], **own).iloc[0]
        np.testing.assert_allclose(np.exp(-expected[i]), line["survival"], rtol=1e-9)
        np.testing.assert_allclose(se[i] * line["survival"], line["se"], rtol=1e-7)


@pytest.mark.parametrize("case", ["heart", "lung weights"])
def test_expected_events_add_up_to_the_events(case):
    name, columns, strata, weight = CASES[case]
    d = data(name)
    m = fit(case, "breslow")
    given = {"strata": d[strata]} if strata else {}
    expected = m.curves.expected_events(d[columns], outcome(name), **given)
    w = d[weight] if weight else np.ones(len(d))
    np.testing.assert_allclose(w @ expected, w @ outcome(name)["event"], rtol=1e-8)


def test_times_default_to_those_of_events():
    y = Surv(TIME, EVENT)
    m = CoxRegression().fit(X, y)
    at = np.unique(TIME[EVENT == 1])
    np.testing.assert_array_equal(m.unique_times_, at)
    table = m.validation.time_dependent_auc(X, y)
    pd.testing.assert_frame_equal(table, m.validation.time_dependent_auc(X, y, at[at < TIME.max()]))
    assert len(m.curves.standardized_survival(X).survival) == len(at)
    code = np.where(EVENT == 1, 1 + (RNG.random(N) < 0.3), 0)
    fine_gray = FineGrayRegression().fit(X, Surv(TIME, code))
    of_cause = np.unique(TIME[code == 1])
    np.testing.assert_array_equal(fine_gray.unique_times_, of_cause)
    assert fine_gray.predict_cumulative_incidence(X).shape == (N, len(of_cause))
    pooled = PooledLogisticRegression(interval=5.0, baseline=1).fit(X, y)
    survival = pooled.predict_survival(X)
    assert np.isfinite(survival).all()
    np.testing.assert_array_equal(survival[:, :1], pooled.predict_survival(X, [5.0]))


def test_what_does_not_apply_is_refused():
    y = Surv(TIME, EVENT)
    m = CoxRegression().fit(X, y)
    with pytest.raises(DataError, match="t must be above 0"):
        m.curves.restricted_mean(X, 0.0)
    with pytest.raises(DataError, match="after has"):
        m.predict_survival(X, after=[1.0, 2.0])
    with pytest.raises(DataError, match="without limits"):
        m.curves.quantile(X, after=1.0, level=0.9)
    with pytest.raises(DataError, match="without limits"):
        FineGrayRegression().fit(X, y).curves.quantile(X, after=1.0)
    lasso = CoxRegression(prior=Laplace(0.1)).fit(X, y)
    assert lasso.curves.expected_events(X, y).shape == (N,)
    with pytest.raises(DataError, match="Laplace prior"):
        lasso.curves.expected_events(X, y, return_se=True)
    with pytest.raises(DataError, match="no event before"):
        m.validation.time_dependent_auc(X[:2], Surv([1.0, 2.0], [0, 1]))
