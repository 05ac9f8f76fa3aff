"""Matching: the numbers of MatchIt and Matching, optimality, and invariance."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from sklearn.base import clone

from steropes import DataError, LinearRegression, LogisticRegression
from steropes.designs import Matching, balance_table
from steropes.designs.comparative.full_matching import full_matching
from steropes.designs.comparative.matching_with_replacement_estimate import matching_estimate
from steropes.designs.comparative.nearest_matching import Neighbours, closest_pairs


@pytest.fixture(scope="module")
def fit(lalonde, lalonde_covariates):
    def matched(**settings):
        return Matching(**settings).fit(lalonde_covariates, lalonde.treat)

    return matched


def difference(matching, lalonde):
    """Difference of weighted means, and its error clustered by set with sandwich's factor."""
    used = matching.weights_ > 0
    model = LinearRegression().fit(
        lalonde.treat.to_numpy(float)[used, None], lalonde.re78[used],
        sample_weight=matching.weights_[used],
    )  # fmt: skip
    V = model.vcov(kind="HC1", cluster=matching.sets_[used])
    return model.coef_[0], float(np.sqrt(V.iloc[-1, -1]))


def standardised(matching, lalonde, covariates):
    """Difference of means by a regression with all products, and its error clustered by set."""
    used = matching.weights_ > 0
    coded = pd.get_dummies(covariates, columns=["race"], drop_first=True, dtype=float)[used]
    treated, w = lalonde.treat[used].astype(float), matching.weights_[used]
    centred = coded - np.average(coded[treated == 1], axis=0, weights=w[treated == 1])
    products = centred.mul(treated, axis=0).add_suffix(" × treat")
    X = pd.concat([treated, centred, products], axis=1)
    model = LinearRegression().fit(X, lalonde.re78[used], sample_weight=w)
    V = model.vcov(kind="HC1", cluster=matching.sets_[used])
    return model.coef_[0], float(np.sqrt(V.loc["treat", "treat"]))


# MatchIt 4.7.2; the scores of lalonde have ties, on which these methods do not depend.
@pytest.mark.parametrize(
    ("method", "numbers", "size", "plain", "adjusted"),
    [
        ("coarsened", (65, 75), 41.28985, (1070.907326, 968.7736), (1290.03354, 751.2948)),
        ("strata", (185, 429), 66.48551, (1359.487533, 701.4335), (1723.859683, 567.5183)),
    ],
)
def test_coarsened_exact_matching_and_strata(
    fit, lalonde, lalonde_covariates, method, numbers, size, plain, adjusted
):
    matching = fit(method=method)
    assert tuple(matching.matched_.values()) == numbers
    assert matching.effective_sample_size_["comparator"] == pytest.approx(size, abs=5e-6)
    assert difference(matching, lalonde) == pytest.approx(plain, rel=1e-7)
    found = standardised(matching, lalonde, lalonde_covariates)
    assert found == pytest.approx(adjusted, rel=1e-7)


def test_all_pairs_without_calliper(fit, lalonde, lalonde_covariates):
    """Which men are left out does not depend on ties, but who is whose partner does."""
    matching = fit(caliper=0)
    assert matching.matched_ == {"target": 185, "comparator": 185}
    assert difference(matching, lalonde)[0] == pytest.approx(894.36748, abs=5e-6)
    found = standardised(matching, lalonde, lalonde_covariates)
    assert found[0] == pytest.approx(1121.17723, abs=5e-6)


def test_the_propensity_model_is_that_of_r(fit):
    matching = fit(method="strata")
    assert -2 * matching.model_.log_likelihood_ == pytest.approx(487.843931310498, rel=1e-13)
    logit = np.log(matching.score_ / (1 - matching.score_))
    assert logit.std(ddof=1) == pytest.approx(1.80451196268774, rel=1e-8)


def test_the_number_of_pairs_within_the_calliper(fit, lalonde):
    found = [fit(random_state=seed) for seed in range(3)]
    assert {matching.matched_["target"] for matching in found} == {111}
    estimates = [difference(matching, lalonde)[0] for matching in found]
    assert len(set(estimates)) == 3  # ties: 1176.4 in MatchIt's order of rows


@pytest.mark.parametrize(("tolerance", "pairs"), [(0.05, 118), (0.1, 120)])
def test_cardinality_matching_is_as_large_as_that_of_matchit(fit, tolerance, pairs):
    matching = fit(method="cardinality", tolerance=tolerance)
    assert matching.matched_ == {"target": pairs, "comparator": pairs}
    assert matching.gap_ == 0
    levels = matching.balance_[matching.balance_.kind != "factor"]
    assert levels.smd_after.abs().max() <= tolerance * (1 + 1e-6)
    assert (np.bincount(matching.sets_[matching.sets_ >= 0]) == 2).all()


