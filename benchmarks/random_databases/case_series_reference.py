"""The slow and obvious case series: one person after the other, one day after the other.

Nothing here shares code with the library. The rules are those of docs/case_series_study.md and
docs/databases.md. Days are ordinals of dates.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from dataclasses import dataclass

from .draw import OUTCOME, TARGET, Database
from .reference import day_of, era_days, family, observed_days, sexes

__all__ = ["Case", "Rules", "Window", "cases_of", "rows_of"]


@dataclass(frozen=True)
class Window:
    """Days around eras: offsets from the first or last day of an era."""

    label: str
    start: int
    end: int
    start_at: str
    end_at: str
    first_only: bool = False


@dataclass(frozen=True)
class Rules:
    """The settings that the reference knows."""

    exposure: Window
    pre_exposure_days: int
    control: Window | None
    others: bool
    naive_days: int
    first_outcome_only: bool
    sexes: tuple[int, ...]
    study_period: tuple[dt.date | None, dt.date | None] | None
    while_seen: bool
    end_of_observation_days: int


@dataclass
class Case:
    """A stretch of a person's time: the period of observation, and the days that count."""

    person_id: int
    observed: int
    until: int
    first: int
    last: int
    events: list[int]


def runs(days: set[int]) -> list[tuple[int, int]]:
    """Unbroken runs of days, in order."""
    found: list[tuple[int, int]] = []
    for d in sorted(days):
        if found and found[-1][1] == d - 1:
            found[-1] = (found[-1][0], d)
        else:
            found.append((d, d))
    return found


def cases_of(db: Database, rules: Rules) -> tuple[list[Case], list[tuple[int, int, int, int]]]:
    """The cases, and subjects, events, periods and days after each rule."""
    outcomes: dict[int, set[int]] = defaultdict(set)
    for row in db.tables["condition_occurrence"]:
        day = day_of(row["condition_start_date"])
        if day is not None and row["condition_concept_id"] in family(db, OUTCOME):
            outcomes[row["person_id"]].add(day.toordinal())
    sex = sexes(db)
    cases = []
    for person, days in sorted(observed_days(db).items()):
        if person in sex and person in outcomes:
            for a, b in runs({d.toordinal() for d in days}):
                if any(a <= day <= b for day in outcomes[person]):
                    cases.append(Case(person, a, b, a, b, sorted(outcomes[person])))
    steps = [_counts(cases)]
    if rules.study_period is not None:
        low, high = rules.study_period
        for case in cases:
            _cut(case, None if low is None else low.toordinal(),
                 None if high is None else high.toordinal())  # fmt: skip
        cases = [c for c in cases if c.first <= c.last]
        steps.append(_counts(cases))
    if rules.first_outcome_only:
        for case in cases:
            case.events = case.events[:1]
        steps.append(_counts(cases))
    if rules.naive_days:
        for case in cases:
            _cut(case, case.observed + rules.naive_days, None)
        cases = [c for c in cases if c.first < c.last]
        steps.append(_counts(cases))
    if rules.sexes:
        cases = [c for c in cases if sex[c.person_id] in rules.sexes]
        steps.append(_counts(cases))
    if rules.while_seen:
        eras = [e for e in era_days(db) if e[1] in family(db, TARGET)]
        first, last = (min(e[2] for e in eras), max(e[3] for e in eras)) if eras else (1, 0)
        for case in cases:
            _cut(case, first, last)
        cases = [c for c in cases if c.first < c.last]
        steps.append(_counts(cases))
    return [c for c in cases if _inside(c)], steps


def _cut(case: Case, low: int | None, high: int | None) -> None:
    case.first = case.first if low is None else max(case.first, low)
    case.last = case.last if high is None else min(case.last, high)


def _inside(case: Case) -> list[int]:
    return [d for d in case.events if case.first <= d <= case.last]


def _counts(cases: list[Case]) -> tuple[int, int, int, int]:
    kept = [c for c in cases if _inside(c)]
    return (
        len({c.person_id for c in kept}),
        sum(len(_inside(c)) for c in kept),
        len(kept),
        sum(c.last - c.first + 1 for c in kept),
    )


def rows_of(
    db: Database, rules: Rules, cases: list[Case]
) -> dict[tuple[int, frozenset[str]], tuple[int, int]]:
    """Days and events of each case (its number) under each set of covariates.

    A case under one set of covariates on all its days has no row.
    """
    drugs = sorted({e[1] for e in era_days(db)} - family(db, TARGET))
    found: dict[tuple[int, frozenset[str]], tuple[int, int]] = {}
    for number, case in enumerate(cases):
        eras = [
            (drug, a, b)
            for person, drug, a, b in era_days(db)
            if person == case.person_id and a <= case.until and b >= case.observed
        ]
        sets = {"exposure": _days(rules.exposure, eras, family(db, TARGET))}
        if rules.pre_exposure_days and rules.control is None:
            before = Window("", -rules.pre_exposure_days, -1, "start", "start",
                            rules.exposure.first_only)  # fmt: skip
            sets["pre-exposure"] = _days(before, eras, family(db, TARGET))
        if rules.others:
            for drug in drugs:
                sets[f"other drug {drug}"] = _days(_plain(rules.exposure), eras, {drug})
        if rules.control is not None:
            sets["control"] = _days(rules.control, eras, family(db, TARGET))
        elif rules.end_of_observation_days:
            probe = range(case.last - rules.end_of_observation_days + 1, case.last + 1)
            sets["end of observation"] = set(probe)
        on = {
            d: frozenset(name for name, days in sets.items() if d in days)
            for d in range(case.first, case.last + 1)
        }
        if len(set(on.values())) < 2:
            continue
        if rules.control is not None:
            on = {d: names - {"control"} for d, names in on.items() if names}
        events = Counter(on[d] for d in case.events if d in on)
        for names, length in Counter(on.values()).items():
            found[number, names] = (length, events[names])
    return found


def _plain(window: Window) -> Window:
    return Window("", window.start, window.end, window.start_at, window.end_at)


def _days(window: Window, eras: list[tuple[int, int, int]], drugs: set[int]) -> set[int]:
    """The days of a window around the joined eras of some drugs; the next era ends it."""
    joined = runs({d for drug, a, b in eras if drug in drugs for d in range(a, b + 1)})
    days: set[int] = set()
    for k, (a, b) in enumerate(joined[:1] if window.first_only else joined):
        low = (a if window.start_at == "start" else b) + window.start
        high = (a if window.end_at == "start" else b) + window.end
        if k + 1 < len(joined):
            high = min(high, joined[k + 1][0] - 1)
        days |= set(range(low, high + 1))
    return days
