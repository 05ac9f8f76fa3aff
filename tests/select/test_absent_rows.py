"""Rows without weight, and rows without an outcome, have no part in how folds are cut."""

import numpy as np
import pytest

from every_family import EVERY, case
from steropes import CrossValidation, DataError, Laplace, LogisticRegression, fit_many
from steropes.select.folds import cut


def scores(model):
    """Each fold's at two variances."""
    return model.cv_results_.filter(like="fold").to_numpy()


@pytest.mark.sampled
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("name", EVERY)
def test_a_row_without_weight_is_an_absent_row(name, grouped, rng):
    c = case(name, rng)
    n = len(c.X)
    there = rng.random(n) < (0.3 if "conditional" in name else 0.6)  # many alone in their set
    weight = 1.0 + np.arange(n) // 5 % 3 / 3  # the same in a set
    groups = np.repeat(rng.permutation(n // 10), 10) if grouped else None
    sites = rng.choice(["a", "b", "c"], n) if grouped else True

    def chooser(rows):
        labels = {"groups": groups[rows], "stratify": sites[rows]} if grouped else {}
        return CrossValidation(
            3, 1 + grouped, search=[0.05, 0.5], random_state=3, tol=1e-8, **labels
        )

    whole = c.make(prior=Laplace(), cv=chooser(slice(None)))
    whole.fit(c.X, c.y, sample_weight=weight * there, **c.extras)
    part = c.make(prior=Laplace(), cv=chooser(there))
    extras = {k: v[there] for k, v in c.extras.items()}
    part.fit(c.X[there], c.y[there], sample_weight=weight[there], **extras)
    np.testing.assert_allclose(scores(whole), scores(part), rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(whole.coef_, part.coef_, rtol=1e-5, atol=1e-7)


def test_outcomes_with_missing_rows_are_cut_as_without_them(rng):
    """Events are few; rows without an outcome do not take their place in some folds."""
    X = rng.normal(size=(300, 4))
    known = rng.random(300) < 0.5
    y = np.where(known, rng.random(300) < 0.08 + 0.1 * (X[:, 0] > 0), np.nan)
    y[:2] = 1.0, 0.0  # the first is an event
    known[:2] = True
    model = LogisticRegression(prior=Laplace(), cv=CrossValidation(5, random_state=1))
    table = fit_many(model, X, {"o": y, "p": np.arange(300) % 2})
    alone = model.fit(X[known], y[known])
    rows = table[table["outcome"] == "o"]
    np.testing.assert_allclose(rows["coef"], [alone.intercept_, *alone.coef_], rtol=1e-6)
    assert np.count_nonzero(alone.coef_) > 0


def test_a_group_without_weight_joins_no_strata():
    strata, person = np.array([0, 0, 1, 1, 2, 2]), ["a", "b", "b", "c", "d", "e"]
    weights = np.array([1, 1, 0, 1, 1, 1.0])
    fold, _ = cut(CrossValidation(3, groups=person, random_state=1), None, strata, weights)
    assert sorted(fold[[0, 3, 4], 0]) == [0, 1, 2]
    assert fold[2, 0] == -1


def test_a_row_without_weight_cuts_no_stratum(rng):
    """As a site's folds have it, in which such a row is not held out."""
    c = case("conditional breslow", rng)
    weight = (np.arange(len(c.X)) % 5 < 4).astype(float)
    test = [np.flatnonzero((c.extras["strata"] % 2 == k) & (weight > 0)) for k in range(2)]
    splits = [(np.setdiff1d(np.arange(len(c.X)), t), t) for t in test]
    chooser = CrossValidation(splits, search=[0.1])
    m = c.make(prior=Laplace(), cv=chooser).fit(c.X, c.y, sample_weight=weight, **c.extras)
    assert np.isfinite(m.cv_results_["mean"]).all()


def test_folds_without_weight_are_refused(rng):
    X, y = rng.normal(size=(60, 2)), np.tile([0, 1], 30)
    weight = (np.arange(60) < 4).astype(float)
    model = LogisticRegression(prior=Laplace(), cv=5)
    with pytest.raises(DataError, match="5 folds need at least as many rows; there are 4"):
        model.fit(X, y, sample_weight=weight)
    halves = np.arange(30), np.arange(30, 60)
    model.set_params(cv=CrossValidation([halves]))
    with pytest.raises(DataError, match="Split 0 has no test rows with a positive weight"):
        model.fit(X, y, sample_weight=weight)
    model.set_params(cv=CrossValidation([halves[::-1]]))
    with pytest.raises(DataError, match="All weight is in fold 0"):
        model.fit(X, y, sample_weight=weight)