# Matching 4.10-8, Match(Y, Tr, X = score).
@pytest.mark.parametrize(
    ("estimand", "estimate", "error"),
    [("att", 1933.39188, 1090.60464), ("ate", -339.088314, 1456.54261)],
)
def test_replacement_with_abadie_and_imbens_errors(fit, lalonde, estimand, estimate, error):
    matching = fit(replace=True, distance="score", estimand=estimand, tie_tolerance=1e-5)
    pairs = tuple(matching.pairs_[name].to_numpy() for name in ("person", "match", "weight"))
    y, target = lalonde.re78.to_numpy(), lalonde.treat.to_numpy() == 1
    found = matching_estimate(y, target, pairs, estimand)
    assert found == pytest.approx((estimate, error), rel=1e-8)
    w = matching.weights_
    direct = np.average(y[target], weights=w[target]) - np.average(y[~target], weights=w[~target])
    assert direct == pytest.approx(estimate, rel=1e-8)
    assert set(matching.pairs_) == {"person", "match", "weight"}


def test_replacement_does_not_depend_on_the_order_of_rows(fit, lalonde, lalonde_covariates):
    matching = fit(replace=True)
    order = np.random.default_rng(0).permutation(len(lalonde))
    other = Matching(replace=True).fit(lalonde_covariates.iloc[order], lalonde.treat.iloc[order])
    np.testing.assert_allclose(other.weights_, matching.weights_[order], rtol=1e-9)
    three = fit(replace=True, ratio=3)
    assert (three.pairs_.groupby("person").size() >= 3).all()
    np.testing.assert_allclose(three.pairs_.groupby("person").weight.sum(), 1)


def distances_of_sets(sets, d, target):
    total = 0.0
    for k in range(sets.max() + 1):
        a, b = np.flatnonzero((sets == k) & target), np.flatnonzero((sets == k) & ~target)
        assert min(len(a), len(b)) == 1
        total += d[np.ix_(a, b)].sum()
    return total


@pytest.mark.parametrize("dimensions", [1, 3])
@pytest.mark.parametrize("ties", [False, True])
def test_full_matching_has_the_least_total_distance(dimensions, ties):
    rng = np.random.default_rng(dimensions)
    x = rng.normal(size=(90, dimensions))
    x = np.round(x) if ties else x
    target = rng.random(90) < 0.3
    sets = full_matching(x, target)
    assert (sets >= 0).all()
    d = np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=2))
    own = d[np.ix_(target, ~target)]
    n, m = own.shape
    covered = sp.vstack([
        sp.kron(sp.eye_array(n), np.ones((1, m))), sp.kron(np.ones((1, n)), sp.eye_array(m))
    ])  # fmt: skip
    best = linprog(own.ravel(), A_ub=-covered, b_ub=-np.ones(n + m), bounds=(0, 1))
    assert distances_of_sets(sets, d, target) == pytest.approx(best.fun, abs=1e-9)


def test_full_matching_within_a_calliper_leaves_out_whoever_has_nobody():
    x = np.array([0.0, 0.1, 0.2, 5.0, 9.0, 9.05])[:, None]
    target = np.array([1, 0, 0, 1, 1, 0], bool)
    assert full_matching(x, target, 0.5).tolist() == [0, 0, 0, -1, 1, 1]
    assert full_matching(x, target[::-1] & False).tolist() == [-1] * 6


def test_full_matching_of_lalonde_includes_everybody(fit, lalonde):
    matching = fit(method="full", distance="score")
    assert matching.matched_ == {"target": 185, "comparator": 429}
    d = np.abs(matching.score_[:, None] - matching.score_[None])
    total = distances_of_sets(matching.sets_, d, lalonde.treat.to_numpy() == 1)
    assert total == pytest.approx(2.14161621688)  # of a linear programme over all 79,365 pairs


def test_closest_pairs_are_taken_first_in_several_dimensions():
    rng = np.random.default_rng(2)
    x, target = np.round(rng.normal(size=(120, 2)), 1), rng.random(120) < 0.4
    rank = rng.permutation(120)
    rows, others = np.flatnonzero(target), np.flatnonzero(~target)
    found = closest_pairs(rows, Neighbours(x, others, rank))
    d = np.round(np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=2)), 9)
    used, expected = set(), []
    for _, _, _, i, j in sorted((d[i, j], rank[i], rank[j], i, j) for i in rows for j in others):
        if i not in used and j not in used:
            expected.append((i, j))
            used |= {i, j}
    assert sorted(map(tuple, found.tolist())) == sorted(expected)


