"""Profiles whose fits do not converge: no limit is made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from steropes import (
    LogisticRegression,
    NotConvergedWarning,
)
from steropes.infer.profile_fits import ProfileFits, ProfilePoint
from steropes.infer.profile_search import Maximum, find_limit

HALF = 0.5 * stats.chi2.ppf(0.95, 1)


def _driven(search, f, sure):
    """Answers of a profile f whose fits come to their end where ``sure`` says so."""
    done, asked = [0.0], next(search)
    while True:
        (at,) = asked
        value = ProfilePoint(at, f(at), -at, sure(at, done))
        done += [at] if value.converged else []
        try:
            asked = search.send([value if value.converged else replace(value, f=-1e9, g=1e9)])
        except StopIteration as stop:
            return stop.value, done


@pytest.mark.parametrize("side", [-1, 1])
def test_fits_that_need_a_nearer_start_end_no_profile(side):
    top = Maximum(ProfilePoint(0.0, 0.0, 0.0), 0)
    search = find_limit(top, side, HALF, 3.0, 1e3)  # its first step is three times too long
    end, done = _driven(
        search, lambda x: -0.5 * x**2, lambda x, done: min(abs(x - np.array(done))) < 1.0
    )
    assert end.value == pytest.approx(side * 1.959964, rel=1e-6)
    assert len(done) < 12


def test_where_no_fit_comes_to_its_end_a_limit_is_not_known():
    top = Maximum(ProfilePoint(0.0, 0.0, 0.0), 0)
    end, _ = _driven(
        find_limit(top, 1, HALF, 1.0, 1e3), lambda x: -0.5 * x**2, lambda x, done: x < 1.2
    )
    assert np.isnan(end.value)
    assert end.last == pytest.approx(1.2, abs=1e-3)


@pytest.mark.parametrize("side", [-1, 1])
def test_a_profile_that_jumps_over_its_limit_has_no_known_limit(side):
    """The fits of a loss that is not convex reach one maximum here and another one there."""
    top = Maximum(ProfilePoint(0.0, 0.0, 0.0), 0)
    end, _ = _driven(
        find_limit(top, side, HALF, 1.0, 1e3),
        lambda x: -0.5 * x**2 if abs(x) < 1.5 else -1.0 - 0.5 * x**2, lambda x, done: True,
    )  # fmt: skip
    assert np.isnan(end.value)
    assert end.last == pytest.approx(side * 1.5, abs=1e-3)


def test_far_points_whose_fits_stop_early_make_no_interval_narrower(monkeypatch):
    """They once counted as beyond its end, and the interval shrank to them."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] + rng.logistic(size=60) > 0).astype(int)
    model = LogisticRegression().fit(X, y)
    expected = model.confint("x0", method="profile").to_numpy()
    whole, estimate = ProfileFits.fit, model.coef_[0]

    def at(self, columns, values):
        near = [estimate, *(v.value for v in self.values.get(columns[0], []))]
        found = whole(self, columns, values)
        for k, v in enumerate(found):
            if min(abs(v.value - np.array(near))) > 0.3:
                self.values[columns[0]].remove(v)
                found[k] = replace(v, f=v.f - 1e3, converged=False)
        return found

    monkeypatch.setattr(ProfileFits, "fit", at)
    np.testing.assert_allclose(model.confint("x0", method="profile"), expected, rtol=1e-6)
    table = model.inference.profile("x0", [estimate + 2.0])
    np.testing.assert_allclose(
        table["log_likelihood"], _profile_at(X, y, estimate + 2.0), rtol=1e-8
    )


def _profile_at(X, y, held):
    refit = LogisticRegression(tol=1e-10).fit(X[:, 1:], y, offset=held * X[:, 0])
    return refit.log_likelihood_


def test_where_not_even_the_estimates_fit_comes_to_its_end_nothing_is_known(monkeypatch, rng):
    X = rng.normal(size=(60, 2))
    model = LogisticRegression().fit(X, (X[:, 0] + rng.logistic(size=60) > 0).astype(int))
    whole = ProfileFits.fit

    def at(self, columns, values):
        found = whole(self, columns, values)
        self.values.clear()
        return [replace(v, f=np.nan, converged=False) for v in found]

    monkeypatch.setattr(ProfileFits, "fit", at)
    with pytest.warns(NotConvergedWarning, match=r"'x0' beyond .* not known"):
        limits = model.confint("x0", method="profile")
    assert limits.isna().all(axis=None)
    with pytest.warns(NotConvergedWarning):
        model.inference.profile("x0")
