"""Counts of a comparative grid for release: small ones suppressed over all analyses together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from steropes.designs.values.arm_names import ARMS
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.released_table_rows import column
from steropes.studies.disclosure.small_cell_suppression import Bound, small
from steropes.studies.disclosure.sums_over_people import released_sums

__all__ = ["GridCounts", "released_counts"]

KEY = ["target_comparator_id", "outcome_id", "analysis_id"]


@dataclass(frozen=True, eq=False)
class GridCounts:
    """Released counts of a grid, and a mark of those that are not exact.

    Attributes
    ----------
    results : DataFrame
        Rows of ``cm_result`` with released subjects, outcomes and days. Minus n means "fewer than
        n", as in R's results model.
    exact : DataFrame
        The same rows with exact counts.
    hidden : DataFrame of bool
        Whether each of ``target_subjects``, ``comparator_subjects``, ``target_outcomes`` and
        ``comparator_outcomes`` is released as a bound, or rounded.
    attrition : DataFrame
        ``cm_attrition``.
    """

    results: pd.DataFrame
    exact: pd.DataFrame
    hidden: pd.DataFrame
    attrition: pd.DataFrame


def released_counts(
    results: pd.DataFrame,
    attrition: pd.DataFrame,
    exposures: pd.DataFrame,
    order: Sequence[int],
    rules: DisclosureRules,
) -> GridCounts:
    """Release the counts of results and of the attrition.

    The people of a cohort whom the rules of different analyses and outcomes leave are overlapping
    sets, and the difference of two counts may be that of few people. Therefore the difference of
    two released counts of a cohort is never small. The same holds for the people of a cohort with
    an outcome, over analyses, and for the people that a rule drops, over the analyses of an
    outcome.

    Parameters
    ----------
    results, attrition : DataFrame
        Exact ``cm_result`` and ``cm_attrition``.
    exposures : DataFrame
        ``cm_target_comparator``.
    order : sequence of int
        Ids of the analyses in decreasing precedence of their counts.
    """
    results, attrition = results.reset_index(drop=True), attrition.reset_index(drop=True)
    cohorts = exposures.set_index("target_comparator_id")
    cohort = {
        arm: results["target_comparator_id"].map(cohorts[f"{arm}_id"]).to_numpy() for arm in ARMS
    }
    rank = {a: i for i, a in enumerate(order)}
    first = sorted(results.index, key=lambda i: (rank.get(results.at[i, "analysis_id"], 0), i))
    told: dict[tuple[str, int], int | Bound] = {}
    blocked = _odd_drops(attrition, rank, rules)
    left: list[int | Bound] = [0] * len(attrition)
    groups: dict[int, list[tuple[str, int]]] = {
        int(c): [] for c in {*cohort["target"], *cohort["comparator"]}
    }
    for i in first:
        for arm in ARMS:
            groups[int(cohort[arm][i])].append((arm, i))
    last_rows = _last_rows(attrition)
    for number, places in groups.items():
        rows = attrition.index[attrition["exposure_id"] == number].tolist()
        kept = [(arm, i) for arm, i in places if _place(results, i, number) not in blocked]
        gone = [(arm, i) for arm, i in places if _place(results, i, number) in blocked]
        open_rows = [r for r in rows if r not in blocked.get("rows", ())]
        subjects = [int(results.at[i, f"{arm}_subjects"]) for arm, i in kept]
        counts = [*subjects, *(int(n) for n in attrition["subjects"].loc[open_rows])]
        found = rules.apart(counts)
        told |= {(f"{a}_subjects", i): f for (a, i), f in zip(kept, found, strict=False)}
        for r, f in zip(open_rows, found[len(kept) :], strict=True):
            left[r] = f
        for r in rows:
            if r in blocked.get("rows", ()):  # The limit of an earlier bound, not its count.
                left[r] = Bound(_limit(left[r - 1]))
        for arm, i in gone:
            told[f"{arm}_subjects", i] = left[last_rows[_place(results, i, number)]]
    for i, limit in _pairs(results, told).items():
        for arm in ARMS:
            told[f"{arm}_subjects", i] = limit
            row = last_rows.get(_place(results, i, int(cohort[arm][i])))
            if row is not None:
                left[row] = limit
    _outcomes(results, cohort, first, rules, told)
    return _together(results, attrition, told, left, rules)


def _place(results: pd.DataFrame, i: int, cohort: int) -> tuple[int, ...]:
    """Identify a result and a cohort."""
    return (*(int(results.at[i, k]) for k in KEY), int(cohort))


def _last_rows(attrition: pd.DataFrame) -> dict[tuple[int, ...], int]:
    """Find the row of the last rule of each result and cohort."""
    found: dict[tuple[int, ...], int] = {}
    for r, key in zip(
        attrition.index, attrition[[*KEY, "exposure_id"]].itertuples(index=False), strict=True
    ):
        found[tuple(int(k) for k in key)] = int(r)
    return found


def _pairs(results: pd.DataFrame, told: dict[tuple[str, int], int | Bound]) -> dict[int, Bound]:
    """Find the bounds of matched pairs, of which both arms have the same number.

    Two bounds, or a bound and a count, of the same number would narrow it. Analyses make pairs if
    both arms are as large for all outcomes: if those of one outcome are so by chance, a bound of
    both would tell that they are.
    """
    found = {}
    same = results["target_subjects"] == results["comparator_subjects"]
    pairs = same.groupby(results["analysis_id"]).transform("all")
    for i in results.index[pairs]:
        bounds = [n for arm in ARMS if isinstance(n := told[f"{arm}_subjects", i], Bound)]
        if bounds:
            found[i] = max(bounds, key=_limit)
    return found


def _limit(n: int | Bound) -> int:
    """Return the limit of a bound, or the count."""
    return int(n.limit) if isinstance(n, Bound) else n


def _odd_drops(attrition: pd.DataFrame, rank: dict[int, int], rules: DisclosureRules) -> Any:
    """Find rows whose rule dropped nearly as many people as in another analysis of the outcome.

    The difference of such two differences is small. Returns the places (result and cohort) whose
    last row is one of these, and under "rows" the rows.
    """
    blocked: dict[Any, Any] = {"rows": set()}
    if rules.rounds or attrition.empty:
        return blocked
    table = attrition.assign(
        drop=-attrition.groupby([*KEY, "exposure_id"], sort=False)["subjects"].diff(),
        rank=attrition["analysis_id"].map(lambda a: rank.get(a, 0)),
    )
    table = table[table["drop"] > 0].sort_values("rank", kind="stable")
    last = _last_rows(attrition)
    for _, of in table.groupby(["exposure_id", "outcome_id", "description"], sort=False):
        drops = of["drop"].astype(int).tolist()
        for r, n, found in zip(of.index, drops, rules.apart(drops), strict=True):
            if isinstance(found, Bound) and not small(n, rules.least):
                blocked["rows"].add(int(r))
                place = tuple(int(of.at[r, k]) for k in [*KEY, "exposure_id"])
                if last[place] == r:
                    blocked[place] = True
    return blocked


def _outcomes(
    results: pd.DataFrame,
    cohort: dict[str, Any],
    first: list[int],
    rules: DisclosureRules,
    told: dict[tuple[str, int], int | Bound],
) -> None:
    """Release the people with each outcome of each cohort, over all analyses.

    Where the people of an analysis are released, those without the outcome follow, and their
    difference between analyses must not be small either.
    """
    groups: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for i in first:
        for arm in ARMS:
            key = (int(cohort[arm][i]), int(results.at[i, "outcome_id"]))
            groups.setdefault(key, []).append((arm, i))
    for places in groups.values():
        known: list[int] = []
        known_without: list[int] = []
        for arm, i in places:
            n = int(results.at[i, f"{arm}_subjects"])
            e = int(results.at[i, f"{arm}_outcomes"])
            people_released = isinstance(told[f"{arm}_subjects", i], int)
            found = rules.part(e, n)
            if isinstance(found, int):
                found = rules.apart([e], known)[0]
            if isinstance(found, int) and people_released:
                without = rules.apart([n - e], known_without)[0]
                found = Bound(n) if isinstance(without, Bound) else found
            if isinstance(found, int):
                known.append(e)
                if people_released:
                    known_without.append(n - e)
            told[f"{arm}_outcomes", i] = found


def _together(
    results: pd.DataFrame,
    attrition: pd.DataFrame,
    told: dict[tuple[str, int], int | Bound],
    left: list[int | Bound],
    rules: DisclosureRules,
) -> GridCounts:
    """Assemble the released counts."""
    released, hidden = results.copy(), {}
    for arm in ARMS:
        for what in ("subjects", "outcomes"):
            name = f"{arm}_{what}"
            values = [told[name, i] for i in results.index]
            released[name] = column(values)
            hidden[name] = [rules.rounds or isinstance(v, Bound) for v in values]
        bounds = (released[f"{arm}_subjects"] < 0) | (released[f"{arm}_outcomes"] < 0)
        days = released[f"{arm}_days"].astype(float)
        if rules.rounds:
            people = [table[f"{arm}_subjects"] for table in (results, released)]
            days = released_sums(days, people[0], people[1], rules)
        days = days.mask(bounds)
        released[f"{arm}_days"] = days if days.isna().any() else days.astype(np.int64)
    return GridCounts(
        released,
        results,
        pd.DataFrame(hidden, index=results.index),
        attrition.assign(subjects=column(left)),
    )
