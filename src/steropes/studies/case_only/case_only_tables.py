"""Events, exposures and observation of people in an OMOP database."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.errors import DataError
from steropes.studies.case_only.case_only_settings import OmopCaseOnly
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.cohorts.people_frame_with_hidden_rows import People
from steropes.studies.cohorts.two_cohort_entry_rules import PersonData, days
from steropes.studies.database.omop import OmopDatabase

__all__ = ["CaseOnlyTables", "case_only_tables"]

# Designs that need the observation of people without the outcome.
WITH_OTHERS = ("case-time-control", "nested-case-control", "self-controlled-cohort")


class CaseOnlyTables(NamedTuple):
    """Tables for the functions of `steropes.designs.case_only`; their ``repr`` shows no rows.

    Attributes
    ----------
    events : DataFrame
        ``id`` and ``day`` of each entry of the outcome.
    exposures : DataFrame
        ``id``, ``start``, ``end`` and the name of the ``exposure``.
    observation : DataFrame
        ``id``, ``start``, ``end``, ``sex`` (gender concept) and ``birth``.
    """

    events: pd.DataFrame
    exposures: pd.DataFrame
    observation: pd.DataFrame


def case_only_tables(
    db: OmopDatabase, question: OmopCaseOnly, cohorts: CohortTable | None = None
) -> CaseOnlyTables:
    """Make the tables of a case-only or case–control design.

    Parameters
    ----------
    db : OmopDatabase
        The database.
    question : OmopCaseOnly
        The specification.
    cohorts : CohortTable, optional
        Cohorts to use instead of those of the specification.

    Returns
    -------
    CaseOnlyTables
        Events, exposures and observation. Self-controlled designs have people with the outcome
        only.

    Raises
    ------
    DataError
        A cohort cannot be made, or no one has the outcome or an exposure while observed.

    Examples
    --------
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.case_only import OmopCaseOnly, case_only_tables
    >>> from steropes.studies.cohorts import CohortSources, ConceptSet
    >>> sources = CohortSources(
    ...     drugs={1: ConceptSet((1118084,))}, conditions={3: ConceptSet((192671,))}
    ... )
    >>> question = OmopCaseOnly(sources, (1,), 3, "case-crossover")
    >>> list(case_only_tables(synthetic_database(400), question).exposures)
    ['id', 'start', 'end', 'exposure']
    """
    if cohorts is None:
        cohorts = question.cohorts.make(db, question.roles).require_all()
    outcome = cohorts.only(question.outcome)
    ids = np.unique(outcome.subject)
    if not len(ids):
        raise DataError(f"nobody has the outcome {cohorts.name(question.outcome)}")
    if question.design in WITH_OTHERS:
        ids = _everybody(db)
    observation = _observation(db, question, cohorts, ids)
    events = _among(
        pd.DataFrame({"id": outcome.subject, "day": _dates(days(outcome.start))}), observation
    )
    exposures = _among(
        pd.concat([_entries(cohorts, i) for i in question.exposures], ignore_index=True),
        observation,
    )
    for table, what in ((events, "the outcome"), (exposures, "an exposure")):
        if table.empty:
            raise DataError(f"nobody who is observed has {what}; check the cohorts and the rules")
    return CaseOnlyTables(People(events), People(exposures), People(observation))


def _everybody(db: OmopDatabase) -> NDArray:
    """Return the ids of all people, ascending."""
    with db.workspace() as work:
        found = work.frame(f"SELECT DISTINCT person_id::BIGINT AS id FROM {db.table('person')}")
    return np.sort(found["id"].to_numpy())


def _entries(cohorts: CohortTable, cohort: int) -> pd.DataFrame:
    """Return the entries of a cohort as exposures."""
    own = cohorts.only(cohort)
    return pd.DataFrame(
        {
            "id": own.subject,
            "start": _dates(days(own.start)),
            "end": _dates(days(own.end)),
            "exposure": cohorts.name(cohort),
        }
    )


def _observation(
    db: OmopDatabase, question: OmopCaseOnly, cohorts: CohortTable, ids: NDArray
) -> pd.DataFrame:
    """Return the observation of people, cut to the study and to time since the nesting cohort."""
    persons = PersonData(db, ids)
    spells = persons.periods[persons.periods["person"].isin(persons.born["person_id"])]
    person = spells["person"].to_numpy()
    first, last = (days(spells[c].to_numpy()) for c in ("observed_from", "observed_to"))
    born, sex = persons.birth(person)
    keep = ~np.isnan(born)
    if question.sexes:
        keep &= np.isin(sex, question.sexes)
    if question.study_start is not None:
        first = np.maximum(first, _day(question.study_start))
    if question.study_end is not None:
        last = np.minimum(last, _day(question.study_end))
    if question.nesting is not None:
        own = cohorts.only(question.nesting)
        entered = pd.Series(days(own.start)).groupby(own.subject).min().reindex(person)
        keep &= entered.notna().to_numpy()
        first = np.maximum(first, entered.fillna(0).to_numpy(np.int64))
    keep &= last >= first
    if not keep.any():
        raise DataError("nobody is observed in the study; check its dates and the other rules")
    return pd.DataFrame(
        {
            "id": person[keep],
            "start": _dates(first[keep]),
            "end": _dates(last[keep]),
            "sex": sex[keep],
            "birth": _dates(born[keep].astype(np.int64)),
        }
    ).sort_values(["id", "start"], ignore_index=True)


def _among(table: pd.DataFrame, observation: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows of people with observation."""
    return table[table["id"].isin(observation["id"])].reset_index(drop=True)


def _dates(day: NDArray) -> NDArray:
    """Convert days since 1970-01-01 to dates."""
    return np.asarray(day).astype("datetime64[D]").astype("datetime64[s]")


def _day(date: object) -> int:
    """Convert a date to days since 1970-01-01."""
    return int(np.datetime64(str(date), "D").astype(np.int64))
