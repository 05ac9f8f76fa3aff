"""Covariates of FeatureExtraction's catalogue, with its ids, extracted by the database.

The database finds each (person, covariate, value) once and sorts them, one analysis after another.
They are read as Arrow batches and stored by columns, without a dense matrix or a Python loop over
people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
import pandas as pd

from steropes.designs.covariates.covariates_by_column import Covariates, with_statistics
from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import (
    LONGEST,
    CovariateIds,
    Days,
    Listed,
    Whole,
    YesNo,
)
from steropes.designs.values.dates_and_ages import as_days
from steropes.errors import DataError
from steropes.studies.cohorts.cohort_table import CohortTable, whole_numbers
from steropes.studies.covariates.cohort_covariates import (
    CohortCovariate,
    collect_cohort_covariates,
    named_covariates,
)
from steropes.studies.covariates.concept_selection import ConceptSelection, place_selection
from steropes.studies.covariates.covariate_analysis_catalogue import ANALYSES, DEFAULT, Analysis
from steropes.studies.covariates.covariate_names import CUSTOM
from steropes.studies.covariates.covariate_sql import Statements
from steropes.studies.covariates.sparse_covariate_columns import Columns
from steropes.studies.covariates.vocabulary_checks import check_vocabulary
from steropes.studies.database.checked_concept_descendants import Descendants
from steropes.studies.database.data_quality_notes import DataNote, distinct
from steropes.studies.database.irregular_rows import (
    irregular_eras,
    repeated_people,
    repeated_visits,
    unknown_ages,
    unknown_sexes,
)
from steropes.studies.database.omop import OmopDatabase, Workspace
from steropes.studies.settings.concept_id_type import ConceptId

__all__ = ["AGE", "FeatureRules", "Features", "extract_features"]

SEX = 1  # The analysis of the sex.
AGE = 2  # The analysis of the age in years.
# The table that the statements of an analysis fill, and the query that reads it.
EMPTY = "CREATE OR REPLACE TEMP TABLE features (covariate_id BIGINT, row_id INTEGER, value DOUBLE)"
SORTED = (
    "SELECT covariate_id, row_id, value::FLOAT AS value FROM features WHERE value::FLOAT <> 0 "
    "ORDER BY covariate_id, row_id"
)


FeatureAge = Literal["year of birth", "birthdays"]


class FeatureRules(Settings):
    """Rules that select the covariates.

    Parameters
    ----------
    analyses : tuple of int
        Numbers of the analyses, as in FeatureExtraction. Default: its default set.
    long_days, medium_days, short_days : int, default 365, 180, 30
        The number of days before the start at which each window begins.
    end_day : int, default 0
        The last day of every window, counted from the start: 0 the start itself, −1 the day before.
    exclude, include : tuple of int
        Concepts to leave out, or (if any are given) the only ones to use. Demographics and scores
        are not affected.
    descendants : bool, default True
        Also apply these rules to all descendants of the concepts.
    include_descendants : bool, optional
        The same for the concepts to include alone. Default: as ``descendants``.
    only : tuple of int
        The only covariates to keep, by id; empty for all.
    unknown : {"refuse", "note"}, default "refuse"
        Whether a concept to exclude or include that the vocabulary lacks is an error, or is left
        out with a note on the data.
    age_rule : {"year of birth", "birthdays"}, default "year of birth"
        Whether age groups are of the year of the start less the year of birth, as
        FeatureExtraction has it, or of completed years.

    Examples
    --------
    >>> from steropes.studies.covariates import FeatureRules
    >>> rules = FeatureRules(analyses=(1, 3, 210), exclude=(1118084, 1124300))
    >>> rules.long_days
    365
    """

    analyses: CovariateIds = DEFAULT
    long_days: Days = 365
    medium_days: Days = 180
    short_days: Days = 30
    end_day: Annotated[int, Whole(-LONGEST, 0)] = 0
    exclude: Listed[ConceptId] = ()
    include: Listed[ConceptId] = ()
    descendants: YesNo = True
    include_descendants: YesNo | None = None
    only: CovariateIds = ()
    age_rule: FeatureAge = "year of birth"
    unknown: Literal["refuse", "note"] = "refuse"

    def __post_init__(self) -> None:
        """Sort the analyses, and refuse unknown ones."""
        object.__setattr__(self, "analyses", tuple(sorted({*self.analyses})))
        unknown = [a for a in self.analyses if a not in ANALYSES]
        if unknown:
            raise DataError(
                f"unknown covariate analysis {unknown[0]}; choose from {list(ANALYSES)}"
            )

    @property
    def selection(self) -> ConceptSelection:
        """The concepts to leave out or to use alone."""
        below = self.include_descendants
        return ConceptSelection(
            self.exclude, self.include, self.descendants,
            self.descendants if below is None else below, self.unknown,
        )  # fmt: skip

    def first_day(self, analysis: Analysis) -> int | None:
        """Return the first day of the window of an analysis.

        Parameters
        ----------
        analysis : Analysis
            One of the analyses of FeatureExtraction.

        Returns
        -------
        int or None
            Days relative to the start; None if unbounded.
        """
        lengths = {"long": self.long_days, "medium": self.medium_days, "short": self.short_days}
        if analysis.window in lengths:
            return -lengths[analysis.window]
        return None if analysis.window == "any" else self.end_day


@dataclass(frozen=True, repr=False, eq=False)
class Features(Covariates):
    """Covariates of FeatureExtraction's catalogue, as recorded: nothing is dropped or scaled.

    They are `Covariates`, and their table of columns also has ``concept_id``.

    Attributes
    ----------
    n : int
        Number of people.
    indptr, rows, values : ndarray
        Entries by columns, as of `Covariates`.
    columns : DataFrame
        One row per column, by id: ``covariate_id``, ``name``, ``analysis_id``, ``concept_id``,
        ``people`` (the number with a value), ``largest`` and ``binary``.
    unusable : dict of int to int
        The number of records by analysis that were left out because their value is not a finite
        number within the range of single precision.
    notes : tuple of DataNote
        Irregularities of the data that affect the covariates.

    Raises
    ------
    DataError
        A value is not finite.

    See Also
    --------
    extract_features : Extract the covariates of people.
    tidy : Drop rare and redundant covariates.

    Examples
    --------
    >>> from steropes.studies.cohorts import compare_cohorts, drug_era_cohorts
    >>> from steropes.studies.covariates import FeatureRules
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.covariates import extract_features
    >>> db = synthetic_database(200)
    >>> comparison = compare_cohorts(db, drug_era_cohorts(db, {1: 1118084, 2: 1124300}), 1, 2)
    >>> features = extract_features(db, comparison.entries, FeatureRules(analyses=(1, 3)))
    >>> features.matrix().shape[0] == features.n == len(comparison.entries)
    True
    """

    unusable: Mapping[int, int] = field(default_factory=dict)
    notes: tuple[DataNote, ...] = ()

    def __repr__(self) -> str:
        return f"Features({len(self.columns):,} covariates)"


def extract_features(
    db: OmopDatabase,
    entries: pd.DataFrame,
    rules: FeatureRules | None = None,
    *,
    cohorts: CohortTable | None = None,
    as_covariates: Iterable[int] = (),
    of_cohorts: Sequence[CohortCovariate] = (),
) -> Features:
    """Extract the covariates of people at their index dates.

    Parameters
    ----------
    db : OmopDatabase
        The database.
    entries : DataFrame
        ``person_id`` and ``start``, one row per person and start; row i of the result is row i. If
        a start includes a time, its date is used.
    rules : FeatureRules, optional
        Rules that select the covariates. Default: those of ``FeatureRules()``.
    cohorts : CohortTable, optional
        Cohorts that may be used as covariates.
    as_covariates : iterable of int
        Ids of the cohorts to use: the covariate is 1 for people who are in the cohort on any day of
        the long window. Its id is the cohort's id times 1000 plus 999.
    of_cohorts : sequence of CohortCovariate
        Covariates of cohorts with windows and ids of their own.

    Returns
    -------
    Features
        The covariates by columns.

    Raises
    ------
    DataError
        A concept to exclude or include is unknown, a table lacks a required column, the vocabulary
        lacks the links that groups, scores or descendants need, or a start is not a date.

    Notes
    -----
    Recorded values that are NaN, infinite, outside of single precision (3.4e38) or text that is not
    a number are left out before a person's last value is chosen; ``Features.unusable`` counts such
    records. A record without a value contributes to no covariate of values or ranges.

    Examples
    --------
    >>> from steropes.studies.cohorts import compare_cohorts, drug_era_cohorts
    >>> from steropes.studies.covariates import FeatureRules
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.covariates import extract_features
    >>> db = synthetic_database(200)
    >>> comparison = compare_cohorts(db, drug_era_cohorts(db, {1: 1118084, 2: 1124300}), 1, 2)
    >>> features = extract_features(db, comparison.entries, FeatureRules(analyses=(1, 210)))
    >>> features.columns["name"].iloc[[0, 2]].tolist()
    ['gender: MALE', 'condition group, long term: Sprain of wrist']
    """
    rules = rules or FeatureRules()
    missing_links = check_vocabulary(db, [ANALYSES[number] for number in rules.analyses])
    with db.workspace() as work:
        _load_people(work, entries)
        family = Descendants(db)
        read = {ANALYSES[number].table for number in rules.analyses}
        absent = place_selection(work, family, rules.selection, read)
        statements = Statements(
            db, rules.end_day, bool(rules.include), rules.age_rule == "birthdays"
        )
        columns = Columns()
        unusable: dict[int, int] = {}
        units: dict[int, int] = {}
        for number in rules.analyses:
            analysis = ANALYSES[number]
            work.run(EMPTY)
            for sql in statements.insert(analysis, rules.first_day(analysis)):
                work.run(sql)
            if rules.only:
                listed = ", ".join(map(str, rules.only))
                work.run(f"DELETE FROM features WHERE covariate_id NOT IN ({listed})")
            columns.add(work.stream(SORTED))
            if analysis.kind == "value":
                units |= dict(work.rows("SELECT covariate_id, unit FROM units"))
            counting = statements.unusable(analysis, rules.first_day(analysis))
            left_out = work.rows(counting)[0][0] if counting is not None else 0
            if left_out:
                unusable[number] = int(left_out)
        custom = [int(c) for c in as_covariates]
        if custom:
            work.run(EMPTY)
            _collect_cohorts(work, cohorts, custom, rules)
            columns.add(work.stream(SORTED))
        if of_cohorts:
            if cohorts is None:
                raise DataError("covariates of cohorts need the cohorts themselves")
            work.run(EMPTY)
            collect_cohort_covariates(db, work, of_cohorts, cohorts)
            columns.add(work.stream(SORTED))
        notes = distinct((*absent, *family.notes, *missing_links, *_irregular(db, work, rules)))
    ids, indptr, rows, values = columns.concatenate()
    table = named_covariates(db, ids, of_cohorts, cohorts, units)
    described = with_statistics(table, indptr, values)
    return Features(len(entries), indptr, rows, values, described, unusable, notes)


def _irregular(db: OmopDatabase, work: Workspace, rules: FeatureRules) -> list[DataNote]:
    """Count the records of these people that break OMOP's conventions."""
    people = "SELECT person_id FROM people"
    read = [ANALYSES[number] for number in rules.analyses]
    found = [*repeated_people(db, work, people)]
    if any(a.kind == "demographic" for a in read) or AGE in rules.analyses:
        start = "SELECT person_id, start FROM people"
        found += unknown_ages(db, work, start, AGE in rules.analyses)
    if SEX in rules.analyses:
        found += unknown_sexes(db, work, people)
    dates = {a.table: (a.first, a.last) for a in read if a.table}
    # An analysis of starts reads no last day, which another of the same table may read.
    dates |= {a.table: (a.first, a.last) for a in read if a.first != a.last}
    for table, both in dates.items():
        if {"person_id", *both} <= {*db.columns(table)}:
            where = f"person_id IN ({people})"
            found += irregular_eras(work, db.table(table), table, both, where)
    if any(a.table == "visit_occurrence" for a in read):
        found += repeated_visits(db, work, people)
    return found


