"""Weights, trimming, matching, strata, balance and scores: facts that hold whatever the data."""

import numpy as np
import pandas as pd
import pytest
from tests.studies.test_tidied_covariates import made

from steropes.designs import Match, PropensityRules, Stratify, Trim, covariate_balance, fit_scores
from steropes.designs.propensity import (
    match_scores,
    matched_weights,
    propensity_weights,
    score_strata,
    trim,
)
from steropes.designs.propensity.score_adjustment import ScoreAdjustment
from steropes.designs.propensity.weights_by_estimand import set_weights
from steropes.errors import DataError
from steropes.studies.cohorts.people_frame_with_hidden_rows import People
from steropes.studies.diagnostics.comparative_diagnostics import Diagnostics

RNG = np.random.default_rng(7)
N = 400
SCORE = RNG.uniform(0.05, 0.95, N)
TREATED = (RNG.random(N) < SCORE).astype(int)
IDS = RNG.permutation(10_000)[:N]


@pytest.mark.parametrize(
    ("estimand", "target", "comparator"),
    [
        ("att", lambda e: e / e, lambda e: e / (1 - e)),
        ("atu", lambda e: (1 - e) / e, lambda e: e / e),
        ("ate", lambda e: 1 / e, lambda e: 1 / (1 - e)),
        ("ato", lambda e: 1 - e, lambda e: e),
    ],
)
def test_weights_of_each_estimand(estimand, target, comparator):
    plain = propensity_weights(SCORE, TREATED, estimand, stabilized=False)
    np.testing.assert_allclose(plain, np.where(TREATED == 1, target(SCORE), comparator(SCORE)))
    stable = propensity_weights(SCORE, TREATED, estimand)
    for arm in (0, 1):  # stabilising changes each arm by one factor
        ratio = (stable / plain)[arm == TREATED]
        np.testing.assert_allclose(ratio, ratio[0])
    assert propensity_weights(SCORE, TREATED, estimand, largest=0.5).max() <= 0.5


@pytest.mark.parametrize(
    ("estimand", "of"),
    [
        ("att", lambda n1, n0: n1),
        ("atu", lambda n1, n0: n0),
        ("ate", lambda n1, n0: n1 + n0),
        ("ato", lambda n1, n0: n1 * n0 / (n1 + n0)),
    ],
)
def test_weights_of_sets_spread_both_arms_as_the_population_of_the_estimand(estimand, of):
    n1, n0 = np.array([3, 1, 2, 4]), np.array([2, 5, 1, 0])
    sets = np.concatenate((np.repeat(range(4), n1), np.repeat(range(4), n0)))
    treated = np.repeat([1, 0], [n1.sum(), n0.sum()])
    w = set_weights(sets, treated, estimand)
    assert (w[sets == 3] == 0).all()  # nobody to compare with
    expected = of(n1[:3], n0[:3]) / of(n1[:3], n0[:3]).sum()
    for arm in (1, 0):
        spread = np.bincount(sets, w * (treated == arm))[:3]
        np.testing.assert_allclose(spread / spread.sum(), expected)


def test_infinite_weights_are_refused_with_a_remedy():
    with pytest.raises(DataError, match="row 1 has the score 1, so its weight is infinite; trim"):
        propensity_weights([0.5, 1.0], [1, 0])
    assert propensity_weights([0.5, 1.0], [1, 0], largest=10)[1] == 10


def test_trimming_by_score_preference_and_weight():
    def kept(rule, weight=None):
        return trim(SCORE, TREATED, rule, weight)[-1][1]

    np.testing.assert_array_equal(kept(Trim(0.1)), (SCORE > 0.1) & (SCORE < 0.9))
    low, high = (kept(Trim(0.05, m)) for m in ("asymmetric", "reverse asymmetric"))
    assert SCORE[low & (TREATED == 1)].min() > SCORE[high & (TREATED == 1)].min()
    assert SCORE[low & (TREATED == 0)].max() < SCORE[high & (TREATED == 0)].max()
    share = TREATED.mean()
    odds = SCORE / (1 - SCORE) * (1 - share) / share
    preference = odds / (1 + odds)
    np.testing.assert_array_equal(
        kept(Trim(equipoise=(0.3, 0.7))), (preference >= 0.3) & (preference <= 0.7)
    )
    weight = propensity_weights(SCORE, TREATED)
    np.testing.assert_array_equal(kept(Trim(max_weight=1.0), weight), weight <= 1)
    with pytest.raises(DataError, match="trimming needs a fraction"):
        Trim()


