"""Doubly robust risks of times to events: identities, consistency, references and bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import steropes
from steropes import PooledLogisticRegression, Surv
from steropes.designs import DoublyRobust, DoublyRobustSurvival
from steropes.designs.doubly_robust.discrete_survival import FollowUp, arm_contributions
from steropes.designs.doubly_robust.hazard_models import hazards_of_group
from steropes.designs.doubly_robust.survival_targeting import targeted_hazards

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


@pytest.mark.parametrize("estimand", ["ATE", "ATT"])
def test_targeted_hazards_of_one_interval_are_targeted_means(estimand):
    """The hazard of a single interval is the risk."""
    y = (T <= 2).astype(float)
    hazard = DoublyRobustSurvival(interval=2, method="tmle", times=[2], estimand=estimand)
    hazard.fit(X, A, Surv(T, np.ones(N)), score=E, fold=FOLD)
    mean = DoublyRobust(method="tmle", estimand=estimand).fit(X, A, y, score=E, fold=FOLD)
    one = mean.effects_.set_index("measure").loc["risk difference"]
    expected = one["estimate"], one["se"]
    assert effect(hazard) == pytest.approx(expected, rel=1e-6)


def test_targeted_risks_are_substitution_estimates_near_the_augmented_ones():
    """The mean of the pseudo-outcomes is the mean of risks by the targeted hazards."""
    censored = np.ceil(np.random.default_rng(2).exponential(6, N))
    y = Surv(np.minimum(T, censored), np.where(censored >= T, CAUSE, 0))
    settings = {"interval": 1, "times": [4], "folds": 2}
    targeted = DoublyRobustSurvival(method="tmle", **settings).fit(X, A, y)
    augmented = DoublyRobustSurvival(**settings).fit(X, A, y)
    for measure, cause in (
        ("risk difference", 1), ("risk difference", 2), ("restricted mean difference", 0),
    ):  # fmt: skip
        one, two = (effect(x, measure, cause=cause) for x in (targeted, augmented))
        assert one[0] == pytest.approx(two[0], abs=0.2 * two[1])
        assert one[1] == pytest.approx(two[1], rel=0.05)
        assert one[0] != two[0]


def test_targeting_solves_the_equation_of_a_sum_of_risks():
    follow_up = FollowUp.of(T, CAUSE, 1.0, 4.0)
    design, own, ones = steropes.as_design(X), A == 1, np.ones(N)
    hazards = hazards_of_group(
        PooledLogisticRegression(prior=steropes.Normal(1e-8), interval=1),
        PooledLogisticRegression(interval=1), design, follow_up, own, FOLD, ones, "group",
    )  # fmt: skip
    coefficients = np.random.default_rng(1).normal(size=(4, 2))
    found = targeted_hazards(follow_up, hazards, own, 1 / E, 0.01, ones, coefficients)

    def residual(of):
        pseudo = arm_contributions(follow_up, of, own, 1 / E, ones, 0.01) - of.risks()
        return np.tensordot(pseudo, coefficients, axes=2)

    before, after = residual(hazards), residual(found)
    assert abs(before.mean()) > 0.1 * before.std() / np.sqrt(N)
    assert abs(after.mean()) < 2e-3 * after.std() / np.sqrt(N)
    assert ((found.events > 0) & (found.events < 1)).all()


def test_repeats_are_medians_of_divisions_into_folds():
    folds = np.column_stack([FOLD, (np.arange(N) // 2) % 2, (np.arange(N) // 4) % 2])
    y, settings = Surv(T, np.ones(N)), {"interval": 2, "times": [4]}
    alone = np.array([
        effect(DoublyRobustSurvival(**settings).fit(X, A, y, fold=folds[:, r])) for r in range(3)
    ])  # fmt: skip
    value, se = effect(DoublyRobustSurvival(**settings).fit(X, A, y, fold=folds))
    assert value == np.median(alone[:, 0])
    assert se == pytest.approx(np.sqrt(np.median(alone[:, 1] ** 2 + (alone[:, 0] - value) ** 2)))
    drawn = DoublyRobustSurvival(**settings, folds=2, repeats=2).fit(X, A, y)
    assert effect(drawn)[0] != effect(DoublyRobustSurvival(**settings, folds=2).fit(X, A, y))[0]
    with pytest.raises(steropes.DataError, match="repeats divides people into folds several times"):
        DoublyRobustSurvival(**settings, folds=1, repeats=2).fit(X, A, y)
    with pytest.raises(steropes.DataError, match="method must be 'aipw' or 'tmle'"):
        DoublyRobustSurvival(**settings, method="weights").fit(X, A, y)


def test_a_table_gives_the_same_as_an_array():
    y = Surv(T, np.ones(N))
    settings = {"interval": 2, "times": [4], "folds": 2}
    one = DoublyRobustSurvival(**settings).fit(X, A, y)
    other = DoublyRobustSurvival(**settings).fit(pd.DataFrame(X, columns=["a", "b"]), A, y)
    assert effect(one) == effect(other)


@pytest.fixture(scope="module")
def people():
    censored = np.ceil(np.random.default_rng(2).exponential(8, N))
    event = np.where(censored >= T, CAUSE, 0)
    return pd.DataFrame(
        {"x": X[:, 0], "z": X[:, 1], "drug": A, "time": np.minimum(T, censored), "event": event}
    )


ROLES = {"treatment": "drug", "covariates": ["x", "z"], "time": "time", "event": "event"}


@pytest.mark.parametrize("method", ["aipw", "tmle"])
def test_groups_are_compared_by_doubly_robust_risks_at_the_horizon(people, method):
    step = DoublyRobustSurvival(interval=2, method=method, folds=2)
    found = steropes.compare_groups(people, **ROLES, adjust=[step, "weights"], horizon=4)
    alone = DoublyRobustSurvival(interval=2, method=method, folds=2, times=[4])
    alone.fit(people[["x", "z"]], A, Surv(people["time"], people["event"]))
    rows = found.effects.query("method == @method")
    for measure in ("risk difference", "risk ratio", "restricted mean difference"):
        row = rows[rows["measure"] == measure].iloc[0]
        table = alone.effects_.query("cause < 2")
        own = table[table["measure"] == measure].iloc[0]
        assert (row["estimate"], row["se"]) == (own["estimate"], own["se"])
    assert found.horizon == 4
    assert step.times is None
    assert method in set(found.balance["method"])
    by_name = steropes.compare_groups(people, **ROLES, adjust=method, horizon=4)
    named = by_name.effects.query("method == @method and measure == 'risk difference'").iloc[0]
    expected = effect(alone)
    assert named["estimate"] == pytest.approx(expected[0], abs=0.5 * expected[1])


def test_the_default_horizon_ends_an_interval(people):
    step = DoublyRobustSurvival(interval=3, folds=2)
    found = steropes.compare_groups(people, **ROLES, adjust=step)
    assert found.horizon % 3 == 0
    assert found.horizon <= np.quantile(people["time"], 0.9)


@pytest.mark.parametrize(
    ("step", "more", "words"),
    [
        (DoublyRobust(), {}, "take .* or DoublyRobustSurvival"),
        (DoublyRobustSurvival(interval=1, times=[2]), {}, "leave times out"),
        (DoublyRobustSurvival(interval=3), {"horizon": 4}, "multiples of interval=3"),
        ("tmle", {"entry": "start"}, "late entry"),
    ],
)
def test_times_that_a_comparison_cannot_use_are_refused(people, step, more, words):
    with pytest.raises(steropes.DataError, match=words):
        steropes.compare_groups(
            people.assign(start=people["time"] / 2), **ROLES, adjust=step, **more
        )
