"""Eras of the cases, read from the database in parts to limit memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.database.omop import Workspace
from steropes.studies.sccs.cases.era_sources import EraSources
from steropes.studies.sccs.specification.case_series_settings import (
    CaseSeriesSettings,
    ExposureWindow,
    Kind,
)

__all__ = ["Eras"]

PART = 250_000  # The number of cases whose eras are in memory together.


class Eras:
    """Eras that overlap the observation period of a case, even outside of the days that count.

    Eras after the last day that counts can have windows before them.

    The workspace's temporary table ``eras`` (``case_id, kind, era_id, first, last``, in days since
    the first day of observation) contains one part of the cases at a time, read by `parts`. All
    parts are read once at the start to count the eras.

    Parameters
    ----------
    work : Workspace
        With the table ``cases``.
    part : int
        Number of cases in a part; results do not depend on it.

    Attributes
    ----------
    n_cases : int
    counts : dict
        Number of eras of each (kind, id); ids with fewer than ``min_eras`` are left out, here and
        everywhere.
    notes : tuple of DataNote
        Eras that end before they start.

    Raises
    ------
    DataError
        An era table is missing, or a concept is unknown.
    """

    def __init__(
        self, work: Workspace, sources: EraSources, settings: CaseSeriesSettings, part: int = PART
    ) -> None:
        self.work, self.sources, self._part = work, sources, part
        windows = [*settings.windows, *([settings.control] if settings.control else [])]
        kinds: list[Kind] = sorted({w.kind for w in windows})
        self._relations: dict[Kind, str] = {}
        self.notes: tuple[DataNote, ...] = ()
        for kind in kinds:
            table, ids = _asked_for(sources, [w for w in windows if w.kind == kind])
            self._relations[kind] = sources.relation(table, ids)
            self.notes += sources.irregular_eras(table, ids)
        [(self.n_cases,)] = work.rows("SELECT count(*) FROM cases")
        self._held = -1  # The first case of the part in memory.
        self._few: list[tuple[str, int]] = []
        counts: dict[tuple[str, int], int] = {}
        for _ in self.parts():
            for kind, era, n in work.rows("SELECT kind, era_id, count(*) FROM eras GROUP BY ALL"):
                counts[kind, era] = counts.get((kind, era), 0) + n
        least = settings.cases.min_eras
        self.counts = {key: n for key, n in sorted(counts.items()) if n >= least}
        self._few = [key for key in counts if key not in self.counts]
        self._leave_out()

    def parts(self) -> Iterator[tuple[int, int]]:
        """Read part after part, yielding the range of its cases a … b − 1."""
        for a in range(0, max(self.n_cases, 1), self._part):
            b = min(a + self._part, self.n_cases)
            if self._held != a:
                self._read(a, b)
            yield a, b

    def ids(self, kind: Kind) -> list[int]:
        """Return the ids that have eras, ascending."""
        return [era for of, era in self.counts if of == kind]

    def of(self, kind: Kind, ids: Iterable[int]) -> tuple[NDArray, NDArray, NDArray]:
        """Return case, first and last day of the eras of some ids, for all cases, in this order."""
        wanted = sorted({*ids} & {*self.ids(kind)})
        table = self.sources.rules.exposures_from if kind == "exposure" else "condition_era"
        rows = self.work.arrays(
            f"SELECT case_id::BIGINT AS case_id, first::BIGINT AS first, last::BIGINT AS last FROM "
            f"({_of_cases(self.sources.relation(table, wanted))}) ORDER BY 1, 2, 3"
        )
        case, first, last = (rows[c].astype(np.int64) for c in ("case_id", "first", "last"))
        return case, first, last

    def _read(self, a: int, b: int) -> None:
        """Read the eras of the cases a … b − 1 into the table ``eras``."""
        self.work.run(
            "CREATE OR REPLACE TEMP TABLE eras (case_id INTEGER, "
            "kind ENUM('exposure', 'condition'), era_id BIGINT, first INTEGER, last INTEGER)"
        )
        [(low, high)] = self.work.rows(
            "SELECT coalesce(min(person_id), 0), coalesce(max(person_id), 0) FROM cases "
            "WHERE case_id >= $1 AND case_id < $2",
            [a, b],
        )
        some = f"c.case_id >= {a} AND c.case_id < {b} AND e.person_id BETWEEN {low} AND {high}"
        for kind, relation in self._relations.items():
            self.work.run(
                f"INSERT INTO eras SELECT case_id, '{kind}', era_id, first, last "
                f"FROM ({_of_cases(relation, some)}) ORDER BY case_id"
            )  # Sorted, so that some cases are found without scanning all.
        self._held = a
        self._leave_out()

    def _leave_out(self) -> None:
        """Delete the eras of ids with too few eras."""
        if self._few:
            self.work.run(
                "DELETE FROM eras WHERE (kind::VARCHAR, era_id) IN ("
                "SELECT (unnest($1::VARCHAR[]), unnest($2::BIGINT[])))",
                [[kind for kind, _ in self._few], [era for _, era in self._few]],
            )


def _asked_for(sources: EraSources, windows: list[ExposureWindow]) -> tuple[str, list[int] | None]:
    """Return the table of the eras of some windows of one kind, and their ids or None for all."""
    table = sources.table_of(windows[0])
    sources.check(table)
    if any(w.eras is None for w in windows):
        return table, None
    return table, sources.members(table, {i for w in windows for i in w.eras or ()})


def _of_cases(relation: str, some: str = "TRUE") -> str:
    """Return SQL of distinct eras with dates converted to days of the cases."""
    return f"""
        SELECT DISTINCT case_id, era_id, (first - observed)::INTEGER AS first,
               (e.last - observed)::INTEGER AS last
        FROM ({relation}) e JOIN cases c
          ON e.person_id = c.person_id AND e.first <= observed + c.until
         AND e.last >= observed
        WHERE {some}"""