def test_callipers_of_columns_and_exact_columns_hold_in_every_set(fit, lalonde):
    for settings in ({}, {"distance": "mahalanobis", "caliper": 0.2}, {"ratio": 2}):
        matching = fit(column_calipers={"age": 2}, exact=["race", "married"], **settings)
        people = lalonde[matching.sets_ >= 0].groupby(matching.sets_[matching.sets_ >= 0])
        assert (people.treat.sum() == 1).all()
        assert (people[["race", "married"]].nunique() == 1).all(axis=None)
        first = lalonde[lalonde.treat == 1].set_index(matching.sets_[lalonde.treat == 1]).age
        other = lalonde[(lalonde.treat == 0) & (matching.sets_ >= 0)]
        gap = other.age.to_numpy() - first[matching.sets_[other.index]].to_numpy()
        assert np.abs(gap).max() <= 2
        assert len(gap) > 50
    for method in ("full", "coarsened", "strata"):
        matching = fit(method=method, exact=["race"])
        people = lalonde[matching.sets_ >= 0].groupby(matching.sets_[matching.sets_ >= 0])
        assert (people.race.nunique() == 1).all()


def test_scores_in_mahalanobis_matching_are_within_the_calliper(fit, lalonde):
    matching = fit(distance="mahalanobis", caliper=0.1)
    logit = np.log(matching.score_ / (1 - matching.score_))
    inside = matching.sets_ >= 0
    gap = pd.Series(logit[inside]).groupby(matching.sets_[inside]).agg(np.ptp)
    assert gap.max() <= 0.1 * logit.std(ddof=1) * (1 + 1e-9)


def test_ratios_limit_the_sizes_of_sets(fit, lalonde):
    for settings in ({}, {"distance": "mahalanobis"}):
        sizes = {}
        for name, ratio in (("2", {"ratio": 2}), ("2:2", {"ratio": 2, "min_ratio": 2})):
            sets = fit(**ratio, **settings).sets_
            sizes[name] = np.bincount(sets[(sets >= 0) & (lalonde.treat == 0).to_numpy()])
        assert set(sizes["2"]) <= {1, 2}
        assert set(sizes["2:2"]) == {2}
    everybody = fit(ratio=0)
    assert everybody.matched_["comparator"] > fit(ratio=2).matched_["comparator"]


def test_the_untreated_are_matched_for_the_effect_in_them(fit):
    matching = fit(estimand="atu", ratio=2)
    assert matching.matched_["comparator"] < matching.matched_["target"]
    assert (matching.weights_[matching.weights_ > 0] >= 0).all()


@pytest.mark.parametrize("settings", [
    {}, {"method": "full"}, {"distance": "mahalanobis"}, {"column_calipers": {"age": 3}}
])  # fmt: skip
def test_ids_make_the_order_of_rows_irrelevant(fit, lalonde, lalonde_covariates, settings):
    ids = 1000 + np.arange(len(lalonde))
    order = np.random.default_rng(1).permutation(len(lalonde))
    first = Matching(**settings).fit(lalonde_covariates, lalonde.treat, ids=ids)
    other = Matching(**settings).fit(
        lalonde_covariates.iloc[order], lalonde.treat.iloc[order], ids=ids[order]
    )
    np.testing.assert_allclose(other.weights_, first.weights_[order], rtol=1e-9)


def test_units_do_not_matter(lalonde, lalonde_covariates, fit):
    X = lalonde_covariates.assign(re74=lalonde.re74 * 1e-3, age=lalonde.age * 12 + 7)
    for settings in ({}, {"distance": "mahalanobis"}, {"method": "coarsened"}):
        other = Matching(**settings).fit(X, lalonde.treat)
        np.testing.assert_allclose(other.weights_, fit(**settings).weights_, rtol=1e-6)


def test_mahalanobis_matching_of_correlated_columns_is_that_of_their_parts():
    rng = np.random.default_rng(4)
    z, t = rng.normal(size=(80, 2)), np.arange(80) < 30
    mixed = z @ [[1.0, 3.0, 4.0], [0.0, 0.5, 0.5]]  # the third is the sum of the others
    for X in (z, mixed[:, :2], mixed):
        matching = Matching(distance="mahalanobis").fit(X, t)
        np.testing.assert_array_equal(
            matching.sets_, Matching(distance="mahalanobis").fit(z, t).sets_
        )


def test_scores_from_elsewhere(fit, lalonde, lalonde_covariates):
    matching = fit()
    given = Matching().fit(lalonde_covariates, lalonde.treat, score=matching.score_)
    np.testing.assert_array_equal(given.sets_, matching.sets_)
    assert given.model_ is None
    table = balance_table(lalonde_covariates, lalonde.treat, given.weights_, estimand="att")
    pd.testing.assert_frame_equal(given.balance_, table)


