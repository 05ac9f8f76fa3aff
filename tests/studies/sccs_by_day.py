"""The slow and obvious case series: every day of every case by itself."""

from __future__ import annotations

from collections import Counter

from steropes.studies.sccs.specification.case_series_settings import (
    CaseSeriesSettings,
    ExposureWindow,
)


def runs(days: set[int]) -> list[tuple[int, int]]:
    """Unbroken runs of days."""
    found: list[tuple[int, int]] = []
    for d in sorted(days):
        if found and found[-1][1] == d - 1:
            found[-1] = (found[-1][0], d)
        else:
            found.append((d, d))
    return found


def days_of(window: ExposureWindow, eras: list[tuple[int, int, int]], ids: set[int]) -> set[int]:
    """Days on which a covariate is one; eras are (id, first, last)."""
    covered = {d for i, a, b in eras if i in ids for d in range(a, b + 1)}
    joined = runs(covered)
    found: set[int] = set()
    for k, (a, b) in enumerate(joined):
        if window.first_only and k:
            break
        low = (b if window.start_at == "end" else a) + window.start
        high = (b if window.end_at == "end" else a) + window.end
        if k + 1 < len(joined):
            high = min(high, joined[k + 1][0] - 1)
        found |= set(range(low, high + 1))
    return found


def rows_by_day(
    settings: CaseSeriesSettings,
    columns: list[tuple[str, ExposureWindow, set[int]]],
    case: tuple[int, int],
    eras: list[tuple[int, int, int]],
    events: list[int],
) -> dict[frozenset[str], tuple[int, int]]:
    """Days and events of each set of covariates that a case has; nothing if it has only one."""
    start, end = case
    sets = {name: days_of(w, eras, ids) for name, w, ids in columns}
    if settings.control is None and settings.end_of_observation_days:
        sets["end of observation"] = set(range(end - settings.end_of_observation_days + 1, end + 1))
    on: dict[int, frozenset[str]] = {
        d: frozenset(name for name, s in sets.items() if d in s) for d in range(start, end + 1)
    }
    edges = {
        d for s in sets.values() for a, b in runs(s & set(on)) for d in (a, b + 1)
    } - {start, end + 1}  # fmt: skip
    if not edges:  # nothing begins or ends within the case's time
        return {}
    if settings.control is not None:
        control = sets.pop("control")
        on = {
            d: frozenset(n for n in names if n != "control")
            for d, names in on.items()
            if names or d in control
        }
    days = Counter(on.values())
    hits = Counter(on[d] for d in events if d in on)
    return {names: (n, hits[names]) for names, n in days.items()}
