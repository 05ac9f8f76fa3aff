"""Case–time–control: case–crossover of cases against that of controls, or of future cases."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steropes.backends.blas_threads import single_threaded_blas
from steropes.data.vector_checks import check_level
from steropes.designs.case_only.case_only_result import CaseOnlyResult, shown_ratios
from steropes.designs.case_only.crossover_windows import (
    CrossoverRules,
    compare_windows,
    join_sets,
    window_sets,
)
from steropes.designs.case_only.index_days import Attrition, IndexDays, People, read_people
from steropes.designs.case_only.matched_set_sampling import sample_members
from steropes.designs.case_series_from_tables.event_exposure_and_observation_tables import (
    ColumnNames,
)
from steropes.designs.values.argument_checks import check_flag, check_whole
from steropes.errors import DataError

__all__ = ["case_time_control"]

FUTURE = "future cases"


@single_threaded_blas()
def case_time_control(
    events: Any,
    controls: Any,
    exposures: Any,
    observation: Any,
    *,
    window: tuple[int, int] = (-30, 0),
    references: Any = -60,
    washout: int = 180,
    first_event_only: bool = True,
    controls_per_case: int = 1,
    future_gap: int = 0,
    seed: int = 0,
    id: str = "id",
    event_day: str = "day",
    start: str = "start",
    end: str = "end",
    exposure: str | None = None,
    level: float = 0.95,
) -> CaseOnlyResult:
    """Compare the case–crossover ratio of cases with that of controls, who show trends of exposure.

    The logarithm of the ratio is that of cases minus that of controls, so that a trend which both
    share cancels. Controls are people without the event (case–time–control), or cases of a later
    time (case–case–time–control), who also share what precedes the event, such as persistent use
    that starts before it.

    Parameters
    ----------
    events : data frame, relation or path
        One row per event of cases, with the columns ``id`` and ``event_day``. Tables may be of any
        library or files, as of `case_crossover`.
    controls : data frame, relation, path or "future cases"
        One row per control with ``id`` and, in the column ``event_day``, an index day, such as the
        day of the event of a matched case; or "future cases", which samples for each case people
        whose event is later, at the day of the case.
    exposures, observation : data frame, relation or path
        As of `case_crossover`.
    window : (int, int), default (-30, 0)
        First and last day of the window before the index day, relative to it.
    references : int or list of int, default -60
        Days by which the window is moved to give the reference windows.
    washout : int, default 180
        Least number of days of observation before the index day.
    first_event_only : bool, default True
        Only a person's first event counts. Future cases require it.
    controls_per_case : int, default 1
        Number of future cases for each case.
    future_gap : int, default 0
        A future case's own event must be more than this many days after the index day, so that
        its first signs have not yet changed exposure. If exposure lasts as long as its effect, a
        gap of this length avoids that the exposure of controls comes from their own later events.
    seed : int, default 0
        Seed of the sample of future cases.
    id, event_day, start, end : str
        Columns of the tables. Default "id", "day", "start" and "end".
    exposure : str, optional
        Column of ``exposures`` with the name of the exposure. All exposures are in one model.
    level : float, default 0.95
        Confidence level.

    Returns
    -------
    CaseOnlyResult
        For each exposure the ratio of cases against controls, and those of both.

    Raises
    ------
    DataError
        As of `case_crossover`; or no case has a future case as control.
    SeparationError
        A ratio has no finite estimate.

    See Also
    --------
    case_crossover : Without controls.

    Notes
    -----
    Variances of cases and controls add. If people have several sets, as future cases have, standard
    errors are those of the sandwich with people as clusters. Cases without an observed control keep
    their sets.

    References
    ----------
    Suissa (1995), Epidemiology 6:248–253. Wang, Linkletter, Maclure and others (2011), Epidemiology
    22:848–854.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.case_only import case_time_control
    >>> people = pd.DataFrame({"id": range(80), "start": 1, "end": 400})
    >>> index = pd.DataFrame({"id": range(80), "day": 300})
    >>> start = [290] * 30 + [225] * 10 + [290] * 24 + [225] * 16
    >>> drugs = pd.DataFrame({"id": range(80), "start": start})
    >>> result = case_time_control(index[:40], index[40:], drugs, people)
    >>> result.estimates[["kind", "ratio"]].round(2)
                               kind  ratio
    exposed  cases against controls    2.0
    exposed                   cases    3.0
    exposed                controls    1.5
    """
    check_level(level)
    rules = CrossoverRules.checked(window, references, washout)
    check_flag("first_event_only", first_event_only)
    for name, value, least in (
        ("controls_per_case", controls_per_case, 1),
        ("future_gap", future_gap, 0),
        ("seed", seed, 0),
    ):
        check_whole(name, value, least)
    future = isinstance(controls, str) and controls == FUTURE
    _refuse_unused(future, first_event_only, controls_per_case, future_gap, seed)
    names = ColumnNames(id, event_day, exposure, None, start, end, None, None)
    people, attrition = read_people(exposures, observation, names), Attrition()
    index = people.index_days(events, attrition, "events", first_event_only, rules.washout)
    cases = window_sets(index, people, rules, attrition, "events")
    if future:
        chosen = _future_cases(index, cases.day[cases.case], cases.person[cases.case], people,
                               rules, controls_per_case, future_gap, seed)  # fmt: skip
        attrition.add(FUTURE, chosen.person)
    else:
        chosen = people.index_days(controls, attrition, "controls", False, rules.washout)
    own = window_sets(chosen, people, rules, attrition, FUTURE if future else "controls")
    both = join_sets(cases, own)
    control = np.arange(len(both.set)) >= len(cases.set)
    estimates, sets, model = compare_windows(both, people, control, level)
    call = {
        "window": window, "references": references, "washout": washout,
        "first_event_only": first_event_only, "controls_per_case": controls_per_case,
        "future_gap": future_gap, "seed": seed, "id": id, "event_day": event_day, "start": start,
        "end": end, "exposure": exposure, "level": level,
    }  # fmt: skip
    tables = ("events", repr(FUTURE) if future else "controls", "exposures", "observation")
    return CaseOnlyResult(
        shown_ratios(estimates, "Odds ratio", level), attrition.table(), "Odds ratio", level,
        sets, model, "Case–case–time–control" if future else "Case–time–control",
        "case_time_control", tables, call,
    )  # fmt: skip


def _refuse_unused(
    future: bool, first_event_only: bool, controls_per_case: int, future_gap: int, seed: int
) -> None:
    """Refuse settings that the kind of controls does not use."""
    if future and not first_event_only:
        raise DataError(
            "controls='future cases' is for first events; leave out first_event_only=False."
        )
    if not future and (controls_per_case, future_gap, seed) != (1, 0, 0):
        raise DataError(
            "controls_per_case, future_gap and seed are for controls='future cases'; leave them "
            "out, as all rows of controls count."
        )


def _future_cases(
    index: IndexDays,
    day: NDArray,
    person: NDArray,
    people: People,
    rules: CrossoverRules,
    each: int,
    gap: int,
    seed: int,
) -> IndexDays:
    """Sample people with a later event, at the days of cases with windows observed then."""
    order = np.argsort(index.day, kind="stable")
    pool = index.take(order)
    first = people.observation.first[pool.period]
    needed = max(rules.washout, -rules.window[0] - int(rules.offsets[0]))

    def eligible(case: NDArray, member: NDArray) -> NDArray:
        """Return whether people are observed for long enough at the day of a case."""
        observed = day[case] - first[member] >= needed
        return np.asarray(observed & (pool.person[member] != person[case]))

    low = np.searchsorted(pool.day, day + gap, side="right")
    high = np.full(len(day), len(pool))
    case, member = sample_members(low, high, each, eligible, np.random.default_rng(seed))
    if not len(case):
        raise DataError(
            "No case has a future case as control; lower washout or future_gap, or move references "
            "closer to the window."
        )
    found = IndexDays(pool.person[member], day[case], pool.period[member])
    return found.take(np.lexsort((found.day, found.person)))
