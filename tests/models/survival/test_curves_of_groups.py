"""Curves and tests of people without covariates: Kaplan–Meier, log-rank, Aalen–Johansen, and R."""

import numpy as np
import pandas as pd
import pytest
from test_cox_against_r import outcome

from reference_numbers import data, numbers, reference
from steropes import CoxRegression, DataError, Surv, aalen_johansen, kaplan_meier, logrank_test

LUNG = data("lung")


def late_entry(rng, n=120, causes=2):
    entry = rng.integers(0, 8, n).astype(float)
    time = entry + rng.integers(1, 12, n)
    return Surv(time, rng.integers(0, causes + 1, n), entry)


# -- Kaplan–Meier ----------------------------------------------------------------------------------


def test_median_and_its_interval_are_survfit_s():
    curves = {
        "lung": kaplan_meier(outcome("lung")),
        "lung weights": kaplan_meier(outcome("lung"), sample_weight=np.round(2 * LUNG["w"])),
        "heart": kaplan_meier(outcome("heart")),
        "level": kaplan_meier(Surv([1, 2, 3, 4], [1, 1, 1, 1])),
        "level to the end": kaplan_meier(Surv([1, 2, 3, 4], [1, 1, 0, 0])),
    }
    curves |= {f"lung sex {k}": c for k, c in kaplan_meier(outcome("lung"), LUNG["sex"]).items()}
    for check, curve in curves.items():
        ours = [curve.median(), *curve.median_interval()]
        expected = np.nan_to_num(numbers(f"{check} median"), nan=np.inf, posinf=np.inf)
        if check == "level to the end":
            # The printed table of R has the first time, 2; quantile() and median() of survfit
            # have the middle of the last segment, as does this median.
            assert expected[0] == 2
            expected[0] = 3
        assert ours == pytest.approx(list(expected), abs=1e-9), check


def test_curve_with_late_entry_and_its_limits_are_survfit_s():
    curve = kaplan_meier(outcome("heart"))
    at = np.searchsorted(curve.times, [10, 50, 200, 800], side="right") - 1
    ours = [curve.survival, np.sqrt(curve.variance), *curve.interval()]
    expected = reference("heart curve").to_numpy()
    np.testing.assert_allclose(np.stack(ours, axis=1)[at], expected, rtol=1e-9)


@pytest.mark.parametrize("t", [200, 500])
def test_restricted_mean_is_survfit_s(t):
    ours = kaplan_meier(outcome("lung")).restricted_mean(t)
    np.testing.assert_allclose(ours, numbers(f"lung rmean {t}"), rtol=1e-9)
    assert ours.se == ours[1]


def test_restricted_mean_is_the_area():
    curve = kaplan_meier(Surv([1, 2, 4], [1, 0, 1]))
    assert curve.restricted_mean(3).value == pytest.approx(1 + 2 * 2 / 3)
    assert curve.restricted_mean(0) == (0, 0)
    assert curve.restricted_mean(9).value == pytest.approx(1 + 3 * 2 / 3)  # all are gone at 4
    with pytest.raises(DataError, match="The curve ends at 2"):
        kaplan_meier(Surv([1, 2], [1, 0])).restricted_mean(3)


def test_quantiles_are_where_the_curve_first_is_that_low(rng):
    curve = kaplan_meier(Surv(rng.exponential(5, 101), np.ones(101)))
    for p in (0.1, 0.333, 0.9):
        q = curve.quantile(p)
        assert curve.at([q])[0] <= 1 - p < curve.at([q], left=True)[0]
        lower, upper = curve.quantile_interval(p, 0.9)
        assert lower < q < upper
    short = kaplan_meier(Surv([1, 2, 3], [1, 0, 0]))
    assert np.isnan(short.median())
    assert short.median_interval()[1] == np.inf
    with pytest.raises(DataError, match="p must be between 0 and 1"):
        curve.quantile(0)


def test_groups_are_the_curves_of_their_people(rng):
    y = late_entry(rng, causes=1)
    groups = pd.Series(np.array(["b", "a", "c"])[rng.integers(0, 3, 120)])
    w = rng.integers(0, 3, 120)
    curves = kaplan_meier(y, groups, w)
    assert list(curves) == ["a", "b", "c"]
    for label, curve in curves.items():
        at = np.repeat(np.flatnonzero(groups == label), w[groups == label])
        alone = kaplan_meier(y[at])
        np.testing.assert_allclose(curve.survival, alone.survival, atol=1e-13)
        np.testing.assert_allclose(curve.variance, alone.variance, atol=1e-13)
    by = rng.permutation(120)
    again = kaplan_meier(y[by], groups[by].to_numpy(), w[by])
    np.testing.assert_array_equal(again["a"].survival, curves["a"].survival)
    assert list(kaplan_meier(y, groups, w * (groups != "b"))) == ["a", "c"]


