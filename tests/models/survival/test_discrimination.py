"""Concordance with its standard error, and the AUC at a time: R, scikit-survival, derivatives."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sksurv.metrics import concordance_index_ipcw, cumulative_dynamic_auc
from test_cox_against_r import CASES, fit, outcome

from reference_numbers import data, numbers
from steropes import (
    CoxRegression,
    DataError,
    FineGrayRegression,
    Normal,
    PooledLogisticRegression,
    Surv,
    kaplan_meier,
    time_dependent_auc,
)
from steropes.data.kaplan_meier import product_limit
from steropes.infer.concordance import concordance_influence
from steropes.infer.rounding_ties import merge_rounding_ties
from steropes.infer.time_dependent_auc import CensoringWeights, auc_at


@pytest.mark.parametrize(
    "case", ["lung", "lung weights", "lung strata", "veteran strata", "heart", "heart strata"]
)
def test_standard_error_is_that_of_survival_concordance(case):
    name, columns, strata, weight = CASES[case]
    d = data(name)
    given = {
        "sample_weight": d[weight] if weight else None, "strata": d[strata] if strata else None,
    }  # fmt: skip
    m = fit(case, "efron")
    both = m.validation.concordance(d[columns], outcome(name), return_se=True, **given)
    np.testing.assert_allclose(both, numbers(f"{case} concordance se"), rtol=1e-9)
    assert m.validation.concordance(d[columns], outcome(name), **given) == both[0]
    if case == "heart":
        both = m.validation.concordance(d[columns], outcome(name), return_se=True, cluster=d["id"])
        np.testing.assert_allclose(both, numbers("heart cluster concordance se"), rtol=1e-9)


# survival 3.5-3: concordance(coxph(...), timewt="n/G2"), and the same with ymax=200.
UNO = {
    "lung weights": ([0.636628038577, 0.0263049075939], [0.668408895519, 0.038560129171]),
    "veteran strata": ([0.688874393345, 0.028151016548], [0.695319689428, 0.0289880315492]),
}


@pytest.mark.parametrize("case", UNO)
def test_uno_s_concordance_is_that_of_survival(case):
    name, columns, strata, weight = CASES[case]
    d = data(name)
    given = {
        "sample_weight": d[weight] if weight else None, "strata": d[strata] if strata else None,
    }  # fmt: skip
    m = fit(case, "efron")
    for tau, expected in zip((None, 200.5), UNO[case], strict=True):
        both = m.validation.concordance(
            d[columns], outcome(name), **given, return_se=True, ipcw=True, tau=tau
        )
        np.testing.assert_allclose(both, expected, rtol=1e-9)


def test_uno_s_concordance_is_that_of_scikit_survival(rng):
    n = 90
    X = rng.normal(size=(n, 2))
    time, leave = rng.exponential(np.exp(-X[:, 0]), n), rng.exponential(1.5, n)
    y = Surv(np.minimum(time, leave), time <= leave)
    m = CoxRegression().fit(X, y)
    theirs = np.empty(n, dtype=[("event", bool), ("time", float)])
    theirs["event"], theirs["time"] = y["event"] == 1, y["time"]
    for tau in (None, 0.8):
        expected = concordance_index_ipcw(theirs, theirs, m.predict(X), tau=tau)[0]
        assert m.validation.concordance(X, y, ipcw=True, tau=tau) == pytest.approx(
            expected, rel=1e-12
        )
    w = rng.integers(0, 3, n)
    at = np.repeat(np.arange(n), w)
    both = [
        m.validation.concordance(x, outcome, v, ipcw=True, tau=0.8)
        for x, outcome, v in ((X, y, w), (X[at], y[at], None))
    ]
    assert both[0] == pytest.approx(both[1], rel=1e-12)
    late = Surv(y["time"], y["event"], y["time"] / 2)
    with pytest.raises(DataError, match="not defined with entry times"):
        m.validation.concordance(X, late, ipcw=True)
    with pytest.raises(DataError, match="tau must be a time above zero"):
        m.validation.concordance(X, y, tau=-1.0)
    with pytest.raises(DataError, match="no comparable pairs"):
        m.validation.concordance(X, y, tau=1e-9)
    with pytest.raises(DataError, match="ipcw must be True or False"):
        m.validation.concordance(X, y, ipcw="yes")


@pytest.mark.parametrize("late", [False, True])
def test_influence_is_the_derivative_by_the_weights(rng, late):
    n = 60
    entry = rng.integers(0, 5, n) * 1.0 if late else None
    time = rng.integers(1, 9, n) + (entry if late else 0.0)
    event = rng.random(n) < 0.6
    score, strata = rng.integers(0, 6, n) * 1.0, rng.integers(0, 3, n)
    w = rng.uniform(0.3, 2, n)
    share = rng.uniform(0, 3, 9)[time.astype(int) % 9]
    c, influence = concordance_influence(score, time, event, entry, strata, w, share)
    for i in range(0, n, 7):
        ends = []
        for step in (-1e-5, 1e-5):
            v = w.copy()
            v[i] *= 1 + step
            ends.append(concordance_influence(score, time, event, entry, strata, v, share)[0])
        assert (ends[1] - ends[0]) / 2e-5 == pytest.approx(influence[i], abs=1e-8)
    by = rng.permutation(n)
    again = concordance_influence(
        score[by], time[by], event[by], entry[by] if late else None, strata[by], w[by], share[by]
    )
    assert again[0] == pytest.approx(c, rel=1e-12)
    np.testing.assert_allclose(again[1], influence[by], atol=1e-12)


def test_pieces_of_rows_are_of_their_person(rng):
    X = rng.normal(size=(80, 2))
    time = np.ceil(rng.exponential(5, 80))
    y = Surv(time, rng.random(80) < 0.7)
    steps = CoxRegression(time_varying={0: [4.0]}).fit(X, y)
    whole = CoxRegression().fit(X, y)
    steps.coef_ = np.array([whole.coef_[0], *whole.coef_])  # the same effect before and after
    for given in ({}, {"ipcw": True, "tau": 8.0}):
        one, two = (m.validation.concordance(X, y, return_se=True, **given) for m in (steps, whole))
        np.testing.assert_allclose(one, two, rtol=1e-12)


def test_other_families_have_it_too(rng):
    X = rng.normal(size=(90, 2))
    time = np.ceil(rng.exponential(np.exp(-X[:, 0]), 90) * 5)
    code = np.where(rng.random(90) < 0.6, 1 + (rng.random(90) < 0.3), 0)
    for m, y in (
        (FineGrayRegression(), Surv(time, code)),
        (PooledLogisticRegression(interval=2.0, baseline=1), Surv(time, code == 1)),
    ):
        m.fit(X, y)
        c, se = m.validation.concordance(X, y, return_se=True)
        assert c == m.validation.concordance(X, y)
        assert 0.01 < se < 0.1


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_auc_is_that_of_scikit_survival(rng):
    n = 150
    X = rng.normal(size=(n, 3))
    time = rng.exponential(np.exp(-X[:, 0]), n)
    leave = rng.exponential(1.5, n)
    y = Surv(np.minimum(time, leave), time <= leave)
    m = CoxRegression().fit(X, y)
    times = [0.2, 0.5, 1.0]
    theirs = np.empty(n, dtype=[("event", bool), ("time", float)])
    theirs["event"], theirs["time"] = y["event"] == 1, y["time"]
    expected = cumulative_dynamic_auc(theirs, theirs, m.predict(X), times)[0]
    ours = m.validation.time_dependent_auc(sparse.csr_array(X), y, times)
    np.testing.assert_allclose(ours["auc"], expected, rtol=1e-10)
    assert list(ours.columns) == ["auc", "se", "lower", "upper"]
    assert ((ours["lower"] < ours["auc"]) & (ours["auc"] < ours["upper"])).all()
    assert ((ours["se"] > 0.02) & (ours["se"] < 0.1)).all()


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_tied_times_distinguish_the_censoring_weights_of_scikit_survival(rng):
    """An event at T is seen if C ≥ T, of which Ĝ(T−) is the probability and Ĝ(T) is not."""
    n = 150
    x = rng.normal(size=n)
    time, leave = np.ceil(rng.exponential(np.exp(-x), n) * 6), np.ceil(rng.exponential(1.5, n) * 6)
    y = Surv(np.minimum(time, leave), time <= leave)
    theirs = np.empty(n, dtype=[("event", bool), ("time", float)])
    theirs["event"], theirs["time"] = y["event"] == 1, y["time"]
    at = [2.0, 4.0, 6.0]
    ours = time_dependent_auc(x, y, at)["auc"]
    expected = cumulative_dynamic_auc(theirs, theirs, x, at)[0]
    assert 1e-4 < abs(ours - expected).max() < 0.02
    curve = product_limit(y["time"], y["event"], censoring=True)
    event, seen = y["event"] == 1, y["time"]
    survival = kaplan_meier(y)
    for t, auc, of_them in zip(at, ours, expected, strict=True):
        case, control = event & (seen <= t), seen > t
        right = (x[case, None] > x[control]).mean(axis=1)
        for left, value in ((True, auc), (False, of_them)):
            a = 1 / curve.at(seen[case], left=left)
            assert a @ right / a.sum() == pytest.approx(value, rel=1e-10)
            # Weighted cases are the Kaplan–Meier share of events by t (Satten and Datta 2001).
            unbiased = a.sum() / n == pytest.approx(1 - survival.at([t])[0], rel=1e-10)
            assert unbiased == left
        alive = control.sum() / curve.at([t])[0] / n
        assert alive == pytest.approx(survival.at([t])[0], rel=1e-10)


def test_auc_s_error_is_the_jackknife_s_with_the_censoring_curve_s_part(rng):
    n = 70
    time, event = rng.integers(1, 12, n) * 1.0, (rng.random(n) < 0.5).astype(int)
    score, w = rng.integers(0, 9, n) * 1.0, rng.uniform(0.3, 2, n)
    t = 7.0
    value, se = auc_at(score, time, event, t, CensoringWeights(time, event, w))
    influence = np.empty(n)
    for i in range(n):
        ends = []
        for step in (-1e-5, 1e-5):
            v = w.copy()
            v[i] *= 1 + step
            ends.append(auc_at(score, time, event, t, CensoringWeights(time, event, v))[0])
        influence[i] = (ends[1] - ends[0]) / 2e-5
    assert se == pytest.approx(float(np.sqrt(influence @ influence)), rel=1e-7)
    pairs = weights = 0.0
    G = CensoringWeights(time, event, w).before
    for i in np.flatnonzero((event == 1) & (time <= t)):
        for j in np.flatnonzero(time > t):
            weights += w[i] * w[j] / G[i]
            pairs += w[i] * w[j] / G[i] * ((score[i] > score[j]) + (score[i] == score[j]) / 2)
    assert value == pytest.approx(pairs / weights, rel=1e-12)


def test_people_with_a_competing_event_are_controls(rng):
    """All pairs with the weights of Blanche and others (2013), and their numerical derivatives."""
    n, t = 80, 7.0
    time, event = rng.integers(1, 12, n) * 1.0, rng.choice([0, 1, 2, 3], n)
    score, w = rng.integers(0, 9, n) * 1.0, rng.uniform(0.3, 2, n)
    y = Surv(time, event)
    found = time_dependent_auc(score, y, [t], cause=2, sample_weight=w).iloc[0]
    G = CensoringWeights(time, event, w).before
    after = G[np.where(time > t, time, np.inf).argmin()]
    pairs = weights = 0.0
    for i in np.flatnonzero((event == 2) & (time <= t)):
        for j in np.flatnonzero((time > t) | ((event != 2) & (event > 0))):
            b = w[j] / (after if time[j] > t else G[j])
            weights += w[i] / G[i] * b
            pairs += w[i] / G[i] * b * ((score[i] > score[j]) + (score[i] == score[j]) / 2)
    assert found["auc"] == pytest.approx(pairs / weights, rel=1e-12)
    influence = np.empty(n)
    for i in range(n):
        ends = []
        for step in (-1e-5, 1e-5):
            v = w.copy()
            v[i] *= 1 + step
            table = time_dependent_auc(score, y, [t], cause=2, sample_weight=v)
            ends.append(table["auc"].iloc[0])
        influence[i] = (ends[1] - ends[0]) / 2e-5
    assert found["se"] == pytest.approx(float(np.sqrt(influence @ influence)), rel=1e-6)


def test_models_have_the_auc_of_their_risks(rng):
    X = rng.normal(size=(150, 2))
    time = np.ceil(8 * rng.exponential(np.exp(-X[:, 0]))) / 8
    code = rng.integers(0, 3, 150)
    y, plain = Surv(time, code), Surv(time, (code == 1) * 1)
    strata = rng.integers(0, 2, 150)
    m = FineGrayRegression().fit(X, y, strata=strata)
    risk = m.predict_cumulative_incidence(X, [0.5, 1.0], strata=strata)
    found = m.validation.time_dependent_auc(X, y, [0.5, 1.0], strata=strata)
    pd.testing.assert_frame_equal(found, time_dependent_auc(risk, y, [0.5, 1.0]), rtol=1e-9)
    m = FineGrayRegression().fit(X, y)
    found = m.validation.time_dependent_auc(X, y)
    pd.testing.assert_frame_equal(found, time_dependent_auc(m.predict(X), y), rtol=1e-9)
    cox = CoxRegression().fit(X, plain)
    found = cox.validation.time_dependent_auc(X, plain)
    pd.testing.assert_frame_equal(found, time_dependent_auc(cox.predict(X), plain), rtol=1e-9)
    pooled = PooledLogisticRegression(interval=0.25, baseline=2).fit(X, plain)
    found = pooled.validation.time_dependent_auc(X, plain)
    assert found.index[0] == 0.25
    at = found.index.to_numpy()[:4]
    risk = 1 - pooled.predict_survival(X, at)
    expected = time_dependent_auc(risk, plain, at)
    pd.testing.assert_frame_equal(found.iloc[:4], expected, rtol=1e-9)


def test_scores_that_do_not_fit_the_outcome_are_refused():
    y = Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    with pytest.raises(DataError, match=r"predicted has shape \(5, 2\)"):
        time_dependent_auc(np.zeros((5, 2)), y, [3.5])
    with pytest.raises(DataError, match="missing in row 1"):
        time_dependent_auc([0.1, np.nan, 0.2, 0.3, 0.4], y, [3.5])
    with pytest.raises(DataError, match="cause must be"):
        time_dependent_auc(np.zeros(5), y, [3.5], cause=0)


def test_repeated_rows_and_rows_without_weight_in_the_auc(rng):
    X = rng.normal(size=(60, 2))
    y = Surv(np.ceil(rng.exponential(5, 60)), rng.random(60) < 0.6)
    w = rng.integers(0, 4, 60)
    at = np.repeat(np.arange(60), w)
    m = CoxRegression().fit(X, y)
    one = m.validation.time_dependent_auc(X, y, [3, 6], sample_weight=w)
    many = m.validation.time_dependent_auc(X[at], y[at], [3, 6])
    np.testing.assert_allclose(one["auc"], many["auc"], rtol=1e-12)


def test_with_strata_the_auc_is_of_the_risk_by_the_time(rng):
    X = rng.normal(size=(80, 2))
    y = Surv(rng.exponential(5, 80), rng.random(80) < 0.6)
    strata = np.array(["a", "b"])[rng.integers(0, 2, 80)]
    m = CoxRegression().fit(X, y, strata=strata)
    table = m.validation.time_dependent_auc(X, y, [2.0], strata=strata)
    risk = 1 - m.predict_survival(X, [2.0], strata=strata)[:, 0]
    one = np.ones(80)
    weights = CensoringWeights(y["time"], y["event"], one)
    assert table["auc"].iloc[0] == pytest.approx(
        auc_at(risk, y["time"], y["event"], 2.0, weights)[0], rel=1e-12
    )


def test_default_times_end_with_the_first_stratum(rng):
    X = rng.normal(size=(90, 2))
    strata = rng.integers(0, 2, 90)
    y = Surv(rng.exponential(5, 90) / (1 + strata), rng.random(90) < 0.6)
    last = min(y["time"][strata == s].max() for s in (0, 1))
    m = CoxRegression().fit(X, y, strata=strata)
    table = m.validation.time_dependent_auc(X, y, strata=strata)
    events = np.unique(y["time"][y["event"] == 1])
    np.testing.assert_array_equal(table.index, events[events <= last])


def test_a_row_without_weight_needs_no_risk_for_the_auc(rng):
    """Its stratum has nobody in the fit: it is in no pair."""
    X = rng.normal(size=(80, 2))
    y = Surv(rng.exponential(5, 80), rng.random(80) < 0.6)
    strata, w = rng.integers(0, 2, 80), rng.integers(1, 3, 80)
    expected = (
        CoxRegression()
        .fit(X, y, strata=strata, sample_weight=w)
        .validation.time_dependent_auc(X, y, [2.0, 3.0], strata=strata, sample_weight=w)
    )
    given = {"strata": np.append(strata, 7), "sample_weight": np.append(w, 0)}
    X, y = np.vstack([X, [9.0, 9.0]]), np.append(y, y[:1])
    m = CoxRegression().fit(X, y, **given)
    found = m.validation.time_dependent_auc(X, y, [2.0, 3.0], **given)
    pd.testing.assert_frame_equal(found, expected, rtol=1e-9)
    given["sample_weight"][-1] = 1
    with pytest.raises(DataError, match="Row 80 has no risk at time 2"):
        m.validation.time_dependent_auc(X, y, [2.0, 3.0], **given)


def test_times_without_cases_or_controls_are_refused(rng):
    X = rng.normal(size=(40, 2))
    y = Surv(rng.exponential(5, 40) + 1, rng.random(40) < 0.6)
    m = CoxRegression().fit(X, y)
    with pytest.raises(DataError, match="nobody had the event by then"):
        m.validation.time_dependent_auc(X, y, [0.5])
    with pytest.raises(DataError, match="nobody is known to be free of it"):
        m.validation.time_dependent_auc(X, y, [1e6])
    late = Surv(y["time"], y["event"], y["time"] - 1)
    with pytest.raises(DataError, match="leave entry out"):
        m.validation.time_dependent_auc(X, late, [3.0])


@pytest.mark.parametrize("columns", [3, 10, 16, 19, 31])
def test_people_with_the_same_values_are_tied(columns):
    """Whatever rounding makes of them: a product adds up the last rows in another order."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        kind = rng.integers(0, 9, 701)
        X = rng.normal(size=(9, columns)).round(2)[kind] * np.where(np.arange(columns), 1.0, 1e3)
        y = Surv(np.ceil(rng.exponential(1, 701) * 30), rng.random(701) < 0.6)
        m = CoxRegression(prior=Normal(0.1)).fit(X, y)
        eta = m.linear_predictor(X)
        rank = np.argsort(np.argsort([eta[kind == k][0] for k in range(9)]))[kind]
        event = (y["event"] == 1).astype(int)
        expected = concordance_influence(rank.astype(float), y["time"], event)[0]
        assert m.validation.concordance(X, y) == pytest.approx(expected, rel=1e-12)
        at = auc_at(rank, y["time"], event, 20.0, CensoringWeights(y["time"], event, np.ones(701)))
        assert m.validation.time_dependent_auc(X, y, [20.0])["auc"].iloc[0] == pytest.approx(
            at[0], rel=1e-12
        )


