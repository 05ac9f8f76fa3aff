"""Doubly robust risks of times to events: identities, consistency, references and bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import steropes
from steropes import PooledLogisticRegression, Surv
from steropes.designs import DoublyRobust, DoublyRobustSurvival
from steropes.designs.doubly_robust.discrete_survival import FollowUp
from steropes.designs.doubly_robust.hazard_models import hazards_of_group

N = 800
rng = np.random.default_rng(5)
X = rng.standard_normal((N, 2))
E = 1 / (1 + np.exp(-0.6 * X[:, 0]))
A = (rng.random(N) < E).astype(int)
T = np.ceil(rng.exponential(np.exp(1.5 - 0.5 * X[:, 0] + 0.3 * A)))
CAUSE = rng.integers(1, 3, N)
FOLD = np.arange(N) % 2


def effect(found, measure="risk difference", time=None, cause=1):
    rows = found.effects_.query("measure == @measure and cause == @cause")
    row = (rows if time is None else rows.query("time == @time")).iloc[0]
    return row["estimate"], row["se"]


@pytest.mark.parametrize("estimand", ["ATE", "ATT", "ATC"])
def test_without_censoring_risks_are_means_of_indicators(estimand):
    """The martingale sums telescope to the difference of the event and its predicted risk."""
    found = DoublyRobustSurvival(interval=1, times=[2, 4], estimand=estimand)
    found.fit(X, A, Surv(T, CAUSE), score=E, fold=FOLD)
    follow_up = FollowUp.of(T, CAUSE, 1.0, 4.0)
    design, ones = steropes.as_design(X), np.ones(N)
    risks = [
        hazards_of_group(
            PooledLogisticRegression(interval=1), PooledLogisticRegression(interval=1), design,
            follow_up, a == A, FOLD, ones, "group",
        ).risks()
        for a in (1, 0)
    ]  # fmt: skip
    for cause in (1, 2):
        for time in (2, 4):
            y = ((time >= T) & (cause == CAUSE)).astype(float)
            means = np.column_stack([x[:, time - 1, cause - 1] for x in risks])
            own = DoublyRobust(method="aipw", estimand=estimand)
            row = own.fit(X, A, y, score=E, means=means, fold=FOLD).effects_.iloc[0]
            expected = row["estimate"], row["se"]
            assert effect(found, time=time, cause=cause) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("estimand", ["ATE", "ATT"])
def test_restricted_means_are_sums_of_survival(estimand):
    found = DoublyRobustSurvival(interval=2, times=[2, 6], estimand=estimand, folds=2)
    found.fit(X, A, Surv(T, np.ones(N)))
    for group in ("target", "comparator"):
        risk = found.curves_.query("group == @group")["risk"].to_numpy()
        own = found.effects_.query("measure == 'restricted mean difference'")[group]
        sums = 2 * np.cumsum(np.append(1.0, 1 - risk))[[0, 2]]
        np.testing.assert_allclose(own, sums)


def test_a_wrong_model_of_the_event_is_repaired():
    """Hazards of the event without covariates; the score and censoring are right."""
    r = np.random.default_rng(1)
    n = 6000
    W = r.standard_normal((n, 1))
    e = 1 / (1 + np.exp(-W[:, 0]))
    a = (r.random(n) < e).astype(int)
    rate = np.exp(-2.2 + W[:, 0] - 0.5 * a)
    time = np.ceil(r.exponential(1 / rate))
    censored = np.ceil(r.exponential(np.exp(2.5 - 0.7 * W[:, 0])))
    y = Surv(np.minimum(time, censored), (time <= censored).astype(int))
    w = r.standard_normal(200_000)
    truth = np.subtract(*[np.mean(1 - np.exp(-4 * np.exp(-2.2 + w - 0.5 * t))) for t in (1, 0)])
    null = PooledLogisticRegression(prior=steropes.Normal(1e-8), baseline=1)
    found = DoublyRobustSurvival(interval=1, times=[4], event_model=null, folds=2)
    value, se = effect(found.fit(W, a, y))
    assert abs(value - truth) < 3 * se
    plain = (y["time"] <= 4) & (y["event"] == 1)
    crude = plain[a == 1].mean() - plain[a == 0].mean()
    assert abs(crude - truth) > 5 * se


def test_smokers_are_near_those_of_survtmle(nhefs, nhefs_covariates):
    """R's survtmle, which targets the hazards; years, t0 = 10: risks by iterated means."""
    died = nhefs.death == 1
    months = np.where(died, (nhefs.yrdth - 83) * 12 + nhefs.modth, 120.0)
    found = DoublyRobustSurvival(interval=12, times=[120], folds=1)
    found.fit(nhefs_covariates, nhefs.qsmk, Surv(months, died.astype(int)))
    row = found.effects_.iloc[0]
    assert (row["comparator"], row["target"]) == pytest.approx((0.1973196, 0.1904126), abs=0.002)
    assert row["se"] == pytest.approx(0.02010216, rel=0.02)


