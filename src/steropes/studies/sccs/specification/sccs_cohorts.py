"""Cohorts that serve as outcomes and exposures of case series."""

from __future__ import annotations

from steropes.errors import DataError
from steropes.studies.cohorts.cohort_builders import read_cohorts
from steropes.studies.cohorts.cohort_sources import CohortSources, MadeCohorts
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.omop import OmopDatabase

__all__ = ["attempted_cohorts", "cohort_settings", "make_cohorts"]


def cohort_settings(
    sources: CohortSources | None, outcome: int, exposure: int | None, table: bool = True
) -> dict[str, str]:
    """Return the settings that mark outcome and exposure as cohorts.

    Parameters
    ----------
    sources : CohortSources, optional
        Defined cohorts take precedence over concepts with the same id.
    table : bool
        Whether all other ids refer to its cohort table, if it has one.
    """
    if sources is None:
        return {}
    ids = {"outcomes_from": outcome, "exposures_from": exposure}
    every = table and bool(sources.table)
    return {name: "cohort" for name, i in ids.items() if every or i in _defined(sources)}


def make_cohorts(db: OmopDatabase, sources: CohortSources | None) -> CohortTable | None:
    """Build all defined cohorts and read those of the table.

    Raises
    ------
    DataError
        A cohort cannot be built, or its id is in the table too.
    """
    made = attempted_cohorts(db, sources)
    for why in made.refused.values():
        raise DataError(why)
    return made.table


def attempted_cohorts(db: OmopDatabase, sources: CohortSources | None) -> MadeCohorts:
    """Build the cohorts like `make_cohorts`, but return errors of single cohorts as messages.

    Raises
    ------
    DataError
        The table cannot be read, or an id is both in it and defined.
    """
    if sources is None:
        return MadeCohorts(None, {})
    table = None
    if sources.table:
        schema = sources.schema or None
        table = read_cohorts(db, table=sources.table, schema=schema, names=sources.names)
    wanted = _defined(sources)
    if not wanted:
        return MadeCohorts(table, {})
    made = sources.make(db, wanted)
    both = table + made.table if table is not None and made.table is not None else made.table
    return MadeCohorts(table if both is None else both, made.refused)


def _defined(sources: CohortSources) -> set[int]:
    """Return the ids of the defined cohorts."""
    return {*sources.drugs, *sources.conditions, *sources.definitions}
