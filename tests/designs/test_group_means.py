"""Means, differences and ratios with errors by M-estimation, by clusters and by pairs."""

import numpy as np
import pandas as pd
import pytest

from steropes import DataError, LinearRegression
from steropes.designs import EntropyBalancing, Matching, PropensityWeights, compare_means


def measure(table, name):
    return table.set_index("measure").loc[name]


@pytest.fixture(scope="module")
def weighted(lalonde, lalonde_covariates):
    return PropensityWeights().fit(lalonde_covariates, lalonde.treat)


# The numbers of WeightIt 2.0.0 and of R's sandwich after MatchIt 4.7.2.
def test_errors_of_differences(lalonde, lalonde_covariates, weighted):
    y, t = lalonde.re78, lalonde.treat
    stacked = compare_means(y, t, weighted.weights_, weight_model=weighted)
    row = measure(stacked, "difference")
    assert (row.estimate, row.se) == pytest.approx((224.6763083, 876.1932), rel=1e-7)
    assert stacked.attrs["errors"] == "M-estimation"
    assert row.upper - row.estimate == pytest.approx(1.959964 * row.se, rel=1e-6)
    known = compare_means(y, t, weighted.weights_, kind="HC0")
    assert measure(known, "difference").se == pytest.approx(909.4777, abs=6e-5)
    # R's survey: HC0 times √(n / (n − 1)).
    survey = measure(known, "difference").se * np.sqrt(len(y) / (len(y) - 1))
    assert survey == pytest.approx(910.219191, rel=1e-8)
    balanced = EntropyBalancing(estimand="att").fit(lalonde_covariates, t)
    table = compare_means(y, t, balanced.weights_, weight_model=balanced)
    assert measure(table, "difference").se == pytest.approx(789.7431, rel=1e-5)
    matching = Matching(method="coarsened").fit(lalonde_covariates, t)
    table = compare_means(y, t, matching.weights_, cluster=matching.sets_)
    row = measure(table, "difference")
    assert (row.estimate, row.se) == pytest.approx((1070.907326, 968.7736), rel=1e-7)
    assert table.attrs["errors"] == "HC1 by clusters"


def test_errors_of_matching_with_replacement(lalonde, lalonde_covariates):
    matching = Matching(replace=True, distance="score", tie_tolerance=1e-5, estimand="ate")
    matching.fit(lalonde_covariates, lalonde.treat)
    given = lalonde.re78, lalonde.treat, matching.weights_
    table = compare_means(*given, pairs=matching.pairs_, estimand="ate")
    row = measure(table, "difference")
    assert (row.estimate, row.se) == pytest.approx((-339.088314, 1456.54261), rel=1e-8)
    assert table.se.notna().tolist() == [False, False, True]
    with pytest.raises(DataError, match="same Matching"):
        compare_means(*given, pairs=matching.pairs_.iloc[1:], estimand="ate")
    with pytest.raises(DataError, match="not those of estimand='att'"):
        compare_means(*given, pairs=matching.pairs_)


def test_ratios_have_errors_of_their_logarithms(lalonde, weighted):
    y, t, w = lalonde.re78.to_numpy() > 0, lalonde.treat.to_numpy(), weighted.weights_
    table = compare_means(y, t, w, weight_model=weighted)
    risks = measure(table, "target mean").estimate, measure(table, "comparator mean").estimate
    ratio = measure(table, "ratio")
    assert ratio.estimate == pytest.approx(risks[0] / risks[1])
    assert ratio.upper / ratio.estimate == pytest.approx(np.exp(1.959964 * ratio.se), rel=1e-6)
    # A logistic model of the treatment alone has the log odds ratio and the same error.
    from steropes import LogisticRegression

    model = LogisticRegression().fit(t[:, None], y, sample_weight=w)
    odds = measure(table, "odds ratio")
    assert np.log(odds.estimate) == pytest.approx(model.coef_[0], rel=1e-7)
    assert odds.se == pytest.approx(model.summary(weight_model=weighted)["se"].iloc[-1], rel=1e-6)


def test_without_weights_errors_are_those_of_least_squares_with_unequal_variances(lalonde):
    y, t = lalonde.re78.to_numpy(), lalonde.treat.to_numpy()
    row = measure(compare_means(y, t), "difference")
    model = LinearRegression().fit(t[:, None].astype(float), y)
    assert row.se == pytest.approx(model.summary(kind="HC1")["se"].iloc[-1], rel=1e-9)


def test_people_outside_sets_are_by_themselves(lalonde):
    y, t = lalonde.re78.to_numpy(), lalonde.treat.to_numpy()
    alone = compare_means(y, t, cluster=np.full(len(y), -1), kind="HC0")
    np.testing.assert_allclose(alone.se, compare_means(y, t, kind="HC0").se, rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": [1.0, 2.0]}, "2 rows"),
        ({"weights": [0.0, 1.0, 0.0, 1.0]}, "nobody"),
        ({"cluster": [1, 2]}, "cluster"),
        ({"outcome": [1.0, np.nan, 1.0, 2.0]}, "row 1"),
        ({"weights": [1.0, 1.0, -1.0, 1.0]}, "row 2 .* negative"),
        ({"cluster": ["a", None, "b", "b"]}, "cluster: row 1 .* missing"),
        ({"cluster": [1, 1, 1, 1]}, "two or more"),
        ({"kind": "HC3"}, "'HC0' or 'HC1'"),
        ({"level": 95}, "between 0 and 1"),
        ({"pairs": pd.DataFrame(), "cluster": [1, 1, 2, 2]}, "leave out cluster"),
    ],
)
def test_what_has_no_means_is_refused(change, message):
    arguments = {"outcome": [1.0, 2.0, 3.0, 4.0], "treatment": [1, 0, 1, 0]} | change
    with pytest.raises(DataError, match=message):
        compare_means(**arguments)


def test_weights_of_another_model_are_refused(lalonde, weighted):
    with pytest.raises(DataError, match="weight_model"):
        compare_means(lalonde.re78, lalonde.treat, weighted.weights_**2, weight_model=weighted)
