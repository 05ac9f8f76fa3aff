"""Doubly robust risks of outcomes that share folds, scores and censoring."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from steropes.designs import DoublyRobust, OutcomeModel, PropensityRules
from steropes.designs.comparative.doubly_robust_outcomes import SharedNuisances
from steropes.designs.covariates import Covariates
from steropes.designs.effects import absolute_effect, estimate_effect
from steropes.designs.propensity import fit_scores
from steropes.errors import DataError
from steropes.models import LogisticRegression
from steropes.priors import Laplace

DAYS = 10


def simulated(n, censored, seed=1):
    """People whose second covariate raises treatment, risk and censoring; and the true risks."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (n, 4))
    treated = (rng.random(n) < 0.25 + 0.4 * x[:, 1]).astype(int)
    hazard = 0.03 * np.exp(1.2 * x[:, [1]] + 0.5 * np.array([1, 0]))  # of both treatments
    event = np.ceil(rng.exponential(1 / hazard[np.arange(n), 1 - treated]))
    end = np.full(n, DAYS + 5.0)
    if censored:
        end = np.ceil(rng.exponential(1 / (0.02 + 0.15 * x[:, 1])))
    people = pd.DataFrame({
        "row": np.arange(n), "person_id": np.arange(n), "treated": treated, "days_at_risk": end,
        "time": np.minimum(event, end), "event": (event <= end).astype(int),
    })  # fmt: skip
    return people, Covariates.of(x), (1 - np.exp(-hazard * DAYS)).mean(axis=0)


def shared(people, features, kind, rules=None, **settings):
    rules = rules or PropensityRules(variance=1.0)
    scores = fit_scores(features, people["treated"], rules)
    model = OutcomeModel(kind, **{"variance": 1.0, "horizon": DAYS, **settings})
    return SharedNuisances.of(features, people, scores, rules, model)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["aipw", "tmle"])
@pytest.mark.parametrize("estimand", ["ate", "att"])
def test_without_censoring_the_effect_is_that_of_the_object_for_one_outcome(kind, estimand):
    people, features, _ = simulated(600, censored=False)
    found = shared(people, features, kind)
    estimate, absolute = found.effect(people, np.arange(600), estimand)
    targeting = {} if kind == "aipw" else {"targeting": "weight"}
    lasso = LogisticRegression(prior=Laplace(variance=1.0))
    same = DoublyRobust(method=kind, estimand=estimand, outcome_model=lasso, **targeting)
    y = (people["event"] == 1) & (people["time"] <= DAYS)
    same.fit(found.design, people["treated"], y, score=found.scores.score, fold=found.fold)
    table = same.effects_.set_index("measure")
    ratio, difference = table.loc["risk ratio"], table.loc["risk difference"]
    assert np.exp(estimate.log_rr) == pytest.approx(ratio["estimate"], rel=1e-10)
    assert estimate.se == pytest.approx(ratio["se"], rel=1e-10)
    assert absolute.risk_difference == pytest.approx(difference["estimate"], rel=1e-10)
    assert absolute.risk_se == pytest.approx(difference["se"], rel=1e-10)
    assert absolute.target_risk == pytest.approx(difference["target"], rel=1e-10)
    assert (estimate.kind, estimate.interval, estimate.converged) == (kind, "robust", True)


@pytest.mark.parametrize("kind", ["aipw", "tmle"])
def test_people_who_are_censored_early_are_represented_by_others(kind):
    people, features, truth = simulated(8000, censored=True)
    found = shared(people, features, kind)
    estimate, absolute = found.effect(people, np.arange(len(people)), "ate")
    assert abs(absolute.risk_difference - (truth[0] - truth[1])) < 2.5 * absolute.risk_se
    assert abs(estimate.log_rr - np.log(truth[0] / truth[1])) < 2.5 * estimate.se
    for risk, true in zip((absolute.target_risk, absolute.comparator_risk), truth, strict=True):
        assert risk == pytest.approx(true, abs=0.015)
    # Kaplan–Meier curves, weighted by scores alone, are biased, as censoring depends on x.
    weights = np.where(people["treated"] == 1, 1 / found.scores.score, 1 / (1 - found.scores.score))
    crude = absolute_effect(people, weights=weights, horizon=DAYS)
    assert crude.target_risk < truth[0] - 0.03


