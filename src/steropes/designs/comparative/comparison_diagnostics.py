"""Checks of a comparison: overlap, effective sample sizes, weights, balance, ties, optima."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from steropes.data.diagnostic_limits import IMBALANCE
from steropes.data.number_formatting import counted
from steropes.designs.comparative.adjustments import Adjustment, BothModels
from steropes.designs.comparative.compared_people import ComparisonTable
from steropes.designs.comparative.matching import Matching
from steropes.designs.comparative.matching_distances_and_sets import Matcher, weights_of_sets
from steropes.designs.comparative.propensity_weights import PropensityWeights
from steropes.designs.propensity.fitted_propensity_model import auc
from steropes.designs.propensity.weights_by_estimand import Estimand
from steropes.designs.values.estimands import check_estimand
from steropes.errors import DataError

__all__ = ["SENSITIVITY", "diagnostics_table"]

# People with the largest weights, who must not have more than half of a group's weight.
HEAVIEST, HALF = 3, 0.5
# Other orders of people with tied scores for which effects are computed again.
ORDERS = 4
# Scores next to 0 and 1 without which effects are computed again (Crump and others 2009: 0.1).
TRIMMED = (0.05, 0.1)
# How the names of checks begin that compute the first effect again.
SENSITIVITY = "range over "

Row = tuple[str, float, float, bool, str]


def diagnostics_table(
    table: ComparisonTable,
    adjustments: list[Adjustment],
    balances: dict[str, pd.DataFrame],
    first_effect: Callable[[Adjustment], float],
    models: list[str],
) -> pd.DataFrame:
    """Check every adjustment.

    Parameters
    ----------
    balances : dict of str to DataFrame
        From `balance_table`, by method.
    first_effect : callable
        Maps an adjustment to its first effect.
    models : list of str
        Methods by outcome models alone.

    Returns
    -------
    DataFrame
        ``method``, ``diagnostic``, ``value``, ``limit``, ``passed`` and ``note``, which states what
        to do.
    """
    rows = []
    for adjustment in adjustments:
        checks = [*_of_weights(table, adjustment), *_of_balance(balances[adjustment.method])]
        checks += [*_of_score(table, adjustment), *_of_optimum(adjustment)]
        checks += _of_ties(table, adjustment, first_effect)
        checks += _of_trimming(table, adjustment, first_effect)
        rows += [(adjustment.method, *check) for check in checks]
    for method in models:
        rows += [(method, *check) for check in _of_extrapolation(table)]
    names = ["method", "diagnostic", "value", "limit", "passed", "note"]
    return pd.DataFrame(rows, columns=names)


def _of_extrapolation(table: ComparisonTable) -> Iterator[Row]:
    """Yield the largest share, over covariates, of people outside the other group's range."""
    columns, target = table.columns, table.target == 1
    own, other = columns.extremes(target), columns.extremes(~target)
    shares = np.empty(columns.p)
    for j in range(columns.p):
        x = columns.column(j)
        low, high = (np.where(target, other[k][j], own[k][j]) for k in (0, 1))
        shares[j] = ((x < low) | (x > high)).mean()
    worst = int(np.argmax(shares))
    fine = bool(shares[worst] <= HALF)
    note = (
        ""
        if fine
        else f"Most people have a value of {columns.names[worst]!r} that nobody of the other group "
        "reaches, so that the model is extrapolated. Restrict the comparison to people who could "
        "have had either."
    )
    name = "share with a covariate outside the other group's range"
    yield name, float(shares[worst]), HALF, fine, note


def _of_weights(table: ComparisonTable, adjustment: Adjustment) -> Iterator[Row]:
    """Yield numbers of people, effective sample sizes and shares of the largest weights."""
    target = table.target == 1
    for name, arm in (("target", target), ("comparator", ~target)):
        w = adjustment.weights[arm]
        used = int((w > 0).sum())
        left_out = len(w) - used
        note = f"{left_out:,} left out" if left_out else ""
        yield f"people in the {name}", used, np.nan, True, note
        size = float(w.sum() ** 2 / (w @ w))
        yield f"effective sample size of the {name}", size, np.nan, True, ""
        yield f"largest weight in the {name}", float(w.max()), np.nan, True, ""
        share = float(np.sort(w)[-HEAVIEST:].sum() / w.sum())
        fine = share <= HALF
        note = (
            ""
            if fine
            else f"{HEAVIEST} people have most of the weight of the {name}; trim or truncate the "
            "weights, take estimand='ATO', or leave out covariates that determine the treatment."
        )
        yield f"weight of the {HEAVIEST} heaviest of the {name}", share, HALF, fine, note


