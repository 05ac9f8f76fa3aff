"""Fixed and DerSimonian–Laird effects over databases, from estimates or profile likelihoods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steropes.designs.evidence.profile_interpolation import Profile
from steropes.designs.values.normal_quantile import Z
from steropes.designs.values.plottable_log_ratios import DrawnEffect
from steropes.errors import DataError
from steropes.infer.inference_constants import PROFILE

__all__ = ["Combined", "Profile", "combine_normal", "combine_profiles"]

HALF = 3.8414588206941227 / 2  # The drop of a log-likelihood at its 95 % limits.
LEAST_PREDICTED = 3  # With fewer databases there is no prediction for a further one.
RISE = "likelihoods may keep rising: they rise to"
STARTS = 4001  # The number of points, in addition to the stored ones, that bracket the maximum.


@dataclass(frozen=True)
class Combined(DrawnEffect):
    """An effect on the log scale, with its 95 % limits.

    Attributes
    ----------
    log_rr, se, lower, upper : float
        The estimate is infinite if the likelihoods keep rising towards a finite limit, as when no
        database has events in one of the arms; its interval then has one finite limit. ``se`` is
        the width of the interval over 2 × 1.96, infinite if the interval has an open side.
    databases : int
        Number of databases.
    i_squared : float
        Share of the variation that is between databases (Higgins and Thompson 2002).
    tau : float
        Standard deviation of the effect between databases; 0 for fixed effects.
    predicted_lower, predicted_upper : float
        95 % limits of the effect in a further database (Higgins, Thompson and Spiegelhalter 2009):
        t quantiles with k − 2 degrees of freedom of √(τ² + se²). NaN for fixed effects, and with
        fewer than three databases.

    Examples
    --------
    >>> from steropes.designs.evidence import combine_normal
    >>> combine_normal([0.2, 0.4], [0.1, 0.1]).databases
    2
    """

    log_rr: float
    se: float
    lower: float
    upper: float
    databases: int
    i_squared: float
    tau: float = 0.0
    predicted_lower: float = math.nan
    predicted_upper: float = math.nan


def combine_normal(log_rr: ArrayLike, se: ArrayLike, *, random: bool = False) -> Combined:
    """Combine normal estimates, weighted by their inverse variances.

    Parameters
    ----------
    log_rr : array_like, shape (k,)
        Log ratio of each database; those without a finite value are left out.
    se : array_like, shape (k,)
        Their standard errors.
    random : bool, default False
        Let the effect differ between databases, with the variance τ² of DerSimonian and Laird
        (1986).

    Returns
    -------
    Combined
        The combined log ratio, its standard error and 95 % limits, the number of databases, I², τ
        and, with random effects, the prediction for a further database.

    Raises
    ------
    DataError
        There is no usable estimate, or the arrays differ in length.

    References
    ----------
    DerSimonian and Laird (1986), Controlled Clinical Trials 7:177–188. Higgins, Thompson and
    Spiegelhalter (2009), JRSS A 172:137–159 (prediction).

    Examples
    --------
    >>> from steropes.designs.evidence import combine_normal
    >>> found = combine_normal([0.2, 0.4], [0.1, 0.1])
    >>> round(found.log_rr, 3), round(found.se, 4)
    (0.3, 0.0707)
    """
    from scipy.stats import t

    y, s = (
        np.atleast_1d(np.asarray(log_rr, dtype=float)),
        np.atleast_1d(np.asarray(se, dtype=float)),
    )
    if y.ndim != 1 or y.shape != s.shape:
        raise DataError(f"{y.shape} log ratios and {s.shape} standard errors; shapes must agree")
    good = np.isfinite(y) & np.isfinite(s) & (s > 0)
    y, s = y[good], s[good]
    if not len(y):
        raise DataError("no database has an estimate with a standard error")
    w = 1 / s**2
    fixed = float((w * y).sum() / w.sum())
    q, df = float((w * (y - fixed) ** 2).sum()), len(y) - 1
    i_squared = max(0.0, (q - df) / q) if q > 0 and df else 0.0
    tau2 = 0.0
    if random and df:
        tau2 = max(0.0, (q - df) / float(w.sum() - (w**2).sum() / w.sum()))
        w = 1 / (s**2 + tau2)
    centre, spread = float((w * y).sum() / w.sum()), 1 / math.sqrt(float(w.sum()))
    predicted = (math.nan, math.nan)
    if random and df >= LEAST_PREDICTED - 1:
        reach = float(t.ppf(0.975, df - 1)) * math.sqrt(tau2 + spread**2)
        predicted = (centre - reach, centre + reach)
    return Combined(
        centre, spread, centre - Z * spread, centre + Z * spread, len(y), i_squared,
        math.sqrt(tau2), *predicted,
    )  # fmt: skip


def combine_profiles(profiles: Sequence[Profile]) -> Combined:
    """Combine likelihoods: the maximum of their sum, with the likelihood interval.

    Databases without an estimate take part, such as one without events in an arm. The sum is known
    only where all profiles are known; nothing is extrapolated.

    Parameters
    ----------
    profiles : sequence of Profile
        Log-likelihood of each database at points of the log ratio.

    Returns
    -------
    Combined
        Named tuple of the combined log ratio, its standard error and 95 % limits, the number of
        databases, I² and τ.

    Raises
    ------
    DataError
        There is no profile, the profiles are flat, or a maximum or limit lies beyond the points at
        which a profile is stored.

    References
    ----------
    Schuemie, Chen, Madigan and Suchard (2022), Statistical Methods in Medical Research 31:438–450.

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs.evidence import Profile, combine_profiles
    >>> grid = np.linspace(-2.0, 2.0, 81)
    >>> north, south = (Profile(grid, -(((grid - y) / 0.2) ** 2) / 2) for y in (0.2, 0.4))
    >>> round(combine_profiles([north, south]).log_rr, 3)
    0.3
    """
    from scipy.optimize import minimize_scalar

    if not profiles:
        raise DataError("no database has a profile")
    total = _Sum(profiles)
    grid = total.grid()
    values = total(grid)
    at, top = int(np.argmax(values)), float(values.max())
    level = [
        total.open(side) and top - values[end] <= PROFILE.max_flat_change
        for side, end in ((-1, 0), (1, -1))
    ]
    if all(level):
        raise DataError("the profiles are flat: the data have no information on the effect")
    if any(level):
        best = math.copysign(math.inf, -1 if level[0] else 1)
        centre, top = float(grid[0 if level[0] else -1]), float(values[0 if level[0] else -1])
    else:
        if at in (0, len(grid) - 1):
            raise DataError(total.too_narrow(-1 if at == 0 else 1, RISE))
        found = minimize_scalar(
            lambda b: -float(total(b)), bounds=(grid[at - 1], grid[at + 1]), method="bounded",
            options={"xatol": 1e-12 * float(grid[-1] - grid[0])},
        )  # fmt: skip
        best = centre = float(found.x)
        top = max(top, -float(found.fun))
    lower, upper = (
        side * math.inf if level[k] else total.limit(side, centre, top - HALF)
        for k, side in enumerate((-1, 1))
    )
    return Combined(best, (upper - lower) / (2 * Z), lower, upper, len(profiles), math.nan)


class _Sum:
    """The sum of profiles over the effects at which all of them are known."""

    def __init__(self, profiles: Sequence[Profile]) -> None:
        self.profiles = profiles
        points = np.concatenate([p.points for p in profiles])
        # Beyond the outermost points of profiles that are flat there the sum is constant.
        self.left = max(max(p.low for p in profiles), float(points.min()))
        self.right = min(min(p.high for p in profiles), float(points.max()))
        if not self.left < self.right:
            ranges = ", ".join(f"{p.described()} {p.stored_range()}" for p in profiles)
            raise DataError(f"the profiles have no stored effects in common: {ranges}")
        self.points = points[(points > self.left) & (points < self.right)]

    def __call__(self, b: ArrayLike) -> NDArray:
        """Evaluate the sum, with each profile constant beyond its points."""
        return np.asarray(np.sum([p.nearest(b) for p in self.profiles], axis=0))

    def grid(self) -> NDArray:
        """Return effects that bracket the maximum, however narrow one of the profiles is."""
        return np.union1d(np.linspace(self.left, self.right, STARTS), self.points)

    def open(self, side: int) -> bool:
        """Check whether every profile is flat on a side, so that the sum is known everywhere."""
        return all(math.isinf(p.low if side < 0 else p.high) for p in self.profiles)

    def limit(self, side: int, inner: float, floor: float) -> float:
        """Find the effect on a side at which the sum has dropped to the floor."""
        from scipy.optimize import brentq

        end = self.left if side < 0 else self.right
        if float(self(end)) > floor:
            if self.open(side):
                return side * math.inf
            raise DataError(self.too_narrow(side, "interval reaches beyond"))
        width = self.right - self.left
        low, high = sorted((inner, end))
        return float(brentq(lambda b: float(self(b)) - floor, low, high, xtol=1e-14 * width))

    def too_narrow(self, side: int, problem: str) -> str:
        """Name the profiles whose points end too early on a side."""
        end = self.left if side < 0 else self.right
        short = [p for p in self.profiles if (p.low if side < 0 else p.high) == end]
        which = ", ".join(dict.fromkeys(f"{p.described()} ({p.stored_range()})" for p in short))
        return (
            f"the {problem} the {'lower' if side < 0 else 'upper'} end of the points at which "
            f"{which} is stored, and is unknown beyond; store profiles over a wider range"
        )
