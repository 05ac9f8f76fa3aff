"""Marginal effects of weighted or matched groups, with errors by influences or a bootstrap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from steropes.data import Surv
from steropes.designs.comparative.abadie_imbens import matching_estimate
from steropes.designs.comparative.adjustments import Adjustment
from steropes.designs.comparative.comparison_table import ComparisonTable
from steropes.designs.comparative.doubly_robust import DoublyRobust
from steropes.designs.comparative.effect_rows import EffectRow, contrasts
from steropes.designs.comparative.group_statistics import group_statistics
from steropes.designs.comparative.matching import Matching
from steropes.errors import DataError, SeparationError
from steropes.models.estimators.cox_regression import CoxRegression

__all__ = ["Ties", "bootstrap_of_people", "bootstrap_of_sets", "marginal_effects"]

Ties = Literal["efron", "breslow"]
# Largest share of bootstrap draws without an estimate.
FAILED = 0.1


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
    if isinstance(adjustment.step, DoublyRobust):
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
    own = outcome.take(used)
    assert own.event is not None
    y = Surv(own.y, (own.event == 1).astype(int), own.entry)
    fit = CoxRegression(ties=ties).fit(table.target[used, None], y, sample_weight=w[used])
    labels = None if clusters is None else clusters[used]
    kind: Literal["robust", "HC1"] = "robust" if clusters is None else "HC1"
    V = fit.vcov(kind, labels, weight_model=model) if model else fit.vcov(kind, labels)
    return EffectRow.of(
        adjustment.method, "hazard ratio", float(fit.coef_[0]), float(np.sqrt(V.iloc[0, 0])),
        adjustment.errors, level,
    )  # fmt: skip


# -- bootstrap ---------------------------------------------------------------------------------


def bootstrap_of_people(
    table: ComparisonTable,
    rows: list[EffectRow],
    again: Callable[[ComparisonTable], list[EffectRow]],
    draws: int,
    seed: int,
    level: float,
) -> list[EffectRow]:
    """Repeat the whole procedure with people drawn with replacement.

    Parameters
    ----------
    again : callable
        The procedure, which maps people to effects.
    draws : int
        Number of draws.
    """

    def one(rng: np.random.Generator) -> list[EffectRow]:
        return again(table.take(np.sort(rng.integers(0, table.n, table.n))))

    return _with_errors(rows, one, draws, seed, level, "people")


def bootstrap_of_sets(
    table: ComparisonTable,
    adjustment: Adjustment,
    rows: list[EffectRow],
    again: Callable[[Adjustment], list[EffectRow]],
    draws: int,
    seed: int,
    level: float,
) -> list[EffectRow]:
    """Draw matched sets with replacement (Austin and Small 2014).

    Parameters
    ----------
    again : callable
        Maps an adjustment, whose weights are those of a draw, to effects.
    """
    sets = adjustment.clusters
    if sets is None:
        raise DataError(
            "bootstrap= is not valid after matching with replacement (Abadie and Imbens 2008); "
            "leave it out for their errors."
        )
    inside = sets >= 0
    number = np.unique(sets[inside], return_inverse=True)[1]
    size = int(number.max()) + 1

    def one(rng: np.random.Generator) -> list[EffectRow]:
        counts: NDArray = np.bincount(rng.integers(0, size, size), minlength=size)
        weights = adjustment.weights.copy()
        weights[inside] *= counts[number]
        return again(replace(adjustment, weights=weights))

    return _with_errors(rows, one, draws, seed, level, "matched sets")


def _with_errors(
    rows: list[EffectRow],
    one: Callable[[np.random.Generator], list[EffectRow]],
    draws: int,
    seed: int,
    level: float,
    units: str,
) -> list[EffectRow]:
    """Replace the errors of effects by standard deviations over draws."""
    values: dict[tuple[str, str], list[float]] = {(r.measure, r.scale): [] for r in rows}
    failed = 0
    for stream in np.random.SeedSequence(seed).spawn(draws):
        try:
            found = one(np.random.default_rng(stream))
        except (DataError, SeparationError):
            failed += 1
            continue
        for row in found:
            values.setdefault((row.measure, row.scale), []).append(row.value)
    if failed > FAILED * draws:
        raise DataError(
            f"{failed} of {draws} bootstrap draws have no estimate, because groups or levels of "
            "covariates are too small; merge rare levels, or leave bootstrap out."
        )
    made = []
    for row in rows:
        own = np.array(values[row.measure, row.scale])
        # The draws in which a ratio is defined are a biased sample if many of them are not.
        known = len(own) > 1 and len(own) >= (1 - FAILED) * draws
        se = float(np.std(own, ddof=1)) if known else float("nan")
        how = f"bootstrap of {units}, {len(own)} draws"
        made.append(
            EffectRow.of(row.method, row.measure, row.value, se, how, level, scale=row.scale,
                         groups=(row.target, row.comparator))
        )  # fmt: skip
    return made
