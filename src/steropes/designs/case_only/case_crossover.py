"""Case–crossover: windows before events against earlier windows of the same people."""

from __future__ import annotations

from typing import Any

from steropes.backends.blas_threads import single_threaded_blas
from steropes.data.vector_checks import check_level
from steropes.designs.case_only.case_only_result import CaseOnlyResult, shown_ratios
from steropes.designs.case_only.crossover_windows import (
    CrossoverRules,
    compare_windows,
    window_sets,
)
from steropes.designs.case_only.index_days import Attrition, read_people
from steropes.designs.case_series_from_tables.event_exposure_and_observation_tables import (
    ColumnNames,
)
from steropes.designs.values.argument_checks import check_flag

__all__ = ["case_crossover"]


@single_threaded_blas()
def case_crossover(
    events: Any,
    exposures: Any,
    observation: Any,
    *,
    window: tuple[int, int] = (-30, 0),
    references: Any = -60,
    washout: int = 180,
    first_event_only: bool = True,
    id: str = "id",
    event_day: str = "day",
    start: str = "start",
    end: str = "end",
    exposure: str | None = None,
    level: float = 0.95,
) -> CaseOnlyResult:
    """Compare exposure before events with exposure of the same people in earlier windows.

    Only people with an event count, and each is compared with himself or herself at an earlier
    time. It suits short exposures and sudden events. Exposure that becomes more frequent with time
    raises the ratio, for which `case_time_control` adjusts.

    Parameters
    ----------
    events : data frame, relation or path
        One row per event, with the columns ``id`` and ``event_day``. Tables may be of pandas,
        polars, pyarrow or anything that narwhals reads, such as a DuckDB relation, or the path of a
        Parquet or CSV file. Days are dates in all tables, or whole numbers on one scale.
    exposures : data frame, relation or path
        One row per exposure with ``id``, its first day ``start`` and, if there is such a column,
        its last day ``end``.
    observation : data frame, relation or path
        One row per person (or separate period) with ``id`` and the first and last day observed,
        ``start`` and ``end``.
    window : (int, int), default (-30, 0)
        First and last day of the window before the event, relative to its day.
    references : int or list of int, default -60
        Days by which the window is moved to give the reference windows.
    washout : int, default 180
        Least number of days of observation before the event.
    first_event_only : bool, default True
        Only a person's first event counts.
    id, event_day, start, end : str
        Columns of the tables. Default "id", "day", "start" and "end".
    exposure : str, optional
        Column of ``exposures`` with the name of the exposure. All exposures are in one model.
    level : float, default 0.95
        Confidence level.

    Returns
    -------
    CaseOnlyResult
        Odds ratios, which estimate rate ratios, with Wald limits.

    Raises
    ------
    DataError
        Windows overlap, a column is missing or has values that cannot be used, no event remains,
        or no set is discordant; the message names the table, the column and the first such row.
    SeparationError
        A ratio has no finite estimate, such as if all discordant cases are exposed.

    See Also
    --------
    case_time_control : Adjusts for trends of exposure.
    steropes.self_controlled_case_series : Uses all time and the exact length of exposure.

    Notes
    -----
    A person is exposed in a window if an exposure has a day in it. Events whose window begins
    before observation are left out, and so are such reference windows. The ratios are those of a
    conditional logistic regression. The default values are those of OHDSI's CaseCrossover.

    References
    ----------
    Maclure (1991), American Journal of Epidemiology 133:144–153.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.case_only import case_crossover
    >>> people = pd.DataFrame({"id": range(40), "start": 1, "end": 400})
    >>> events = pd.DataFrame({"id": range(40), "day": 300})
    >>> drugs = pd.DataFrame({"id": range(40), "start": [290] * 30 + [225] * 10})
    >>> result = case_crossover(events, drugs, people)
    >>> round(result.estimates["ratio"].item(), 6)  # 30 discordant pairs to 10
    3.0
    """
    check_level(level)
    rules = CrossoverRules.checked(window, references, washout)
    check_flag("first_event_only", first_event_only)
    names = ColumnNames(id, event_day, exposure, None, start, end, None, None)
    people, attrition = read_people(exposures, observation, names), Attrition()
    index = people.index_days(events, attrition, "events", first_event_only, rules.washout)
    made = window_sets(index, people, rules, attrition, "events")
    call = {
        "window": window, "references": references, "washout": washout,
        "first_event_only": first_event_only, "id": id, "event_day": event_day, "start": start,
        "end": end, "exposure": exposure, "level": level,
    }  # fmt: skip
    estimates, sets, model = compare_windows(made, people, None, level)
    return CaseOnlyResult(
        shown_ratios(estimates, "Odds ratio", level), attrition.table(), "Odds ratio", level,
        sets, model, "Case–crossover", "case_crossover", ("events", "exposures", "observation"),
        call,
    )  # fmt: skip
