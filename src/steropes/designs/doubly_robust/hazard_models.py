"""Cross-fitted hazards of events and of censoring by group, without expanded rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from steropes.data import Surv
from steropes.design_matrix import Design
from steropes.designs.doubly_robust.discrete_survival import FollowUp, Hazards
from steropes.errors import DataError, SeparationError
from steropes.models.estimators.pooled_logistic_regression import PooledLogisticRegression

__all__ = ["hazards_of_group"]

# Degree of the default baseline in time, or one below the number of intervals with an event.
DEGREE = 2


def hazards_of_group(
    event_model: PooledLogisticRegression | None,
    censoring_model: PooledLogisticRegression | None,
    design: Design,
    follow_up: FollowUp,
    group: NDArray,
    fold: NDArray | None,
    weights: NDArray,
    name: str,
) -> Hazards:
    """Fit the hazards of a group without each fold, and predict those of everybody.

    Parameters
    ----------
    event_model, censoring_model : PooledLogisticRegression, optional
        Unfitted; their intervals are those of the follow-up. Default: maximum likelihood.
    group : ndarray of bool, shape (n,)
    fold : ndarray of int, shape (n,), or None
    weights : ndarray, shape (n,)
        Weights of people.
    name : str
        Name of the group for messages.
    """
    last, event = follow_up.last, follow_up.event
    causes = []
    for cause in range(1, follow_up.causes + 1):
        y = Surv(last, (event == cause).astype(int))
        what = f"model of the event of the {name}" if follow_up.causes == 1 else (
            f"model of cause {cause} of the {name}"
        )  # fmt: skip
        causes.append(_cross_fit(event_model, design, y, group, fold, weights, follow_up, what))
    censoring = None
    early = follow_up.censored_within()
    if (early & group).any():
        # Events come before censoring, so that people with one are not at risk in its interval.
        until = np.where(event > 0, last - 1, np.minimum(last, follow_up.count - 1))
        y = Surv(until, early.astype(int))
        what = f"model of censoring of the {name}"
        censoring = _cross_fit(
            censoring_model, design, y, group & (until > 0), fold, weights, follow_up, what
        )
    return Hazards(np.stack(causes, axis=2), censoring)


def _cross_fit(
    model: Any, design: Design, y: Any, group: NDArray, fold: NDArray | None, weights: NDArray,
    follow_up: FollowUp, what: str,
) -> NDArray:  # fmt: skip
    """Predict the hazards of everybody, (n, K), by fits without their fold.

    The hazard is zero in intervals in which no one of the group has the event.
    """
    y_of_group = y[group]
    happened = np.unique(y_of_group["time"][y_of_group["event"] == 1]).astype(np.int64) - 1
    possible = np.zeros(follow_up.count, dtype=bool)
    possible[happened] = True
    if model is None:
        model = PooledLogisticRegression(baseline=min(DEGREE, len(happened) - 1))
    own = clone(model).set_params(interval=None, breaks=np.arange(follow_up.count + 1.0))
    kept: dict[str, Any] = {}
    if not possible[: int(y_of_group["time"].max())].all():
        kept["interval_weights"] = np.tile(possible * 1.0, (design.n, 1))
    out = np.empty((design.n, follow_up.count))
    try:
        if own.cv is not None:  # the variance is chosen once, from all rows of the group
            whole = clone(own).fit(design, y, sample_weight=weights * group, **kept)
            own.set_params(prior=whole.prior_, cv=None)
        for f in range(1 if fold is None else int(fold.max()) + 1):
            train = group if fold is None else group & (fold != f)
            fit = clone(own).fit(design, y, sample_weight=weights * train, **kept)
            held = slice(None) if fold is None else fold == f
            out[held] = np.where(possible, fit.predict_hazard(design)[held], 0.0)
    except SeparationError as error:
        raise DataError(
            f"The {what} cannot be estimated by maximum likelihood: give it a prior, a simpler "
            f"baseline or wider intervals. {error}"
        ) from error
    except DataError as error:
        raise DataError(f"The {what}: {error} Take fewer folds or wider intervals.") from error
    return out