def test_each_score_and_hazard_of_censoring_comes_from_models_without_the_fold():
    people, features, _ = simulated(400, censored=True)
    found = shared(people, features, "aipw")
    treated, fold = people["treated"].to_numpy(), found.fold[:, 0]
    train = (fold != 0).astype(float)
    model = LogisticRegression(prior=Laplace(variance=1.0))
    alone = model.fit(found.design, treated, sample_weight=train).predict_proba(found.design)[:, 1]
    np.testing.assert_allclose(found.scores.score[fold == 0], alone[fold == 0], atol=1e-6)
    # Treatments and outcomes of a fold have no influence on what its people are given.
    changed = people.copy()
    at = np.flatnonzero(fold == 0)
    changed.loc[at, "days_at_risk"] = np.where(people["days_at_risk"][at] > 3, 2.0, 9.0)
    other = shared(changed, features, "aipw")
    np.testing.assert_array_equal(other.fold, found.fold)
    days = np.full(len(at), 8.0)
    np.testing.assert_allclose(
        other.censoring.uncensored(at, days), found.censoring.uncensored(at, days), rtol=1e-8
    )


def test_entries_of_a_person_share_a_fold_and_add_up_in_errors():
    people, features, _ = simulated(300, censored=False)
    twice = pd.concat([people, people], ignore_index=True).assign(row=np.arange(600))
    doubled = Covariates.of(np.vstack([features.matrix().toarray()] * 2))
    found = shared(twice, doubled, "aipw")
    assert (found.fold[:300] == found.fold[300:]).all()
    once, _ = shared(people, features, "aipw").effect(people, np.arange(300), "ate")
    both, _ = found.effect(twice, np.arange(600), "ate")
    assert both.se == pytest.approx(once.se, rel=0.1)  # twice the rows do not halve the variance


def test_an_outcome_with_a_time_at_risk_of_its_own_has_a_model_of_its_own_censoring():
    people, features, _ = simulated(800, censored=True)
    found = shared(people, features, "aipw")
    later = people[people["days_at_risk"] > 1].copy()
    later["days_at_risk"] -= 1
    later["time"] = np.minimum(later["time"], later["days_at_risk"])
    place = later.index.to_numpy()
    estimate, _ = found.effect(later.reset_index(drop=True), place, "ate")
    days = later["days_at_risk"].to_numpy()
    own = found._censoring(place, days, np.full(len(days), np.inf))
    assert own is not found.censoring
    assert np.isfinite(estimate.log_rr)


def test_a_reason_is_given_where_there_is_no_estimate():
    people, features, _ = simulated(400, censored=False)
    found = shared(people, features, "tmle")
    place = np.arange(400)
    one = people.copy()
    one["event"] = 0
    one.loc[np.flatnonzero(people["treated"] == 0)[:30], ["event", "time"]] = 1
    estimate, absolute = found.effect(one, place, "ate")
    assert estimate.note.startswith("too few people in the target arm had the outcome by day 10")
    assert np.isnan(absolute.horizon)
    early = people.assign(days_at_risk=np.where(people["treated"] == 1, 5, 15))
    with pytest.raises(DataError, match="nobody of the target is observed until day 10"):
        shared(early, features, "aipw")


def test_settings_that_a_doubly_robust_effect_does_not_have_are_refused():
    model = OutcomeModel("tmle")
    assert (model.weighted, model.covariates, model.interval_used) == (True, True, "robust")
    with pytest.raises(DataError, match='kind "tmle" has "robust" intervals only, not "profile"'):
        OutcomeModel("tmle", interval="profile")
    with pytest.raises(DataError, match="interactions are not available"):
        OutcomeModel("aipw", interactions=(8532001,))
    with pytest.raises(DataError, match="split_days belongs to Cox models"):
        OutcomeModel("aipw", split_days=(30,))
    with pytest.raises(DataError, match="other kinds always have them"):
        OutcomeModel("cox", restricted_means=True)
    people, _, _ = simulated(50, censored=False)
    with pytest.raises(DataError, match='kind "aipw" needs models of both arms'):
        estimate_effect(people, OutcomeModel("aipw"), weights=np.ones(50))