@pytest.mark.parametrize("scale", ["standardized logit", "standardized", "propensity score"])
@pytest.mark.parametrize("max_ratio", [1, 3, 0])
def test_matched_sets_have_one_target_and_stay_within_the_caliper(scale, max_ratio):
    rule = Match(0.2, scale, max_ratio)
    sets = match_scores(SCORE, TREATED, rule, ids=IDS)
    value = np.log(SCORE / (1 - SCORE)) if "logit" in scale else SCORE
    width = 0.2 * (1 if scale == "propensity score" else np.std(value, ddof=1))
    for s in range(sets.max() + 1):
        rows = np.flatnonzero(sets == s)
        assert TREATED[rows].sum() == 1
        assert 2 <= len(rows) <= 1 + (max_ratio or N)
        lead = rows[TREATED[rows] == 1][0]
        assert np.abs(value[rows] - value[lead]).max() < width
    if max_ratio == 0:  # whoever is left is too far from every open target person
        left = np.flatnonzero((sets < 0) & (TREATED == 0))
        of_target = np.flatnonzero((sets >= 0) & (TREATED == 1))
        apart = np.abs(value[left][:, None] - value[of_target])
        assert (apart > width * (1 - 1e-6)).all()


def test_matching_does_not_hang_on_the_order_of_rows_but_on_seed_and_id():
    score = np.round(SCORE, 1)
    rule = Match(max_ratio=2)
    sets = match_scores(score, TREATED, rule, ids=IDS)
    order = RNG.permutation(N)
    again = match_scores(score[order], TREATED[order], rule, ids=IDS[order])
    pairs = [
        {frozenset(ids[s == k]) for k in range(s.max() + 1)}
        for s, ids in ((sets, IDS), (again, IDS[order]))
    ]
    assert pairs[0] == pairs[1]
    other = match_scores(score, TREATED, Match(max_ratio=2, seed=2), ids=IDS)
    assert (other != sets).any()


def test_exact_matching_and_reversal():
    label = RNG.integers(0, 3, N)
    sets = match_scores(SCORE, TREATED, Match(exact=(1,)), ids=IDS, labels=label)
    for s in range(sets.max() + 1):
        assert len(set(label[sets == s])) == 1
    many = np.ones(N, dtype=int)
    many[:50] = 0
    reverse = match_scores(SCORE, many, Match(max_ratio=3, reverse=True), ids=IDS)
    for s in range(reverse.max() + 1):
        assert (many[reverse == s] == 0).sum() == 1


def test_weights_of_matched_sets_give_each_arm_the_same_say():
    sets = match_scores(SCORE, TREATED, Match(max_ratio=0), ids=IDS)
    weight = matched_weights(sets, TREATED)
    for arm in (0, 1):
        sums = np.bincount(
            sets[(sets >= 0) & (arm == TREATED)], weight[(sets >= 0) & (arm == TREATED)]
        )
        np.testing.assert_allclose(sums, 1)
    assert (weight[sets < 0] == 0).all()


def test_strata_are_quantiles_of_their_base():
    every = score_strata(SCORE, TREATED, Stratify(5))
    assert np.bincount(every).tolist() == [80] * 5
    of_target = score_strata(SCORE, TREATED, Stratify(5, "target"))
    assert np.ptp(np.bincount(of_target[TREATED == 1])) <= 1
    label = (SCORE * 1000).astype(int) % 2
    split = score_strata(SCORE, TREATED, Stratify(2), label)
    assert len(np.unique(split)) == 4
    assert len(np.unique(score_strata(np.full(N, 0.5), TREATED, Stratify(10)))) == 1


