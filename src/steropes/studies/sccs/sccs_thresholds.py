"""Thresholds of the diagnostics of a case series."""

from __future__ import annotations

from dataclasses import dataclass

from steropes.errors import DataError
from steropes.studies.execution.validation import real, share

__all__ = ["Thresholds"]


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of the diagnostics; the defaults are those of SelfControlledCaseSeries 6.

    Attributes
    ----------
    time_ratio, time_alpha : float, default 1.1 and 0.05
        The rate is stable over calendar time unless the mean ratio of observed to expected events
        of a month is above ``time_ratio`` with p ≤ ``time_alpha``.
    pre_exposure : (float, float), default (0.8, 1.25)
        The interval of the pre-exposure rate ratio has to meet these bounds.
    end_of_observation : (float, float), default (0.5, 2)
        The same for the probe at the end of observation.
    prevalence : float, default 0.1
        Most people that may have the outcome where only the first one counts.
    detectable : float, default 10
        The minimal detectable rate ratio has to be below it.
    ease : float, default 0.25
        The expected absolute systematic error has to be below it.
    """

    time_ratio: float = 1.1
    time_alpha: float = 0.05
    pre_exposure: tuple[float, float] = (0.8, 1.25)
    end_of_observation: tuple[float, float] = (0.5, 2.0)
    prevalence: float = 0.1
    detectable: float = 10.0
    ease: float = 0.25

    def __post_init__(self) -> None:
        real("time_ratio", self.time_ratio, 1.0)
        share("time_alpha", self.time_alpha)
        share("prevalence", self.prevalence)
        real("detectable", self.detectable, 1.0)
        real("ease", self.ease)
        for name in ("pre_exposure", "end_of_observation"):
            low, high = getattr(self, name)
            real(name, low)
            real(name, high)
            if high < low:
                raise DataError(f"{name} must be (lower, upper), not {(low, high)}")
            object.__setattr__(self, name, (float(low), float(high)))
