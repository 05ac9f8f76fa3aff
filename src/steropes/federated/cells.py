"""Small cells: a site refuses a message from which a few people could be told.

The rules look at the rows themselves, not at the numbers of a message: whoever knows sums over the
rows at a few coefficients knows the counts that they are made of. Counts of zero are let through,
as is customary.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from ..design import Design
from ..design.blocks import DenseBlock, SparseBlock
from ..errors import DataError, listed
from ..likelihoods import LogisticLikelihood
from .rows import SiteRows

__all__ = ["CellRules", "Check", "small_folds", "small_pairs", "small_sets", "small_times"]

Check = Literal["rows", "events", "columns", "pairs", "times", "folds"]
NAMED = 5  # of what is too small, in a message


@dataclass(frozen=True)
class CellRules:
    """What a site does not let out.

    Attributes
    ----------
    least : int
        Fewer people than this are too few; 0 or 1 lets everything through.
    checks : tuple of str
        ``"rows"``: people (strata of models that condition on them). ``"events"``: people with
        the event, without it (logistic), and either among those with a column and, where it has
        two values, among those without.
        ``"columns"``: people whose value of a column is not its most frequent one.
        ``"pairs"``: people who have both of two 0/1 columns of a Hessian.
        ``"times"``: events, and people who leave or enter, at each time of shared risk sets.
        ``"folds"``: rows, events and columns, as far as these are looked at, within each fold.
    """

    least: int = 5
    checks: tuple[Check, ...] = ("rows", "events", "columns", "pairs", "times", "folds")

    def __post_init__(self) -> None:
        if isinstance(self.least, bool) or not isinstance(self.least, int) or self.least < 0:
            raise DataError(f"the least count must be a whole number from 0, not {self.least!r}")
        for check in self.checks:
            if check not in get_args(Check):
                known = ", ".join(map(repr, get_args(Check)))
                raise DataError(f"there is no check {check!r}; there are {known}")

    def small(self, count: int) -> bool:
        """Whether a count is too low to be told."""
        return 0 < count < self.least

    def does(self, check: Check) -> bool:
        """Whether to look at these counts."""
        return self.least > 1 and check in self.checks


def small_folds(rows: SiteRows, rules: CellRules) -> list[str]:
    """What is too small within a fold, whose sums are those of all rows less those of the rest."""
    if not rules.does("folds") or rows.held_out is None:
        return []
    found: list[str] = []
    for k, out in enumerate(rows.held_out.T):
        small = small_sets(
            rows, rules, isinstance(rows.problem.likelihood, LogisticLikelihood), out
        )
        found += [f"in fold {k} {sentence}" for sentence in small]
    if not found:
        return []
    more = f" (and so in {len(found) - 1} more counts)" * (len(found) > 1)
    return [f"{found[0]}{more}; or have fewer folds, or let the site do without the check of folds"]


def small_sets(
    rows: SiteRows, rules: CellRules, balanced: bool, among: np.ndarray | None = None
) -> list[str]:
    """What is too small among people, events and columns, as sentences.

    Parameters
    ----------
    balanced : bool
        Whether people without the event are told as well (logistic models).
    among : (n,) bool array, optional
        The rows that are looked at; all by default.
    """
    counted = rows.problem.weights > 0
    if among is not None:
        counted &= among
    unit = rows.unit
    out = []
    people = len(np.unique(unit[counted]))
    if rules.does("rows") and people < rules.least:
        out.append(f"there are fewer than {rules.least} people")
    event = None if rows.event is None else rows.event & counted
    if rules.does("events") and event is not None:
        cases = len(np.unique(unit[event]))
        if rules.small(cases):
            out.append(f"fewer than {rules.least} people have the event")
        if balanced and rules.small(people - cases):
            out.append(f"fewer than {rules.least} people are without the event")
        if rows.codes is not None:
            others = (rows.codes > 0) & ~event & counted
            if rules.small(len(np.unique(unit[others]))):
                out.append(f"fewer than {rules.least} people have a competing event")
    if rules.does("columns") or rules.does("events"):
        out += _small_columns(rows, rules, counted, event, balanced)
    return out


def _small_columns(
    rows: SiteRows, rules: CellRules, counted: np.ndarray, event: np.ndarray | None, balanced: bool
) -> list[str]:
    few: list[str] = []
    cells: dict[str, list[str]] = {}
    design = rows.design
    for name, found in zip(design.names, _uncommon(design, counted), strict=True):
        if found is None:
            continue
        other, two = found
        if rules.does("columns") and rules.small(_people(rows.unit, other)):
            few.append(name)
        elif rules.does("events") and event is not None and len(other):
            for what, among in _cells(other, two, counted, event, balanced).items():
                if rules.small(_people(rows.unit, among)):
                    cells.setdefault(what, []).append(name)
                    break
    out = []
    if few:
        out.append(
            f"fewer than {rules.least} people differ from the others in {listed(few, NAMED)}: "
            "leave the column out of the plan, or merge it with others"
        )
    for what, names in cells.items():
        out.append(
            f"fewer than {rules.least} people {what} {listed(names, NAMED)}: leave the "
            "column out of the plan, merge it, or let the site do without the check of events"
        )
    return out


def _cells(
    having: np.ndarray, two: bool, counted: np.ndarray, event: np.ndarray, balanced: bool
) -> dict[str, np.ndarray]:
    """Rows with and without the event, among those with a column and, of two values, without."""
    if not two:
        return {"have the event and": having[event[having]]}
    rest = counted.copy()
    rest[having] = False
    without = counted & ~event
    out = {"have the event and": having[event[having]], "have the event and not": rest & event}
    if balanced:
        out |= {"have no event but": having[without[having]],
                "have no event and not": rest & without}  # fmt: skip
    return {k: np.flatnonzero(x) if x.dtype == bool else x for k, x in out.items()}


def _people(unit: np.ndarray, rows: np.ndarray) -> int:
    return len(np.unique(unit[rows]))


def _uncommon(design: Design, counted: np.ndarray) -> Iterable[tuple[np.ndarray, bool] | None]:
    """The rows whose value is not the column's most frequent one, and whether it has two values."""
    for block in design.blocks:
        for j in range(block.p):
            if isinstance(block, SparseBlock):
                at = block.indices[block.indptr[j] : block.indptr[j + 1]]
                mask = np.zeros(block.n, bool)
                mask[at] = True
                if len(block.data):
                    values = np.zeros(block.n)
                    values[at] = block.data[block.indptr[j] : block.indptr[j + 1]]
                    yield _differing(values, counted)
                else:
                    yield _differing(mask, counted)
            elif isinstance(block, DenseBlock):
                yield _differing(block.values[:, j], counted)
            else:
                yield None


