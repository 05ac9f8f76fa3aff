"""Folds whose scores say nothing, or next to nothing that a number can hold."""

from __future__ import annotations

import numpy as np
import pytest

from steropes import CrossValidation, LinearRegression
from steropes.errors import DataError
from steropes.priors import Laplace
from steropes.select.variance_search import standard_error


@pytest.mark.parametrize("constant", [0.0, 3.1])
def test_a_fold_whose_training_outcomes_are_all_the_same_says_so(constant, rng):
    X = rng.normal(size=(60, 4))
    y = np.append(np.full(30, constant), rng.normal(size=30))
    halves = [(np.arange(30, 60), np.arange(30)), (np.arange(30), np.arange(30, 60))]
    for rule in ("best", "one_standard_error"):
        cv = CrossValidation(halves, search=[0.01, 0.1, 1.0], rule=rule)
        with pytest.raises(DataError, match="fold 1 holds out are impossible"):
            LinearRegression(prior=Laplace(), cv=cv).fit(X, y)


def test_outcomes_far_from_zero_are_not_all_the_same(rng):
    X = rng.normal(size=(80, 3))
    y = X[:, 0] + rng.normal(size=80)
    near, far = (
        LinearRegression(prior=Laplace(), cv=CrossValidation(4, random_state=0)).fit(X, y + shift)
        for shift in (0.0, 1e6)
    )
    assert far.variance_ == near.variance_
    np.testing.assert_allclose(far.cv_results_["mean"], near.cv_results_["mean"], rtol=1e-4)


def test_the_error_of_scores_whose_squares_overflow():
    s = np.array([-1e200, -3e200, -2e200])
    np.testing.assert_allclose(standard_error(s), 1e200 / np.sqrt(3), rtol=1e-12)
    assert standard_error(np.zeros(3)) == 0.0
    assert np.isnan(standard_error(np.array([1.0])))
