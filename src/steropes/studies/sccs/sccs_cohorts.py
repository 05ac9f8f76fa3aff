"""Which outcomes and exposures of a case series are cohorts, and the entries of those."""

from __future__ import annotations

from steropes.errors import DataError
from steropes.studies.cohorts.cohort_builders import read_cohorts
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.execution.cohort_sources import CohortSources, MadeCohorts

__all__ = ["attempted_cohorts", "cohort_settings", "make_cohorts"]


def cohort_settings(
    sources: CohortSources | None, outcome: int, exposure: int | None, table: bool = True
) -> dict[str, str]:
    """Settings that say whether outcome and exposure are cohorts.

    Parameters
    ----------
    sources : CohortSources, optional
        Cohorts that it defines are cohorts wherever their ids stand.
    outcome : int
    exposure : int or None
    table : bool
        Whether all other ids are those of its table, if it has one.
    """
    if sources is None:
        return {}
    ids = {"outcomes_from": outcome, "exposures_from": exposure}
    every = table and bool(sources.table)
    return {name: "cohort" for name, i in ids.items() if every or i in _defined(sources)}


def make_cohorts(db: OmopDatabase, sources: CohortSources | None) -> CohortTable | None:
    """All cohorts that are defined, and those of the table.

    Raises
    ------
    DataError
        One that cannot be made, or whose id is in the table too.
    """
    made = attempted_cohorts(db, sources)
    for why in made.refused.values():
        raise DataError(why)
    return made.table


def attempted_cohorts(db: OmopDatabase, sources: CohortSources | None) -> MadeCohorts:
    """The same, with what cannot be made left out and told.

    Raises
    ------
    DataError
        A table that cannot be read, an id that is in it and defined too.
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
    return {*sources.drugs, *sources.conditions, *sources.definitions}
