"""Outcome-adaptive lasso: its penalties and criterion by hand, and who leaves the score."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import steropes
from steropes.designs import OutcomeAdaptiveLasso, PropensityWeights

N = 600
rng = np.random.default_rng(2)
SCALE = np.array([1.0, 10.0, 0.1, 1.0, 1.0, 1.0])
Z = rng.standard_normal((N, 6))
X = Z * SCALE
A = (rng.random(N) < 1 / (1 + np.exp(-Z[:, 0] - Z[:, 1] - 1.5 * Z[:, 4]))).astype(int)
Y = A + 0.6 * Z[:, :4].sum(axis=1) + rng.standard_normal(N)


def test_penalties_and_balance_are_those_of_the_paper():
    found = OutcomeAdaptiveLasso(exponents=[-0.25]).fit(X, A, Y)
    sd = X.std(axis=0)
    beta = steropes.LinearRegression().fit(np.column_stack([X / sd, A]), Y).coef_[:-1]
    np.testing.assert_allclose(found.outcome_coef_, beta, rtol=1e-6)
    penalty = np.minimum(N**-0.25 * np.abs(beta) ** -6.5, 10 * N)
    model = steropes.LogisticRegression(prior=steropes.Laplace(variance=2 / penalty**2))
    np.testing.assert_allclose(found.coef_ * sd, model.fit(X / sd, A).coef_, atol=1e-6)
    weights = PropensityWeights().fit(X, A, score=found.score_).weights_
    means = [np.average(X[a == A], weights=weights[a == A], axis=0) for a in (1, 0)]
    own = np.abs(beta) @ np.abs((means[0] - means[1]) / sd)
    assert found.path_["criterion"].item() == pytest.approx(own)


def test_levels_of_labels_are_columns():
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"x": rng.normal(size=200), "site": rng.choice(list("abc"), 200)})
    treatment, y = rng.integers(0, 2, 200), X["x"] + rng.normal(size=200)
    found = OutcomeAdaptiveLasso().fit(X, treatment, y)
    coded = X.assign(b=X["site"] == "b", c=X["site"] == "c").drop(columns="site")
    other = OutcomeAdaptiveLasso().fit(coded.astype(float), treatment, y)
    np.testing.assert_allclose(found.score_, other.score_, atol=1e-8)


@pytest.mark.parametrize("select", ["balance", "targeted"])
def test_instruments_leave_and_confounders_stay(select):
    found = OutcomeAdaptiveLasso(select=select, folds=2).fit(X, A, Y)
    kept = found.coef_.to_numpy() != 0
    # Targeting needs no score where the outcome model is right.
    assert kept[:2].all() or select == "targeted"
    assert not kept[4:].any()
    all_in = steropes.LogisticRegression().fit(X, A).predict_proba(X)[:, 1]
    sizes = [
        sum(PropensityWeights().fit(X, A, score=e).effective_sample_size_.values())
        for e in (found.score_, all_in)
    ]
    assert sizes[0] > sizes[1]


def test_tables_and_sparse_matrices_agree():
    columns = [f"c{j}" for j in range(6)]
    tables = (X, pd.DataFrame(X, columns=columns), sparse.csr_array(X))
    scores = [OutcomeAdaptiveLasso(exponents=[-0.5]).fit(x, A, Y).score_ for x in tables]
    for score in scores[1:]:
        np.testing.assert_allclose(score, scores[0], atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"select": "aic"}, "select must be"),
        ({"exponents": [3.0]}, "each below 3"),
        ({"select": "targeted", "folds": 1}, "needs folds above 1"),
    ],
)
def test_bad_settings_are_named(settings, words):
    with pytest.raises(steropes.DataError, match=words):
        OutcomeAdaptiveLasso(**settings).fit(X, A, Y)
