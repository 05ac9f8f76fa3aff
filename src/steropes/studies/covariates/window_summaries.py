"""Summaries of cohorts by covariates of several time windows, before and after the index.

Everything is counted by the database: no covariate of a person leaves it. Ids are those of
FeatureExtraction's temporal covariates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.covariates.concept_selection import ConceptSelection, place_selection
from steropes.studies.covariates.covariate_analysis_catalogue import DURING, WINDOWED, Analysis
from steropes.studies.covariates.covariate_names import covariate_table
from steropes.studies.covariates.covariate_sql import Statements
from steropes.studies.covariates.vocabulary_checks import check_vocabulary
from steropes.studies.database.checked_concept_descendants import Descendants
from steropes.studies.database.concept_names_and_descendants import UNNAMED
from steropes.studies.database.data_quality_notes import DataNote, distinct
from steropes.studies.database.irregular_rows import last_day, leave_out_unknown_people
from steropes.studies.database.observation_periods import joined_periods
from steropes.studies.database.omop import OmopDatabase, Workspace
from steropes.studies.database.sources.table_source import require_rows

__all__ = [
    "COHORTS",
    "NO_WINDOW",
    "WindowRules",
    "WindowSummaries",
    "summarise_spans",
    "summarise_windows",
]

COHORTS = 173  # The analysis of membership in other cohorts, as CohortDiagnostics numbers it.
NO_WINDOW = -1  # The window of covariates that are those of the index date.
ENTRIES = "window_entries"
# Analyses without a window: those of the index date, and scores of all days until then.
AT_INDEX = ("demographic", "length", "score")
MOST_ROWS = 3_000_000  # The most rows of covariates by cohort and window.
MEMBERSHIPS = 10_000_000  # About how many memberships are counted at a time.
EMPTY = "CREATE OR REPLACE TEMP TABLE features (covariate_id BIGINT, row_id INTEGER, value DOUBLE)"
SHARES = {"p_10": "0.1", "p_25": "0.25", "median": "0.5", "p_75": "0.75", "p_90": "0.9"}
Window = tuple[int, int]


@dataclass(frozen=True)
class WindowRules:
    """Covariates of several windows.

    Attributes
    ----------
    analyses : tuple of int
        Numbers of analyses in `WINDOWED`.
    windows : tuple of (int, int)
        First and last day of each window, relative to the start of an entry. Their ids are their
        places, from 1.
    selection : ConceptSelection
        Concepts to leave out or to use alone.
    only : tuple of int
        The only covariates, by id; empty for all.
    least_mean : float
        The smallest mean of a 0/1 covariate that is reported.
    cohorts : bool
        Whether membership in each of the cohorts is a covariate too.
    """

    analyses: tuple[int, ...]
    windows: tuple[Window, ...]
    selection: ConceptSelection = field(default_factory=lambda: ConceptSelection(unknown="note"))
    only: tuple[int, ...] = ()
    least_mean: float = 0.0
    cohorts: bool = False


@dataclass(frozen=True, repr=False, eq=False)
class WindowSummaries:
    """Exact summaries, which are not for release.

    Attributes
    ----------
    ones : DataFrame
        0/1 covariates: ``cohort_id``, ``time_id``, ``covariate_id``, ``sum_value`` (entries),
        ``persons`` and ``entries`` of the cohort.
    values : DataFrame
        Other covariates: the distribution of each, with ``count_value`` and ``persons``.
    columns : DataFrame
        Name, analysis and concepts of each covariate.
    notes : tuple of DataNote
        Irregularities of the vocabulary.
    windows : tuple of (int, int)
        First and last day of each window, of the ids 1, 2 and so on.
    """

    ones: pd.DataFrame
    values: pd.DataFrame
    columns: pd.DataFrame
    notes: tuple[DataNote, ...]
    windows: tuple[Window, ...] = ()


def summarise_windows(
    db: OmopDatabase, cohorts: CohortTable, rules: WindowRules, names: Mapping[int, str]
) -> WindowSummaries:
    """Summarise all entries of cohorts by covariates of several windows.

    Parameters
    ----------
    cohorts : CohortTable
        The cohorts.
    names : mapping of int to str
        Their names.

    Raises
    ------
    DataError
        The vocabulary lacks the links that groups, scores or descendants need, or there are too
        many cohorts; see `require_rows`.
    """
    analyses = [WINDOWED[number] for number in rules.analyses]
    notes = check_vocabulary(db, analyses)
    units: dict[int, int] = {}
    coded: dict[int, tuple[int, int]] = {}
    with db.workspace() as work:
        _place_entries(db, work, cohorts)
        family = Descendants(db)
        notes += place_selection(work, family, rules.selection, {a.table for a in analyses})
        for number, (first, last) in enumerate(rules.windows, 1):
            inside = Statements(db, last, bool(rules.selection.include))
            for analysis in analyses:
                if analysis.kind in AT_INDEX:
                    continue
                work.run(EMPTY)
                for sql in inside.insert(analysis, first):
                    work.run(sql)
                if analysis.kind == "value":
                    units |= dict(work.rows("SELECT covariate_id, unit FROM units"))
                if analysis.kind == "value as concept":
                    coded |= _codes(db, work, analysis)
                _summarise(work, rules, analysis, number)
            for among in _some_cohorts(work) if rules.cohorts else ():
                work.run(EMPTY)
                work.run(f"{_memberships(first, last)} AND {among}")
                _summarise(work, rules, None, number)
        index = Statements(db, 0, bool(rules.selection.include))
        for analysis in analyses:
            if analysis.kind in AT_INDEX:
                work.run(EMPTY)
                for sql in _at_index(db, index, analysis):
                    work.run(sql)
                _summarise(work, rules, analysis, NO_WINDOW)
        ones = work.frame("SELECT * FROM window_ones ORDER BY ALL")
        values = work.frame("SELECT * FROM window_values ORDER BY ALL")
    columns = _columns(db, ones, values, units, coded, names)
    return WindowSummaries(ones, values, columns, distinct((*notes, *family.notes)), rules.windows)


def summarise_spans(db: OmopDatabase, spans: CohortTable, rules: WindowRules) -> WindowSummaries:
    """Summarise spans of people's days, from the start to the end of each entry.

    Parameters
    ----------
    spans : CohortTable
        The spans, by kind instead of by cohort.
    rules : WindowRules
        Rules with analyses of `DURING` and without windows.

    Raises
    ------
    DataError
        The vocabulary lacks the links that groups or descendants need.
    """
    analyses = [DURING[number] for number in rules.analyses]
    notes = check_vocabulary(db, analyses)
    with db.workspace() as work:
        _place_entries(db, work, spans)
        family = Descendants(db)
        notes += place_selection(work, family, rules.selection, {a.table for a in analyses})
        inside = _SpanStatements(db, 0, bool(rules.selection.include))
        for analysis in analyses:
            work.run(EMPTY)
            for sql in inside.insert(analysis, None):
                work.run(sql)
            _summarise(work, rules, analysis, NO_WINDOW)
        ones = work.frame("SELECT * FROM window_ones ORDER BY ALL")
        values = work.frame("SELECT * FROM window_values ORDER BY ALL")
    columns = _columns(db, ones, values, {}, {}, {}, DURING)
    return WindowSummaries(ones, values, columns, distinct((*notes, *family.notes)))


class _SpanStatements(Statements):
    """The statements of analyses whose window is that of each row, from ``start`` to ``last``."""

    def _in_window(self, a: Analysis, first_day: int | None) -> str:
        """Return the condition that a record overlaps the span and has a concept."""
        last = last_day(f"e.{a.first}", f"e.{a.last}")
        return f"e.{a.first}::DATE <= p.last AND e.{a.concept} <> 0 AND {last} >= p.start"


# -- tables ----------------------------------------------------------------------------------------


def _place_entries(db: OmopDatabase, work: Workspace, cohorts: CohortTable) -> None:
    """Create the tables of entries and of their numbers, and those that are filled."""
    cohorts.place(work, ENTRIES)
    leave_out_unknown_people(db, work, ENTRIES)
    work.run(
        "CREATE TEMP TABLE people AS SELECT (row_number() OVER () - 1)::INTEGER AS "
        "row_id, subject_id AS person_id, cohort_start_date AS start, cohort_end_date AS last, "
        f"cohort_definition_id AS cohort FROM {ENTRIES}"
    )
    work.run(
        "CREATE TEMP TABLE sizes AS SELECT cohort, count(*) AS entries FROM people GROUP BY cohort"
    )
    work.run(
        "CREATE TEMP TABLE window_ones (cohort_id BIGINT, time_id INTEGER, covariate_id BIGINT, "
        "sum_value BIGINT, persons BIGINT, entries BIGINT)"
    )
    shares = ", ".join(f"{name}_value DOUBLE" for name in SHARES)
    work.run(
        "CREATE TEMP TABLE window_values (cohort_id BIGINT, time_id INTEGER, covariate_id BIGINT, "
        "count_value BIGINT, persons BIGINT, min_value DOUBLE, max_value DOUBLE, "
        f"average_value DOUBLE, standard_deviation DOUBLE, {shares})"
    )


def _summarise(work: Workspace, rules: WindowRules, analysis: Analysis | None, time: int) -> None:
    """Add the summary of ``features`` to the tables."""
    some = f"covariate_id IN ({', '.join(map(str, rules.only))})" if rules.only else "TRUE"
    if analysis is None or analysis.binary:
        # Membership of cohorts is never rare enough to be left out.
        least = 0.0 if analysis is None else rules.least_mean
        work.run(
            f"INSERT INTO window_ones SELECT cohort, {time}, covariate_id, count(*), "
            "count(DISTINCT person_id), any_value(entries) FROM features "
            f"JOIN people USING (row_id) JOIN sizes USING (cohort) WHERE {some} "
            f"GROUP BY cohort, covariate_id HAVING count(*) >= {least!r} * any_value(entries)"
        )
        [(rows,)] = work.rows("SELECT count(*) FROM window_ones")
        require_rows(rows, "covariates of cohorts", MOST_ROWS)
        return
    # Entries without a record of a length have none; of others they have a zero, except of values.
    rest = "entries - own" if analysis.kind not in ("length", "value") else "0"
    kept = "value IS NOT NULL" if analysis.kind == "length" else "value <> 0"
    shares = ", ".join(
        f"CASE WHEN {share} * n <= rest THEN 0 ELSE min(value) FILTER (place + rest >= {share} * n)"
        " END"
        for share in SHARES.values()
    )
    work.run(
        f"INSERT INTO window_values SELECT cohort, {time}, covariate_id, count(*), "
        "count(DISTINCT person_id), CASE WHEN rest > 0 THEN 0 ELSE min(value) END, max(value), "
        f"sum(value) / n, coalesce(stddev_samp(value), 0), {shares} FROM ("
        f"SELECT *, {rest} AS rest, own + rest AS n FROM ("
        "SELECT cohort, covariate_id, person_id, value, entries, "
        "row_number() OVER (PARTITION BY cohort, covariate_id ORDER BY value) AS place, "
        "count(*) OVER (PARTITION BY cohort, covariate_id) AS own FROM features "
        f"JOIN people USING (row_id) JOIN sizes USING (cohort) WHERE {kept} AND {some})) "
        "GROUP BY cohort, covariate_id, rest, n"
    )


def _at_index(db: OmopDatabase, index: Statements, analysis: Analysis) -> list[str]:
    """Return the statements of an analysis of the index date."""
    if analysis.id == 9:
        periods = joined_periods(db, "SELECT person_id FROM people")
        return [
            f"INSERT INTO features SELECT 1009, row_id, o.last - start FROM people p JOIN "
            f"({periods}) o ON o.person_id = p.person_id AND start BETWEEN o.first AND o.last"
        ]
    if analysis.id == 10:
        return ["INSERT INTO features SELECT 1010, row_id, last - start FROM people"]
    return [*index.insert(analysis, None)]


def _memberships(first: int, last: int) -> str:
    """Return the statement of cohorts in which an entry's person is on a day of a window."""
    return (
        f"INSERT INTO features SELECT DISTINCT c.cohort_definition_id * 1000 + {COHORTS}, "
        f"p.row_id, 1 FROM people p JOIN {ENTRIES} c ON c.subject_id = p.person_id "
        f"WHERE c.cohort_start_date <= p.start + {last} AND c.cohort_end_date >= p.start + {first}"
    )


