"""Observation periods need a first and a last day: PostgreSQL and DuckDB know endless ones too."""

from __future__ import annotations

from steropes.errors import DataError
from steropes.studies.disclosure import LEAST, shown
from steropes.studies.omop import OmopDatabase

__all__ = ["refuse_endless"]


def refuse_endless(db: OmopDatabase) -> None:
    """Refuse dates of observation periods that are ``infinity`` or ``-infinity``.

    They would be two thousand million days of follow-up, where they can be counted at all.

    Raises
    ------
    DataError
        With the column and how many rows have it.
    """
    columns = [f"observation_period_{end}_date" for end in ("start", "end")]
    counts = ", ".join(f"count(*) FILTER (WHERE NOT isfinite({c}::DATE))" for c in columns)
    [found] = db.rows(f"SELECT {counts} FROM {db.table('observation_period')}")
    for column, count in zip(columns, found, strict=True):
        if count:
            raise DataError(
                f"observation_period: {column} is infinite in {shown(count, LEAST)} rows, and days "
                "at risk are counted from it; put in its place the first or last day of which "
                "there are records"
            )
