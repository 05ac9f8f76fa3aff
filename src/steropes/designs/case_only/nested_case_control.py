"""Nested case–control studies: cases of a cohort against a sample of their risk sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.backends.blas_threads import single_threaded_blas
from steropes.data.vector_checks import check_level
from steropes.designs.case_only.case_only_result import CaseOnlyResult, shown_ratios
from steropes.designs.case_only.controls_from_risk_sets import SetRows
from steropes.designs.case_only.exposure_windows import ExposedDays, check_window
from steropes.designs.case_only.index_days import Attrition, People, read_people
from steropes.designs.case_only.matched_odds_ratios import (
    Ties,
    discordant_sets,
    fit_sets,
    ratio_rows,
)
from steropes.designs.case_only.risk_set_sampling import SamplingRules, sampled_sets, set_table
from steropes.designs.case_series_from_tables.event_exposure_and_observation_tables import (
    ColumnNames,
)
from steropes.designs.values.argument_checks import check_names
from steropes.errors import DataError

__all__ = ["nested_case_control"]

WHY = "There is nothing to compare: use another window, more controls, or leave it out."


@single_threaded_blas()
def nested_case_control(
    events: Any,
    exposures: Any,
    observation: Any,
    *,
    controls_per_case: int | None = 1,
    window: tuple[int | None, int] = (-30, 0),
    match: Sequence[str] = (),
    calipers: Mapping[str, float] | None = None,
    covariates: Sequence[str] = (),
    washout: int = 180,
    time: Literal["calendar", "observed"] = "calendar",
    ties: Ties = "exact",
    seed: int = 0,
    id: str = "id",
    event_day: str = "day",
    start: str = "start",
    end: str = "end",
    exposure: str | None = None,
    level: float = 0.95,
) -> CaseOnlyResult:
    """Compare exposure of cases with that of controls who are at risk at the same time.

    Controls are a random sample of the people in the risk set of each case (incidence density
    sampling), so that odds ratios estimate the hazard ratios of the cohort.

    Parameters
    ----------
    events : data frame, relation or path
        One row per event, with the columns ``id`` and ``event_day``, of which a person's first
        counts. Tables may be of pandas, polars, pyarrow or anything that narwhals reads, such as a
        DuckDB relation, or the path of a Parquet or CSV file. Days are dates in all tables, or
        whole numbers on one scale.
    exposures : data frame, relation, path or None
        One row per exposure with ``id``, its first day ``start`` and, if there is such a column,
        its last day ``end``. None if only ``covariates`` are of interest.
    observation : data frame, relation or path
        The cohort: one row per person (or separate period) with ``id`` and the first and last day
        observed, ``start`` and ``end``, and the columns of ``match``, ``calipers`` and
        ``covariates``.
    controls_per_case : int or None, default 1
        Number of controls of each case; None takes the whole risk set.
    window : (int or None, int), default (-30, 0)
        First and last day of exposure, relative to the index day. (None, 0) is any earlier day.
    match : list of str, optional
        Columns of ``observation`` in which controls equal the case, such as ["sex"].
    calipers : dict, optional
        Largest difference of controls from the case in numbers, or in days for dates, such as
        {"birth": 730}.
    covariates : list of str, optional
        Columns of ``observation`` with numbers that the model adjusts for.
    washout : int, default 180
        Days of observation before people are at risk.
    time : {"calendar", "observed"}, default "calendar"
        Time scale of risk sets: the days of the tables (dates, or ages if days are ages), or days
        since observation began.
    ties : {"exact", "efron", "breslow"}, default "exact"
        Method for sets with several cases; see `ConditionalLogisticRegression`.
    seed : int, default 0
        Seed of the sample. The sample does not depend on the order of rows.
    id, event_day, start, end : str
        Columns of the tables. Default "id", "day", "start" and "end".
    exposure : str, optional
        Column of ``exposures`` with the name of the exposure. All exposures are in one model.
    level : float, default 0.95
        Confidence level.

    Returns
    -------
    CaseOnlyResult
        Odds ratios with Wald limits, and the sets.

    Raises
    ------
    DataError
        A column is missing or has values that cannot be used, the window reaches into time before
        observation, no case has a control, or no set is discordant.
    SeparationError
        A ratio has no finite estimate.

    See Also
    --------
    sample_risk_sets : The sets alone, to collect data of few people.
    steropes.CoxRegression : The hazard ratios of the whole cohort.

    Notes
    -----
    A person is at risk from the end of the washout to the event or the end of observation. A
    control may later be a case, and may be sampled for several cases. Cases of one time with equal
    matched values form one set with that many times the controls; with calipers each case has a set
    of its own. With the whole risk set and without windows that move, the estimates are those of
    Cox regression, stratified by ``match``, with the same method for ties. OHDSI's CaseControl
    takes one control, sex, age within two years and a washout of 180 days.

    References
    ----------
    Langholz and Goldstein (1996), Statistical Science 11:35–53. Borgan, Goldstein and Langholz
    (1995), Annals of Statistics 23:1749–1778.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from steropes.designs.case_only import nested_case_control
    >>> rng = np.random.default_rng(0)
    >>> cohort = pd.DataFrame({"id": range(400), "start": 0, "sex": rng.integers(0, 2, 400)})
    >>> user = np.arange(400) % 2 == 0
    >>> day = (rng.exponential(np.where(user, 1000, 2000)) + 181).astype(int)
    >>> cohort["end"] = np.minimum(day, 1000)
    >>> events = pd.DataFrame({"id": range(400), "day": day})[day <= 1000]
    >>> drugs = pd.DataFrame({"id": np.flatnonzero(user), "start": 0, "end": 1000})
    >>> result = nested_case_control(events, drugs, cohort, controls_per_case=4, match=["sex"])
    >>> result.summary()[["ratio", "lower", "upper"]].round(2)
             ratio  lower  upper
    exposed   2.22   1.57   3.14
    """
    check_level(level)
    rules = SamplingRules.checked(controls_per_case, match, calipers, washout, time, seed)
    span = None if exposures is None else _window(window, washout)
    covariates = check_names("covariates", covariates)
    if exposures is None and not covariates:
        raise DataError("exposures is None, and there are no covariates to compare; give one.")
    names = ColumnNames(id, event_day, exposure, None, start, end, None, None)
    people, attrition = read_people(exposures, observation, names), Attrition()
    rows, numbers = sampled_sets(events, observation, people, attrition, rules, covariates)
    estimates, sets, model = _compare(rows, people, span, covariates, numbers, ties, level)
    call = {
        "controls_per_case": controls_per_case, "window": window, "match": match,
        "calipers": calipers, "covariates": covariates, "washout": washout, "time": time,
        "ties": ties, "seed": seed, "id": id, "event_day": event_day, "start": start, "end": end,
        "exposure": exposure, "level": level,
    }  # fmt: skip
    tables = ("events", "None" if exposures is None else "exposures", "observation")
    return CaseOnlyResult(
        shown_ratios(estimates, "Odds ratio", level), attrition.table(), "Odds ratio", level,
        sets, model, "Nested case–control", "nested_case_control", tables, call,
    )  # fmt: skip


def _window(value: Any, washout: int) -> tuple[int | None, int]:
    """Check the window, which lies within the washout."""
    pair = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2
    if pair and value[0] is None:
        return None, check_window("window", (min(int(value[1]), 0), value[1]))[1]
    first, last = check_window("window", value)
    if -first > washout:
        raise DataError(
            f"window starts {-first:,} days before the index day, but people are at risk after "
            f"{washout:,} days of observation: set washout={-first} or more, or start the window "
            "later, or with None at any earlier day."
        )
    return first, last


def _compare(
    rows: SetRows,
    people: People,
    window: tuple[int | None, int] | None,
    covariates: Sequence[str],
    numbers: NDArray | None,
    ties: Ties,
    level: float,
) -> tuple[pd.DataFrame, pd.DataFrame, Any]:
    """Estimate odds ratios; return them with the sets and the model."""
    names, parts = [], []
    if people.exposures is not None and window is not None:
        days = ExposedDays(people.exposures)
        first = days.lowest if window[0] is None else rows.day + window[0]
        exposed = days.within(rows.person, first + 0 * rows.day, rows.day + window[1])
        names, parts = [*days.names], [exposed]
    twice = [name for name in covariates if name in names]
    if twice:
        raise DataError(f"{twice[0]!r} is an exposure and a covariate; rename one of them.")
    k = len(names)
    names += covariates
    X = np.column_stack([*parts, *([numbers] if numbers is not None else [])])
    model = fit_sets(X, names, rows.case, rows.set, contrasts=len(names), why=WHY, ties=ties)
    error = np.sqrt(np.diag(model.vcov("model").to_numpy()))
    of_exposures = X[:, :k].astype(bool)
    counts = pd.DataFrame(
        {
            "exposed_cases": of_exposures[rows.case].sum(axis=0),
            "exposed_controls": of_exposures[~rows.case].sum(axis=0),
        },
        names[:k],
    )
    counts = counts.reindex(names).astype("Int64")
    counts["discordant_sets"] = discordant_sets(X, rows.set)
    table = ratio_rows(model.coef_, error, names, level, "model").join(counts)
    table.insert(0, "kind", np.where(np.arange(len(names)) < k, "exposure", "covariate"))
    sets = set_table(rows, people).join(
        pd.DataFrame(X.astype(float), columns=names), rsuffix=" (covariate)"
    )
    return table, sets, model