@pytest.mark.parametrize("scale", ["propensity score", "standardized", "standardized logit"])
@pytest.mark.parametrize("caliper", [0.0, 1.1])
def test_of_pairs_equally_close_the_keys_decide_and_not_the_last_bits(scale, caliper):
    score = np.array([0.3, 0.5, 0.7] if "logit" in scale else [0.1, 0.2, 0.3])
    treated = np.array([1, 0, 1])  # 0.3 - 0.2 is less than 0.2 - 0.1, by the last bits
    taken = set()
    for seed in range(20):
        rule = Match(caliper=caliper, scale=scale, seed=seed)
        taken.add(tuple(match_scores(score, treated, rule)))
    assert taken == {(0, 0, -1), (-1, 0, 0)}


def test_balance_by_hand_and_by_repeated_rows():
    x = {5210: RNG.integers(0, 2, N), 6901: RNG.integers(0, 5, N)}
    features = made(x, N)
    counts = RNG.integers(1, 4, N).astype(float)
    table = covariate_balance(features, TREATED, counts, estimand=None).table.set_index(
        "covariate_id"
    )
    for covariate, values in x.items():
        arms = [np.repeat(values[a == TREATED], counts[a == TREATED].astype(int)) for a in (1, 0)]
        line = table.loc[covariate]
        assert line["target_mean_after"] == pytest.approx(arms[0].mean())
        w = [counts[a == TREATED] / counts[a == TREATED].sum() for a in (1, 0)]
        variance = [a.var() / (1 - (u**2).sum()) for a, u in zip(arms, w, strict=True)]
        smd = (arms[0].mean() - arms[1].mean()) / np.sqrt(np.mean(variance))
        assert line["smd_after"] == pytest.approx(smd)
        raw = [values[a == TREATED] for a in (1, 0)]
        plain = (raw[0].mean() - raw[1].mean()) / np.sqrt((raw[0].var() + raw[1].var()) / 2)
        assert line["smd_before"] == pytest.approx(plain)


def test_without_spread_a_difference_is_none_or_infinite_and_fails():
    treated = np.repeat([1, 0], (10, 13))  # sums of tenths and of thirteenths are not quite one
    x = {8507001: np.ones(23), 11210: treated.astype(float), 12210: 1.0 - treated}
    balance = covariate_balance(made(x, 23), treated, np.ones(23), estimand=None)
    table = balance.table.set_index("covariate_id")
    for when in ("before", "after"):
        assert table.loc[[8507001, 11210, 12210], f"smd_{when}"].tolist() == [0, np.inf, -np.inf]
        assert table.loc[[11210, 12210], f"p_{when}"].tolist() == [0, 0]
    assert table["target_smd"].tolist() == table["comparator_smd"].tolist() == [0] * 3
    assert balance.largest == np.inf
    assert balance.worst()[1] in (np.inf, -np.inf)
    assert Diagnostics(largest_difference=balance.largest).balance_verdict == "FAIL"


def test_ideal_weights_balance_what_the_score_is_made_of():
    """With true scores per stratum, ATT weights make the comparator look like the target."""
    group = RNG.integers(0, 4, N)
    share = np.array([TREATED[group == g].mean() for g in range(4)])[group]
    features = made({1000 * (g + 1) + 210: group == g for g in range(4)}, N)
    balance = covariate_balance(features, TREATED, propensity_weights(share, TREATED))
    assert balance.largest < 1e-10
    assert balance.generalizability("att") < 1e-10
    assert balance.generalizability("atu") > 0.01


def scored(rules, x=None, treated=TREATED, ids=None):
    x = x or {1000 * i + 210: RNG2[:, i] for i in range(1, 12)}
    return fit_scores(made(x, len(treated)), treated, rules, ids=ids)


RNG2 = np.random.default_rng(11).integers(0, 2, (N, 12))


