"""Survival curves and follow-up of a grid of comparisons for release, without small counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.values.arm_names import ARMS
from steropes.studies.disclosure.disclosive_digit_rounding import in_ratio, log_unit, whole_days
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.effect_suppression import Secrecy
from steropes.studies.disclosure.released_curves import coarse_steps, time_unit
from steropes.studies.disclosure.released_table_rows import signed
from steropes.studies.release.grid_counts import KEY, GridCounts

__all__ = ["released_curves", "released_follow_up"]

MORE = tuple(f"{arm}_{what}" for arm in ARMS for what in ("events", "here"))
EXTREMES = ("min_days", "max_days", "min_date", "max_date")


def released_curves(
    table: pd.DataFrame,
    counts: GridCounts,
    secrecy: dict[tuple[int, int, int], Secrecy],
    rules: DisclosureRules,
) -> pd.DataFrame:
    """Release Kaplan–Meier curves with enough events in each step, at the ends of intervals.

    A curve is withheld if the outcomes of an arm are suppressed, because its steps count them.
    """
    columns = [c for c in table if c not in MORE]
    if rules.open or table.empty:
        return table[columns]
    at = {tuple(int(k) for k in key): i for i, key in
          enumerate(counts.exact[KEY].itertuples(index=False))}  # fmt: skip
    parts: list[pd.DataFrame] = []
    for key, of in table.groupby(KEY, sort=True):
        place = (int(key[0]), int(key[1]), int(key[2]))
        s = secrecy[place]
        if s.closed or (s.events and not rules.rounds):
            continue
        line, hidden = counts.exact.iloc[at[place]], counts.hidden.iloc[at[place]]
        part = _curves(of, line, hidden, rules, dict(zip(KEY, place, strict=True)))
        if part is not None:
            parts.append(part)
    return pd.concat(parts, ignore_index=True)[columns] if parts else table.iloc[:0][columns]


def _curves(
    of: pd.DataFrame,
    line: pd.Series,
    hidden: pd.Series,
    rules: DisclosureRules,
    key: dict[str, int],
) -> pd.DataFrame | None:
    """Return the rows of one result: the steps of both arms and the people at risk."""
    t = of["time_day"].to_numpy(float)
    with_events = t[(of[[f"{arm}_events" for arm in ARMS]].to_numpy(float) > 0).any(axis=1)]
    unit = time_unit(float(with_events.max(initial=0.0)))
    grid = unit * np.arange(1, math.floor(float(t[-1]) / unit) + 1)
    if not len(grid):
        return None
    arms = {arm: _arm(of, arm, t, grid, line, hidden, rules) for arm in ARMS}
    marks = of[of["target_at_risk"].notna() | of["comparator_at_risk"].notna()]
    days = np.unique(
        np.concatenate([[0.0], marks["time_day"], *(grid[steps] for steps, *_ in arms.values())])
    )
    at_risk = {arm: _at_risk(marks, arm, line, hidden, rules) for arm in ARMS}
    digits = 3 if rules.rounds else 4
    made: dict[str, Any] = {**key, "time_day": days.astype(np.int64)}
    for arm, (steps, values, end) in arms.items():
        done = np.searchsorted(grid[steps], days, side="right")
        for name, curve in values.items():
            rounded = [1.0, *(round(value, digits) for value in curve.tolist())]
            made[f"{arm}_survival{name}"] = np.where(days <= end, np.array(rounded)[done], math.nan)
        made[f"{arm}_at_risk"] = [at_risk[arm].get(day, math.nan) for day in days.tolist()]
    return pd.DataFrame({**made, "database_id": of["database_id"].iloc[0]})


def _arm(
    of: pd.DataFrame,
    arm: str,
    t: NDArray,
    grid: NDArray,
    line: pd.Series,
    hidden: pd.Series,
    rules: DisclosureRules,
) -> tuple[list[int], dict[str, NDArray], float]:
    """Return steps of an arm (positions in the grid), its values there, and its last day."""
    until = np.searchsorted(t, grid, side="right") - 1
    events = np.cumsum(of[f"{arm}_events"].to_numpy(float))[until]
    here = np.append(of[f"{arm}_here"].to_numpy(float), 0.0)
    there = here[np.searchsorted(t, grid, side="left")]
    total, people = float(line[f"{arm}_outcomes"]), float(line[f"{arm}_subjects"])
    steps = coarse_steps(events, there, people, rules.least, total)
    values = {
        name: of[f"{arm}_survival{name}"].ffill().to_numpy(float)[until[steps]]
        for name in ("", "_lb", "_ub")
    }
    if hidden[f"{arm}_subjects"]:  # Without censoring, a risk is a share of these people.
        step = log_unit(int(people), rules.least)
        values = {
            name: np.array([1.0 - in_ratio(1.0 - s, step) for s in curve.tolist()])
            for name, curve in values.items()
        }
    enough = grid[there >= rules.least]
    last = float(enough[-1]) if len(enough) else 0.0
    if there[-1] >= rules.least:
        last = math.inf
    if steps:
        late = total > events[steps[-1]]
        return steps, values, float(grid[steps[-1]]) if late else max(float(grid[steps[-1]]), last)
    return steps, values, last if total == 0 else -1.0


def _at_risk(
    marks: pd.DataFrame, arm: str, line: pd.Series, hidden: pd.Series, rules: DisclosureRules
) -> dict[float, float]:
    """Count the people at risk at the marks; none if their number at the start is suppressed."""
    if hidden[f"{arm}_subjects"] and not rules.rounds:
        return {}
    days = marks["time_day"].to_numpy(float).tolist()
    exact = [int(n) if n == n else 0 for n in marks[f"{arm}_at_risk"].astype(float)]
    told = rules.falling(int(line[f"{arm}_subjects"]), exact)
    return {day: signed(n) for day, n in zip(days, told, strict=True)}


def released_follow_up(
    table: pd.DataFrame, counts: GridCounts, rules: DisclosureRules
) -> pd.DataFrame:
    """Release the quantiles of follow-up of large arms, in whole days.

    Extremes, and the first and last day on which people start, are those of single people.
    Follow-up ends with the outcome, so that quantiles would narrow a large number of outcomes that
    is a bound.
    """
    if rules.open or table.empty:
        return table
    people, shown = counts.exact.set_index(KEY), counts.results.set_index(KEY)
    lines = []
    for line in table.to_dict("records"):
        of, told = (t.loc[tuple(line[k] for k in KEY)] for t in (people, shown))
        for arm in ARMS:
            line |= {f"{arm}_{name}": None for name in EXTREMES}
            large = int(of[f"{arm}_subjects"]) >= 10 * rules.least
            large &= int(told[f"{arm}_outcomes"]) >= -rules.least
            for name in [c for c in line if str(c).startswith(arm) and str(c).endswith("days")]:
                value = line[name]
                line[name] = whole_days(float(value)) if large and value is not None else None
        lines.append(line)
    return pd.DataFrame(lines, columns=list(table.columns))