def test_settings_are_those_of_scikit_learn():
    matching = Matching(method="coarsened", bins={"age": 5})
    assert clone(matching).get_params()["bins"] == {"age": 5}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "optimal"}, "method must be"),
        ({"distance": "euclid"}, "distance must be"),
        ({"method": "full", "ratio": 2}, "has no ratio"),
        ({"method": "strata", "replace": True}, "has no replace"),
        ({"bins": 5}, "has no bins"),
        ({"estimand": "ate"}, "'ate' take method='full'"),
        ({"estimand": "ato"}, "estimand must be"),
        ({"exact": ["sex"]}, "'sex'"),
        ({"column_calipers": {"sex": 1}}, "'sex'"),
        ({"method": "coarsened", "bins": {"sex": 1}}, "'sex'"),
        ({"column_calipers": {"age": 0}, "exact": ["re74", "educ", "race", "re75"]}, None),
        ({"replace": True, "min_ratio": 2}, "min_ratio"),
        ({"tie_tolerance": 1e-5}, "replace=True"),
        ({"method": "strata", "strata": 0}, "strata"),
        ({"method": "strata", "strata": 2.5}, "strata must be a whole number of 1 or more"),
        ({"method": "coarsened", "bins": {"age": -1}}, "bins must be a whole number"),
        ({"ratio": 2, "min_ratio": 3}, "min_ratio=3 is above ratio=2"),
        ({"random_state": 0.5}, "random_state must be a whole number"),
        ({"replace": True, "tie_tolerance": -1.0}, "tie_tolerance must be a finite number of 0"),
        ({"replace": True, "tie_tolerance": "x"}, "tie_tolerance must be a finite number of 0"),
        ({"replace": "yes"}, "replace must be True or False"),
        ({"method": "full", "caliper": -1}, "caliper must be a finite number of 0"),
        ({"replace": True, "caliper": -1}, "caliper must be a finite number of 0"),
        ({"exact": "race"}, "exact must be a list of names"),
        ({"column_calipers": {"age": -1}}, "'age' must be a finite number of 0"),
        ({"column_calipers": {"age": "x"}}, "'age' must be a finite number of 0"),
        ({"column_calipers": ["age"]}, "column_calipers must be a mapping"),
        ({"column_calipers": {"race": 1}}, "are for numbers, and 'race' has labels"),
        ({"method": "coarsened", "bins": {"race": 2}}, "are for numbers, and 'race' has labels"),
        ({"method": "coarsened", "bins": {"age": 3}, "exact": ["age"]}, "both name 'age'"),
        ({"method": "full", "distance": "mahalanobis", "caliper": 0.2}, "has no caliper"),
        ({"distance": "mahalanobis", "model": LogisticRegression()}, "has no model; leave it out"),
        ({"method": "cardinality", "ratio": 0}, "needs a ratio of 1 or more"),
        ({"method": "cardinality", "tolerance": "x"}, "tolerance must be a number above 0"),
        ({"method": "cardinality", "tolerance": 0.0}, "tolerance"),
    ],
)
def test_settings_without_effect_or_people_are_refused(fit, settings, message):
    if message is None:
        assert fit(**settings).matched_["target"] < 111
        return
    with pytest.raises(DataError, match=message):
        fit(**settings)


def test_people_matched_with_replacement_have_pairs_and_others_sets(fit):
    pairs, sets = fit(replace=True), fit()
    with pytest.raises(AttributeError, match=r"belong to several sets.* pairs_"):
        _ = pairs.sets_
    with pytest.raises(AttributeError, match=r"replace=True; without replacement sets_"):
        _ = sets.pairs_


def test_a_model_beside_scores_is_refused():
    with pytest.raises(DataError, match="score replaces the model"):
        Matching(model=LogisticRegression()).fit(np.eye(4), [0, 1, 0, 1], score=[0.4] * 4)


def test_nobody_to_match_is_an_error():
    X = pd.DataFrame({"x": [0.0, 1.0, 10.0, 11.0]})
    with pytest.raises(DataError, match="Nobody could be matched"):
        Matching(column_calipers={"x": 0.5}).fit(X, [1, 1, 0, 0], score=[0.4, 0.5, 0.5, 0.6])
    with pytest.raises(DataError, match="ids"):
        Matching().fit(X, [1, 0, 1, 0], ids=[1, 1, 2, 3])
    with pytest.raises(DataError, match=r"row 2 .* no logit"):
        Matching(replace=True).fit(X, [1, 0, 1, 0], score=[0.5, 0.5, 1.0, 0.2])
