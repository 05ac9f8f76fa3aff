"""A fold without a maximum is refused by name; one that fell short of its tolerance is told."""

import re
import warnings
from functools import partialmethod

import numpy as np
import pytest
from scipy import sparse

import steropes
from steropes import (
    CrossValidation,
    CyclopsSearch,
    DataError,
    Laplace,
    NotConvergedWarning,
    SeparationError,
    Surv,
)
from steropes.fit import Replicates
from steropes.select.variance_search import VariancePath, best_of

N = 80


def _splits(lone):
    """Three splits, the second of which holds out the rows ``lone``."""
    fold = np.arange(N) % 3
    fold[lone] = 1
    rows = np.arange(N)
    return [(rows[fold != f], rows[fold == f]) for f in range(3)]


def _outcome(family, event, x, rng):
    """Model, its settings, y and what else fit takes."""
    time = rng.integers(1, 5, N).astype(float)
    strata = np.arange(N) // 4
    return {
        "logistic": (steropes.LogisticRegression, {}, event, {}),
        "poisson": (steropes.PoissonRegression, {}, 2 * event, {}),
        "cox": (steropes.CoxRegression, {}, Surv(time, event), {}),
        "fine_gray": (steropes.FineGrayRegression, {}, Surv(time, event), {}),
        "pooled": (
            steropes.PooledLogisticRegression, {"interval": 1.0, "baseline": 0},
            Surv(time, event), {},
        ),
        "conditional": (steropes.ConditionalLogisticRegression, {}, event, {"strata": strata}),
        "cumulative": (
            steropes.CumulativeProbabilityModel, {}, event + (rng.random(N) < 0.3), {},
        ),
    }[family]  # fmt: skip


FAMILIES = ["logistic", "poisson", "cox", "fine_gray", "pooled", "conditional", "cumulative"]


