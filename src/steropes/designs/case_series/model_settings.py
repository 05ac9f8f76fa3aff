"""Settings of the model of a case series."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol

from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import Number, Whole, YesNo
from steropes.designs.settings.value_checks import Before

__all__ = ["Prior", "SeriesModelSettings", "Spline", "Variance"]

Prior = Literal["laplace", "normal", "hierarchical", "none"]
Variance = Annotated[float, Number(1e-12)]


def _knots(knots: object) -> Any:
    """Check a number of knots or their positions."""
    if isinstance(knots, int):
        return Whole(3, 100).check(knots)
    if isinstance(knots, str) or not isinstance(knots, Sequence):
        raise ValueError(f"must be a number of knots or a list of them, not {knots!r}")
    found = tuple(Number().check(k) for k in knots)
    if len(found) < 3 or any(b <= a for a, b in itertools.pairwise(found)):
        raise ValueError("knots must be at least three, each above the one before")
    return found


class Spline(Settings):
    """A quadratic B-spline of age, season or calendar time.

    Parameters
    ----------
    knots : int or tuple of float, default 5
        A number of knots places them at quantiles (age at the outcome, .01 to .99; observed
        person-months, .005 to .995), or evenly through the year (season). Otherwise the knots
        themselves: ages in days, months since year 0 (12 × year + month − 1), months 0.5 to 12.5.
    penalized : bool, default False
        Apply the prior to the spline.

    Examples
    --------
    >>> from steropes.designs.case_series import Spline
    >>> Spline(knots=7).penalized
    False
    """

    knots: Annotated[int | tuple[float, ...], Before(_knots)] = 5
    penalized: YesNo = False


class SeriesModelSettings(Protocol):
    """The settings that the model of a case series reads, such as those of `CaseSeriesSettings`."""

    @property
    def age(self) -> Spline | None:
        """Spline of age."""
        ...

    @property
    def season(self) -> Spline | None:
        """Cyclic spline of season."""
        ...

    @property
    def calendar(self) -> Spline | None:
        """Spline of calendar time."""
        ...

    @property
    def spline_cases(self) -> int:
        """Largest number of unexposed cases, evenly spaced, used to fit the splines."""
        ...

    @property
    def end_of_observation_days(self) -> int:
        """Length of the probe window at the end of observation; 0 for none."""
        ...

    @property
    def prior(self) -> Prior:
        """Prior of penalised columns."""
        ...

    @property
    def variance(self) -> float | None:
        """Variance of the prior; None chooses it by cross-validation over people."""
        ...

    @property
    def group_variance(self) -> float:
        """Variance of the classes' means in a hierarchical prior."""
        ...

    @property
    def folds(self) -> int:
        """Folds of that cross-validation."""
        ...

    @property
    def seed(self) -> int:
        """Seed of the folds and of the bootstrap."""
        ...

    @property
    def bootstrap(self) -> int:
        """Number of draws of people."""
        ...

    @property
    def level(self) -> float:
        """Level of the intervals."""
        ...
