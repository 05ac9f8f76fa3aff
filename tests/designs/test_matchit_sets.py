"""The sets that MatchIt 4.7.2 formed in lalonde have its effects and errors, and ours are as close.

The scores of lalonde have ties. Whom MatchIt chose among equals depends on the order of rows and on
its version, so that its effects follow from its sets, which `matchit_sets.csv` has.
"""

import numpy as np
import pandas as pd
import pytest

from steropes import CumulativeProbabilityModel, LinearRegression
from steropes.designs import Matching, compare_means
from steropes.designs.propensity.weights_by_estimand import set_weights


@pytest.fixture(scope="module")
def chosen(published):
    """Sets by way of matching, −1 without one; "replace" has the row of each man's match."""
    return pd.read_csv(published / "matchit_sets.csv").fillna(-1).astype(int)


@pytest.fixture(scope="module")
def target(lalonde):
    return lalonde.treat.to_numpy() == 1


def standardised(lalonde, covariates, w, kind, sets=None):
    """Regress on all products with the treatment, standardised to the treated."""
    used = w > 0
    coded = pd.get_dummies(covariates, columns=["race"], drop_first=True, dtype=float)[used]
    t = lalonde.treat[used].astype(float)
    coded = coded - np.average(coded[t == 1], axis=0, weights=w[used][t == 1])
    X = pd.concat([t, coded, coded.mul(t, axis=0).add_suffix(" × treat")], axis=1)
    model = LinearRegression().fit(X, lalonde.re78[used], sample_weight=w[used])
    V = model.vcov(kind=kind, cluster=None if sets is None else sets[used])
    return model.coef_[0], float(np.sqrt(V.loc["treat", "treat"]))


@pytest.mark.parametrize(
    ("way", "plain", "adjusted", "size"),
    [
        ("nearest", (894.36748, 705.2298), (1121.17723, 752.4193), 185),
        ("closest", (1176.405009, 842.5105), (1102.585801, 874.6115), 111),
        ("full", (1675.802907, 773.2027), (1962.202927, 728.4048), 52.10681),
        ("full_probit", (1855.010201, 760.4828), (1976.649818, 704.3221), 50.76460),
    ],
)
def test_sets_of_matchit_have_its_effects(
    lalonde, lalonde_covariates, chosen, target, way, plain, adjusted, size
):
    sets = chosen[way].to_numpy()
    w = np.where(sets >= 0, set_weights(np.maximum(sets, 0), target * 1), 0.0)
    table = compare_means(lalonde.re78, lalonde.treat, w, cluster=sets).set_index("measure")
    assert tuple(table.loc["difference", ["estimate", "se"]]) == pytest.approx(plain, rel=1e-7)
    found = standardised(lalonde, lalonde_covariates, w, "HC1", sets)
    assert found == pytest.approx(adjusted, rel=1e-7)
    own = w[~target]
    assert own.sum() ** 2 / (own**2).sum() == pytest.approx(size, abs=5e-6)


def test_matches_of_matchit_with_replacement_have_its_effects(
    lalonde, lalonde_covariates, chosen, target
):
    match = chosen["replace"].to_numpy()[target]
    w = np.where(target, 1.0, np.bincount(match, minlength=len(target)))
    assert (w[~target] > 0).sum() == 82
    assert w[~target].sum() ** 2 / (w[~target] ** 2).sum() == pytest.approx(46.31258, abs=5e-6)
    table = compare_means(lalonde.re78, lalonde.treat, w).set_index("measure")
    found = tuple(table.loc["difference", ["estimate", "se"]])
    assert found == pytest.approx((1991.615274, 928.1227), rel=1e-7)
    found = standardised(lalonde, lalonde_covariates, w, "HC3")
    assert found == pytest.approx((2147.603595, 1033.485), rel=1e-6)
    own = Matching(replace=True, distance="score", tie_tolerance=1e-20)
    pairs = own.fit(lalonde_covariates, lalonde.treat).pairs_
    distance = np.abs(own.score_[:, None] - own.score_[None])
    ours = distance[pairs.person, pairs.match]
    theirs = dict(zip(np.flatnonzero(target), distance[target, match], strict=True))
    np.testing.assert_allclose(ours, [theirs[row] for row in pairs.person], atol=1e-9)


def distances_to_the_centre(sets, d, target):
    """Sum the distances between the two sides of each set."""
    return sum(
        d[np.ix_((sets == k) & target, (sets == k) & ~target)].sum() for k in np.unique(sets)
    )


@pytest.mark.parametrize(
    ("way", "model"), [("full", None), ("full_probit", CumulativeProbabilityModel(link="probit"))]
)
def test_full_matching_is_at_least_as_close_as_that_of_optmatch(
    lalonde, lalonde_covariates, chosen, target, way, model
):
    """Optmatch rounds distances to whole numbers, and there are several optima."""
    own = Matching(method="full", distance="score", model=model)
    own.fit(lalonde_covariates, lalonde.treat)
    d = np.abs(own.score_[:, None] - own.score_[None])
    ours = distances_to_the_centre(own.sets_, d, target)
    theirs = distances_to_the_centre(chosen[way].to_numpy(), d, target)
    assert ours <= theirs * (1 + 1e-12)
    assert theirs == pytest.approx(ours, rel=0.01)