@pytest.mark.sampled
@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_fold_whose_training_rows_are_separated_is_refused_by_name(family, storage):
    """A column with one event in all, which the second split holds out."""
    rng = np.random.default_rng(1)
    event = np.tile([1, 0, 0, 1], N // 4)
    x = np.where(event == 0, rng.random(N) < 0.5, 0.0)
    x[:4] = [1.0, 0.0, 0.0, 1.0]  # the events with x, against rows without
    lone = np.arange(4)
    model, settings, y, more = _outcome(family, event, x, rng)
    if family == "cumulative":
        y = np.where(event == 1, 2.0, np.where(x > 0, 0, rng.integers(0, 2, N)))
    splits = _splits(lone)
    if more:
        fold = np.repeat(np.arange(N // 4) % 3, 4)
        fold[:4] = 1
        splits = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]
    X = storage(np.column_stack([rng.normal(size=(N, 3)), x]))
    cv = CrossValidation(splits, search=[0.01, 0.1])
    with pytest.raises(SeparationError, match="training rows of fold 1") as caught:
        model(prior=Laplace(0.1, exclude=[3]), cv=cv, **settings).fit(X, y, **more)
    assert caught.value.columns == ["x3"]


@pytest.mark.parametrize("family", ["linear", *FAMILIES])
def test_a_fold_whose_training_rows_say_nothing_of_a_column_is_refused_by_name(family):
    rng = np.random.default_rng(2)
    event = np.tile([1, 0, 0, 1], N // 4)
    x = np.zeros(N)
    x[:4] = [1.0, 1.0, 0.0, 0.0]
    fold = np.repeat(np.arange(N // 4) % 3, 4)
    fold[:4] = 1
    splits = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]
    if family == "linear":
        model, settings, y, more = steropes.LinearRegression, {}, rng.normal(size=N), {}
    else:
        model, settings, y, more = _outcome(family, event, x, rng)
    X = np.column_stack([rng.normal(size=(N, 3)), x])
    cv = CrossValidation(splits, search=[0.01, 0.1])
    with pytest.raises(SeparationError, match="training rows of fold 1") as caught:
        model(prior=Laplace(0.1, exclude=[3]), cv=cv, **settings).fit(X, y, **more)
    assert caught.value.columns == ["x3"]


def test_a_split_that_trains_on_one_class_is_refused_by_name(rng):
    y = np.zeros(N, int)
    y[:6] = 1
    rows = np.arange(N)
    splits = [(rows[rows % 2 == f], rows[rows % 2 != f]) for f in (0, 1)]
    splits.append((rows[6:], rows[:6]))
    model = steropes.LogisticRegression(prior=Laplace(0.1), cv=CrossValidation(splits))
    with pytest.raises(SeparationError, match="training rows of fold 2") as caught:
        model.fit(rng.normal(size=(N, 2)), y)
    assert caught.value.columns == ["intercept"]


def test_separation_of_all_rows_is_no_folds_fault(rng):
    y = np.arange(N) % 2
    X = np.column_stack([rng.normal(size=N), y * (rng.random(N) < 0.5)])
    model = steropes.LogisticRegression(prior=Laplace(0.1, exclude=[1]), cv=3, random_state=1)
    with pytest.raises(SeparationError, match=r"^The likelihood has no finite maximum"):
        model.fit(X, y)


def test_folds_that_fell_short_are_told_with_their_variances(rng, monkeypatch):
    monkeypatch.setattr(
        Replicates,
        "solve_under_prior",
        partialmethod(Replicates.solve_under_prior, max_iter=1),  # one step
    )
    X = rng.normal(size=(N, 3))
    y = (X[:, 0] + rng.normal(size=N) > 0).astype(int)
    cv = CrossValidation(2, search=[0.5, 1.0], random_state=1, tol=1e-9)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        steropes.LogisticRegression(prior=Laplace(0.1), cv=cv).fit(X, y)
    assert caught[0].category is NotConvergedWarning
    text = str(caught[0].message)
    fold, to = r"fold \d[, \d]* at variance ", r" \(to 1e-09\)"
    assert re.search(f"{fold}0.5{to}; {fold}1{to}\\.", text)


def test_of_scores_equal_up_to_rounding_the_smallest_variance_is_the_best():
    assert best_of(np.array([-691.0, -691.0 + 1e-10, -691.0 - 1e-10])) == 0
    assert best_of(np.array([-691.0, -690.9, -691.2])) == 1
    assert best_of(np.array([-2e-9, -1e-9])) == 1  # whatever the unit of the weights


def test_equal_scores_choose_the_same_variance_in_every_storage(rng):
    """All three variances give the model without covariates."""
    X = (rng.random((N, 2)) < 0.3) * 10.0 ** np.array([-3, 4])
    y = rng.integers(0, 2, N)
    cv = CrossValidation(3, search=[1e-14, 1e-13, 1e-12], random_state=1)
    for storage in (np.asarray, sparse.csr_array, sparse.csc_array):
        m = steropes.LogisticRegression(prior=Laplace(1.0), cv=cv).fit(storage(X), y)
        assert m.variance_ == 1e-14


class _Scores(VariancePath):
    """A path whose scores are given as a function of the variance."""

    def __init__(self, search, scores):
        super().__init__(CrossValidation(3, search=search), Laplace(), None)
        self._scores, self.asked = scores, []

    def evaluate(self, variance):
        self.asked.append(variance)
        return np.zeros(2), 1, np.array(self._scores(variance))

    def first(self):
        return 1e-3


@pytest.mark.parametrize("search", ["auto", [0.1, 1.0]])
def test_a_fold_that_is_impossible_at_every_variance_is_named(search):
    path = _Scores(search, lambda v: [-1.0, -np.inf, -2.0])
    with pytest.raises(DataError, match="fold 1 holds out are impossible"):
        path.search()
    assert len(path.asked) <= 5


def test_a_variance_at_which_a_fold_is_impossible_is_worse_than_all_others():
    path = _Scores("auto", lambda v: [-np.inf if v > 1.5 else np.log(v), -1.0, -1.0])
    found = path.search()
    assert 0.5 < found.variance <= 1.5
    assert np.isnan(found.results["se"].iloc[-1])
    assert np.isneginf(found.results["mean"].iloc[-1])


def test_the_published_search_refuses_a_fold_that_is_impossible():
    path = _Scores(CyclopsSearch(start=1.0), lambda v: [-1.0, -np.inf, -2.0])
    with pytest.raises(DataError, match="fold 1 is impossible at variance 1 "):
        path.search()
