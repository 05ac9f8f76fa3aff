"""An array where a word or a name is due, as of arguments in another order: refused by name."""

import numpy as np
import pandas as pd
import pytest

from steropes import (
    ConditionalPoissonRegression,
    CoxRegression,
    CumulativeProbabilityModel,
    DataError,
    LogisticRegression,
    Surv,
)


@pytest.fixture
def X(rng):
    return pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])


@pytest.fixture
def models(rng, X):
    y = rng.integers(0, 2, 60)
    return [
        LogisticRegression(n_jobs=1).fit(X, y),
        CoxRegression(n_jobs=1).fit(X, Surv(rng.exponential(1, 60), y)),
        ConditionalPoissonRegression(n_jobs=1).fit(X, y, strata=np.arange(60) // 6),
        CumulativeProbabilityModel(n_jobs=1).fit(X, rng.integers(0, 5, 60)),
    ]


def test_words_of_intervals_and_tables(models, rng):
    cluster = rng.integers(0, 9, 60)
    for m in models:
        with pytest.raises(DataError, match="method must be 'wald', 'robust', 'profile'"):
            m.confint(None, 0.95, cluster)
        with pytest.raises(DataError, match="kind must be 'model', 'robust', 'profile'"):
            m.summary(0.95, False, cluster)
        with pytest.raises(DataError, match="kind must be 'model'"):
            m.vcov(cluster)
        with pytest.raises(DataError, match="param names no coefficient"):
            m.inference.profile([])


def test_residuals_of_x(models, X):
    for m in models[:3]:
        for kind in (X, X.to_numpy()):
            with pytest.raises(DataError, match="kind must be one of"):
                m.checks.residuals(kind)


def test_transforms_and_quantiles(models, X, rng):
    with pytest.raises(DataError, match="transform must be 'km'"):
        models[1].checks.proportionality(X["a"])
    y = rng.integers(0, 5, 60)
    with pytest.raises(DataError, match="quantiles"):
        models[3].checks.parallelism(X, y, quantiles=["low", "high"])
