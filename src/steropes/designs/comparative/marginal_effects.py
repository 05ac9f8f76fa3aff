"""Marginal effects of weighted or matched groups, with errors by influences."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from steropes.data import Surv
from steropes.designs.comparative.adjustments import Adjustment, BothModels
from steropes.designs.comparative.compared_people import ComparisonTable, Outcome
from steropes.designs.comparative.effect_table_rows import EffectRow, Values, contrasts
from steropes.designs.comparative.group_means import small_sample_factor
from steropes.designs.comparative.group_statistics import group_statistics
from steropes.designs.comparative.matching import Matching
from steropes.designs.comparative.matching_with_replacement_estimate import matching_estimate
from steropes.designs.effects.two_group_cox import Ties, TwoGroupCox
from steropes.models.estimators.cox_regression import CoxRegression

__all__ = ["Ties", "marginal_effects", "marginal_values"]


def marginal_effects(
    table: ComparisonTable,
    adjustment: Adjustment,
    horizon: float | None,
    ties: Ties,
    level: float,
) -> list[EffectRow]:
    """Compute all measures of an outcome.

    Parameters
    ----------
    horizon : float, optional
        Time of risks and restricted means; none of them without it.
    """
    if isinstance(adjustment.step, BothModels):
        return adjustment.step.effect_rows(level, adjustment.method)
    target, w = table.target == 1, adjustment.weights
    rows = []
    for found in group_statistics(table.outcome, target, w, horizon):
        V = found.covariance(adjustment.clusters, adjustment.weight_model)
        for measure, value, se in contrasts(found.name, found.values, V):
            how = adjustment.errors
            if measure in ("mean difference", "risk difference") and table.outcome.event is None:
                se, how = _with_replacement(table, adjustment, se, how)
            rows.append(
                EffectRow.of(adjustment.method, measure, value, se, how, level,
                             groups=(found.values[0], found.values[1]))
            )  # fmt: skip
    if table.outcome.event is not None and _both_have_events(table, w):
        rows.append(_hazard_ratio(table, adjustment, ties, level))
    return rows


def marginal_values(
    outcome: Outcome,
    target: NDArray,
    w: NDArray,
    horizon: float | None,
    ties: Ties,
    near: float | None = None,
) -> Values:
    """Compute all measures of an outcome without their errors.

    Parameters
    ----------
    target : ndarray of bool, shape (n,)
    w : ndarray, shape (n,)
        Weights, 0 for people left out.
    near : float, optional
        A log hazard ratio close to that of these people, at which the search starts.

    Returns
    -------
    dict
        Differences and logarithms of ratios; of ratios only those that the groups' events define.
    """
    nothing = np.zeros((2, 2))
    values: Values = {}
    for found in group_statistics(outcome, target, w, horizon):
        for measure, value, _ in contrasts(found.name, found.values, nothing):
            values[measure, "marginal"] = value
    if outcome.event is None:
        return values
    had = outcome.event == 1
    if outcome.entry is not None:
        if len(np.unique(target[had & (w > 0)])) == 2:
            fit = _cox(outcome, target, w, ties)
            values["hazard ratio", "marginal"] = float(fit.coef_[0])
        return values
    ratio = TwoGroupCox.of(outcome.y, had, target, w, ties=ties).maximum(near)
    if np.isfinite(ratio):
        values["hazard ratio", "marginal"] = ratio
    return values


def _both_have_events(table: ComparisonTable, w: NDArray) -> bool:
    """Return whether both groups have events, without which they have no ratio of hazards."""
    had = (table.outcome.event == 1) & (w > 0)
    return len(np.unique(table.target[had])) == 2


def _with_replacement(
    table: ComparisonTable, adjustment: Adjustment, se: float, how: str
) -> tuple[float, str]:
    """Return the error of Abadie and Imbens of a difference after matching with replacement."""
    step = adjustment.step
    if not isinstance(step, Matching) or not step.replace:
        return se, how
    row, other, weight = (step.pairs_[name].to_numpy() for name in step.pairs_)
    pairs = (row, other, weight)
    error = matching_estimate(table.outcome.y, table.target == 1, pairs, step.estimand)[1]
    return error, "Abadie and Imbens"


def _hazard_ratio(
    table: ComparisonTable, adjustment: Adjustment, ties: Ties, level: float
) -> EffectRow:
    """Estimate the marginal hazard ratio; competing events count as censored."""
    outcome, w = table.outcome, adjustment.weights
    assert outcome.event is not None
    clusters, model = adjustment.clusters, adjustment.weight_model
    used = w > 0 if model is None else np.ones(table.n, dtype=bool)
    fit = _cox(outcome.take(used), table.target[used], w[used], ties)
    labels = None if clusters is None else clusters[used]
    if model is not None:
        variance = float(fit.vcov("robust", labels, weight_model=model).iloc[0, 0])
        if labels is not None:
            variance *= small_sample_factor(len(labels), len(np.unique(labels)))
    else:
        kind: Literal["robust", "HC1"] = "robust" if clusters is None else "HC1"
        variance = float(fit.vcov(kind, labels).iloc[0, 0])
    return EffectRow.of(
        adjustment.method, "hazard ratio", float(fit.coef_[0]), float(np.sqrt(variance)),
        adjustment.errors, level,
    )  # fmt: skip


def _cox(outcome: Outcome, target: NDArray, w: NDArray, ties: Ties) -> CoxRegression:
    """Fit a Cox model of the treatment alone; competing events count as censored."""
    assert outcome.event is not None
    y = Surv(outcome.y, (outcome.event == 1).astype(int), outcome.entry)
    return CoxRegression(ties=ties).fit(target[:, None], y, sample_weight=w)