def lasso_of_shares(X, share, weights):
    """Means of a logistic lasso of shares, by coefficients of both signs with bounds."""
    Z = np.column_stack([np.ones(len(X)), X, -X])
    penalty = np.append(0.0, np.full(2 * X.shape[1], np.sqrt(2.0)))

    def loss(b):
        eta = Z @ b
        value = weights @ (np.logaddexp(0, eta) - share * eta) + penalty @ b
        return value, Z.T @ (weights * (expit(eta) - share)) + penalty

    bounds = [(None, None)] + [(0, None)] * (2 * X.shape[1])
    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000}
    b = minimize(loss, np.zeros(Z.shape[1]), jac=True, bounds=bounds, options=options).x
    return lambda V: expit(np.column_stack([np.ones(len(V)), V, -V]) @ b)


@pytest.mark.parametrize("censored", [False, True])
def test_restricted_means_are_those_of_the_formula(censored):
    people, features, _ = simulated(600, censored)
    found = shared(people, features, "aipw", restricted_means=True)
    _, absolute = found.effect(people, np.arange(600), "ate")
    time, days = people["time"].to_numpy(), people["days_at_risk"].to_numpy()
    happened = (people["event"] == 1).to_numpy() & (time <= DAYS)
    seen = happened | (days >= DAYS)
    until = np.where(happened, time, DAYS)
    chance, bound = np.ones(600), 5 / (np.sqrt(600) * np.log(600))
    if censored:
        first = np.where(happened, time, np.inf)
        own = found._censoring(np.arange(600), days, first)
        chance = np.maximum(own.uncensored(np.arange(600), until), bound)
    X, e = features.matrix().toarray(), np.clip(found.scores.score, bound, 1 - bound)
    fold, influences, values = found.fold[:, 0], [], []
    for arm, score in ((people["treated"] == 1, e), (people["treated"] == 0, 1 - e)):
        mean, used = np.empty(600), arm.to_numpy() & seen
        w = 1 / chance
        w /= w[used].mean()
        for k in range(fold.max() + 1):
            train = used & (fold != k)
            predict = lasso_of_shares(X[train], 1 - until[train] / DAYS, w[train])
            mean[fold == k] = DAYS * (1 - predict(X[fold == k]))
        pseudo = used / (score * chance) * (until - mean) + mean
        values.append(pseudo.mean())
        influences.append(pseudo - pseudo.mean())
    se = np.sqrt(((influences[0] - influences[1]) ** 2).sum()) / 600
    assert absolute.target_days == pytest.approx(values[0], rel=1e-5)
    assert absolute.comparator_days == pytest.approx(values[1], rel=1e-5)
    assert absolute.days_difference == pytest.approx(values[0] - values[1], rel=1e-4)
    assert absolute.days_se == pytest.approx(se, rel=1e-5)


@pytest.mark.parametrize("kind", ["aipw", "tmle"])
def test_restricted_means_of_people_who_are_censored_early_are_near_the_truth(kind):
    people, features, _ = simulated(8000, censored=True)
    found = shared(people, features, kind, restricted_means=True)
    _, absolute = found.effect(people, np.arange(len(people)), "ate")
    x = features.matrix().toarray()[:, [1]]
    hazard = 0.03 * np.exp(1.2 * x + 0.5 * np.array([1, 0]))
    target, comparator = sum(np.exp(-hazard * k) for k in range(DAYS)).mean(axis=0)
    assert absolute.target_days == pytest.approx(target, abs=0.1)
    assert absolute.comparator_days == pytest.approx(comparator, abs=0.1)
    assert abs(absolute.days_difference - (target - comparator)) < 2.5 * absolute.days_se
    _, without = shared(people, features, kind).effect(people, np.arange(len(people)), "ate")
    assert np.isnan(without.days_difference)
    assert without.risk_difference == absolute.risk_difference


def test_days_free_of_an_outcome_count_those_after_a_competing_one():
    people, features, _ = simulated(600, censored=False)
    rival = people.assign(event=np.where(people["row"] % 3 == 0, 2, 1) * people["event"])
    _, absolute = shared(rival, features, "aipw", restricted_means=True).effect(
        rival, np.arange(600), "ate"
    )
    later = rival.assign(
        time=np.where(rival["event"] == 2, DAYS + 5.0, rival["time"]),
        event=(rival["event"] == 1) * 1,
    )
    _, same = shared(later, features, "aipw", restricted_means=True).effect(
        later, np.arange(600), "ate"
    )
    assert absolute.target_days == pytest.approx(same.target_days, rel=1e-10)
