"""What an offset adds to all rows of a stratum cancels, to the last digit."""

import numpy as np
import pytest

from steropes import (
    ConditionalLogisticRegression,
    ConditionalPoissonRegression,
    DataError,
    SelfControlledCaseSeries,
)

MODELS = {
    "exact": ConditionalLogisticRegression(),
    "efron": ConditionalLogisticRegression(method="efron"),
    "breslow": ConditionalLogisticRegression(method="breslow"),
    "poisson": ConditionalPoissonRegression(),
    "case series": SelfControlledCaseSeries(),
}
N, STRATA = 200, 40


@pytest.fixture
def rows():
    rng = np.random.default_rng(1)
    strata = rng.permutation(np.repeat(np.arange(STRATA), N // STRATA))
    X, y = rng.normal(size=(N, 3)), np.zeros(N)
    for s in range(STRATA):
        y[strata == s] = rng.permutation([1, 1, 0, 0, 0])
    return X, y, strata, rng.integers(-3, 4, N) / 2


@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize("size", [1e4, 9e5, -9e5, "strata"])
def test_a_stratums_own_constant_cancels_however_large(family, size, rows):
    X, y, strata, offset = rows
    far = np.full(N, size) if size != "strata" else (2.0e4 * (strata - STRATA / 2))
    near = MODELS[family].fit(X, y, strata=strata, offset=offset)
    coefficients, likelihood = near.coef_, near.log_likelihood_
    m = MODELS[family].fit(X, y, strata=strata, offset=offset + far)
    assert m.converged_
    assert m.optimality_ < 1e-8
    np.testing.assert_allclose(m.coef_, coefficients, rtol=1e-9)
    np.testing.assert_allclose(m.log_likelihood_, likelihood, rtol=1e-12)


@pytest.mark.parametrize("family", MODELS)
def test_offsets_of_a_stratum_that_are_too_far_apart_are_refused_by_row(family, rows):
    X, y, strata, offset = rows
    far = offset + 1e4 * strata
    a = int(np.flatnonzero(strata == 3)[0])
    far[a] += 2e3
    with pytest.raises(DataError, match=rf"of a stratum .* in row \d+ and .* in row {a}\."):
        MODELS[family].fit(X, y, strata=strata, offset=far)
    weight = np.ones(N)
    weight[strata == 3] = 0.0
    assert MODELS[family].fit(X, y, strata=strata, offset=far, sample_weight=weight).converged_
