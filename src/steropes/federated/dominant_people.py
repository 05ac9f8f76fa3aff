"""People who dominate a total, such that their values follow from it although others are in it.

A row counts with its weight times exp(offset). A single large offset leaves one person in all sums,
whose means are then this person's values. A cell of equal rows has at least ``least`` people if
no one has more than the share 1 / ``least`` of it. The same limit therefore applies to cells of
rows that count differently.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .row_hashes import column_values
from .small_cells import Factor, SiteCells

__all__ = ["refuse_dominated"]

# Rounding of shares, which are sums of positive numbers.
SLACK = 1e-9
# A deviation that exceeds all others together in a sum of squares is known to a factor of √2.
LARGEST_SHARE_OF_SQUARES = 0.5


def refuse_dominated(cells: SiteCells, among: np.ndarray) -> list[str]:
    """Return sentences on totals that fewer than ``least`` people dominate.

    Parameters
    ----------
    cells : SiteCells
        The cells of the plan.
    among : (n,) bool array
        The rows that are added up.
    """
    for name, share, limit in _shares(cells, among):
        if share > limit * (1 + SLACK):
            return [
                f"one person would dominate the totals by the values of {name!r}: leave the "
                "column out of the plan, or limit its largest values"
            ]
    return []


def _shares(cells: SiteCells, among: np.ndarray) -> Iterator[tuple[str, float, float]]:
    """Yield names of columns, the largest share of a person in a total, and its limit."""
    plan, rows = cells.plan, cells.rows
    problem, least = rows.problem, 1.0 / cells.rules.least
    rate = problem.weights.copy()
    name = plan.weight
    if problem.offset is not None and not plan.planned.quadratic:
        inside = rate > 0
        rate[inside] *= np.exp(problem.offset[inside] - problem.offset[inside].max())
        name = plan.offset or plan.exposure
    rated = among & (rate > 0)
    # Rows without weight here are in the totals of other plans, and examined by those.
    if name is not None and rated.any() and np.ptp(rate[rated]) > 0:
        for group in _groups(cells, rated):
            if group.any():
                yield name, _largest(cells, rate, group), least
    if plan.planned.adds_counts and (rows.y[among] > 0).any():
        yield plan.outcome, _largest(cells, rows.y, among), least
    for column, x in _magnitudes(cells):
        square = (x - x[among].mean()) ** 2
        if square[among].sum() > 0:
            yield column, _largest(cells, square, among), LARGEST_SHARE_OF_SQUARES


def _groups(cells: SiteCells, among: np.ndarray) -> Iterator[np.ndarray]:
    """Yield all rows, those at each level of a factor, and those at risk at each time."""
    yield among
    factors: list[Factor] = [*cells.covariates, *cells.outcomes, *cells.others]
    for factor in factors:
        rest = among.copy()
        for level in factor.rows:
            own = np.zeros(len(among), bool)
            own[level] = True
            yield own & among
            rest &= ~own
        yield rest
    rows = cells.rows
    if cells.plan.shares_risk_sets:
        for t in np.unique(rows.y[among]):
            at_risk = among & (rows.y >= t)
            yield at_risk if rows.entry is None else at_risk & (rows.entry < t)


def _magnitudes(cells: SiteCells) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the columns with many values, whose squares are added up."""
    tables = {f.name for f in [*cells.covariates, *cells.outcomes] if f.complete}
    design, n = cells.rows.design, len(cells.own)
    for name, (at, values) in zip(design.names, column_values(design), strict=True):
        if name not in tables:
            x = np.zeros(n)
            x[at] = values
            yield name, x
    plan, offset = cells.plan, cells.rows.problem.offset
    if plan.planned.quadratic:
        if plan.outcome not in tables:
            yield plan.outcome, cells.rows.y
        if offset is not None and plan.offset not in tables:
            yield plan.offset or "", offset


def _largest(cells: SiteCells, x: np.ndarray, among: np.ndarray) -> float:
    """Return the largest share of a person in the sum of x over some rows."""
    if not cells.own_units:
        return float(x[among].max() / x[among].sum())
    by_person = np.bincount(np.unique(cells.rows.unit[among], return_inverse=True)[1], x[among])
    return float(by_person.max() / by_person.sum())
