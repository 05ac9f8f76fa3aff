"""Folds that say nothing of coefficients are refused by name: a variance is chosen by something."""

from __future__ import annotations

import numpy as np
import pytest

import steropes
from steropes import CrossValidation, DataError, Laplace, Normal, Surv

N, SETS = 60, 12
STRATA = np.arange(N) // 5
METHODS = [
    steropes.ConditionalLogisticRegression(method="exact"),
    steropes.ConditionalLogisticRegression(method="efron"),
    steropes.ConditionalLogisticRegression(method="breslow"),
    steropes.ConditionalPoissonRegression(),
    steropes.SelfControlledCaseSeries(),
]


def _splits(held_out):
    """A split for each list of rows, and one more of every third of the others."""
    rows = np.arange(N)
    rest = np.setdiff1d(rows, np.concatenate(held_out))
    return [(np.setdiff1d(rows, out), out) for out in [*held_out, rest]]


def _refused(model, X, y, splits, match, **extras):
    for prior in (Laplace(), Normal()):
        cv = CrossValidation(splits, search=[0.01, 0.1])
        with pytest.raises(DataError, match=match):
            model.set_params(prior=prior, cv=cv).fit(X, y, **extras)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        steropes.CoxRegression(),
        steropes.CoxRegression(time_varying={0: [0.5]}),
        steropes.FineGrayRegression(),
    ],
)
def test_training_rows_without_an_event_are_refused_by_their_fold(model, late, rng):
    X, time = rng.normal(size=(N, 3)), 0.1 + rng.random(N)
    event = (np.arange(N) < 6).astype(int)
    entry = time * rng.random(N) if late else None
    match = "training rows of fold 1 say nothing"
    _refused(model, X, Surv(time, event, entry), _splits([[50, 51], np.arange(6)]), match)


def test_training_events_that_are_alone_at_risk_say_nothing(rng):
    """The last in their strata, and before a later entry."""
    X, time = rng.normal(size=(N, 3)), 1.0 + rng.permutation(N)
    last = np.array([s[time[s].argmax()] for s in np.split(np.arange(N), SETS)])
    event = np.zeros(N, int)
    event[last], event[:5] = 1, 1
    model = steropes.CoxRegression()
    match = "training rows of fold 0 say nothing"
    _refused(model, X, Surv(time, event), _splits([np.arange(5)]), match, strata=STRATA)
    entry = np.where(np.arange(N) < 5, 0.0, time - 0.5)
    event = np.ones(N, int)
    _refused(model, X, Surv(time, event, entry), _splits([np.arange(5)]), match)


@pytest.mark.parametrize("model", METHODS, ids=lambda m: getattr(m, "method", type(m).__name__))
def test_training_sets_that_do_not_vary_are_refused_by_their_fold(model, rng):
    X, y = rng.normal(size=(N, 3)), np.zeros(N)
    y[[0, 7]] = 1  # two sets
    extras = {"strata": STRATA}
    if isinstance(model, steropes.SelfControlledCaseSeries):
        extras["exposure"] = np.ones(N)
    match = "training rows of fold 1 say nothing"
    _refused(model, X, y, _splits([np.arange(50, 55), np.arange(10)]), match, **extras)
    weight = np.ones(N)
    y[20], weight[21:25] = 1, 0.0  # one more, with none beside it
    splits = _splits([np.arange(50, 55), np.arange(10)])
    _refused(model, X, y, splits, match, sample_weight=weight, **extras)


def test_thresholds_need_two_outcomes_in_each_fold(rng):
    X, y = rng.normal(size=(N, 3)), (np.arange(N) < 6).astype(int)
    match = "training rows of fold 1: y must have at least two distinct"
    _refused(steropes.CumulativeProbabilityModel(), X, y, _splits([[50, 51], np.arange(6)]), match)


def test_no_held_out_row_says_anything_by_itself(rng):
    """One row at a time has no risk set; against all others it has one."""
    X = rng.normal(size=(N, 3))
    y = Surv(np.round(rng.exponential(np.exp(-X[:, 0])) + 0.05, 2), rng.random(N) < 0.5)
    splits = [(np.delete(np.arange(N), i), [i]) for i in range(N)]
    model = steropes.CoxRegression()
    _refused(model, X, y, splits, "carry no information by themselves")
    cv = CrossValidation(splits, search=[0.001, 0.01, 0.1], scoring="difference")
    model.set_params(prior=Laplace(), cv=cv).fit(X, y)
    assert model.variance_ > 0.001
    assert np.ptp(model.cv_results_["mean"]) > 0


def test_all_rows_that_say_nothing_are_no_folds_fault(rng):
    time = np.arange(1.0, N + 1)
    y = Surv(time, np.ones(N, int), time - 0.5)
    _refused(steropes.CoxRegression(), rng.normal(size=(N, 2)), y, 3, "^No variance can be chosen")


def test_folds_without_a_held_out_event_score_zero_and_are_kept(rng):
    """As long as their training rows have some."""
    X, time = rng.normal(size=(N, 3)), 0.1 + rng.random(N)
    event = (np.arange(N) < 12).astype(int)
    cv = CrossValidation(_splits([np.arange(6), [50, 51]]), search=[0.01, 0.1])
    m = steropes.CoxRegression(prior=Laplace(), cv=cv).fit(X, Surv(time, event))
    table = m.cv_results_
    assert (table["fold1"] == 0).all()
    assert (table[["fold0", "fold2"]] < 0).all(axis=None)


def test_a_draw_with_a_fold_that_says_nothing_has_no_coefficients(rng):
    """Of four events a draw may have one, twice or more."""
    X, time = rng.normal(size=(N, 2)), 0.1 + rng.random(N)
    event = (np.arange(N) < 4).astype(int)
    cv = CrossValidation(3, search=[0.1], random_state=1)
    m = steropes.CoxRegression(prior=Laplace(), cv=cv).fit(X, Surv(time, event))
    draws = m.inference.bootstrap(n=40, random_state=3, reselect=True)
    missing = np.isnan(draws.coef).all(axis=1)
    assert 0 < missing.sum() < 40
    assert np.isfinite(draws.coef[~missing]).all()
