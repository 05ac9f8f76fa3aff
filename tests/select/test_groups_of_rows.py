"""Rows that stay together in a fold, and classes that are spread evenly."""

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold

from every_family import EVERY, case
from steropes import CrossValidation, DataError, Laplace, LogisticRegression
from steropes.select.folds import cut, units_of


def folds_of(cv, label, together, n):
    return cut(cv, label, together, np.ones(n))[0]


def test_groups_stay_whole_and_are_spread_by_class(rng):
    n = 600
    person = rng.permutation(np.r_[np.arange(100), rng.integers(0, 100, n - 100)])
    y = (rng.random(100) < 0.3)[person] & (rng.random(n) < 0.5)
    names = np.array([f"p{k}" for k in person])
    fold = folds_of(CrossValidation(5, groups=names, random_state=1), y.astype(int), None, n)[:, 0]
    for k in range(100):
        assert len(set(fold[person == k])) == 1
    events = [len(set(person[(fold == f) & y])) for f in range(5)]
    assert max(events) - min(events) <= 1
    sizes = [len(set(person[fold == f])) for f in range(5)]
    assert max(sizes) - min(sizes) <= 1


def test_a_group_and_a_stratum_that_share_rows_stay_together():
    strata = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    person = ["a", "b", "b", "c", "d", "e", "f", "g"]
    unit = units_of(person, strata, np.ones(8, bool))
    assert len(set(unit[:4])) == 1
    assert len(set(unit)) == 3


def test_own_classes_are_spread_and_none_leaves_it_to_chance(rng):
    n, site = 500, rng.integers(0, 7, 500)
    y = (rng.random(n) < 0.1).astype(int)
    both = [(int(s), int(e)) for s, e in zip(site, y, strict=True)]
    fold = folds_of(CrossValidation(5, stratify=both, random_state=1), y, None, n)[:, 0]
    for s in range(7):
        for e in range(2):
            counts = np.bincount(fold[(site == s) & (y == e)], minlength=5)
            assert counts.max() - counts.min() <= 1
    none = folds_of(CrossValidation(5, stratify=False, random_state=1), y, None, n)[:, 0]
    plain = folds_of(CrossValidation(5, random_state=1), None, None, n)[:, 0]
    np.testing.assert_array_equal(none, plain)


def test_a_group_of_several_classes_counts_as_the_rarest():
    groups = np.repeat(np.arange(40), 5)
    label = np.full(200, "common", object)
    label[::50] = "rare"  # in four of the groups
    cv = CrossValidation(4, groups=groups, stratify=label, random_state=1)
    fold = folds_of(cv, None, None, 200)[:, 0]
    assert sorted(fold[::50]) == [0, 1, 2, 3]


@pytest.mark.sampled
@pytest.mark.parametrize("name", EVERY)
def test_every_family_is_cut_by_groups(name, rng):
    c = case(name, rng)
    groups = np.arange(len(c.X)) // 20
    cv = CrossValidation(3, search=[0.05, 0.5], groups=groups, random_state=1)
    model = c.fit(prior=Laplace(), cv=cv)
    assert np.isfinite(model.cv_results_["mean"]).all()
    fold = cut(cv, model._problem.fold_label, model._problem.fold_together, np.ones(len(c.X)))[0]
    splits = [(np.flatnonzero(fold[:, 0] != f), np.flatnonzero(fold[:, 0] == f)) for f in range(3)]
    same = c.fit(prior=Laplace(), cv=CrossValidation(splits, search=[0.05, 0.5]))
    np.testing.assert_allclose(same.cv_results_["mean"], model.cv_results_["mean"], rtol=1e-7)


def test_splits_by_groups_of_scikit_learn_are_the_same_seam(rng):
    X = rng.normal(size=(120, 4))
    y = (rng.random(120) < 0.5).astype(int)
    person = np.repeat(np.arange(30), 4)
    splits = list(GroupKFold(3).split(X, y, person))
    model = LogisticRegression(prior=Laplace(), cv=CrossValidation(splits, search=[0.1])).fit(X, y)
    assert model.variance_ == 0.1


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"groups": ["a", "b"]}, "groups has 2 entries, but X has 60 rows"),
        ({"groups": [None] * 60}, "groups is missing in row 0"),
        ({"groups": ["a"] * 60}, "at least as many strata or groups; there are 1"),
        ({"stratify": "event"}, "stratify must have one label a row"),
        ({"stratify": [1, 2]}, "stratify has 2 entries"),
        ({"folds": [([0], [1])], "groups": [0] * 60}, "no meaning"),
    ],
)
def test_labels_that_make_no_sense_are_refused(settings, why, rng):
    X, y = rng.normal(size=(60, 2)), np.tile([0, 1], 30)
    cv = CrossValidation(**{"folds": 2, **settings})
    with pytest.raises(DataError, match=why):
        LogisticRegression(prior=Laplace(), cv=cv).fit(X, y)