def _load_people(work: Workspace, entries: pd.DataFrame) -> None:
    """Create the temporary table ``people`` of row numbers, persons and starts."""
    start = as_days(entries["start"], "entries: start")
    if np.isnat(start).any():
        raise DataError(f"entries: start is missing in row {int(np.argmax(np.isnat(start)))}")
    brought = pd.DataFrame(
        {
            "row_id": np.arange(len(entries), dtype=np.int32),
            "person_id": whole_numbers("person_id", entries["person_id"], "entries"),
            "start": start.astype("datetime64[s]"),
        }
    )
    work.connection.register("brought", brought)
    work.run(
        "CREATE TEMP TABLE people AS SELECT row_id, person_id, start::DATE AS start FROM brought"
    )
    work.connection.unregister("brought")


def _collect_cohorts(
    work: Workspace, cohorts: CohortTable | None, wanted: list[int], rules: FeatureRules
) -> None:
    """Add one covariate for each cohort that is used as a covariate."""
    if cohorts is None:
        raise DataError("covariates of cohorts need the cohorts themselves")
    cohorts.only(wanted).place(work, "of_cohorts")
    work.run(f"""
    INSERT INTO features
    SELECT DISTINCT cohort_definition_id * 1000 + {CUSTOM}, p.row_id, 1
    FROM people p JOIN of_cohorts c ON c.subject_id = p.person_id
    WHERE c.cohort_start_date <= p.start + {rules.end_day}
      AND c.cohort_end_date >= p.start - {rules.long_days}
    """)