def test_scores_are_the_librarys_logistic_lasso():
    import steropes as st

    found = scored(PropensityRules(variance=0.05))
    x = pd.DataFrame({str(1000 * i + 210): RNG2[:, i] for i in range(1, 12)}).astype(float)
    model = st.LogisticRegression(prior=st.Laplace(variance=0.05)).fit(x, TREATED)
    np.testing.assert_allclose(found.score, model.predict_proba(x)[:, 1], atol=1e-6)


def test_a_sample_for_fitting_corrects_the_intercept():
    treated = (np.random.default_rng(3).random(N) < 0.8).astype(int)
    found = scored(PropensityRules(variance=1e-8, max_people=60), treated=treated, ids=IDS)
    assert found.sampled
    # with hardly a coefficient the scores are the share of the target among all
    np.testing.assert_allclose(found.score, treated.mean(), atol=1e-3)


def test_a_covariate_that_defines_the_arm_is_named():
    x = {1210: RNG2[:, 1], 7410: TREATED}
    with pytest.raises(DataError, match=r"covariate 7410 \(c7410\) has a correlation of 1.00"):
        scored(PropensityRules(variance=0.1), x)


def test_table_one_has_percentages_of_ones_and_means_of_scores():
    from steropes.studies.covariates import table_one

    x = {8003: RNG.integers(0, 2, N), 1901: RNG.integers(0, 5, N), 201820210: RNG.integers(0, 2, N)}
    features = made(x, N)
    table = table_one(covariate_balance(features, TREATED, SCORE))
    assert table["section"].tolist() == [
        "Age group", "Medical history: general", "Charlson comorbidity index",
    ]  # fmt: skip
    share = x[8003][TREATED == 1].mean()
    assert table["target_before"].tolist()[0] == pytest.approx(100 * share)
    after = np.average(x[1901][TREATED == 0], weights=SCORE[TREATED == 0])
    assert table["comparator_after"].tolist()[2] == pytest.approx(after)


@pytest.mark.parametrize(("former", "now"), [("propensity", "score"), ("matched_set", "set")])
def test_a_former_name_of_a_column_of_people_gives_the_new_one(former, now):
    people = People({"score": [0.5], "set": [0]})
    for key in (former, [former]):
        with pytest.raises(KeyError, match=f"'{former}' is '{now}' now"):
            people[key]
    assert people.assign(**{former: 1})[former].tolist() == [1]


def test_people_without_a_database_are_trimmed_and_then_weighted_or_matched():
    [(rule, stays)] = trim(SCORE, TREATED, Trim(fraction=0.1))
    rows = np.flatnonzero(stays)
    weighted = ScoreAdjustment(Trim(fraction=0.1), weighted=True, estimand="ate", truncate=1.5)
    found = weighted.apply(SCORE, TREATED, IDS)
    assert [(name, kept.tolist()) for name, kept in found.steps] == [(rule, rows.tolist())]
    wanted = np.minimum(propensity_weights(SCORE[rows], TREATED[rows], "ate"), 1.5)
    np.testing.assert_allclose(found.weights, wanted)
    assert (found.sets, found.estimand) == (None, "ate")
    sets = match_scores(SCORE[rows], TREATED[rows], Match(), ids=IDS[rows])
    found = ScoreAdjustment(Trim(fraction=0.1), Match()).apply(SCORE, TREATED, IDS)
    np.testing.assert_array_equal(found.kept, rows[sets >= 0])
    np.testing.assert_array_equal(found.sets, sets[sets >= 0])
    assert [name for name, _ in found.steps] == [rule, "Matched on propensity score"]
    assert (found.weights, found.estimand) == (None, "att")
    assert found.balancing(TREATED[found.kept]) is not None


def test_an_adjustment_that_empties_an_arm_ends_there():
    high = ScoreAdjustment(Trim(max_weight=1e-9), Match()).apply(SCORE, TREATED, IDS)
    assert len(high.kept) == 0
    assert (high.sets, high.weights, high.balancing(TREATED[:0])) == (None, None, None)