def test_curves_refuse_what_they_cannot_use():
    y = Surv([1, 2, 3], [1, 0, 2])
    with pytest.raises(DataError, match="competing events"):
        kaplan_meier(y)
    with pytest.raises(DataError, match="plain array"):
        kaplan_meier([1, 2, 3])
    with pytest.raises(DataError, match="groups has 2 entries, but y has 3 rows"):
        aalen_johansen(y, groups=[1, 2])
    with pytest.raises(DataError, match="at least one person"):
        kaplan_meier(y[:0])
    with pytest.raises(DataError, match="y has no events"):
        aalen_johansen(Surv([1, 2], [0, 0]))


# -- log-rank --------------------------------------------------------------------------------------


def test_logrank_is_survdiff():
    d = data("veteran")
    for check, ours, df in (
        ("lung", logrank_test(outcome("lung"), LUNG["sex"]), 1),
        ("veteran", logrank_test(outcome("veteran"), d["celltype"]), 3),
        ("veteran strata", logrank_test(outcome("veteran"), d["celltype"], d["trt"]), 3),
    ):
        assert ours["chisq"] == pytest.approx(float(numbers(f"{check} logrank")), rel=1e-9)
        assert ours["df"] == df
        assert 0 < ours["p"] < 1
    assert list(ours.index) == ["chisq", "df", "p"]


@pytest.mark.parametrize(
    ("rho", "plain", "stratified"), [(0.5, 22.71022669, 21.22307765), (1, 19.70962246, 18.9051285)]
)
def test_tests_with_weights_are_survdiff_s(rho, plain, stratified):
    """survival 3.5-3: survdiff(Surv(time, status) ~ celltype [+ strata(trt)], rho=…)."""
    d, y = data("veteran"), outcome("veteran")
    assert logrank_test(y, d["celltype"], rho=rho)["chisq"] == pytest.approx(plain, rel=1e-8)
    found = logrank_test(y, d["celltype"], d["trt"], rho)
    assert found["chisq"] == pytest.approx(stratified, rel=1e-8)
    late = Surv(
        np.append(y["time"], 1000.0), np.append(y["event"], 1), np.append(y["time"] * 0, 999)
    )
    g = np.append(d["trt"], 1)  # the curve is zero at the last event
    at_zero = logrank_test(late, g, rho=rho)["chisq"]
    assert at_zero == pytest.approx(logrank_test(y, d["trt"], rho=rho)["chisq"], rel=1e-10)
    with pytest.raises(DataError, match="rho must be a number"):
        logrank_test(y, d["trt"], rho=np.nan)


def test_logrank_with_late_entry_and_strata_is_the_sum_over_events_by_hand(rng):
    y = late_entry(rng, causes=1)
    g, s = rng.integers(0, 3, 120), rng.integers(0, 2, 120)
    difference, V = np.zeros(3), np.zeros((3, 3))
    for k in (0, 1):
        for t in np.unique(y["time"][(y["event"] == 1) & (s == k)]):
            risk = (s == k) & (y["entry"] < t) & (y["time"] >= t)
            n = np.bincount(g[risk], minlength=3)
            d = np.bincount(g[risk & (y["time"] == t) & (y["event"] == 1)], minlength=3)
            N, D = n.sum(), d.sum()
            difference += d - D * n / N
            if N > 1:
                V += D * (N - D) / (N - 1) * (np.diag(n / N) - np.outer(n, n) / N**2)
    expected = difference[:2] @ np.linalg.solve(V[:2, :2], difference[:2])
    labels = np.array(["x", "y", "z"], object)[g]
    by = rng.permutation(120)
    assert logrank_test(y, labels, s)["chisq"] == pytest.approx(expected, rel=1e-10)
    assert logrank_test(y[by], labels[by], s[by])["chisq"] == pytest.approx(expected, rel=1e-10)


def test_logrank_without_ties_is_near_the_cox_model_s_test(rng):
    n = 400
    g = rng.integers(0, 2, n)
    y = Surv(rng.exponential(np.exp(-0.3 * g)), rng.random(n) < 0.7)
    z = CoxRegression().fit(g[:, None].astype(float), y).summary()["z"].iloc[0]
    assert logrank_test(y, g)["chisq"] == pytest.approx(z**2, rel=0.05)


def test_logrank_needs_groups_at_risk_together():
    y = Surv([1, 2, 3, 4], [1, 1, 1, 1])
    with pytest.raises(DataError, match="nothing to compare"):
        logrank_test(y, [0, 0, 0, 0])
    with pytest.raises(DataError, match="in the same stratum"):
        logrank_test(y, [0, 0, 1, 1], strata=[0, 0, 1, 1])
    # a group that is never at risk at an event has no degree of freedom
    y = Surv([1, 5, 6, 7, 8], [0, 1, 1, 1, 0])
    assert logrank_test(y, ["c", "a", "b", "a", "b"])["df"] == 1


