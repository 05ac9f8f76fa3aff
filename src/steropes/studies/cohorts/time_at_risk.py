"""Settings of the time at risk: its start and end after the index date, and earlier outcomes."""

from __future__ import annotations

from typing import Literal

from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import Days, Offset, RiskDays, YesNo
from steropes.errors import DataError

__all__ = ["Anchor", "TimeAtRisk"]

Anchor = Literal["cohort start", "cohort end", "observation end"]


class TimeAtRisk(Settings):
    """The time at risk of an outcome, and the rule on prior outcomes.

    Both days are inclusive: at risk from day 0 to day 30 are 31 days, and an outcome on the first
    of them has time 1.

    Parameters
    ----------
    start, end : int, default 1 and 0
        First and last day at risk, relative to their anchors. The end is never later than the
        end of observation. By default people are at risk from the day after the start to the end
        of observation, whatever they take later ("intention to treat"). "On treatment" with a gap
        of 30 days is ``end=30, end_anchor="cohort end"``.
    start_anchor : "cohort start" or "cohort end"
        Day to which ``start`` is relative; default "cohort start".
    end_anchor : "observation end", "cohort start" or "cohort end"
        Day to which ``end`` is relative; default "observation end".
    day_zero : bool, default True
        Whether the first day of the window is at risk. Otherwise the window begins a day later, and
        an outcome on that first day is a prior one.
    min_days : int, default 1
        Required number of days at risk.
    max_days : int, optional
        Days at risk after which everybody is censored.
    censor_at_new_window : bool, default False
        Censor each of a person's entries the day before the next entry's risk begins.
    censor_at_switch : bool, default False
        Censor the day before the first entry into the other cohort after the start.
    remove_prior : bool, default True
        Leave out entries with the outcome before the first day at risk.
    look_back : int, optional
        Count such an outcome only in the same observation period and on day -d before the start
        with d < ``look_back``, as R's CohortMethod does. Default: an outcome ever recorded counts,
        in times without observation too.

    Examples
    --------
    >>> from steropes.studies.cohorts import TimeAtRisk
    >>> on_treatment = TimeAtRisk(start=1, end=30, end_anchor="cohort end")
    >>> on_treatment.min_days
    1
    """

    start: Offset = 1
    start_anchor: Literal["cohort start", "cohort end"] = "cohort start"
    end: Offset = 0
    end_anchor: Anchor = "observation end"
    day_zero: YesNo = True
    min_days: Days = 1
    max_days: RiskDays | None = None
    censor_at_new_window: YesNo = False
    censor_at_switch: YesNo = False
    remove_prior: YesNo = True
    look_back: Days | None = None

    def __post_init__(self) -> None:
        """Refuse a time at risk that ends before it begins or after observation."""
        if self.end_anchor == "observation end" and self.end > 0:
            raise DataError(
                f"nobody is at risk {self.end} days after the end of observation; count the end "
                'from another day: end_anchor="cohort end" or "cohort start"'
            )
        if self.start_anchor == self.end_anchor and self.end < self.start:
            raise DataError(
                f"the time at risk ends on day {self.end}, before it begins on day {self.start}"
            )