def _some_cohorts(work: Workspace) -> list[str]:
    """Return conditions that divide the cohorts, so that few memberships are counted at a time."""
    found = work.rows(
        "SELECT min(cohort), max(cohort) FROM (SELECT cohort, sum(sum(own)) OVER (ORDER BY cohort) "
        f"// {MEMBERSHIPS} AS part FROM people JOIN (SELECT person_id, count(*) AS own FROM people "
        "GROUP BY 1) USING (person_id) GROUP BY cohort) GROUP BY part ORDER BY 1"
    )
    return [f"p.cohort BETWEEN {first} AND {last}" for first, last in found]


def _codes(db: OmopDatabase, work: Workspace, a: Analysis) -> dict[int, tuple[int, int]]:
    """Return the concept and the value of covariates of values as concepts."""
    code = Statements.value_code(f"{a.concept}::BIGINT", a.id)
    found = work.rows(
        f"SELECT {code}, {a.concept}::BIGINT, value_as_concept_id::BIGINT FROM (SELECT DISTINCT "
        f"{a.concept}, value_as_concept_id FROM {db.table(a.table)} "
        "WHERE value_as_concept_id <> 0) AS e WHERE EXISTS "
        f"(SELECT 1 FROM features f WHERE f.covariate_id = {code}) ORDER BY ALL"
    ) if {"person_id", "value_as_concept_id"} <= {*db.columns(a.table)} else []  # fmt: skip
    return {int(i): (int(concept), int(value)) for i, concept, value in reversed(found)}