# -- Aalen–Johansen --------------------------------------------------------------------------------


def test_incidence_is_that_of_survfit_and_cuminc():
    d = data("mgus2")
    curves = aalen_johansen(Surv(d["time"], d["code"]))
    at = [12, 60, 120, 240]
    ours, se = curves.at(at), curves.standard_error(at)
    assert list(ours.columns) == [1, 2]
    np.testing.assert_allclose(ours, numbers("mgus2 incidence"), rtol=1e-9)
    np.testing.assert_allclose(se, numbers("mgus2 incidence se"), rtol=1e-9)
    np.testing.assert_allclose(ours, numbers("mgus2 cuminc"), rtol=1e-9)
    # cuminc's variance is another estimate of the same, by counting processes
    np.testing.assert_allclose(se, numbers("mgus2 cuminc se"), rtol=5e-3)


def test_one_cause_is_kaplan_meier(rng):
    y = late_entry(rng, causes=1)
    one, two = aalen_johansen(y), kaplan_meier(y)
    np.testing.assert_allclose(one.incidence[:, 0], 1 - two.survival, atol=1e-13)
    y = Surv(y["time"], y["event"])  # Greenwood's formula is the jackknife's without late entry
    one, two = aalen_johansen(y), kaplan_meier(y)
    se = one.standard_error(two.times)[1]
    np.testing.assert_allclose(se, np.sqrt(two.variance), atol=1e-10)


def test_incidences_and_survival_add_up_to_one_and_weights_are_repeats(rng):
    y, w = late_entry(rng), rng.integers(0, 4, 120)
    at = np.repeat(np.arange(120), w)
    one, many = aalen_johansen(y, sample_weight=w), aalen_johansen(y[at])
    np.testing.assert_allclose(one.incidence.sum(axis=1) + one.survival, 1, atol=1e-12)
    times = np.unique(y["time"])
    pd.testing.assert_frame_equal(one.at(times), many.at(times), atol=1e-12)
    pd.testing.assert_frame_equal(one.standard_error(times), many.standard_error(times), atol=1e-10)


@pytest.mark.sampled
@pytest.mark.parametrize("weights", ["ones", "whole", "fractions"])
@pytest.mark.parametrize("late", [False, True])
def test_standard_error_is_the_infinitesimal_jackknife_s(rng, late, weights):
    """R's formula: derivatives of the curves in the weights, squared and summed over people."""
    n = 60
    time, code = rng.integers(3, 10, n) * 1.0, rng.integers(0, 3, n)
    entry = rng.integers(0, 3, n) * 1.0 if late else None
    if late:
        entry[:8], time[:8] = time[:8] - 1.0, time[:8] + 2.0  # at risk between other events
    whole, fractions = rng.integers(1, 4, n) * 1.0, rng.uniform(0.3, 3, n)
    weight = {"ones": np.ones(n), "whole": whole, "fractions": fractions}[weights]
    y, at = Surv(time, code, entry), [3, 6, 9]
    influence = []
    for i in range(n):
        ends = []
        for step in (-1e-5, 1e-5):
            w = weight.copy()
            w[i] += step
            ends.append(aalen_johansen(y, sample_weight=w).at(at).to_numpy())
        influence.append((ends[1] - ends[0]) / 2e-5)
    share = (weight**2 if weights == "fractions" else weight)[:, None, None]
    expected = np.sqrt((share * np.array(influence) ** 2).sum(axis=0))
    found = aalen_johansen(y, sample_weight=weight).standard_error(at)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_incidence_outside_of_what_was_seen():
    curves = aalen_johansen(Surv([2, 3, 4], [1, 2, 0]))
    assert curves.at(1).to_numpy().tolist() == [[0, 0]]
    assert np.isnan(curves.at(5)).all(axis=None)
    assert aalen_johansen(Surv([2, 3], [1, 2])).at(5).to_numpy().tolist() == [[0.5, 0.5]]
    lower, upper = curves.interval()
    assert (lower <= curves.incidence).all(axis=None)
    assert (upper >= curves.incidence).all(axis=None)


def test_groups_have_the_causes_of_all(rng):
    y = Surv([1, 2, 3, 4, 5], [1, 1, 0, 2, 2])
    curves = aalen_johansen(y, ["a", "a", "b", "b", "b"])
    assert list(curves["a"].causes) == [1, 2]
    assert curves["a"].at(9).loc[9.0].tolist() == [1.0, 0.0]


def test_nobody_s_time_is_in_a_repr():
    y = Surv([7001.25, 7002.5, 7003.75], [1, 0, 2])
    curves = aalen_johansen(y), kaplan_meier(Surv(y["time"], y["event"] > 0))
    assert repr(curves[0]) == "AalenJohansen(cause 1: 1 events, cause 2: 1 events)"
    assert repr(curves[1]) == "KaplanMeier(2 events)"
