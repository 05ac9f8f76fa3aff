"""Comparisons of groups have the numbers of WeightIt, MatchIt and the book What If."""

import numpy as np
import pytest

from steropes import compare_groups
from steropes.designs import Matching

COVARIATES = ["age", "educ", "race", "married", "nodegree", "re74", "re75"]


NAMES = {"treatment": "treat", "outcome": "re78", "covariates": COVARIATES}


def only(found, method, measure, scale="marginal"):
    """Return the estimate and the error of one effect."""
    rows = found.effects
    keys = zip(("method", "measure", "scale"), (method, measure, scale), strict=True)
    for column, value in keys:
        rows = rows[rows[column] == value]
    (row,) = rows.itertuples()
    return row.estimate, row.se


# R: WeightIt 2.0.0, glm_weightit (stacked equations).
@pytest.mark.sampled
@pytest.mark.parametrize(
    ("estimand", "adjust", "estimate", "error"),
    [
        ("ATE", "weights", 224.6763083, 876.1932),
        ("ATT", "weights", 1214.071221, 798.1546),
        ("ATC", "weights", -186.9158991, 1130.9822),
        ("ATO", "weights", 1242.200631, 738.7490),
        ("ATM", "weights", 1119.521189, 758.4525),
        ("ATE", "entropy", 951.6705701, 1233.9387),
        ("ATT", "entropy", 1273.256189, 789.7431),
    ],
)
def test_weighted_differences_are_those_of_weightit(lalonde, estimand, adjust, estimate, error):
    found = compare_groups(lalonde, **NAMES, estimand=estimand, adjust=adjust)
    value, se = only(found, adjust, "mean difference")
    assert value == pytest.approx(estimate, rel=5e-6)
    assert se == pytest.approx(error, rel=5e-6)


def test_matched_sets_have_the_errors_of_matchit(lalonde):
    """MatchIt 4.7.2 with sandwich's clusters, and Abadie–Imbens of Matching 4.10-8."""
    ways = [Matching(method="coarsened"), Matching(caliper=0)]
    found = compare_groups(lalonde, **NAMES, estimand="ATT", adjust=ways)
    cells = only(found, "coarsened matching", "mean difference")
    assert cells == pytest.approx((1070.907326, 968.7736), rel=1e-7)
    assert only(found, "matching", "mean difference")[0] == pytest.approx(894.36748, rel=1e-7)
    assert set(found.sets) == {"coarsened matching", "matching"}
    again = Matching(replace=True, tie_tolerance=1e-5, distance="score")
    found = compare_groups(lalonde, **NAMES, estimand="ATT", adjust=again)
    effect = only(found, "matching with replacement", "mean difference")
    assert effect == pytest.approx((1933.39188, 1090.60464), rel=1e-6)
    assert "Abadie and Imbens" in set(found.effects["errors"])


@pytest.fixture(scope="module")
def quitters(nhefs, nhefs_covariates):
    """NHEFS with all covariates of What If as columns, and the names of these."""
    table = nhefs_covariates.assign(
        qsmk=nhefs.qsmk, death=nhefs.death, gain=nhefs.wt82_71, months=months(nhefs)
    )
    return table, list(nhefs_covariates)


def months(nhefs):
    """Months from 1983 to death or the end of 1992, as in What If, program 17.1."""
    died = nhefs.death == 1
    return np.where(died, (nhefs.yrdth - 83) * 12 + nhefs.modth, 120.0)


def test_weight_gain_is_that_of_what_if(quitters):
    """What If, programs 12 and 13; stacked errors of WeightIt and of Python's delicatessen."""
    table, covariates = quitters
    known = table[table.gain.notna()]
    found = compare_groups(
        known, treatment="qsmk", outcome="gain", covariates=covariates,
        adjust=["weights", "standardization"], interactions=["smokeintensity"],
    )  # fmt: skip
    effect = only(found, "weights", "mean difference")
    assert effect == pytest.approx((3.44053542965, 0.4870726), rel=1e-6)
    effect = only(found, "standardization", "mean difference")
    assert effect[0] == pytest.approx(3.51737420, rel=1e-8)
    assert effect[1] == pytest.approx(0.47758323, rel=3e-6)  # by numerical derivatives


def test_marginal_and_conditional_odds_ratios_of_death_differ(quitters):
    """What If's data in R: a standardised logistic model without products."""
    table, covariates = quitters
    found = compare_groups(
        table, treatment="qsmk", outcome="death", covariates=covariates,
        adjust="standardization", interactions=False,
    )  # fmt: skip
    method = "standardization"
    assert only(found, method, "risk difference")[0] == pytest.approx(-0.00894575651, rel=1e-7)
    assert only(found, method, "risk ratio")[0] == pytest.approx(0.954788894, rel=1e-7)
    assert only(found, method, "odds ratio")[0] == pytest.approx(0.944258101, rel=1e-7)
    conditional = only(found, method, "odds ratio", "conditional")
    assert conditional[0] == pytest.approx(0.92124567, rel=1e-7)


def test_survival_after_weighting_is_that_of_what_if(quitters):
    """R: weighted Cox and Kaplan–Meier with stacked errors, Breslow's ties, unstabilised."""
    table, covariates = quitters
    found = compare_groups(
        table, treatment="qsmk", time="months", event="death", covariates=covariates,
        horizon=120, ties="breslow",
    )  # fmt: skip
    ratio, error = only(found, "weights", "hazard ratio")
    assert np.log(ratio) == pytest.approx(0.000980974177, rel=1e-5)
    # WeightIt's error leaves out a part of the weights' derivative; see test_propensity_weights.
    assert error == pytest.approx(0.114834263, rel=0.02)
    effect = only(found, "weights", "risk difference")
    assert effect == pytest.approx((-0.00188008198, 0.0199040577), rel=1e-6)
    row = found.effects.query("method == 'weights' and measure == 'restricted mean difference'")
    means = [row.target.item(), row.comparator.item()]
    assert means == pytest.approx([107.93449724, 108.99015962], rel=1e-8)
