"""Risk windows of the cases of a database, from eras that are read in chunks of cases."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from steropes.designs.case_series.covariate_days import Spans
from steropes.designs.case_series.risk_window_days import WindowRules, join_eras, window_spans
from steropes.studies.database.omop import Workspace
from steropes.studies.sccs.cases.eras import Eras
from steropes.studies.sccs.specification.case_series_settings import ExposureWindow

__all__ = ["stream_spans"]

STEP = 10_000  # The number of cases in a chunk.


def stream_spans(eras: Eras, windows: list[ExposureWindow], step: int = STEP) -> Iterator[Spans]:
    """Yield the spans of ``step`` cases at a time, to limit memory.

    The spans of one case and column neither overlap nor touch.

    Parameters
    ----------
    eras : Eras
        In a workspace with the tables ``wanted`` and ``cases``.
    windows : list of ExposureWindow
        The window of each column.
    step : int
        Number of cases in a chunk; results do not depend on it.
    """
    for begin, end in eras.parts():
        for a in range(begin, end, step):
            yield _spans(eras.work, windows, a, min(a + step, end))


def _spans(work: Workspace, windows: list[ExposureWindow], a: int, b: int) -> Spans:
    """Return the spans of the cases a … b − 1."""
    found = work.arrays(
        "SELECT case_id::BIGINT AS case_id, col, first::BIGINT AS first, last::BIGINT AS last "
        f"FROM eras JOIN wanted USING (kind, era_id) WHERE case_id >= {int(a)} AND case_id < "
        f"{int(b)}"
    )
    case, column, first, last = (found[x].astype(np.int64) for x in ("case_id", "col", "first",
                                                                     "last"))  # fmt: skip
    p = max(len(windows), 1)
    joined = join_eras(case * p + column, first, last)
    following = joined.following()
    once = np.array([w.first_only for w in windows], bool)
    kept = np.flatnonzero(~once[joined.group % p] | (joined.number == 0))
    joined, following = joined.take(kept), following[kept]
    of = joined.group % p
    rules = WindowRules(
        *(np.array([getattr(w, x) for w in windows], np.int64)[of] for x in ("start", "end")),
        *(
            np.array([getattr(w, x) == "end" for w in windows], bool)[of]
            for x in ("start_at", "end_at")
        ),
    )
    days = work.arrays(
        "SELECT start::BIGINT AS start, last::BIGINT AS last FROM cases WHERE case_id >= "
        f"{int(a)} AND case_id < {int(b)} ORDER BY case_id"
    )
    at = joined.group // p - a
    era, low, high = window_spans(joined, following, rules, days["start"][at], days["last"][at])
    spans = join_eras(joined.group[era], low, high)
    return Spans(a, b, spans.group // p, spans.group % p, spans.first, spans.last)
