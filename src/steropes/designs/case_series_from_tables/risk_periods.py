"""Risk periods: the days around an exposure in which the rate of events may differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Literal

from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import Name, Offset, YesNo
from steropes.errors import DataError

__all__ = ["RiskPeriod", "risk_periods_of"]

Anchor = Literal["start", "end"]


class RiskPeriod(Settings):
    """Days around an exposure that are compared with the other days of the same person.

    Both ends are inclusive, and day 0 is the first or the last day of the exposure.

    Parameters
    ----------
    start, end : int, default 0
        First and last day, counted from ``start_at`` and ``end_at``. Days before are negative.
    start_at, end_at : {"start", "end"}, default "start"
        Whether days are counted from the first or from the last day of the exposure. A washout
        period counts both from "end".
    label : str, optional
        Name of the period. Default: its days.
    exposure : str, optional
        The exposure of the period, if there are several. Default: each has such a period.
    by_dose : bool, default False
        Estimate a ratio for each exposure of a person in the order of time, instead of a common
        one.
    first_only : bool, default False
        Only a person's first exposure has this period.
    within_era : bool, default False
        End the period with the exposure, if that ends earlier.
    pre_exposure : bool, optional
        Whether it is a period before exposure, which diagnostics judge. Default: whether it ends
        before the exposure starts.

    See Also
    --------
    steropes.self_controlled_case_series : Estimate the ratios.

    Examples
    --------
    >>> from steropes.designs import RiskPeriod
    >>> RiskPeriod(0, 42).text
    'days 0 to 42'
    >>> RiskPeriod(1, 91, start_at="end", end_at="end").text
    'days 1 to 91 after the end'
    """

    start: Offset = 0
    end: Offset = 0
    start_at: Anchor = "start"
    end_at: Anchor = "start"
    label: Name | None = None
    exposure: Name | None = None
    by_dose: YesNo = False
    first_only: YesNo = False
    within_era: YesNo = False
    pre_exposure: YesNo | None = None

    def __post_init__(self) -> None:
        """Mark periods before exposure; refuse periods without days and other contradictions."""
        if self.pre_exposure is None:
            object.__setattr__(self, "pre_exposure", self.end_at == "start" and self.end < 0)
        if self.start_at == self.end_at and self.end < self.start:
            raise DataError(
                f"The risk period {self.text!r} ends on day {self.end}, before it starts on day "
                f"{self.start}."
            )
        if self.by_dose and self.first_only:
            raise DataError(
                f"The risk period {self.text!r} has by_dose and first_only; the first exposure "
                "alone has one dose: leave out by_dose."
            )

    @property
    def needs_end(self) -> bool:
        """Whether the period depends on the last day of the exposure."""
        return self.start_at == "end" or self.end_at == "end" or self.within_era

    @property
    def text(self) -> str:
        """The label, or the days in words."""
        if self.label is not None:
            return self.label
        after = " after the end"
        if (self.start_at, self.end_at) == ("start", "end"):
            if self.start == self.end == 0:
                return "exposed"
            return f"day {self.start} to {self.end} days{after}"
        where = {"start": "", "end": after}
        if self.start_at == self.end_at:
            days = f"day {self.start}" if self.start == self.end else (
                f"days {self.start} to {self.end}"
            )  # fmt: skip
            return days + where[self.end_at]
        return f"day {self.start}{after} to day {self.end}"


def risk_periods_of(given: Any, what: str = "risk_periods") -> list[RiskPeriod]:
    """Convert the argument ``risk_periods`` to a list of periods with distinct labels.

    Parameters
    ----------
    given : None, RiskPeriod, (int, int), mapping or sequence
        As in `self_controlled_case_series`.
    what : str
        Name of the argument, for messages.
    """
    if given is None:
        return [RiskPeriod(end_at="end")]
    if isinstance(given, Mapping):
        found = [replace(_period(value, what), label=str(name)) for name, value in given.items()]
    elif isinstance(given, RiskPeriod) or _is_pair(given):
        found = [_period(given, what)]
    elif isinstance(given, Sequence) and not isinstance(given, str):
        found = [_period(value, what) for value in given]
    else:
        raise _wrong(given, what)
    if not found:
        raise DataError(f"{what} is empty; give at least one, such as (0, 42).")
    names = [(p.exposure, p.text) for p in found]
    twice = [text for n, (_, text) in enumerate(names) if names[n] in names[:n]]
    if twice:
        raise DataError(
            f"{what} has {twice[0]!r} more than once; give each period a label of its own."
        )
    return found


def _period(value: Any, what: str) -> RiskPeriod:
    """Convert one period."""
    if isinstance(value, RiskPeriod):
        return value
    if _is_pair(value):
        return RiskPeriod(int(value[0]), int(value[1]))
    raise _wrong(value, what)


def _is_pair(value: Any) -> bool:
    """Return whether a value is a pair of whole numbers."""
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and len(value) == 2
        and all(isinstance(x, Integral) and not isinstance(x, bool) for x in value)
    )


def _wrong(value: Any, what: str) -> DataError:
    """Describe a value that is no period."""
    return DataError(
        f"{what} are pairs of days after the start of the exposure, such as [(0, 14), "
        f"(15, 42)], or RiskPeriod objects, not {value!r}."
    )
