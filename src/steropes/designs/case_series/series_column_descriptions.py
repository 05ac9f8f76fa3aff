"""The covariates of a case series."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steropes.errors import DataError

__all__ = ["CONTROL", "GROUP", "Column", "distinct_names", "require_windows"]


@dataclass(frozen=True)
class Column:
    """A covariate.

    Attributes
    ----------
    window : int
        Number of its exposure window in the settings; −1 for the end-of-observation probe, −2 for
        splines, −3 for the control interval, −4 for groups of age, season or calendar time.
    eras : tuple of int
        Requested ids: one with ``by_concept``, those of the window, or none for all.
    penalized, of_interest, profile, pre_exposure : bool
        As in `ExposureWindow`.
    group : str or None
        ATC class of the drug, under a hierarchical prior.
    interval : bool
        Whether an unpenalised covariate gets an interval.
    """

    name: str
    window: int
    eras: tuple[int, ...] = ()
    penalized: bool = False
    of_interest: bool = False
    profile: bool = False
    pre_exposure: bool = False
    group: str | None = None
    interval: bool = True


# The number of the control interval, in the place of that of a window.
CONTROL = -3
# The number of groups of time, in the same place.
GROUP = -4


def distinct_names(columns: list[Column]) -> list[str]:
    """Name the columns; repeated names are numbered."""
    seen: dict[str, int] = {}
    names = []
    for c in columns:
        seen[c.name] = seen.get(c.name, 0) + 1
        names.append(c.name if seen[c.name] == 1 else f"{c.name} ({seen[c.name]})")
    return names


def require_windows(n_windows: NDArray, columns: list[Column]) -> None:
    """Raise if no case has any window."""
    if not np.any(n_windows):
        names = ", ".join(dict.fromkeys(c.name for c in columns)) or "any exposure"
        raise DataError(
            f"no case has a day in a window of {names}: their eras lie outside of the time that "
            "counts, or nobody with the outcome had the exposure"
        )