def _of_balance(balance: pd.DataFrame) -> Iterator[Row]:
    """Yield the largest standardised difference, without the distances of whole factors."""
    own = balance[balance["kind"] != "factor"]
    column = "smd_after" if "smd_after" in own else "smd_before"
    size = own[column].abs().to_numpy()
    worst = int(np.argmax(size))
    over = int((size > IMBALANCE).sum())
    name = own["name"].iloc[worst]
    note = "" if not over else f"{over:,} above {IMBALANCE:g}, most of all {name!r}"
    yield "largest standardised difference", float(size[worst]), IMBALANCE, not over, note


def _of_score(table: ComparisonTable, adjustment: Adjustment) -> Iterator[Row]:
    """Yield how well the score separates the groups, and who has no one alike."""
    step = adjustment.step
    scored = Matching | PropensityWeights | BothModels
    score = step.score_ if isinstance(step, scored) else None
    if score is None:
        return
    if isinstance(step, BothModels):
        note = f"scores below {step.bound_:.3g} or above {1 - step.bound_:.3g} count as this"
        count = float(step.overlap_["bounded"].sum())
        yield "people whose score is bounded", count, np.nan, True, note if count else ""
    target = table.target == 1
    yield "C statistic of the score", auc(score, table.target), np.nan, True, ""
    low = max(score[target].min(), score[~target].min())
    high = min(score[target].max(), score[~target].max())
    outside = (score < low) | (score > high)
    share = float(outside.mean())
    fine = share <= HALF
    note = (
        ""
        if fine
        else "Most people have a score that nobody of the other group reaches: the groups "
        "hardly overlap. Restrict the comparison to people who could have had either."
    )
    yield "share with a score outside the other group's range", share, HALF, fine, note


def _of_optimum(adjustment: Adjustment) -> Iterator[Row]:
    """Yield the certificate of the model of the score, or of entropy balancing."""
    if adjustment.certificate is not None:
        value, limit = adjustment.certificate
        fine = value <= limit
        note = "" if fine else "The optimum is not certified; raise max_iter."
        yield "violation of the optimality conditions", value, limit, fine, note


def _of_ties(
    table: ComparisonTable,
    adjustment: Adjustment,
    first_effect: Callable[[Adjustment], float],
) -> Iterator[Row]:
    """Yield the range of the first effect over orders of people with tied scores."""
    step = adjustment.step
    if not isinstance(step, Matching) or step.method != "nearest" or step.replace:
        return
    score = step.score_
    if score is None or not _tied(score, table.target):
        return
    found = [first_effect(adjustment)]
    columns, target = table.columns, table.target == 1
    estimand = cast(Estimand, check_estimand(step.estimand))
    for seed in range(1, ORDERS + 1):
        other = clone(step).set_params(random_state=step.random_state + seed)
        sets = Matcher(other, columns, target, estimand, score, table.ids).sets()
        weights = weights_of_sets(sets, target, estimand)
        found.append(first_effect(replace(adjustment, weights=weights, clusters=sets)))
    span = max(found) - min(found)
    low, high = f"{min(found):.3g}", f"{max(found):.3g}"
    note = (
        "People with equal scores are matched in an arbitrary order, which random_state "
        "determines: the first effect "
        + (f"rounds to {low} in all." if low == high else f"ranges from {low} to {high}.")
    )
    yield f"{SENSITIVITY}{ORDERS + 1} orders of tied scores", span, np.nan, True, note


def _of_trimming(
    table: ComparisonTable,
    adjustment: Adjustment,
    first_effect: Callable[[Adjustment], float],
) -> Iterator[Row]:
    """Yield the range of the first effect without people whose score is next to 0 or 1."""
    step = adjustment.step
    if not isinstance(step, PropensityWeights):
        return
    whole = first_effect(adjustment)
    found, parts, target = [whole], [], table.target == 1
    for limit in TRIMMED:
        kept = (step.score_ >= limit) & (step.score_ <= 1 - limit)
        weights = np.where(kept, adjustment.weights, 0.0)
        out = f"scores outside {limit:g} to {1 - limit:g} ({counted(int((~kept).sum()))} people)"
        try:
            if not (weights[target].any() and weights[~target].any()):
                raise DataError("nobody is left")
            found.append(first_effect(replace(adjustment, weights=weights)))
        except DataError:
            parts.append(f"cannot be estimated without {out}")
        else:
            parts.append(f"is {found[-1]:.3g} without {out}")
    note = f"The first effect is {whole:.3g}; it {' and '.join(parts)}."
    yield f"{SENSITIVITY}trimmed scores", max(found) - min(found), np.nan, True, note


def _tied(score: NDArray, target: NDArray) -> bool:
    """Return whether people of the same group have equal scores."""
    rounded = np.round(score, 12)
    return any(len(np.unique(rounded[target == k])) < int((target == k).sum()) for k in (0, 1))
