"""The Cauchy link, whose likelihood is not concave: fits get through, and are maxima."""

import numpy as np
import pytest
from scipy import sparse, stats

from steropes import Normal, SeparationError
from steropes.models.cumulative import CumulativeProbabilityModel


def derivatives(theta, X, y, w, variances):
    """Gradient and Hessian of −log-likelihood − log-prior in (α, β), by SciPy's distribution."""
    p = X.shape[1]
    K, k = len(theta) - p, np.searchsorted(np.unique(y), y)
    ends, eta = np.concatenate([[-np.inf], theta[:K], [np.inf]]), X @ theta[K:]
    P = stats.cauchy.cdf(ends[k + 1] - eta) - stats.cauchy.cdf(ends[k] - eta)
    first, second = np.zeros((len(y), K + p)), np.diag(1 / np.append(np.full(K, np.inf), variances))
    g = second @ theta
    for end, sign in ((k + 1, 1.0), (k, -1.0)):
        inner = (end > 0) & (end <= K)
        z = np.where(inner, ends[end] - eta, 0.0)
        f = np.where(inner, sign * stats.cauchy.pdf(z) / P, 0.0)
        A = np.hstack([np.eye(K + 2)[end][:, 1:-1], -X])
        first += f[:, None] * A
        second += A.T @ ((w * f * 2 * z / (1 + z**2))[:, None] * A)
    return g - w @ first, second + first.T @ (w[:, None] * first)


def assert_maximum(model, X, y, w, variances):
    """The fit is a strict local maximum, by derivatives from nothing of the library."""
    theta = np.concatenate([model.alpha_, model.coef_])
    g, H = derivatives(theta, X, y, w, variances)
    root = np.sqrt(np.diag(H))
    assert np.linalg.eigvalsh(H / root / root[:, None])[0] > 1e-12
    assert g @ np.linalg.solve(H, g) < 1e-10


def outcome_of_the_highest(seed):
    """A column that only rows with high outcomes have, but not the highest alone."""
    rng = np.random.default_rng(seed)
    X = 0.6 * rng.normal(size=(43, 4))
    y = np.sort(rng.normal(size=43))
    X[:, :3] = 10 * X[:, :3]
    X[:, 3] = np.isin(np.arange(43), [36, 39, 40, 41, 42])
    return X, y


@pytest.mark.parametrize("seed", [29, 133])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array])
def test_a_prior_makes_up_for_curvature_that_is_negative(seed, storage):
    X, y = outcome_of_the_highest(seed)
    model = CumulativeProbabilityModel(link="cauchit", prior=Normal(variance=1.0, exclude=[3]))
    model.fit(storage(X), y)
    assert model.converged_
    assert model.n_iter_ < 50
    assert_maximum(model, X, y, np.ones(43), np.array([1.0, 1.0, 1.0, np.inf]))


@pytest.mark.parametrize("seed", [3, 8])
def test_weights_of_all_sizes_are_no_separation(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(45, 4))
    y = np.round(X @ [1.0, -1.0, 0.5, 0.0] + rng.standard_cauchy(45))
    w = np.exp(rng.normal(0, 3, 45))
    model = CumulativeProbabilityModel(link="cauchit").fit(0.2 * X, y, sample_weight=w)
    assert model.converged_
    assert_maximum(model, 0.2 * X, y, w, np.full(4, np.inf))


@pytest.mark.sampled
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_separation_is_still_told(offset, weighted):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(60, 2))
    y = np.round(x[:, 1] + rng.standard_cauchy(60))
    x = np.column_stack([x, y >= np.sort(y)[-6]])
    kw = {"offset": rng.normal(size=60)} if offset else {}
    if weighted:
        kw["sample_weight"] = np.exp(rng.normal(size=60))
    with pytest.raises(SeparationError, match="no finite maximum") as caught:
        CumulativeProbabilityModel(link="cauchit").fit(x, y, **kw)
    assert caught.value.columns[0] == "x2"
