"""The Brier score: scikit-survival, its definition with loops, and the jackknife."""

import numpy as np
import pandas as pd
import pytest
from sksurv.linear_model import CoxPHSurvivalAnalysis
from sksurv.metrics import brier_score as sksurv_brier_score
from sksurv.metrics import integrated_brier_score as sksurv_integrated
from sksurv.util import Surv as SksurvSurv

from steropes import (
    CoxRegression,
    DataError,
    FineGrayRegression,
    Surv,
    brier_score,
    integrated_brier_score,
)

RNG = np.random.default_rng(2)
N = 250
X = RNG.normal(size=(N, 2))
FAILS, LEAVES = RNG.exponential(np.exp(-X[:, 0])), RNG.exponential(1.5, N)
TIME, EVENT = np.minimum(FAILS, LEAVES), (FAILS <= LEAVES) * 1
TIMES = np.quantile(TIME, [0.2, 0.4, 0.6, 0.8])
Y = Surv(TIME, EVENT)
MODEL = CoxRegression().fit(X, Y)
RISK = 1 - MODEL.predict_survival(X, TIMES)
SKSURV = SksurvSurv.from_arrays(EVENT == 1, TIME)


def test_agrees_with_scikit_survival():
    _, theirs = sksurv_brier_score(SKSURV, SKSURV, 1 - RISK, TIMES)
    np.testing.assert_allclose(brier_score(RISK, Y, TIMES)["brier"], theirs, rtol=1e-12)
    expected = sksurv_integrated(SKSURV, SKSURV, 1 - RISK, TIMES)
    np.testing.assert_allclose(integrated_brier_score(RISK, SKSURV, TIMES), expected, rtol=1e-12)
    test = (np.arange(N) % 2 == 1) & (np.max(TIME) > TIME)
    train = ~test  # which has the longest time
    at = TIMES[:3]
    _, theirs = sksurv_brier_score(SKSURV[train], SKSURV[test], 1 - RISK[test, :3], at)
    ours = brier_score(RISK[test, :3], Y[test], at, train=Y[train])
    np.testing.assert_allclose(ours["brier"], theirs, rtol=1e-12)


@pytest.mark.parametrize("container", [list, np.array, lambda x: pd.Series(list(x))])
def test_step_functions_are_evaluated_at_the_times(container):
    expected = brier_score(RISK, Y, TIMES)
    ours = container(MODEL.predict_survival_function(X))
    pd.testing.assert_frame_equal(brier_score(ours, Y, TIMES), expected)
    assert integrated_brier_score(ours, Y, TIMES) == integrated_brier_score(RISK, Y, TIMES)
    theirs = CoxPHSurvivalAnalysis().fit(X, SKSURV).predict_survival_function(X)
    table = brier_score(container(theirs), Y, TIMES)
    values = np.array([f(TIMES) for f in theirs])
    pd.testing.assert_frame_equal(table, brier_score(1 - values, Y, TIMES))
    at_once = brier_score(container(ours), Y, TIMES[:1])["brier"]
    assert at_once.iloc[0] == expected["brier"].iloc[0]


def test_functions_other_than_survival_are_refused():
    with pytest.raises(DataError, match="not cumulative"):
        brier_score(MODEL.predict_cumulative_hazard_function(X), Y, TIMES)
    functions = MODEL.predict_survival_function(X)
    with pytest.raises(DataError, match="of row 0 has no value: The function is known"):
        brier_score(functions, Y, [*TIMES[:2], 1e3])
    with pytest.raises(DataError, match="shape"):
        brier_score(functions[:-1], Y, TIMES)
    with pytest.raises(DataError, match="With competing events"):
        brier_score(functions, Surv(TIME, np.where(X[:, 0] > 0, 2 * EVENT, EVENT)), TIMES)


def test_without_censoring_it_is_the_mean_squared_error():
    y = Surv(FAILS, np.ones(N, int))
    table = brier_score(RISK, y, TIMES)
    happened = FAILS[:, None] <= TIMES
    np.testing.assert_allclose(table["brier"], ((happened - RISK) ** 2).mean(axis=0))
    shares = happened.mean(axis=0)
    np.testing.assert_allclose(table["null"], shares * (1 - shares))
    np.testing.assert_allclose(table["scaled"], 1 - table["brier"] / table["null"])
    expected = ((happened - RISK) ** 2).std(axis=0) / np.sqrt(N)
    np.testing.assert_allclose(table["se"], expected)


def test_weights_are_repeats_and_rows_without_weight_are_absent():
    w = RNG.integers(0, 3, N)
    rows = np.repeat(np.arange(N), w)
    ours = brier_score(RISK[:, :3], Y, TIMES[:3], sample_weight=w)
    theirs = brier_score(RISK[rows, :3], Y[rows], TIMES[:3])
    np.testing.assert_allclose(ours.drop(columns="se"), theirs.drop(columns="se"), rtol=1e-10)


@pytest.mark.slow
def test_standard_error_is_that_of_the_jackknife():
    def score(w):
        return brier_score(RISK, Y, TIMES, sample_weight=w)["brier"].to_numpy()

    slopes = []
    for i in range(N):
        w = np.ones(N)
        w[i] += 1e-4
        up = score(w)
        w[i] -= 2e-4
        slopes.append((up - score(w)) / 2e-4)
    expected = np.sqrt((np.array(slopes) ** 2).sum(axis=0))
    np.testing.assert_allclose(brier_score(RISK, Y, TIMES)["se"], expected, rtol=1e-5)


def test_competing_events_by_definition():
    code = np.where(EVENT == 1, 1 + (RNG.random(N) < 0.3), 0)
    y = Surv(TIME, code)
    model = FineGrayRegression().fit(X, y)
    risk = model.predict_cumulative_incidence(X, TIMES)
    ours = brier_score(risk, y, TIMES)
    censored = np.sort(TIME[code == 0])

    def G(t, strictly):
        steps = censored[censored < t] if strictly else censored[censored <= t]
        return np.prod([1 - 1 / (s <= TIME).sum() for s in steps])

    for k, t in enumerate(TIMES):
        total = 0.0
        for i in range(N):
            if TIME[i] <= t and code[i]:
                total += ((code[i] == 1) - risk[i, k]) ** 2 / G(TIME[i], True)
            elif TIME[i] > t:
                total += risk[i, k] ** 2 / G(t, False)
        np.testing.assert_allclose(ours["brier"].iloc[k], total / N, rtol=1e-10)
    assert (brier_score(risk, y, TIMES, cause=2)["brier"] != ours["brier"]).all()


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(DataError, match="probabilities; row 3"):
        brier_score(np.where(np.arange(N) == 3, 1.5, 0.5), Y, TIMES[0])
    with pytest.raises(DataError, match="has shape"):
        brier_score(RISK, Y, TIMES[:2])
    with pytest.raises(DataError, match="entry times"):
        brier_score(RISK, Surv(TIME, EVENT, np.full(N, -1.0)), TIMES)
    with pytest.raises(DataError, match="observed beyond"):
        brier_score(RISK[:, 0], Y, TIME.max())
    with pytest.raises(DataError, match="In train"):
        brier_score(RISK, Y, TIMES, train=Surv(TIME / 100, EVENT * 0))
    with pytest.raises(DataError, match="no events of cause 2"):
        brier_score(RISK, Y, TIMES, cause=2)
    with pytest.raises(DataError, match="ascending"):
        integrated_brier_score(RISK[:, ::-1], Y, TIMES[::-1])
