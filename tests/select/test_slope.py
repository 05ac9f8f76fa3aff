"""The slope of cross-validated scores: the same as differences of scores have."""

from itertools import product

import numpy as np
import pytest
from scipy import sparse

from every_family import EVERY, case
from simulators import indicators, outcome
from steropes import (
    BrokenAdaptiveRidge,
    CrossValidation,
    ElasticNet,
    Laplace,
    LogisticRegression,
    Normal,
    ShardedDesign,
)
from steropes.select import fold_fits_along_path as cross_validated_path
from steropes.select.variance_path_constants import DEFAULT
from steropes.solve.proximal_newton import path_derivative
from tuning import tune_path

APART = 0.01  # in log variance

FEW = ("logistic", "cox strata", "pooled change", "cumulative")


@pytest.fixture
def slopes(monkeypatch):
    """Slopes by variance, where each is asked for after its folds were scored."""
    found, evaluate = {}, cross_validated_path.FoldsPath.evaluate

    def and_slope(self, variance):
        scores = evaluate(self, variance)
        self.scores[variance] = scores[2]
        found[variance] = self.slope(variance)
        assert self.slope(variance) is None  # they have moved on
        return scores

    monkeypatch.setattr(cross_validated_path.FoldsPath, "evaluate", and_slope)
    tune_path(monkeypatch, slope_steps=10)
    tune_path(monkeypatch, slope_tolerance=0.0)
    return found


def in_blocks(X):
    return ShardedDesign.from_blocks([sparse.csc_array(X[:90]), sparse.csc_array(X[90:])])


def around(variance):
    return [variance * np.exp(-APART), variance, variance * np.exp(APART)]


def difference(table):
    """The slope in the middle of a table of three."""
    rise = table["mean"].iloc[2] - table["mean"].iloc[0]
    return rise / np.log(table["variance"].iloc[2] / table["variance"].iloc[0])


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("family", "prior"),
    [
        *((family, Laplace()) for family in EVERY),
        *product(FEW, (Normal(), ElasticNet(1.0, 1.0))),
    ],
    ids=str,
)
@pytest.mark.parametrize("form", [np.asarray, sparse.csc_array, in_blocks])
def test_it_is_that_of_the_scores(rng, slopes, family, prior, form):
    c = case(family, rng, n=250)
    cv = CrossValidation(4, random_state=0, search=around(0.3))
    table = c.fit(form(c.X), prior=prior, cv=cv).cv_results_
    slope = slopes[table["variance"].iloc[1]]
    np.testing.assert_allclose(slope, difference(table), rtol=0.05, atol=0.01)


@pytest.mark.parametrize("scoring", ["held_out", "difference"])
def test_with_weights_offsets_and_both_ways_of_scoring(rng, slopes, scoring):
    c = case("cox", rng, n=250)
    c.extras |= {"sample_weight": rng.uniform(0.5, 2, 250), "offset": rng.normal(size=250)}
    cv = CrossValidation(4, 2, random_state=0, search=around(0.1), scoring=scoring)
    table = c.fit(prior=Laplace(), cv=cv).cv_results_
    fd = difference(table)
    np.testing.assert_allclose(slopes[table["variance"].iloc[1]], fd, rtol=0.05, atol=0.01)


def test_none_where_it_is_not_known(rng, slopes, monkeypatch):
    c = case("logistic", rng)
    c.fit(prior=BrokenAdaptiveRidge(), cv=CrossValidation(3, random_state=0, search=[0.5]))
    assert slopes[0.5] is None
    c.fit(prior=Laplace(), cv=CrossValidation(3, random_state=0, search=[0.1], memory=1.0))
    assert slopes[0.1] is None  # the folds were not kept
    tune_path(monkeypatch, slope_accuracy=-1.0)
    c.fit(prior=Laplace(), cv=CrossValidation(3, random_state=0, search=[0.2]))
    assert slopes[0.2] is None  # nor sure


def test_it_spares_the_dearest_variance_and_the_choice_is_as_good(rng, monkeypatch):
    X = indicators(rng, 3000, 60)
    y = outcome("logistic", X @ rng.normal(size=60) * 0.3, rng)
    cv = CrossValidation(5, random_state=0)
    without = LogisticRegression(prior=Laplace(), cv=cv).fit(X, y).cv_results_
    assert "slope" not in without
    tune_path(monkeypatch, min_nonzero_for_slope=5)
    model = LogisticRegression(prior=Laplace(), cv=cv).fit(X, y)
    table = model.cv_results_
    best = without["mean"].max()
    assert table["mean"].max() > best - DEFAULT.flat * without["se"].max()
    assert table["variance"].max() < without["variance"].max()
    known = table["slope"].notna()
    assert known.any()
    assert not known.iloc[:3].any()  # of those far below the top nobody asks


def test_of_compared_settings_some_may_have_slopes(rng, monkeypatch):
    tune_path(monkeypatch, min_nonzero_for_slope=0)
    monkeypatch.setattr(
        cross_validated_path.FoldsPath,
        "slope",
        lambda self, v: None if self.prior.normal_variance < 1 else -1.0,
    )
    c = case("logistic", rng)
    cv = CrossValidation(3, random_state=0, compare={"normal_variance": [0.1, 10.0]})
    table = c.fit(prior=ElasticNet(1.0, 1.0), cv=cv).cv_results_
    known = table["slope"].notna()
    assert set(table["normal_variance"][known]) == {10.0}
    assert [name.rstrip("012") for name in table.columns[-4:]] == ["slope", *["fold"] * 3]


def test_none_where_its_steps_diverge(rng, slopes, monkeypatch):
    monkeypatch.setattr(path_derivative.Response, "diverged", True)
    c = case("logistic", rng, n=250)
    c.fit(c.X, prior=Laplace(), cv=CrossValidation(4, random_state=0, search=around(0.3)))
    assert len(slopes) == 3
    assert set(slopes.values()) == {None}