def _differing(values: np.ndarray, counted: np.ndarray) -> tuple[np.ndarray, bool]:
    found, counts = np.unique(values[counted], return_counts=True)
    if not len(found):
        return np.empty(0, np.int64), False
    other = np.flatnonzero((values != found[int(counts.argmax())]) & counted)
    return other, len(found) == 2


def small_pairs(rows: SiteRows, rules: CellRules, columns: np.ndarray) -> list[str]:
    """Pairs of 0/1 columns that too few people have both of."""
    if not rules.does("pairs") or not len(columns):
        return []
    design, counted = rows.design, rows.problem.weights > 0
    having: list[tuple[str, np.ndarray]] = []
    for block, local, at in design.columns(columns):
        for j, place in zip(local, at, strict=True):
            name = design.names[columns[place]]
            if isinstance(block, SparseBlock) and not len(block.data):
                mask = np.zeros(block.n, bool)
                mask[block.indices[block.indptr[j] : block.indptr[j + 1]]] = True
            elif isinstance(block, DenseBlock) and len(np.unique(block.values[:, j])) == 2:
                mask = block.values[:, j] > block.values[:, j].min()
            else:
                continue
            having.append((name, mask & counted))
    small = []
    for a, (one, first) in enumerate(having):
        for other, second in having[:a]:
            both = np.flatnonzero(first & second)
            if rules.small(_people(rows.unit, both)):
                small.append(f"{other!r} and {one!r}")
    if not small:
        return []
    shown = "; ".join(small[:NAMED]) + (f"; and {len(small) - NAMED} more" * (len(small) > NAMED))
    return [
        f"fewer than {rules.least} people have both {shown}: leave columns out of the plan, or let "
        "the site do without the check of pairs"
    ]


def small_times(rows: SiteRows, rules: CellRules, times: np.ndarray) -> list[str]:
    """Times at which too few people have an event, or leave or enter the risk sets.

    Within each fold too, where there are some: what is told of all rows and of all but a fold
    tells of the fold.
    """
    if not rules.does("times") or not len(times):
        return []
    small = _small_times(rows, rules, times, rows.problem.weights > 0)
    if small is None and rules.does("folds") and rows.held_out is not None:
        counted = rows.problem.weights > 0
        for k, out in enumerate(rows.held_out.T):
            small = _small_times(rows, rules, times, counted & out)
            if small is not None:
                small = f"in fold {k} {small}"
                break
    if small is None:
        return []
    return [f"{small}: make the grid (times) coarser, or stratify by site (baseline='site')"]


def _small_times(
    rows: SiteRows, rules: CellRules, times: np.ndarray, among: np.ndarray
) -> str | None:
    assert rows.event is not None
    at = np.searchsorted(times, rows.y)
    kinds = {"have the event": at[among & rows.event], "leave": at[among]}
    if rows.codes is not None:
        others = ~rows.event & (rows.codes > 0)
        kinds["have a competing event"] = at[among & others]
        kinds["are censored"] = at[among & (rows.codes == 0)]
    if rows.entry is not None:
        kinds["enter"] = np.searchsorted(times, rows.entry[among], side="right")
    for what, at in kinds.items():
        counts = np.bincount(at, minlength=len(times))
        if any(rules.small(int(c)) for c in counts):
            return f"fewer than {rules.least} people {what} at some of the times"
    return None
