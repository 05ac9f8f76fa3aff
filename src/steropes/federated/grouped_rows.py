"""The rows from which a site answers: its table without rare combinations of values.

A plan adds columns to those that earlier plans on the same people have named. Their values are then
settled: they stay as the earlier plans disclosed them, and only the new columns are grouped, within
people whose settled values are equal. All answers of a site, to whatever plans, are therefore those
of one table in which each combination of values is that of no one or of ``least`` people.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from ..errors import DataError
from .disclosure_ledger import PlanRecord, grids, members_of
from .federated_constants import GROUPING
from .federated_plan import FederatedPlan
from .microaggregation import without_rare_combinations
from .owner_rules import OwnerRules
from .row_hashes import memberships
from .site_rows import SiteRows
from .small_cells import Factor, SiteCells, factor_of

__all__ = ["GroupedRows", "SiteReader", "cells_with", "grouped_rows"]

# Reads the rows of a plan, with other values of some columns.
SiteReader: TypeAlias = Callable[[FederatedPlan, Mapping[str, np.ndarray]], SiteRows]


@dataclass(frozen=True)
class GroupedRows:
    """The rows of a plan without rare combinations.

    Attributes
    ----------
    rows : SiteRows
        The rows from which the site answers.
    refusals : list of str
        Sentences on values that too few people have for the plan to be answered.
    """

    rows: SiteRows
    refusals: list[str]


def grouped_rows(
    plan: FederatedPlan, plans: Sequence[PlanRecord], rules: OwnerRules, read: SiteReader,
    digests: np.ndarray,
) -> GroupedRows:  # fmt: skip
    """Return the rows of a plan, after those of the ledger's plans in their order.

    Parameters
    ----------
    plans : sequence of PlanRecord
        All plans of the ledger, perhaps with this one.
    rules : OwnerRules
        The rules for this plan if it is not in the ledger yet.
    digests : (n,) uint64 array
        Keyed digests of all rows of the table.
    """
    replaced: dict[str, np.ndarray] = {}
    people, refusals, known = 0, list[str](), False
    for k, record in enumerate(plans):
        own = record.study == plan.study
        if record.grouped:
            if not np.isin(members_of(record, plans), digests).all():
                raise DataError(
                    "people of an earlier plan are no longer in the table. Their rows were grouped "
                    "with others, whose values in that plan can therefore not be computed again: "
                    "use the earlier rows"
                )
            earlier = FederatedPlan.from_dict(record.plan, "a plan in the ledger")
            settings = replace(rules, least=record.least, levels=record.levels)
            more, count = _group(earlier, plans[:k], settings, read(earlier, replaced), digests)
            replaced |= more
            people = count if own else people
        known = known or own
    if not known and rules.groups_rare_rows and plan.groups_rare_rows:
        rows = read(plan, replaced)
        refusals = _cells(plan, plans, rules, rows, digests).rare_values()
        if not refusals:
            more, people = _group(plan, plans, rules, rows, digests)
            replaced |= more
    return GroupedRows(replace(read(plan, replaced), rare=people), refusals)


def _cells(
    plan: FederatedPlan, plans: Sequence[PlanRecord], rules: OwnerRules, rows: SiteRows,
    digests: np.ndarray,
) -> SiteCells:  # fmt: skip
    """Return the cells of a plan's rows together with the columns of other plans."""
    part = parts(plan, plans, rows, digests)
    return SiteCells(rows, plan, rules, _others(plan, plans, rules, rows, part >= 0), part)


def cells_with(
    plan: FederatedPlan, plans: Sequence[PlanRecord], rules: OwnerRules, rows: SiteRows,
    digests: np.ndarray,
) -> SiteCells:  # fmt: skip
    """Return the cells of a plan's rows, together with those of other plans in the ledger."""
    if rules.least > 1:
        return _cells(plan, plans, rules, rows, digests)
    return SiteCells(rows, plan, rules)


def parts(
    plan: FederatedPlan, plans: Sequence[PlanRecord], rows: SiteRows, digests: np.ndarray
) -> np.ndarray:
    """Number the rows by the plans whose totals contain them, (n,); −1 for none."""
    names = rows.table.names
    alike = [p for p in plans if p.table == names and p.members and p.study != plan.study]
    own = digests[rows.problem.weights > 0]
    everyone, part = memberships([own, *(members_of(p, plans) for p in alike)])
    at = np.searchsorted(everyone, digests)
    known = np.isin(digests, everyone)
    out = np.where(known, part[np.minimum(at, len(part) - 1)], -1)
    out[known] = np.unique(out[known], return_inverse=True)[1].ravel()
    return out


