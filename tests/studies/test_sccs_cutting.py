"""Intervals of constant exposure, against every day counted by itself."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pytest
from tests.studies.conftest import OUTCOME, TARGET, day
from tests.studies.sccs_by_day import rows_by_day

from steropes.designs.case_series.interval_rows import make_intervals
from steropes.designs.case_series.interval_splitting import split_time
from steropes.studies import OmopDatabase, case_series_settings
from steropes.studies.cohorts import CohortTable
from steropes.studies.sccs.cases.case_population import find_cases
from steropes.studies.sccs.cases.era_covariates import era_columns
from steropes.studies.sccs.cases.era_sources import EraSources
from steropes.studies.sccs.cases.eras import Eras
from steropes.studies.sccs.cases.risk_windows import stream_spans
from steropes.studies.sccs.specification.case_series_settings import (
    CaseRules,
    CaseSeriesSettings,
    ExposureWindow,
    control_window,
)

DAY0 = dt.date(2010, 1, 1)
RULES = CaseRules(9, outcomes_from="cohort", exposures_from="cohort")

PLAIN = ExposureWindow("a", (1,))
SETTINGS = {
    "one": (PLAIN,),
    "pre": (PLAIN, ExposureWindow("pre", (1,), start=-9, end=-1, end_at="start")),
    "from the end": (ExposureWindow("late", (1, 2), start=1, start_at="end", end=6),),
    "first": (replace(PLAIN, first_only=True), ExposureWindow("b", (2,), start=-3, end=4)),
    "each": (ExposureWindow("each", by_concept=True, exclude=(3,), end=3),),
    "all": (ExposureWindow("all", start=2, end=8, end_at="start"),),
}


def drawn(omop, seed):
    """Cases with random observation, eras and outcomes; returns a database, cohorts, and these."""
    rng = np.random.default_rng(seed)
    cases, rows = {}, []
    for _ in range(25):
        first = int(rng.integers(0, 30))
        last = first + int(rng.integers(2, 90))
        person = omop.person(observed=None)
        offset = (DAY0 - dt.date(2010, 6, 15)).days
        omop.observed(person, offset + first, offset + last)
        eras = []
        for _ in range(rng.integers(0, 7)):
            a = int(rng.integers(first - 15, last + 10))
            eras.append((int(rng.integers(1, 4)), a, a + int(rng.integers(0, 12))))
        events = sorted({int(d) for d in rng.integers(first, last + 1, rng.integers(1, 4))})
        cases[person] = (first, last, eras, events)
        rows += [(i, person, a, b) for i, a, b in eras] + [(9, person, d, d) for d in events]
    entries = np.array(rows)
    start, end = (np.datetime64(DAY0) + entries[:, k] for k in (2, 3))
    return omop.write(), CohortTable(entries[:, 0], entries[:, 1], start, end), cases


def cut(path, cohorts, settings, step=100, part=100):
    with OmopDatabase(path) as db, db.workspace() as work:
        sources = EraSources(db, work, settings.cases, cohorts)
        population = find_cases(db, work, settings.cases, sources)
        eras = Eras(work, sources, settings, part)
        columns, windows = era_columns(eras, settings)
        made = make_intervals(
            stream_spans(eras, windows, step), population, settings, columns, strict=False
        )
    return population, made


def as_sets(population, made):
    """{person: {names: (days, events)}}."""
    found = {}
    X = made.X.tocsr()
    for i in range(len(made)):
        names = frozenset(made.names[j] for j in X.indices[X.indptr[i] : X.indptr[i + 1]])
        rows = found.setdefault(int(population.person[made.case[i]]), {})
        assert names not in rows, "rows of a case with the same covariates are one"
        rows[names] = (int(made.days[i]), int(made.events[i]))
    return found


def expected(settings, cases, control=None):
    found = {}
    ids = sorted({i for _, _, eras, _ in cases.values() for i, _, _ in eras})
    for person, (first, last, eras, events) in cases.items():
        # eras that end before observation are not seen
        seen = [(i, a, b) for i, a, b in eras if b >= first and a <= last]
        columns = []
        for w in [*settings.windows, *([control] if control else [])]:
            wanted = [i for i in (w.eras or ids) if i not in w.exclude]
            if w.by_concept:
                columns += [(f"{w.label}: cohort {i}", w, {i}) for i in wanted]
            else:
                columns.append((w.label, w, set(wanted)))
        rows = rows_by_day(settings, columns, (first, last), seen, events)
        if rows:
            found[person] = rows
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("probe", [0, 7])
def test_intervals_are_the_days_counted_one_by_one(omop, kind, probe):
    settings = CaseSeriesSettings(RULES, SETTINGS[kind], end_of_observation_days=probe)
    path, cohorts, cases = drawn(omop, len(kind) + probe)
    population, made = cut(path, cohorts, settings)
    assert as_sets(population, made) == expected(settings, cases)


@pytest.mark.parametrize("start", [-20, 3])
def test_a_risk_interval_keeps_the_window_and_the_control_interval_only(omop, start):
    control = control_window("control", (1,), start, start + 8)
    settings = CaseSeriesSettings(RULES, (replace(PLAIN, end=4, end_at="start"),), control=control)
    path, cohorts, cases = drawn(omop, 3)
    population, made = cut(path, cohorts, settings)
    assert as_sets(population, made) == {
        person: rows for person, rows in expected(settings, cases, control).items() if rows
    }


@pytest.mark.sampled
@pytest.mark.parametrize(("step", "part"), [(4, 100), (4, 7), (100, 9)])
@pytest.mark.parametrize("least", [0, 22])
def test_the_number_of_cases_at_a_time_changes_nothing(omop, step, part, least):
    settings = CaseSeriesSettings(replace(RULES, min_eras=least), SETTINGS["each"])
    path, cohorts, _ = drawn(omop, 4)
    _, whole = cut(path, cohorts, settings)
    _, parts = cut(path, cohorts, settings, step=step, part=part)
    assert whole.names == parts.names
    assert (whole.X != parts.X).nnz == 0
    for name in ("days", "events", "case"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
    assert whole.statistics.equals(parts.statistics)
    assert whole.attrition == parts.attrition


def test_statistics_count_the_spans(omop):
    settings = CaseSeriesSettings(RULES, SETTINGS["one"], end_of_observation_days=0)
    path, cohorts, cases = drawn(omop, 5)
    population, made = cut(path, cohorts, settings)
    line = made.statistics.loc["a"]
    assert line["days"] == made.days[made.X.toarray()[:, 0]].sum()
    assert line["events"] == made.events[made.X.toarray()[:, 0]].sum()
    with_it = np.unique(made.case[made.X.toarray()[:, 0]])
    assert line["periods"] == line["subjects"] == len(with_it)
    assert line["observed_days"] == made.days[np.isin(made.case, with_it)].sum()
    assert line["observed_events"] == made.events[np.isin(made.case, with_it)].sum()
    assert len(cases) == len(population)


@pytest.mark.sampled
@pytest.mark.parametrize("rule", ["study period", "age", "spell", "exposure seen"])
def test_a_window_before_an_exposure_is_there_where_the_exposure_itself_does_not_count(omop, rule):
    """Wherever time is cut, before or after an era: what is known of the period is used."""
    person = omop.person(observed=(0, 400), born=1950)
    omop.drug(person, TARGET, 210, 230)
    omop.drug(person, 2, 50, 199)
    omop.condition(person, OUTCOME, 100)
    omop.condition(person, OUTCOME, 190)
    rules = {
        "study period": {"study_periods": ((None, day(199)),)},
        "age": {"max_age": 60},  # to day 199, too
        "spell": {"nesting_cohort": 7},
        "exposure seen": {"restrict_to_exposure": 2},
    }[rule]
    cohorts = CohortTable([7], [person], [day(50)], [day(199)]) if rule == "spell" else None
    settings = case_series_settings(OUTCOME, TARGET, end_of_observation_days=0, **rules)
    _, made = cut(omop.write(), cohorts, settings)
    before = made.statistics.loc["pre-exposure"]
    assert (before["days"], before["events"]) == (20, 1)


def test_observation_until_the_year_9999_is_split_at_its_days():
    """Databases write 9999-12-31 for observation that goes on."""
    last = (dt.date(9999, 12, 31) - dt.date(1, 1, 1)).days
    start, end = np.zeros(2, np.int64), np.full(2, last)
    spans = tuple(np.array([v]) for v in (0, 0, last - 20, last - 11))
    outcomes = np.array([0, 0, 1]), np.array([5, last - 15, last])
    found = split_time(start, end, spans, outcomes)
    assert found.case.tolist() == [0, 0, 0, 1]
    assert found.first.tolist() == [0, last - 20, last - 10, 0]
    assert found.last.tolist() == [last - 21, last - 11, last, last]
    assert found.events.tolist() == [1, 1, 0, 1]
