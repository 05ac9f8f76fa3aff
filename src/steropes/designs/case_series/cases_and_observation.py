"""The cases of a case series: their observation and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steropes.errors import DataError

__all__ = ["Cases"]


@dataclass(frozen=True, repr=False)
class Cases:
    """Observation periods with an outcome, and the outcomes.

    Attributes
    ----------
    person : (n,) int array
        Person id of each case, ascending.
    observed : (n,) int array
        First day of the observation period, in days since 1970-01-01.
    start, end : (n,) int arrays
        First and last day that count, relative to the first day of the observation period.
    age : (n,) float array
        Age in days on the first day of the observation period; NaN if the birth is unknown.
    end_known : (n,) bool array
        Whether observation ends with the database or the study, independently of the person.
    outcome_case, outcome_day : (m,) int arrays
        Case and day (relative to the first day of the observation period) of each outcome, sorted
        by case and day.
    """

    person: NDArray
    observed: NDArray
    start: NDArray
    end: NDArray
    age: NDArray
    end_known: NDArray
    outcome_case: NDArray
    outcome_day: NDArray

    def __len__(self) -> int:
        return len(self.person)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.count_text(len(self))} cases)"

    def count_text(self, count: int) -> str:
        """Format a number of people for a message; a study hides small ones."""
        return f"{count:,}"

    def require_age(self, why: str) -> None:
        """Raise if an age is needed and cases lack a year of birth."""
        unknown = int(np.isnan(self.age).sum())
        if unknown:
            raise DataError(f"{self.count_text(unknown)} cases have no year_of_birth, which {why}")