def _others(
    plan: FederatedPlan, plans: Sequence[PlanRecord], rules: OwnerRules, rows: SiteRows,
    counted: np.ndarray,
) -> list[Factor]:  # fmt: skip
    """Return the factors of other plans: columns in any role, and their time grids."""
    out = list[Factor]()
    for name in dict.fromkeys(c for p in plans for c in p.columns):
        if name in plan.table_columns:
            continue
        x = rows.table.column(name)
        if x is not None:  # a column that the table lacks discloses nothing
            out += factor_of(name, x, counted, rules.levels)
    records = [*plans, PlanRecord("", "", [], plan.outcome, list(plan.times), [], 0, "")]
    for name in dict.fromkeys(p.outcome for p in records if p.times):
        union = grids(records, name)
        same = plan.shares_risk_sets and plan.outcome == name
        columns = [name, *([plan.entry] if same and plan.entry is not None else [])]
        if same and len(union) == len(plan.times):
            continue
        for column in columns:
            x = rows.table.column(column)
            if x is not None:
                side: Literal["left", "right"] = "left" if column == name else "right"
                x = np.searchsorted(union, x, side=side).astype(float)
                label = f"{column} (on the grids of all plans)"
                found = factor_of(label, x, counted, rules.levels)
                out += [replace(f, column=column) for f in found]
    return out


# -- grouping --------------------------------------------------------------------------------------


def _group(
    plan: FederatedPlan, plans: Sequence[PlanRecord], rules: OwnerRules, rows: SiteRows,
    digests: np.ndarray,
) -> tuple[dict[str, np.ndarray], int]:  # fmt: skip
    """Return the columns of a plan whose values change, and the number of people with others."""
    cells = _cells(plan, plans, rules, rows, digests)
    factors = cells.covariates
    n = len(cells.own)
    if n * len(factors) > GROUPING.max_numbers or not factors:
        return {}, 0
    levels = np.zeros((n, len(factors)))
    for j, factor in enumerate(factors):
        for k, at in enumerate(factor.rows):
            levels[at, j] = k + 1
    settled = _settled([f.name for f in factors], plans, rows, digests)
    label, chain = _classes(cells, levels, settled)
    values = {f.name: rows.table.column(f.name) for f in factors}
    X = np.empty_like(levels)
    for j, factor in enumerate(factors):
        x = values[factor.name]
        assert x is not None
        X[:, j] = np.where(settled[:, j], 0.0, x if factor.complete else levels[:, j])
    tie = rows.table.contents
    new = without_rare_combinations(X, _mass(plan, rows), label, chain, tie, rules.least)
    changed = (new != X).any(axis=1) & cells.own
    out: dict[str, np.ndarray] = {}
    for j, factor in enumerate(factors):
        moved = new[:, j] != X[:, j]
        if moved.any():
            x = values[factor.name]
            assert x is not None
            out[factor.name] = _values(x, factor, new[:, j], moved, label)
    return out, cells.people(changed)


def _settled(
    names: Sequence[str], plans: Sequence[PlanRecord], rows: SiteRows, digests: np.ndarray
) -> np.ndarray:
    """Return which values earlier plans have disclosed, (n, p) bool.

    Rows of another table have no common digests, so that anyone's may have been.
    """
    out, table = np.zeros((len(digests), len(names)), bool), rows.table.names
    for record in plans:
        own = np.isin(digests, members_of(record, plans)) | (record.table != table)
        out |= own[:, None] & np.isin(names, record.columns)
    return out


def _classes(
    cells: SiteCells, levels: np.ndarray, settled: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes of rows whose settled values are equal, and those with equal events.

    Roles other than covariates are settled as well. Classes are numbered in the order of these. An
    outcome with many values is divided at its quantiles.
    """
    n, keys = len(levels), [cells.part]
    for factor in [*cells.outcomes, *cells.others]:
        code = np.zeros(n)
        for k, at in enumerate(factor.rows):
            code[at] = k + 1
        keys.append(code)
    if cells.plan.planned.quadratic and not cells.outcomes:
        y = cells.rows.y
        ends = np.quantile(y[cells.counted], np.linspace(0, 1, GROUPING.outcome_parts + 1)[1:-1])
        keys.append(np.searchsorted(ends, y))
    keys += [np.where(s, x, -1.0) for x, s in zip(levels.T, settled.T, strict=True) if s.any()]
    table = np.column_stack(keys)
    _, label = np.unique(table, axis=0, return_inverse=True)
    chain = np.unique(table[:, : 2 if cells.outcomes else 1], axis=0, return_inverse=True)[1]
    return np.where(cells.counted, label.ravel(), -1), chain.ravel()


def _mass(plan: FederatedPlan, rows: SiteRows) -> np.ndarray:
    """Return the factors of rows in the sums of a score: counts of events, 1 without events."""
    if not plan.planned.adds_counts:
        return np.ones(len(rows.y))
    return np.where(rows.y > 0, rows.y, 1.0)


def _values(
    x: np.ndarray, factor: Factor, new: np.ndarray, moved: np.ndarray, label: np.ndarray
) -> np.ndarray:
    """Return a column's values after a change of levels.

    A column of many values has two levels: its most frequent value and all others. A row that gets
    one of the others has their mean.
    """
    out = x.copy()
    if factor.complete:
        out[moved] = new[moved]
        return out
    other = np.zeros(len(x), bool)
    other[factor.rows[0]] = True
    common = x[(label >= 0) & ~other][0]
    out[moved] = np.where(new[moved] > 0, x[other].mean(), common)
    return out
