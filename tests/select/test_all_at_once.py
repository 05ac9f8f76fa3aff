"""The full data as one more replicate beside the folds: the same scores, coefficients, slopes."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from every_family import EVERY, case
from simulators import indicators, outcome
from steropes import (
    CrossValidation,
    ElasticNet,
    Laplace,
    LogisticRegression,
    Normal,
    ShardedDesign,
)
from steropes.fit import replicate_fits
from steropes.select import fold_fits_along_path as cross_validated_path
from steropes.select.folds import TrainingRows, WithAllRows
from steropes.select.variance_path_constants import DEFAULT
from tuning import tune, tune_path

GRID = [0.01, 0.03, 0.1, 0.2, 0.5]


@pytest.fixture
def at_once(monkeypatch):
    """Of problems of any size, from the second variance on; which variances those were."""
    done, both = [], cross_validated_path.FoldsPath._all_at_once

    def noted(self, variance, *rest):
        done.append(variance)
        return both(self, variance, *rest)

    monkeypatch.setattr(cross_validated_path.FoldsPath, "_all_at_once", noted)
    tune_path(monkeypatch, large=0)
    tune_path(monkeypatch, many_nonzero=-1)
    tune_path(monkeypatch, max_extrapolation=np.inf)
    tune_path(monkeypatch, max_extrapolation_full=np.inf)
    return done


def in_blocks(X):
    return ShardedDesign.from_blocks([sparse.csc_array(X[:90]), sparse.csc_array(X[90:])])


def scores_of(table):
    return table[[c for c in table if c not in ("nonzero", "slope")]]


@pytest.mark.sampled
@pytest.mark.parametrize("family", EVERY)
@pytest.mark.parametrize(
    ("form", "prior"),
    [
        (sparse.csc_array, Laplace()),
        (in_blocks, ElasticNet(1.0, 1.0)),
        pytest.param(np.asarray, Laplace(), marks=pytest.mark.slow),
        pytest.param(sparse.csr_array, ElasticNet(1.0, 1.0), marks=pytest.mark.slow),
    ],
    ids=["columns, laplace", "blocks, elastic net", "dense, laplace", "rows, elastic net"],
)
def test_scores_and_coefficients_are_the_same(rng, at_once, monkeypatch, family, form, prior):
    c = case(family, rng)
    cv = CrossValidation(3, random_state=0, search=GRID)
    model = c.fit(form(c.X), prior=prior, cv=cv)
    first = model.cv_results_
    used = at_once[:]
    tune_path(monkeypatch, large=np.inf)
    alone = c.fit(form(c.X), prior=prior, cv=cv)
    assert used == ([] if family == "cumulative" else GRID[1:])
    np.testing.assert_allclose(scores_of(first), scores_of(alone.cv_results_), rtol=1e-6)
    np.testing.assert_array_equal(first["nonzero"], alone.cv_results_["nonzero"])
    np.testing.assert_array_equal(np.ravel(model.coef_ != 0), np.ravel(alone.coef_ != 0))
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-6)


def test_a_model_that_is_fitted_again_does_the_same(rng, at_once):
    c = case("logistic", rng)
    model = c.make(prior=Laplace(), cv=CrossValidation(3, random_state=0, search=GRID))
    coefficients = [model.fit(c.X, c.y).coef_.copy() for _ in range(2)]
    assert at_once == 2 * GRID[1:]
    np.testing.assert_array_equal(*coefficients)


@pytest.mark.sampled
@pytest.mark.parametrize("family", ["logistic", "cox strata", "poisson", "pooled"])
@pytest.mark.parametrize("scoring", ["held_out", "difference"])
def test_with_weights_and_both_ways_of_scoring(rng, at_once, monkeypatch, family, scoring):
    c = case(family, rng, n=300)
    w = rng.uniform(0.5, 2.0, 300) * (rng.random(300) < 0.9)
    c.extras["sample_weight"] = w
    cv = CrossValidation(5, random_state=0, search=GRID, scoring=scoring)
    together = c.fit(prior=Laplace(), cv=cv)
    assert at_once == GRID[1:]
    tune_path(monkeypatch, large=np.inf)
    alone = c.fit(prior=Laplace(), cv=cv)
    expected = scores_of(alone.cv_results_)
    np.testing.assert_allclose(scores_of(together.cv_results_), expected, rtol=1e-6)
    np.testing.assert_allclose(together.coef_, alone.coef_, atol=1e-6)


@pytest.mark.parametrize(
    ("prior", "cv"),
    [
        (Laplace(), CrossValidation(3, random_state=0, search=[0.01, 0.1])),  # too far
        (Normal(), CrossValidation(3, random_state=0)),  # nothing is zero
        pytest.param(
            Laplace(),
            CrossValidation(4, random_state=0),  # four lanes, all taken
            marks=pytest.mark.host,  # where no lanes are padded
        ),
        (Laplace(), CrossValidation(7, 2, random_state=0)),  # two groups
    ],
    ids=["far", "ridge", "no room", "groups"],
)
def test_not_where_it_is_no_gain(rng, at_once, monkeypatch, prior, cv):
    tune_path(monkeypatch, max_extrapolation=0.8)
    tune(monkeypatch, replicate_fits, "REPLICATES", device_lanes=0)  # groups as on the CPU
    case("logistic", rng).fit(prior=prior, cv=cv)
    assert at_once == []


def test_a_device_fits_fewer_folds_at_once_where_rows_or_columns_are_many(rng, monkeypatch):
    pytest.importorskip("torch")
    tune(monkeypatch, replicate_fits, "REPLICATES", device_bytes=8.0 * 16_000)

    def together(n, p):
        own = case("logistic", rng, n=n, p=p)
        problem = own.fit(prior=Normal(1.0), device="torch-cpu")._problem
        return replicate_fits.lanes_together(problem, 2)

    assert together(200, 5) in range(16, 21)
    assert together(800, 5) in range(4, 6)
    assert together(200, 100) in range(9, 11)
    assert together(4000, 5) == 2  # as many as on the CPU


def test_a_walk_that_turns_back_and_memory_for_no_group(rng, at_once, monkeypatch):
    X = indicators(rng, 1500, 60)
    y = outcome("logistic", X @ rng.normal(size=60) * 0.3, rng)
    tune_path(monkeypatch, many_nonzero=5)
    tune_path(monkeypatch, min_nonzero_for_slope=5)
    tune_path(monkeypatch, min_nonzero_for_slope=5)
    alone, full_first = [], cross_validated_path.FoldsPath._full_first
    monkeypatch.setattr(
        cross_validated_path.FoldsPath,
        "_full_first",
        lambda self, variance, *rest: alone.append(variance) or full_first(self, variance, *rest),
    )
    found = []
    for memory in (4e9, 1.0):
        cv = CrossValidation(6, random_state=0, memory=memory)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found.append(LogisticRegression(prior=Laplace(), cv=cv).fit(X, y).cv_results_)
    assert at_once
    first = found[0]["variance"].iloc[0]
    assert alone[:2] == [first, first]  # from what was looked ahead to all went on at once
    assert len(alone) > 2  # without slopes the walk went all of its way
    tune_path(monkeypatch, large=np.inf)
    cv = CrossValidation(6, random_state=0)
    whole = LogisticRegression(prior=Laplace(), cv=cv).fit(X, y).cv_results_
    for table in found:
        assert table["mean"].max() > whole["mean"].max() - 2 * DEFAULT.flat * whole["se"].max()


@pytest.mark.parametrize("family", ["logistic", "cox"])
def test_slopes_are_of_the_folds_alone(rng, at_once, monkeypatch, family):
    c = case(family, rng, n=250)
    tune_path(monkeypatch, slope_steps=10)
    tune_path(monkeypatch, slope_tolerance=0.0)
    found, evaluate = {}, cross_validated_path.FoldsPath.evaluate

    def and_slope(self, variance):
        out = evaluate(self, variance)
        self.scores[variance] = out[2]
        found[variance] = self.slope(variance)
        return out

    monkeypatch.setattr(cross_validated_path.FoldsPath, "evaluate", and_slope)
    grid = [0.05, 0.3 * np.exp(-0.01), 0.3, 0.3 * np.exp(0.01)]
    cv = CrossValidation(3, random_state=0, search=grid)
    table = c.fit(prior=Laplace(), cv=cv).cv_results_
    assert len(at_once) == 3
    rise = table["mean"].iloc[3] - table["mean"].iloc[1]
    np.testing.assert_allclose(found[0.3], rise / 0.02, rtol=0.05, atol=0.01)


def test_the_weights_of_all_rows_are_behind_those_of_the_folds():
    w = np.array([1.0, 2.0, 0.0, 3.0])
    fold = np.array([[0], [1], [-1], [0]])
    folds = TrainingRows(w, fold, [(0, 0), (0, 1)])
    np.testing.assert_array_equal(
        WithAllRows(folds)([0, 1, 2]), np.column_stack([folds([0, 1]), w])
    )
