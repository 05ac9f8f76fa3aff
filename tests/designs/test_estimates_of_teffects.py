"""Weights, standardized means and doubly robust estimates: the numbers of Stata's ``teffects``."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels

from steropes import CumulativeProbabilityModel, DataError, compare_groups
from steropes.designs import DoublyRobust, PropensityWeights
from steropes.designs.propensity.estimated_propensity_weights import EstimatedWeights

PROBIT = CumulativeProbabilityModel(link="probit")


@pytest.fixture(scope="module")
def births():
    """Cattaneo's birth weights, with which Stata documents ``teffects``."""
    results = Path(statsmodels.__file__).parent / "treatment" / "tests" / "results"
    return pd.read_csv(results / "cataneo2.csv")


SCORE_COLUMNS = ["mmarried_", "mage", "mage2", "fbaby_", "medu"]
OUTCOME_COLUMNS = ["prenatal1_", "mmarried_", "mage", "fbaby_"]


def stata(births, covariates, **settings):
    found = compare_groups(
        births, treatment="mbsmoke_", outcome="bweight", covariates=covariates, **settings
    )
    return found.effects.query("measure == 'mean difference'").iloc[-1]


@pytest.mark.parametrize(
    ("estimand", "estimate", "se"),
    [("ate", -230.68863779526, 25.815243801554), ("att", -225.17726, 23.66458)],
)
def test_weights_of_probit_scores_are_those_of_teffects_ipw(births, estimand, estimate, se):
    found = stata(births, SCORE_COLUMNS, estimand=estimand, model=PROBIT)
    assert found["errors"].startswith("stacked")
    assert found["estimate"] == pytest.approx(estimate, rel=1e-7)
    assert found["se"] == pytest.approx(se, rel=3e-7)


def test_standardised_means_are_those_of_teffects_ra(births):
    found = stata(births, OUTCOME_COLUMNS, adjust="standardization")
    assert found["estimate"] == pytest.approx(-239.63921146434, rel=1e-9)
    assert found["se"] == pytest.approx(23.82402100183, rel=1e-9)


@pytest.mark.parametrize(
    ("method", "estimate", "se"),
    [("aipw", -230.98920, 26.21056), ("ipwra", -229.96708, 26.62668)],
)
def test_both_models_are_those_of_teffects(births, method, estimate, se):
    weights = PropensityWeights(model=PROBIT).fit(births[SCORE_COLUMNS], births.mbsmoke_)
    model = DoublyRobust(method=method, folds=1, errors="stacked")
    model.fit(births[OUTCOME_COLUMNS], births.mbsmoke_, births.bweight, weight_model=weights)
    found = model.effects_.iloc[0]
    assert found["errors"].startswith("stacked")
    assert found["estimate"] == pytest.approx(estimate, abs=5e-6)
    assert found["se"] == pytest.approx(se, abs=6e-6)


def test_influences_of_probit_scores_are_derivatives():
    """Of a weighted mean in the logarithm of a person's weight, which the scores have too."""
    rng = np.random.default_rng(2)
    X, given = rng.normal(loc=(0.0, 5.0), size=(80, 2)), rng.uniform(0.5, 2, 80)
    arm, y = (X[:, 0] + rng.normal(size=80) > 0) * 1, rng.normal(size=80)

    def weighted(sample_weight):
        return PropensityWeights(model=PROBIT).fit(X, arm, sample_weight=sample_weight)

    def mean(w):
        return w[arm == 1] @ y[arm == 1] / w[arm == 1].sum()

    fitted = weighted(given)
    w = np.where(arm == 1, fitted.weights_, 0.0)
    own = w * (y - mean(fitted.weights_)) / w.sum()
    influence = own + fitted.influences(own[:, None])[:, 0]
    for i in (0, 17):
        up, down = (given * np.exp(h * (np.arange(80) == i)) for h in (1e-4, -1e-4))
        slope = (mean(weighted(up).weights_) - mean(weighted(down).weights_)) / 2e-4
        assert influence[i] == pytest.approx(slope, rel=1e-5)


def test_other_links_have_errors_with_weights_as_known(births):
    model = CumulativeProbabilityModel(link="cloglog")
    some = births.iloc[:500]
    assert "no score contributions" in stata(some, ["mage", "medu"], model=model)["errors"]
    with pytest.raises(DataError, match='two arms with link="probit"'):
        EstimatedWeights(model.fit(some[["mage"]], some["mbsmoke_"]))
