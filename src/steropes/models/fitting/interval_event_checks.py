"""Checks that every interval with an intercept of its own has events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...data.discrete_time_intervals import TimeIntervals
from ...errors import DataError, SeparationError
from ...fit import Problem
from ...likelihoods.pooled_logistic_likelihood import PooledLogisticLikelihood, events_by_interval

__all__ = ["refuse_empty_intervals", "refuse_empty_splits"]


def refuse_empty_intervals(
    likelihood: PooledLogisticLikelihood, weights: np.ndarray, intervals: TimeIntervals, cv: bool
) -> None:
    """Refuse intervals without people at risk or events, or with events of everyone at risk."""
    at_risk, events = events_by_interval(likelihood, weights)
    remedy = "Merge it with a neighbour by breaks, or use a smooth baseline such as baseline=2."
    for k in range(intervals.K):
        name, label = intervals.name(k), [f"t={k + 1}"]
        if at_risk[k] == 0:
            raise SeparationError(
                f"No one is at risk at the start of {name}, so it has no intercept. {remedy}", label
            )
        if events[k] == 0:
            raise SeparationError(
                f"There is no event in {name}: its intercept is −infinity. {remedy}", label
            )
        if events[k] == at_risk[k]:
            raise SeparationError(
                f"Everyone at risk has the event in {name}: its intercept is +infinity. {remedy}",
                label,
            )
        if cv and events[k] < 2:
            raise DataError(
                f"Cross-validation needs two people with events in {name}, there is one: the "
                f"fold that holds it out has no intercept for the interval. {remedy}"
            )


def refuse_empty_splits(problem: Problem, splits: Sequence, intervals: TimeIntervals) -> None:
    """Refuse splits for cross-validation that remove all events of an interval."""
    assert isinstance(problem.likelihood, PooledLogisticLikelihood)
    for number, (train, _) in enumerate(splits):
        weights = np.zeros(len(problem.weights))
        weights[train] = problem.weights[train]
        _, events = events_by_interval(problem.likelihood, weights)
        if not events.all():
            raise DataError(
                f"Split {number} leaves no event to train on in "
                f"{intervals.name(int(events.argmin()))}, which has no intercept then. Cut the "
                "splits so that each keeps some, or use a smooth baseline such as baseline=2."
            )
