"""Comparisons of pairs of groups: lifelines, statsmodels, and the jackknife."""

import numpy as np
import pandas as pd
import pytest
from lifelines.statistics import pairwise_logrank_test as lifelines_pairwise
from statsmodels.stats.multitest import multipletests

from steropes import (
    DataError,
    Surv,
    kaplan_meier,
    logrank_test,
    pairwise_logrank_test,
    restricted_mean_test,
)

RNG = np.random.default_rng(4)
N = 180
GROUP = np.array(["a", "b", "c"])[np.arange(N) % 3]
TIME = np.ceil(RNG.exponential(np.where(GROUP == "c", 20, 10)))
EVENT = (RNG.random(N) < 0.7) * 1
Y = Surv(TIME, EVENT)


@pytest.mark.filterwarnings("ignore")
def test_pairs_agree_with_lifelines_and_holm_with_statsmodels():
    table = pairwise_logrank_test(Y, GROUP)
    theirs = lifelines_pairwise(TIME, GROUP, EVENT).summary
    np.testing.assert_allclose(table["chisq"], theirs["test_statistic"], rtol=1e-9)
    np.testing.assert_allclose(table["p"], theirs["p"], rtol=1e-9)
    expected = multipletests(table["p"], method="holm")[1]
    np.testing.assert_allclose(table["p_holm"], expected)


def test_a_pair_is_the_test_of_its_people():
    strata = np.arange(N) % 2
    at = GROUP != "a"
    table = pairwise_logrank_test(Y, GROUP, strata, rho=1.0).set_index(["group", "reference"])
    alone = logrank_test(Y[at], GROUP[at], strata[at], rho=1.0)
    np.testing.assert_allclose(table.loc[("c", "b"), ["chisq", "df", "p"]], alone)


def test_restricted_means_are_those_of_the_curves():
    table = restricted_mean_test(Y, GROUP, 12).set_index(["group", "reference"])
    curves = kaplan_meier(Y, groups=GROUP)
    low, high = curves["a"].restricted_mean(12), curves["c"].restricted_mean(12)
    line = table.loc[("c", "a")]
    np.testing.assert_allclose(line["difference"], high.value - low.value)
    np.testing.assert_allclose(line["ratio"], high.value / low.value)
    np.testing.assert_allclose(line["z"], line["difference"] / line["se"])
    assert line["lower"] < line["difference"] < line["upper"]
    assert line["ratio_lower"] < line["ratio"] < line["ratio_upper"]
    default = restricted_mean_test(Y, GROUP)
    last = min(c.times[-1] for c in curves.values() if c.survival[-1] > 0)
    assert (default["t"] == last).all()


def test_standard_error_is_nearly_that_of_the_jackknife():
    at = GROUP != "b"
    y, group = Y[at], GROUP[at]
    table = restricted_mean_test(y, group, 12)

    def gap(rows):
        c = kaplan_meier(y[rows], groups=group[rows])
        return c["c"].restricted_mean(12).value - c["a"].restricted_mean(12).value

    n = len(y)
    rows = np.arange(n)
    left_out = np.array([gap(rows != i) for i in rows])
    expected = np.sqrt(((left_out - left_out.mean()) ** 2).sum())
    np.testing.assert_allclose(table["se"], expected, rtol=0.05)


def test_weights_are_repeats():
    w = RNG.integers(0, 3, N)
    rows = np.repeat(np.arange(N), w)
    pd.testing.assert_frame_equal(
        restricted_mean_test(Y, GROUP, 12, sample_weight=w),
        restricted_mean_test(Y[rows], GROUP[rows], 12),
    )


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(DataError, match="one only, 'a'"):
        pairwise_logrank_test(Y, np.full(N, "a"))
    with pytest.raises(DataError, match="t must be a time above 0"):
        restricted_mean_test(Y, GROUP, 0)
    with pytest.raises(DataError, match="curve ends"):
        restricted_mean_test(Surv([1, 2, 3, 9], [1, 0, 1, 0]), ["a", "a", "b", "b"], 5)
    with pytest.raises(DataError, match="nothing to compare"):
        restricted_mean_test(Y, GROUP, 0.5)
