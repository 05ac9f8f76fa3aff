"""Parts of g-computation for sustained strategies: plans, their probabilities, targeted means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.base import clone

from steropes.design_matrix import null_design
from steropes.errors import DataError, SeparationError, separation_of
from steropes.models.estimators.fractional_logistic_regression import FractionalLogisticRegression
from steropes.models.estimators.logistic_regression import LogisticRegression

__all__ = [
    "PlanTargeting",
    "Strategy",
    "planned_treatment",
    "probabilities_of_plan",
    "targeted_shares",
]

Strategy = int | Sequence[int] | Callable[[pd.DataFrame], Any]

# Shares are kept from 0 and 1 by rounding errors alone.
INSIDE = 1e-12


@dataclass(frozen=True)
class PlanTargeting:
    """The unfitted model of the treatment, and the least probability of following a strategy."""

    model: Any
    bound: float


def planned_treatment(
    name: str, strategy: Strategy, rows: pd.DataFrame, when: NDArray
) -> NDArray[np.int8]:
    """Return the treatment that a strategy has for each row of covariates and ``period``."""
    if callable(strategy):
        found = np.asarray(strategy(rows))
    elif isinstance(strategy, Integral | bool):
        found = np.full(len(rows), int(strategy))
    else:
        plan = np.asarray(strategy)
        if plan.ndim != 1 or len(plan) <= when.max():
            raise DataError(
                f"The strategy {name!r} must have a treatment for each of {int(when.max()) + 1} "
                "periods."
            )
        found = plan[when]
    if found.shape != (len(rows),) or not np.isin(found, (0, 1)).all():
        raise DataError(f"The strategy {name!r} must be 0 or 1 for each row.")
    return found.astype(np.int8)


def probabilities_of_plan(
    X: pd.DataFrame, treatment: NDArray, previous: NDArray, plan: NDArray, when: NDArray,
    people: NDArray, model: Any,
) -> NDArray:  # fmt: skip
    """Compute the probability of each row's planned treatment given its history, (n,).

    Parameters
    ----------
    X : DataFrame, shape (n, p)
        Histories, with the treatment before. Each period has a model of its own. People of the same
        treatment before of whom all, or none, are treated have this probability.
    treatment, previous, plan, when : ndarray of int, shape (n,)
    people : ndarray, shape (n,)
        How often the person of each row counts.
    model : estimator or None
        Unfitted model of the treatment. Default: logistic by maximum likelihood.
    """
    treated = np.empty(len(plan))
    for k in np.unique(when):
        free = np.zeros(len(plan), dtype=bool)
        for before in (0, 1):
            at = (when == k) & (previous == before)
            used = at & (people > 0)
            if not used.any():
                treated[at] = 0.5  # Nobody of a draw counts here.
                continue
            share = float(treatment[used].mean())
            treated[at] = share
            free |= at & (0 < share < 1)
        used = free & (people > 0)
        if not used.any():
            continue
        own = X.loc[used]
        names = [name for name in own if own[name].nunique() > 1]
        fit = clone(LogisticRegression() if model is None else model)
        try:
            fit.fit(own[names] if names else null_design(int(used.sum())), treatment[used],
                    sample_weight=people[used])  # fmt: skip
        except SeparationError as error:
            raise SeparationError(
                f"The model of the treatment in period {k} has no finite maximum: "
                f"{separation_of('the treatment', error)} Leave out or merge the columns, or give "
                "treatment_model a prior.",
                error.columns,
            ) from None
        if names:
            treated[free] = fit.predict_proba(X.loc[free, names])[:, 1]
    return np.where(plan == 1, treated, 1 - treated)


def targeted_shares(shares: NDArray, y: NDArray, weights: NDArray, name: str) -> NDArray:
    """Shift shares on the logit scale until weighted residuals sum to zero.

    Parameters
    ----------
    shares, y : ndarray, shape (n,)
        Predicted and observed; y may be missing where the weight is zero.
    weights : ndarray, shape (n,)
        Inverse probabilities of those who follow the strategy, zero for others.
    name : str
        Name of the strategy for messages.
    """
    used = weights > 0
    if not used.any():
        raise DataError(
            f"Nobody follows the strategy {name!r} to a horizon; take earlier horizons."
        )
    known = y[used]
    if (known == 0).all() or (known == 1).all():
        return np.full(len(shares), known[0])
    offset = logit(np.clip(shares, INSIDE, 1 - INSIDE))
    fit = FractionalLogisticRegression().fit(
        null_design(int(used.sum())), known, sample_weight=weights[used], offset=offset[used]
    )
    return np.asarray(expit(offset + float(fit.intercept_)))