def test_intervals_without_censoring_have_no_hazard_of_it():
    """A parabola in time would be separated where nobody is censored in the first years."""
    censored = np.where(np.arange(N) % 3 == 0, 3.0 + np.arange(N) % 2, 99.0)
    y = Surv(np.minimum(T, censored), (censored >= T).astype(int))
    found = DoublyRobustSurvival(interval=1, times=[5], folds=2).fit(X, A, y)
    complete = DoublyRobustSurvival(interval=1, times=[5], folds=2).fit(X, A, Surv(T, np.ones(N)))
    assert effect(found)[0] == pytest.approx(effect(complete)[0], abs=0.06)
    assert effect(found)[1] > effect(complete)[1]


def test_direct_effects_count_competing_events_as_censoring():
    total = DoublyRobustSurvival(interval=1, times=[4], folds=2).fit(X, A, Surv(T, CAUSE))
    direct = DoublyRobustSurvival(interval=1, times=[4], folds=2, competing="direct")
    direct.fit(X, A, Surv(T, CAUSE))
    assert set(total.effects_["cause"]) == {0, 1, 2}
    assert set(direct.effects_["cause"]) == {0, 1}
    assert direct.effects_["target"].iloc[0] > total.effects_["target"].iloc[0]


def test_clusters_and_weights_are_used():
    y, twice = Surv(T, np.ones(N)), np.full(N, 2.0)
    settings = {"interval": 2, "times": [4], "folds": 1}
    plain = DoublyRobustSurvival(**settings).fit(X, A, y)
    weighted = DoublyRobustSurvival(**settings).fit(X, A, y, sample_weight=twice)
    assert effect(weighted) == pytest.approx(effect(plain))
    clustered = DoublyRobustSurvival(**settings).fit(X, A, y, clusters=np.arange(N))
    factor = np.sqrt(N / (N - 1))
    assert effect(clustered)[1] == pytest.approx(effect(plain)[1] * factor)


@pytest.mark.parametrize(
    ("settings", "y", "words"),
    [
        ({"interval": 0}, Surv(T, np.ones(N)), "interval must be a width"),
        ({"interval": 1, "times": [1.5]}, Surv(T, np.ones(N)), "multiples of interval"),
        ({"interval": 1, "times": [10_000]}, Surv(T, np.ones(N)), "under observation up to"),
        ({"interval": 1, "competing": "none"}, Surv(T, np.ones(N)), "'total' or 'direct'"),
        ({"interval": 1, "times": [2]}, Surv(T, 1 * (A == 1)), "comparator has no event 1 by 2"),
        ({"interval": 1}, Surv(T + 1, np.ones(N), np.ones(N) / 2), "late entry"),
        (
            {"interval": 1, "event_model": PooledLogisticRegression(interval=2)},
            Surv(T, np.ones(N)),
            "takes its intervals from interval=",
        ),
        (
            {"interval": 1, "event_model": steropes.CoxRegression()},
            Surv(T, np.ones(N)),
            "must be a PooledLogisticRegression",
        ),
    ],
)
def test_bad_input_is_named(settings, y, words):
    with pytest.raises(steropes.DataError, match=words):
        DoublyRobustSurvival(**settings).fit(X, A, y)


def test_one_division_into_folds_is_taken():
    with pytest.raises(steropes.DataError, match="one division"):
        DoublyRobustSurvival(interval=1, times=[4]).fit(
            X, A, Surv(T, np.ones(N)), fold=np.column_stack([FOLD, FOLD])
        )


def test_a_table_gives_the_same_as_an_array():
    y = Surv(T, np.ones(N))
    settings = {"interval": 2, "times": [4], "folds": 2}
    one = DoublyRobustSurvival(**settings).fit(X, A, y)
    other = DoublyRobustSurvival(**settings).fit(pd.DataFrame(X, columns=["a", "b"]), A, y)
    assert effect(one) == effect(other)