# -- names -----------------------------------------------------------------------------------------


def _columns(
    db: OmopDatabase,
    ones: pd.DataFrame,
    values: pd.DataFrame,
    units: Mapping[int, int],
    coded: Mapping[int, tuple[int, int]],
    names: Mapping[int, str],
    catalogue: Mapping[int, Analysis] = WINDOWED,
) -> pd.DataFrame:
    """Name the covariates that were found."""
    ids = np.unique(np.concatenate([ones["covariate_id"], values["covariate_id"]]).astype(np.int64))
    of_cohorts = ids % 1000 == COHORTS
    found = covariate_table(db, ids[~of_cohorts], units=units, catalogue=catalogue)
    about = db.concept_names({c for pair in coded.values() for c in pair}) if coded else {}
    for place, covariate in enumerate(found["covariate_id"]):
        if covariate in coded:
            concept, value = coded[covariate]
            domain = WINDOWED[int(covariate) % 1000].domain.lower()
            text = f"{domain}: {about.get(concept, UNNAMED)} = {about.get(value, UNNAMED)}"
            found.loc[place, ["name", "concept_id"]] = [text, concept]
    found["value_as_concept_id"] = found["covariate_id"].map(
        {i: value for i, (_, value) in coded.items()}
    )
    cohorts = pd.DataFrame(
        {
            "covariate_id": ids[of_cohorts],
            "name": [f"cohort: {names.get(int(i) // 1000, '')}" for i in ids[of_cohorts]],
            "analysis_id": COHORTS,
            "concept_id": 0,
        }
    )
    return pd.concat([found, cohorts], ignore_index=True) if len(cohorts) else found
