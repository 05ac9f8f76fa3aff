"""The published search goes by scores as R's Cyclops has them: sizes are part of its rules."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from steropes import (
    ConditionalPoissonRegression,
    CrossValidation,
    CyclopsSearch,
    Laplace,
    LogisticRegression,
    PoissonRegression,
    SelfControlledCaseSeries,
    ShardedDesign,
)
from steropes.select.cyclops_search import next_variance

SET = 4


def _as_r(model, X, y, t, sets, out, series):
    """y η − exp η of held-out rows, or y (η − log Σ exp η) in their strata, as Cyclops sums it."""
    eta = X[out] @ model.coef_ + getattr(model, "intercept_", 0.0)
    if sets is None:
        eta = eta + np.log(t[out])
        return float((y[out] * eta - np.exp(eta)).sum())
    total = 0.0
    for s in np.unique(sets[out]):
        own = sets[out] == s
        e, length = eta[own], t[out][own]
        share = e - np.log((length * np.exp(e)).sum())
        total += float((y[out][own] * (share if series else share + np.log(length))).sum())
    return total


@pytest.mark.sampled
@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("family", ["poisson", "conditional", "series"])
def test_the_variance_is_that_of_scores_without_constants(family, blocks, rng):
    n = 240
    X = rng.normal(size=(n, 6))
    sets = None if family == "poisson" else np.arange(n) // SET
    t = rng.uniform(50, 400, n)
    y = rng.poisson(np.exp(0.3 * X[:, 0] - 0.2 * X[:, 1]) * t / 50).astype(float)
    fold = np.arange(n) // SET % 4
    splits = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(4)]
    kind = {
        "poisson": PoissonRegression,
        "conditional": ConditionalPoissonRegression,
        "series": SelfControlledCaseSeries,
    }[family]
    known = {"exposure": t} if sets is None else {"exposure": t, "strata": sets}
    cv = CrossValidation(splits, search=CyclopsSearch(1e-4, factor=3), tol=1e-8)
    given = ShardedDesign.from_blocks([X[:100], X[100:]]) if blocks else X
    model = kind(prior=Laplace(), cv=cv).fit(given, y, **known)

    tried, variance, more = {}, 1e-4, True
    while more and variance not in tried:
        scores = []
        for own, out in splits:
            part = {k: v[own] for k, v in known.items()}
            m = kind(prior=Laplace(variance)).fit(X[own], y[own], **part)
            scores.append(_as_r(m, X, y, t, sets, out, family == "series"))
        tried[variance] = float(np.mean(scores)), float(np.std(scores))
        more, variance = next_variance(tried, 3.0)
    np.testing.assert_allclose(model.variance_, variance, rtol=1e-5)
    # With the constants, which are in the table, it would be another.
    table = model.cv_results_[model.cv_results_["variance"] != model.variance_]
    folds = table.filter(like="fold").to_numpy()
    whole = dict(
        zip(table["variance"], zip(folds.mean(axis=1), folds.std(axis=1), strict=True), strict=True)
    )
    assert abs(next_variance(whole, 3.0)[1] / variance - 1) > 1e-4


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array])
def test_rows_without_weight_have_no_part_in_its_start(storage, rng):
    X = np.where(rng.random((150, 4)) < 0.4, rng.normal(size=(150, 4)), 0.0)
    y = (X[:, 0] + rng.logistic(size=150) > 0).astype(int)
    far = np.concatenate([X, [[1e3, 0.0, -1e3, 5.0]] * 3])
    weight = np.append(np.ones(150), np.zeros(3))
    cv = CrossValidation(3, search=CyclopsSearch(), random_state=1)
    part = LogisticRegression(prior=Laplace(), cv=cv).fit(storage(X), y)
    whole = LogisticRegression(prior=Laplace(), cv=cv)
    whole.fit(storage(far), np.append(y, [1, 0, 1]), sample_weight=weight)
    np.testing.assert_allclose(whole.variance_, part.variance_, rtol=1e-6)
