"""All conditions that people have for the first time in a window after their start."""

from __future__ import annotations

import numpy as np
import pandas as pd

from steropes.errors import DataError, listed
from steropes.studies.cohorts.people_frame_with_hidden_rows import People
from steropes.studies.database.omop import OmopDatabase

__all__ = ["incident_conditions"]

Window = tuple[int, int]


def incident_conditions(
    db: OmopDatabase,
    people: pd.DataFrame,
    *,
    days: Window = (1, 365),
    control_days: Window | None = None,
    washout_days: int = 365,
) -> pd.DataFrame:
    """Find the conditions that people have for the first time in a window, for a tree scan.

    Parameters
    ----------
    db : OmopDatabase
        The database.
    people : DataFrame
        A row per person with ``person_id``, ``start`` (a date) and ``treated`` (1 or 0), such as
        the entries of a `Comparison` or matched people; ``treated`` is not needed with
        ``control_days``. A column ``probability``, such as a propensity score, is kept.
    days : (int, int), default (1, 365)
        First and last day of the window, from the start. Everybody should be observed in it and
        in the washout before.
    control_days : (int, int), optional
        A second window in which the same people are not exposed, for self-controlled scans.
    washout_days : int, default 365
        Days before the first window without a record of the same concept.

    Returns
    -------
    DataFrame
        A row per person and concept: ``person``, ``node`` (concept), ``exposed`` (1 in the target
        arm, or in the window; 0 otherwise), ``time`` (day from the start) and ``probability``, if
        there is one: with ``control_days`` it is the share of exposed days. The table prints no
        rows.

    Raises
    ------
    DataError
        A column is missing, a person has two rows, or windows overlap or have no days.

    See Also
    --------
    steropes.designs.surveillance.tree_scan_people : Takes the result as ``records``.
    steropes.studies.concept_hierarchy : The tree of its nodes.

    References
    ----------
    Wang and others (2018), Epidemiology 29:895–903. Yih and others (2018), American Journal of
    Epidemiology 187:1269–1276.

    Examples
    --------
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import (
    ...     compare_cohorts, drug_era_cohorts, incident_conditions
    ... )
    >>> db = synthetic_database(500)
    >>> both = compare_cohorts(db, drug_era_cohorts(db, {1: 1118084, 2: 1124300}), 1, 2)
    >>> records = incident_conditions(db, both.entries)
    >>> records.columns.tolist()
    ['person', 'node', 'exposed', 'time']
    """
    windows = _checked_windows(days, control_days, washout_days)
    rows = _checked_people(people, control_days is None)
    found = _first_records(db, rows, windows, washout_days)
    inside = [found["day"].between(first, last) for first, last in windows]
    found = found[np.logical_or.reduce(inside)]
    own = rows.set_index("person_id")
    known = own.loc[found["person"]]
    exposed = known["treated"].to_numpy() if control_days is None else inside[0][found.index]
    table = pd.DataFrame(
        {"person": found["person"].to_numpy(), "node": found["node"].to_numpy(),
         "exposed": np.asarray(exposed, dtype=np.int64), "time": found["day"].to_numpy()}
    )  # fmt: skip
    if control_days is not None:
        sizes = [last - first + 1 for first, last in windows]
        table["probability"] = sizes[0] / sum(sizes)
    elif "probability" in rows:
        table["probability"] = known["probability"].to_numpy()
    return People(table)


def _checked_windows(days: Window, control_days: Window | None, washout_days: int) -> list[Window]:
    """Return the windows, and refuse those without days or that overlap."""
    windows = [days] if control_days is None else [days, control_days]
    for name, window in zip(("days", "control_days"), windows, strict=False):
        whole = len(window) == 2 and all(isinstance(d, int | np.integer) for d in window)
        if not whole or window[0] > window[1]:
            raise DataError(f"{name} must be the first and the last day, not {window!r}.")
    if len(windows) == 2 and max(w[0] for w in windows) <= min(w[1] for w in windows):
        raise DataError(f"days {days} and control_days {control_days} overlap.")
    if not isinstance(washout_days, int | np.integer) or washout_days < 0:
        raise DataError(f"washout_days must be a whole number of 0 or more, not {washout_days!r}.")
    return windows


def _checked_people(people: pd.DataFrame, arms: bool) -> pd.DataFrame:
    """Return the people with their starts as dates."""
    needed = ["person_id", "start", *(["treated"] if arms else [])]
    missing = [name for name in needed if name not in people]
    if missing:
        raise DataError(f"people lacks the columns {listed(missing)}.")
    kept = [*needed, *(["probability"] if arms and "probability" in people else [])]
    rows = pd.DataFrame({name: np.asarray(people[name]) for name in kept})
    if not arms and "probability" in people:
        raise DataError("probability follows from the lengths of both windows; leave it out.")
    if rows[["person_id", "start"]].isna().any(axis=None):
        raise DataError("people: a person_id or start is missing; leave the row out.")
    if (again := rows["person_id"].duplicated()).any():
        raise DataError(
            f"people: {int(again.sum()):,} rows are further entries of a person; keep one each."
        )
    rows["start"] = pd.to_datetime(rows["start"])
    return rows


def _first_records(
    db: OmopDatabase, rows: pd.DataFrame, windows: list[Window], washout_days: int
) -> pd.DataFrame:
    """Return the first day of each person and concept from the washout on, outside of it."""
    first, last = min(w[0] for w in windows), max(w[1] for w in windows)
    with db.workspace() as work:
        work.connection.register("scanned_people", rows[["person_id", "start"]])
        found = work.frame(
            "SELECT g.person_id::BIGINT AS person, c.condition_concept_id::BIGINT AS node, "
            "min(date_diff('day', g.start::DATE, c.condition_start_date::DATE))::BIGINT AS day "
            f"FROM scanned_people g JOIN {db.table('condition_occurrence')} c "
            "ON c.person_id = g.person_id WHERE c.condition_concept_id <> 0 "
            "AND date_diff('day', g.start::DATE, c.condition_start_date::DATE) "
            f"BETWEEN {int(first) - int(washout_days)} AND {int(last)} GROUP BY 1, 2 ORDER BY 1, 2"
        )
        work.connection.unregister("scanned_people")
    return found[found["day"] >= first].reset_index(drop=True)
