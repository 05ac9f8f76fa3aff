"""The semiparametric case series: an effect of age that is free on each age at an event.

The effect of age is left unspecified, and only ages at which someone of the cases had an event can
have a mass (Farrington and Whitaker 2006, Applied Statistics 55:553–594). The other days of a case
then have no weight, so that time can be counted in these ages: the days of cases and spans become
numbers of ages at events, and each age has a column.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from steropes.designs.case_series.cases_and_observation import Cases
from steropes.designs.case_series.covariate_days import Spans
from steropes.designs.case_series.series_column_descriptions import GROUP, Column
from steropes.errors import DataError

__all__ = ["on_event_ages"]

# The number of days of cases at ages with events, each of which is a row of the model.
MOST_ROWS = 20_000_000


def on_event_ages(
    cases: Cases, spans: Spans, columns: list[Column]
) -> tuple[Cases, Spans, list[Column]]:
    """Count time in ages at events, and add a column for each but the one with the most events.

    Parameters
    ----------
    cases : Cases
        With known ages in whole days.
    spans : Spans
        Of all cases.

    Raises
    ------
    DataError
        There are too many ages and cases.
    """
    born = np.floor(cases.age).astype(np.int64)
    at = born[cases.outcome_case] + cases.outcome_day
    ages, counts = np.unique(at, return_counts=True)
    start = np.searchsorted(ages, born + cases.start, side="left")
    end = np.searchsorted(ages, born + cases.end, side="right") - 1
    lengths = end - start + 1
    if int(lengths.sum()) > MOST_ROWS:
        raise DataError(
            f"age='semiparametric' has a parameter for each of {len(ages):,} ages at events, which "
            "is too many for these data; use groups of age or a Spline."
        )
    made = replace(
        cases,
        start=start,
        end=end,
        outcome_day=np.searchsorted(ages, at),
    )
    first = np.searchsorted(ages, born[spans.case] + spans.first, side="left")
    last = np.searchsorted(ages, born[spans.case] + spans.last, side="right") - 1
    kept = first <= last
    # Each age of each case, other than the reference.
    case = np.repeat(np.arange(len(cases)), lengths)
    begins = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    age = np.arange(len(case)) - np.repeat(begins - start, lengths)
    reference = int(counts.argmax())
    other = age != reference
    case, age = case[other], age[other]
    own = len(columns) + age - (age > reference)
    parts = (
        np.concatenate([spans.case[kept], case]),
        np.concatenate([spans.column[kept], own]),
        np.concatenate([first[kept], age]),
        np.concatenate([last[kept], age]),
    )
    order = np.lexsort((parts[2], parts[1], parts[0]))
    names = [f"age {a}" for a in np.delete(ages, reference)]
    return (
        made,
        Spans(spans.a, spans.b, *(x[order] for x in parts)),
        [*columns, *(Column(name, GROUP, interval=False) for name in names)],
    )
