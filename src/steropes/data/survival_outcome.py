"""Survival outcomes as structured arrays, which can be indexed like any array."""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..errors import DataError
from .array_conversion import refuse_lazy_query, unmasked
from .ordered_categories import refuse_other_category_order
from .row_label_checks import refuse_other_order
from .vector_checks import check_vector

__all__ = ["Surv", "SurvivalOutcome", "check_survival"]

# Larger event codes are refused as probable mistakes, such as an identifier or a date.
MAX_EVENT_CODE = 1_000_000
SWAPPED = "All times are 0 or 1: time and event seem swapped; pass Surv(time, event)."


class SurvivalOutcome(NamedTuple):
    """A validated survival outcome; ``entry`` is None if everyone is at risk from the start."""

    time: np.ndarray
    event: np.ndarray
    entry: np.ndarray | None

    def at(self, rows: np.ndarray) -> SurvivalOutcome:
        """Select rows."""
        entry = None if self.entry is None else self.entry[rows]
        return SurvivalOutcome(self.time[rows], self.event[rows], entry)


def Surv(time: ArrayLike, event: ArrayLike, entry: ArrayLike | None = None) -> np.ndarray:
    """Build a survival outcome.

    Parameters
    ----------
    time : (n,) array
        Time of the event or of censoring, at least zero (with ``entry`` any finite value).
    event : (n,) array of int or bool
        0 censored, 1 event, 2, 3, … competing events.
    entry : (n,) array, optional
        Start of the time at risk: a row is at risk on (entry, time]. −infinity is allowed.

    Returns
    -------
    (n,) structured array
        Fields ``event`` (int64), ``time`` (float64) and, if given, ``entry`` (float64).

    Raises
    ------
    DataError
        If times are missing, infinite or negative, an entry is not before its time, or an event
        is not a nonnegative whole number; the message names the row.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5.0, 3.0], [1, 0])
    >>> y["time"].tolist()
    [5.0, 3.0]
    """
    refuse_other_order(time, "time", event=event, entry=entry)
    for what, x in (("time", time), ("event", event), ("entry", entry)):
        refuse_other_category_order(x, what)
    t = check_vector(time, None, "time")
    n = len(t)
    one = isinstance(event, Real | np.bool_)  # the same event for all rows
    e = check_vector(np.full(n, event) if one else event, None, "event")
    if len(e) != n:
        raise DataError(f"event has {len(e)} entries, but time has {n}.")
    dtype: list[tuple[str, type]] = [("event", np.int64), ("time", np.float64)]
    if entry is not None:
        dtype.append(("entry", np.float64))
    y = np.empty(n, dtype)
    bad = (e < 0) | (e != np.floor(e))
    if bad.any():
        i = int(bad.argmax())
        raise DataError(
            f"event must be 0 (censored), 1 (event), 2, 3, … (competing); row {i} is {e[i]:g}."
            + (f" {SWAPPED}" if np.isin(t, (0, 1)).all() else "")
        )
    if (e > MAX_EVENT_CODE).any():
        i = int((e > MAX_EVENT_CODE).argmax())
        raise DataError(
            f"event codes are small whole numbers, at most {MAX_EVENT_CODE}; row {i} is {e[i]:g}. "
            "Number the causes 1, 2, 3, …"
        )
    y["time"], y["event"] = t, e
    if entry is not None:
        start = check_vector(entry, None, "entry", infinite=-np.inf)
        if len(start) != n:
            raise DataError(f"entry has {len(start)} entries, but time has {n}.")
        y["entry"] = start
    _check_times(t, y["entry"] if entry is not None else None)
    return y


def _check_times(time: np.ndarray, entry: np.ndarray | None) -> None:
    """Refuse negative times without entry, and entries that are not before their times."""
    if entry is None:
        if (time < 0).any():
            i = int((time < 0).argmax())
            raise DataError(f"time must not be negative; row {i} is {time[i]:g}.")
        return
    if (entry >= time).any():
        i = int((entry >= time).argmax())
        raise DataError(
            f"entry must be before time (at risk on (entry, time]); row {i} has entry "
            f"{entry[i]:g} and time {time[i]:g}."
        )


def _plain(y: object) -> np.ndarray:
    """Convert to an array; refuse values that cannot be a survival outcome."""
    refuse_lazy_query(y, "y")
    try:
        return np.asarray(y)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"y must be a survival outcome, steropes.Surv(time, event): {error}."
        ) from None


def check_survival(y: object, n: int, competing: bool = False) -> SurvivalOutcome:
    """Read `Surv` arrays and scikit-survival's structured arrays.

    Parameters
    ----------
    y : structured array
        With the fields of `Surv`, or one boolean and one numeric field as in scikit-survival.
    n : int
        Number of rows of X.
    competing : bool
        Whether event codes above 1 are allowed.

    Raises
    ------
    DataError
        If y is not a survival outcome of n rows, or has codes above 1 that are not allowed.
    """
    y = unmasked(y, "y") if isinstance(y, np.ma.MaskedArray) else _plain(y)
    if y.dtype.names is None:
        raise DataError(
            "y must be a survival outcome, steropes.Surv(time, event), not a plain array."
        )
    if y.shape != (n,):
        raise DataError(f"y has shape {y.shape}, but X has {n} rows.")
    names = y.dtype.names
    if "time" in names and "event" in names:
        event, time = y["event"], y["time"]
        entry = y["entry"] if "entry" in names else None
    else:
        flags = [f for f in names if y.dtype[f].kind == "b"]
        floats = [f for f in names if y.dtype[f].kind in "fiu"]
        if len(flags) != 1 or len(floats) != 1:
            raise DataError(
                f"y has fields {names}; expected event and time (steropes.Surv), or one bool "
                "and one float field."
            )
        event, time, entry = y[flags[0]], y[floats[0]], None
    checked = Surv(time, event, entry)
    e = checked["event"]
    if not competing and (e > 1).any():
        i = int((e > 1).argmax())
        of_r = ""
        if np.isin(e, (1, 2)).all() and (e == 1).any():
            of_r = "Where 1 is censored and 2 the event, as R's Surv takes it, pass event == 2. "
        remedy = (
            f"{of_r}For competing events use FineGrayRegression, or code them 0 for a "
            "cause-specific hazard."
        )
        if np.isin(checked["time"], (0, 1)).all():
            remedy = SWAPPED
        raise DataError(
            f"event must be 0 (censored) or 1 (event) here; row {i} is {e[i]}. {remedy}"
        )
    return SurvivalOutcome(
        checked["time"], e, checked["entry"] if "entry" in (checked.dtype.names or ()) else None
    )
