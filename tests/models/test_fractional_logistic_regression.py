"""Logistic regression of shares between 0 and 1."""

from __future__ import annotations

import numpy as np
import pytest

import steropes
from steropes.models.estimators.fractional_logistic_regression import FractionalLogisticRegression

n = 400
rng = np.random.default_rng(3)
X = rng.standard_normal((n, 4))
SHARE = rng.beta(2, 3, n)
SHARE[:20], SHARE[20:40] = 0.0, 1.0
W = rng.integers(0, 3, n).astype(float)


def as_two_rows(model, offset=None):
    """Fit labels 1 and 0 of each row with the weights y and 1 − y, which is the same problem."""
    both = None if offset is None else np.tile(offset, 2)
    return model.fit(
        np.vstack([X, X]), np.repeat([1, 0], n),
        sample_weight=np.concatenate([W * SHARE, W * (1 - SHARE)]), offset=both,
    )  # fmt: skip


@pytest.mark.parametrize(
    "prior", [None, steropes.Normal(0.5), steropes.Laplace(0.02)], ids=["none", "normal", "laplace"]
)
@pytest.mark.parametrize("with_offset", [False, True])
def test_a_share_is_a_pair_of_weighted_labels(prior, with_offset):
    offset = np.linspace(-1, 1, n) if with_offset else None
    own = FractionalLogisticRegression(prior=prior)
    own.fit(X, SHARE, sample_weight=W, offset=offset)
    pair = as_two_rows(steropes.LogisticRegression(prior=prior), offset)
    np.testing.assert_allclose(own.coef_, pair.coef_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(own.intercept_, pair.intercept_, rtol=1e-7)
    assert own.converged_
    assert own.optimality_ <= own.tol


def test_the_score_is_zero_so_that_means_agree():
    model = FractionalLogisticRegression().fit(X, SHARE, sample_weight=W)
    residual = W * (SHARE - model.predict(X))
    columns = np.column_stack([np.ones(n), X])
    np.testing.assert_allclose(columns.T @ residual, 0.0, atol=1e-6)


def test_a_variance_is_chosen_by_cross_validation():
    cv = steropes.CrossValidation(5, search=[0.01, 0.1, 1.0], random_state=1)
    model = FractionalLogisticRegression(prior=steropes.Normal(), cv=cv).fit(X, SHARE)
    assert model.variance_ in (0.01, 0.1, 1.0)


def test_many_shares_are_one_batch():
    shares = {"a": SHARE, "b": 1 - SHARE}
    model = FractionalLogisticRegression(prior=steropes.Laplace(0.05))
    table = steropes.fit_many(model, X, shares)
    alone = model.fit(X, SHARE)
    own = table.query("outcome == 'a'")["coef"].to_numpy()
    np.testing.assert_allclose(own, [alone.intercept_, *alone.coef_], atol=1e-6)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.where(np.arange(n) == 7, 1.5, 0.5), "at most 1; row 7 is 1.5"),
        (np.where(np.arange(n) == 3, -0.5, 0.5), "at least 0; row 3 is -0.5"),
        (np.zeros(n), "y is 0 in all rows"),
    ],
)
def test_other_numbers_are_refused(y, words):
    with pytest.raises(steropes.DataError, match=words):
        FractionalLogisticRegression().fit(X, y)


def test_shares_that_separate_have_no_maximum():
    with pytest.raises(steropes.SeparationError, match="x0"):
        FractionalLogisticRegression().fit(X, (X[:, 0] > 0).astype(float))


def test_classifiers_still_refuse_shares():
    with pytest.raises(steropes.DataError, match="continuous"):
        steropes.LogisticRegression().fit(X, SHARE)
