"""The slow and obvious case series: one person after the other, one stretch after the other.

Nothing here shares code with the library. The rules are those of docs/case_series_study.md and
docs/databases.md. Days are ordinals of dates.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from dataclasses import dataclass

from .draw import OUTCOME, TARGET, Database
from .reference import day_of, era_days, family, joined, observed_spans, sexes

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


def cases_of(db: Database, rules: Rules) -> tuple[list[Case], list[tuple[int, int, int, int]]]:
    """The cases, and subjects, events, periods and days after each rule."""
    outcomes: dict[int, set[int]] = defaultdict(set)
    for row in db.tables["condition_occurrence"]:
        day = day_of(row["condition_start_date"])
        if day is not None and row["condition_concept_id"] in family(db, OUTCOME):
            outcomes[row["person_id"]].add(day.toordinal())
    sex = sexes(db)
    cases = []
    for person, spans in sorted(observed_spans(db).items()):
        if person in sex and person in outcomes:
            for a, b in spans:
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
    every, target = era_days(db), family(db, TARGET)
    drugs = sorted({e[1] for e in every} - target)
    found: dict[tuple[int, frozenset[str]], tuple[int, int]] = {}
    for number, case in enumerate(cases):
        eras = [
            (drug, a, b)
            for person, drug, a, b in every
            if person == case.person_id and a <= case.until and b >= case.observed
        ]
        sets = {"exposure": _windows(rules.exposure, eras, target)}
        if rules.pre_exposure_days and rules.control is None:
            before = Window("", -rules.pre_exposure_days, -1, "start", "start",
                            rules.exposure.first_only)  # fmt: skip
            sets["pre-exposure"] = _windows(before, eras, target)
        if rules.others:
            for drug in drugs:
                sets[f"other drug {drug}"] = _windows(_plain(rules.exposure), eras, {drug})
        if rules.control is not None:
            sets["control"] = _windows(rules.control, eras, target)
        elif rules.end_of_observation_days:
            sets["end of observation"] = [
                (case.last - rules.end_of_observation_days + 1, case.last)
            ]
        # Covariates change on the first day of a window and on the day after its last one only.
        changes = {d for spans in sets.values() for a, b in spans for d in (a, b + 1)}
        firsts = sorted({case.first} | {d for d in changes if case.first < d <= case.last})
        stretches = [
            (a, b - 1, _names(sets, a))
            for a, b in zip(firsts, [*firsts[1:], case.last + 1], strict=True)
        ]
        if len({names for _, _, names in stretches}) < 2:
            continue
        if rules.control is not None:
            stretches = [(a, b, names - {"control"}) for a, b, names in stretches if names]
        for a, b, names in stretches:
            days, events = found.get((number, names), (0, 0))
            inside = sum(a <= d <= b for d in case.events)
            found[number, names] = (days + b - a + 1, events + inside)
    return found


def _names(sets: dict[str, list[tuple[int, int]]], day: int) -> frozenset[str]:
    """The covariates of a day."""
    return frozenset(n for n, spans in sets.items() if any(a <= day <= b for a, b in spans))


def _plain(window: Window) -> Window:
    return Window("", window.start, window.end, window.start_at, window.end_at)


def _windows(
    window: Window, eras: list[tuple[int, int, int]], drugs: set[int]
) -> list[tuple[int, int]]:
    """First and last days of a window around the joined eras of some drugs; the next ends it."""
    whole = joined([(a, b) for drug, a, b in eras if drug in drugs])
    spans = []
    for k, (a, b) in enumerate(whole[:1] if window.first_only else whole):
        low = (a if window.start_at == "start" else b) + window.start
        high = (a if window.end_at == "start" else b) + window.end
        if k + 1 < len(whole):
            high = min(high, whole[k + 1][0] - 1)
        if low <= high:
            spans.append((low, high))
    return spans
