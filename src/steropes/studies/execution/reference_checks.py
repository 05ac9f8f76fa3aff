"""Checks that the cohorts to which a specification refers are defined in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from steropes.errors import DataError
from steropes.studies.execution.settings_reader import Place, Source

if TYPE_CHECKING:
    from steropes.studies.execution.specification import GridSpec

__all__ = ["check_references", "require_database_id"]


def require_database_id(path: str | Path) -> None:
    """Refuse a file without the name of the database.

    The name identifies the results when databases are combined. Objects created in Python have a
    default.
    """
    source = Source.read(path)
    if "database_id" not in source.values:
        raise DataError(
            f"{source.name}: database_id is missing; it identifies the results when databases "
            'are combined: write database_id = "a name for this database"'
        )


def check_references(spec: GridSpec, source: Source) -> None:
    """Refuse ids of cohorts that are not defined.

    Parameters
    ----------
    spec : GridSpec
        With a cohort table nothing is refused, since the table may contain every id.
    source : Source
        The file of the specification.
    """
    cohorts = spec.cohorts
    if cohorts.table:
        return
    defined = {*cohorts.defined, *spec.controls.concepts}
    for what, cohort, place in _used(spec):
        if cohort not in defined:
            raise DataError(
                f"{source.where(place)}: {what} {cohort} is not defined; define cohort {cohort} in "
                "[cohorts.drugs], [cohorts.conditions] or [cohorts.definitions], or name a cohort "
                "table that has it (table in [cohorts])"
            )


def _used(spec: GridSpec) -> Iterator[tuple[str, int, Place]]:
    """Yield the use, the id and the place of every reference to a cohort."""
    for i, q in enumerate(spec.question):
        yield "target", q.target, ("question", i, "target")
        yield "comparator", q.comparator, ("question", i, "comparator")
        if q.nesting is not None:
            yield "nesting cohort", q.nesting, ("question", i, "nesting")
        for outcome in q.outcomes:
            yield "outcome", outcome.id, ("question", i, "outcomes")
    for control in spec.controls.cohorts:
        yield "negative control", control, ("controls", "cohorts")
    for i, a in enumerate(spec.analysis):
        if a.competing is not None:
            yield "competing outcome", a.competing, ("analysis", i, "competing")
        if a.nesting is not None:
            yield "nesting cohort", a.nesting, ("analysis", i, "nesting")
    for cohort in spec.cohorts.names:
        yield "the named cohort", cohort, ("cohorts", "names", str(cohort))
