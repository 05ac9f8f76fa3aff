"""Compare the cases and intervals of a random case series with the reference."""

from __future__ import annotations

import datetime as dt

import numpy as np

from steropes.designs.case_series.interval_rows import Intervals, make_intervals
from steropes.studies import OmopDatabase, case_series_settings
from steropes.studies.database.observation_periods import DATED, WITH_PERSON
from steropes.studies.sccs.cases.case_population import Population, find_cases
from steropes.studies.sccs.cases.era_covariates import era_columns
from steropes.studies.sccs.cases.era_sources import EraSources
from steropes.studies.sccs.cases.eras import Eras
from steropes.studies.sccs.cases.risk_windows import stream_spans
from steropes.studies.sccs.specification.case_series_settings import CaseSeriesSettings

from .case_series_reference import Case, Rules, Window, cases_of, rows_of
from .draw import OUTCOME, TARGET, Database

__all__ = ["case_series_findings"]

EPOCH = dt.date(1970, 1, 1).toordinal()


def case_series_findings(opened: OmopDatabase, db: Database, rng: np.random.Generator) -> list[str]:
    """Draw settings, and list how the library's case series differs from the reference."""
    rules = _draw_rules(rng)
    settings = _settings(rules, db)
    with opened.workspace() as work:
        sources = EraSources(opened, work, settings.cases, None)
        population = find_cases(opened, work, settings.cases, sources)
        eras = Eras(work, sources, settings)
        columns, windows = era_columns(eras, settings)
        intervals = make_intervals(
            stream_spans(eras, windows), population, settings, columns, strict=False
        )
    cases, steps = cases_of(db, rules)
    findings = _attrition_differences(population, steps)
    ours = _cases(population)
    expected = [
        (c.person_id, c.first, c.last, tuple(d for d in c.events if c.first <= d <= c.last))
        for c in cases
    ]
    if ours != expected:
        wrong = [pair for pair in zip(ours, expected, strict=False) if pair[0] != pair[1]][:1]
        findings.append(f"{len(ours)} cases for {len(expected)}; the first that differs: {wrong}")
    return findings or _row_differences(intervals, settings, rows_of(db, rules, cases), cases)


def _draw_rules(rng: np.random.Generator) -> Rules:
    start_at, end_at = (str(x) for x in rng.choice([["start", "end"], ["start", "start"],
                                                    ["end", "end"]]))  # fmt: skip
    start = int(rng.choice([-5, 0, 1])) if start_at == "start" else int(rng.choice([0, 1]))
    end = int(rng.choice([0, 7, 60])) if end_at == "end" else int(rng.choice([1, 30, 400]))
    first_only = bool(rng.random() < 0.3)
    exposure = Window("exposure", start, max(start, end), start_at, end_at, first_only)
    control = None
    if rng.random() < 0.2:
        low = int(rng.choice([-180, -30]))
        control = Window("control", low, low + int(rng.choice([10, 29])), "start", "start",
                         first_only)  # fmt: skip
    period = None
    if rng.random() < 0.3:
        low_day = dt.date(2008, 1, 1) + dt.timedelta(days=int(rng.integers(0, 1200)))
        high_day = low_day + dt.timedelta(days=int(rng.integers(0, 1000)))
        period = (low_day, None) if rng.random() < 0.3 else (low_day, high_day)
    return Rules(
        exposure,
        int(rng.choice([0, 1, 30])),
        control,
        bool(rng.random() < 0.5),
        int(rng.choice([0, 0, 1, 180])),
        bool(rng.random() < 0.3),
        (8507,) if rng.random() < 0.2 else (),
        period,
        bool(rng.random() < 0.2),
        int(rng.choice([0, 30])),
    )


def _settings(rules: Rules, db: Database) -> CaseSeriesSettings:
    window, control = rules.exposure, rules.control
    return case_series_settings(
        OUTCOME,
        TARGET,
        risk_start=window.start,
        risk_end=window.end,
        risk_start_at=window.start_at,
        risk_end_at=window.end_at,
        first_only=window.first_only,
        pre_exposure_days=rules.pre_exposure_days,
        others=rules.others,
        control=None if control is None else (control.start, control.end),
        naive_days=rules.naive_days,
        first_outcome_only=rules.first_outcome_only,
        sexes=rules.sexes,
        study_periods=() if rules.study_period is None else (rules.study_period,),
        restrict_to_exposure=TARGET if rules.while_seen else None,
        end_of_observation_days=rules.end_of_observation_days,
        descendants=db.descendants,
    )


def _attrition_differences(
    population: Population, steps: list[tuple[int, int, int, int]]
) -> list[str]:
    found = [
        (rule, tuple(int(n) for n in counts))
        for rule, *counts in population.attrition.itertuples(index=False)
    ]
    # The reference begins where periods that lack a date and people without a row in person are
    # left out, which are lines of their own.
    before = [k for k, (rule, _) in enumerate(found) if rule in (DATED, WITH_PERSON)]
    found = found[max(before, default=0) :]
    if len(found) != len(steps):
        return [f"{len(found)} rules in the attrition, not {len(steps)}"]
    return [
        f"attrition after {rule!r}: {ours}, not {expected}"
        for (rule, ours), expected in zip(found, steps, strict=True)
        if ours != expected
    ]


def _cases(population: Population) -> list[tuple[int, int, int, tuple[int, ...]]]:
    out = []
    for k in range(len(population)):
        origin = int(population.observed[k]) + EPOCH
        days = population.outcome_day[population.outcome_case == k]
        out.append(
            (
                int(population.person[k]),
                origin + int(population.start[k]),
                origin + int(population.end[k]),
                tuple(origin + int(d) for d in days),
            )
        )
    return out


def _row_differences(
    intervals: Intervals,
    settings: CaseSeriesSettings,
    expected: dict[tuple[int, frozenset[str]], tuple[int, int]],
    cases: list[Case],
) -> list[str]:
    names = []
    for column, name in zip(intervals.columns, intervals.names, strict=True):
        by_concept = column.window >= 0 and settings.windows[column.window].by_concept
        names.append(f"other drug {column.eras[0]}" if by_concept else name)
    ours: dict[tuple[int, frozenset[str]], tuple[int, int]] = {}
    X = intervals.X.tocsr()
    for i in range(len(intervals)):
        on = frozenset(names[j] for j in X.indices[X.indptr[i] : X.indptr[i + 1]])
        key = (int(intervals.case[i]), on)
        if key in ours:
            return [f"two rows of case {key[0]} under {sorted(on)}"]
        ours[key] = (int(intervals.days[i]), int(intervals.events[i]))
    findings = [
        f"case {key[0]} ({cases[key[0]]}) under {sorted(key[1])}: (days, events) "
        f"{ours.get(key)}, not {expected.get(key)}"
        for key in [*ours, *(k for k in expected if k not in ours)]
        if ours.get(key) != expected.get(key)
    ][:2]
    total = (
        len({cases[n].person_id for n, _ in expected}),
        sum(e for _, e in expected.values()),
        len({n for n, _ in expected}),
        sum(d for d, _ in expected.values()),
    )
    if intervals.attrition[1:] != total:
        findings.append(f"time to compare: {intervals.attrition[1:]}, not {total}")
    return findings
