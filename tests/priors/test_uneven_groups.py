"""A group whose columns are in very different units is fitted as well as any."""

import numpy as np
import pytest

from steropes import GroupLaplace, LinearRegression, LogisticRegression


@pytest.mark.parametrize("variance", [1e-3, 1e-2, 1.0])
@pytest.mark.parametrize("family", [LinearRegression, LogisticRegression])
def test_columns_of_a_group_may_be_in_units_far_apart(family, variance):
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(200, 9))
    Z[:, 1] += Z[:, 0]
    y = Z @ (rng.normal(size=9) * 0.5) + rng.normal(size=200)
    units = np.array([1e8, 1, 1, 1, 1, 1, 1, 1, 1e8])
    prior = GroupLaplace(groups=[0, 0, 0, 1, 1, 1, 2, 2, 2], variance=variance)
    m = family(prior=prior).fit(Z * units, y if family is LinearRegression else y > 0)
    assert m.converged_
    X, logistic = Z * units, family is LogisticRegression
    mean = m.predict_proba(X)[:, 1] if logistic else m.predict(X)
    left = mean - ((y > 0) if logistic else y)
    slope, lam = X.T @ left, np.sqrt(4 / variance)
    near = 1e-6 * lam + 1e-13 * (np.abs(X).T @ np.abs(left))  # and what such a sum rounds
    for g in range(3):
        at = np.arange(3 * g, 3 * g + 3)
        size = np.linalg.norm(m.coef_[at])
        if size > 0:
            assert (np.abs(slope[at] + lam * m.coef_[at] / size) <= near[at]).all()
        else:
            assert np.linalg.norm(slope[at]) <= lam + near[at].max()
