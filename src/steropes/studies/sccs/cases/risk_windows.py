"""Risk windows from eras, in SQL: join eras, apply offsets, end at the next era, cut to the case.

The result is a table ``spans`` of (case, column, first, last) in which the spans of one case and
column neither overlap nor touch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from steropes.designs.case_series.spans import Spans
from steropes.studies.sccs.cases.eras import Eras
from steropes.studies.sccs.specification.settings import ExposureWindow

__all__ = ["stream_spans"]

STEP = 10_000  # The number of cases in a chunk.


def stream_spans(eras: Eras, windows: list[ExposureWindow], step: int = STEP) -> Iterator[Spans]:
    """Yield the spans of ``step`` cases at a time, to limit memory.

    Parameters
    ----------
    eras : Eras
        In a workspace with the tables ``wanted`` and ``cases``.
    windows : list of ExposureWindow
        The window of each column.
    step : int
        Number of cases in a chunk; results do not depend on it.
    """
    work = eras.work
    work.run("CREATE OR REPLACE TEMP TABLE rules (col BIGINT, lo INTEGER, hi INTEGER, "
             "lo_at_end BOOLEAN, hi_at_end BOOLEAN, first_only BOOLEAN)")  # fmt: skip
    if windows:
        work.run(
            "INSERT INTO rules SELECT unnest($1::BIGINT[]), unnest($2::INTEGER[]), "
            "unnest($3::INTEGER[]), unnest($4::BOOLEAN[]), unnest($5::BOOLEAN[]), "
            "unnest($6::BOOLEAN[])",
            [
                list(range(len(windows))),
                [w.start for w in windows],
                [w.end for w in windows],
                [w.start_at == "end" for w in windows],
                [w.end_at == "end" for w in windows],
                [w.first_only for w in windows],
            ],
        )
    for begin, end in eras.parts():
        for a in range(begin, end, step):
            b = min(a + step, end)
            found = work.arrays(_sql(a, b))
            columns = (found[name] for name in ("case_id", "col", "lo", "hi"))
            yield Spans(a, b, *(c.astype(np.int64) for c in columns))


def _islands(table: str) -> str:
    """Join rows (case_id, col, lo, hi) that overlap or touch; ``number`` counts the results.

    Of equal rows the new one counts first, as in `joined_spells`.
    """
    return f"""
        SELECT case_id, col, number, min(lo) AS lo, max(hi) AS hi FROM (
            SELECT case_id, col, lo, hi, sum(new) OVER (
                PARTITION BY case_id, col ORDER BY lo, hi, new DESC
                ROWS UNBOUNDED PRECEDING) AS number
            FROM (
                SELECT case_id, col, lo, hi, coalesce(lo > 1 + max(hi) OVER (
                    PARTITION BY case_id, col ORDER BY lo, hi
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), TRUE)::INTEGER AS new
                FROM {table}))
        GROUP BY case_id, col, number"""


def _sql(a: int, b: int) -> str:
    """Return the query for the spans of the cases a … b − 1."""
    return f"""
    WITH chosen AS (
        SELECT case_id, col, first AS lo, last AS hi FROM eras JOIN wanted USING (kind, era_id)
        WHERE case_id >= {int(a)} AND case_id < {int(b)}),
    joined AS ({_islands("chosen")}),
    ordered AS (
        SELECT *, lead(lo) OVER (PARTITION BY case_id, col ORDER BY lo) AS following
        FROM joined),
    moved AS (
        SELECT case_id, col,
               CASE WHEN r.lo_at_end THEN o.hi ELSE o.lo END + r.lo AS lo,
               least(CASE WHEN r.hi_at_end THEN o.hi ELSE o.lo END + r.hi,
                     following - 1) AS hi
        FROM ordered o JOIN rules r USING (col)
        WHERE NOT r.first_only OR o.number = 1),
    cut AS (
        SELECT case_id, col, greatest(m.lo, c.start)::INTEGER AS lo,
               least(m.hi, c.last)::INTEGER AS hi
        FROM moved m JOIN cases c USING (case_id)
        WHERE m.hi >= m.lo AND m.hi >= c.start AND m.lo <= c.last)
    SELECT case_id, col, lo, hi FROM ({_islands("cut")}) ORDER BY case_id, col, lo"""