def test_scores_that_differ_by_rounding_are_tied():
    score = np.array([3.0, 1.0, 3.0 + 4e-16, -np.inf, 2.0, -np.inf, 1.0 - 1e-16, np.inf])
    same = [3, 1 - 1e-16, 3, -np.inf, 2, -np.inf, 1 - 1e-16, np.inf]
    np.testing.assert_array_equal(merge_rounding_ties(score), same)
    assert len(merge_rounding_ties(np.empty(0))) == 0
    apart = np.linspace(-1, 1, 10_001)
    np.testing.assert_array_equal(merge_rounding_ties(apart), apart)


def test_pooled_risks_that_are_all_but_one_are_not_tied(rng):
    """Whoever has a risk of 1 - e^-50 is less at risk than at 1 - e^-60."""
    x = rng.normal(size=300)
    time = np.ceil(rng.exponential(np.exp(-2 * x)) * 4)
    y = Surv(np.minimum(time, 60), time <= 60)
    m = PooledLogisticRegression(interval=1.0, baseline=1).fit(x[:, None], y)
    assert (m.predict(x[:, None]) == 1.0).mean() > 0.2
    order = concordance_influence(x, y["time"], y["event"])[0]
    assert m.validation.concordance(x[:, None], y) == pytest.approx(order, rel=1e-12)


@pytest.mark.parametrize("model", [CoxRegression, FineGrayRegression, PooledLogisticRegression])
def test_the_clusters_of_a_formula_are_those_of_the_concordance(model, rng):
    n = 120
    table = pd.DataFrame({"x": rng.standard_normal(n), "id": np.arange(n) // 4})
    table["time"], table["dead"] = rng.exponential(size=n), (rng.random(n) < 0.7) * 1
    settings = {"interval": 0.5, "baseline": 1} if model is PooledLogisticRegression else {}
    m = model.from_formula("Surv(time, dead) ~ x + cluster(id)", table, **settings)
    y = Surv(table["time"], table["dead"])
    _, se = m.validation.concordance(table, y, return_se=True)
    plain = model(**settings).fit(table[["x"]], y)
    _, expected = plain.validation.concordance(table[["x"]], y, return_se=True, cluster=table["id"])
    _, independent = plain.validation.concordance(table[["x"]], y, return_se=True)
    assert se == expected != independent
    with pytest.raises(DataError, match=r"'id'.* pass cluster="):
        m.validation.concordance(table.drop(columns="id"), y, return_se=True)
    assert m.validation.concordance(table.drop(columns="id"), y) == plain.validation.concordance(
        table[["x"]], y
    )
