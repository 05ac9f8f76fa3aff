"""One effect for all databases: from estimates with standard errors, or from whole profiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steropes.errors import DataError

__all__ = ["Combined", "Profile", "combine_normal", "combine_profiles"]

HALF = 3.8414588206941227 / 2
FAR = 20.0  # log ratios are looked for within this distance of zero


@dataclass(frozen=True)
class Combined:
    """An effect on the log scale, with its 95 % limits.

    Attributes
    ----------
    log_rr, se, lower, upper : float
    databases : int
    i_squared : float
        Share of the variation that is between databases (Higgins and Thompson 2002).
    tau : float
        Standard deviation of the effect between databases; 0 for fixed effects.
    """

    log_rr: float
    se: float
    lower: float
    upper: float
    databases: int
    i_squared: float
    tau: float = 0.0


class Profile:
    """A profile log-likelihood as a function: cubic between its points, linear beyond them.

    Parameters
    ----------
    log_rr, log_likelihood : array_like, shape (m,)
    gradient : array_like, shape (m,), optional
        Its derivative; without it that of a natural cubic spline.

    Raises
    ------
    DataError
        Fewer than two points, points that repeat, numbers that are missing, or lengths that differ.
    """

    def __init__(
        self, log_rr: ArrayLike, log_likelihood: ArrayLike, gradient: ArrayLike | None = None
    ) -> None:
        from scipy.interpolate import CubicHermiteSpline, CubicSpline

        x, y = np.asarray(log_rr, dtype=float), np.asarray(log_likelihood, dtype=float)
        slope = y if gradient is None else np.asarray(gradient, dtype=float)
        if not (x.ndim == 1 and x.shape == y.shape == slope.shape):
            raise DataError(
                "log_rr, log_likelihood and gradient of a profile must have one value a point: "
                f"their shapes are {x.shape}, {y.shape} and {slope.shape}"
            )
        order = np.argsort(x)
        x, y, slope = x[order], y[order], slope[order]
        if not all(np.isfinite(v).all() for v in (x, y, slope)):
            raise DataError("a profile has points that are missing or infinite")
        if len(x) < 2 or not (np.diff(x) > 0).all():
            raise DataError("a profile needs two or more points, each of another log ratio")
        if gradient is None:
            spline = CubicSpline(x, y, bc_type="natural")
            slope = spline(x, 1)
        self._curve = CubicHermiteSpline(x, y, slope)
        self.low, self.high = float(x[0]), float(x[-1])
        self._ends = (float(y[0]), float(slope[0]), float(y[-1]), float(slope[-1]))

    def __call__(self, log_rr: ArrayLike) -> NDArray:
        """Log-likelihood at some log ratios."""
        b = np.asarray(log_rr, dtype=float)
        y0, s0, y1, s1 = self._ends
        inside = self._curve(np.clip(b, self.low, self.high))
        return np.where(
            b < self.low,
            y0 + s0 * (b - self.low),
            np.where(b > self.high, y1 + s1 * (b - self.high), inside),
        )


def combine_normal(log_rr: ArrayLike, se: ArrayLike, *, random: bool = False) -> Combined:
    """Combine estimates that are normal: weights are the inverse variances.

    Parameters
    ----------
    log_rr, se : array_like, shape (k,)
        One a database; those without a finite value are left out.
    random : bool, default False
        Let the effect differ between databases, with the variance τ² of DerSimonian and Laird
        (1986).

    Raises
    ------
    DataError
        No usable estimate, or lengths that differ.
    """
    y, s = (
        np.atleast_1d(np.asarray(log_rr, dtype=float)),
        np.atleast_1d(np.asarray(se, dtype=float)),
    )
    if y.ndim != 1 or y.shape != s.shape:
        raise DataError(f"{y.shape} log ratios and {s.shape} standard errors; one each a database")
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
    z = 1.959963984540054
    return Combined(
        centre, spread, centre - z * spread, centre + z * spread, len(y), i_squared, math.sqrt(tau2)
    )


def combine_profiles(profiles: Sequence[Profile]) -> Combined:
    """Combine whole likelihoods: their sum's maximum, and the interval where it is near that.

    It needs no estimate of its own in any database: one without events in an arm takes part.

    Raises
    ------
    DataError
        No profile, or a sum without a maximum.
    """
    from scipy.optimize import brentq, minimize_scalar

    if not profiles:
        raise DataError("no database has a profile")

    def total(b: float) -> float:
        return float(sum(p(b) for p in profiles))

    grid = np.linspace(-FAR, FAR, 4001)
    values = np.sum([p(grid) for p in profiles], axis=0)
    at = int(np.argmax(values))
    if at in (0, len(grid) - 1):
        raise DataError("the likelihoods rise for ever together, so no finite effect fits best")
    found = minimize_scalar(
        lambda b: -total(b), bounds=(grid[at - 1], grid[at + 1]), method="bounded",
        options={"xatol": 1e-12},
    )  # fmt: skip
    best = float(found.x)
    floor = total(best) - HALF

    def above(b: float) -> float:
        return total(b) - floor

    ends = []
    for far in (-FAR, FAR):
        if above(far) > 0:
            ends.append(math.copysign(math.inf, far))
        else:
            ends.append(float(brentq(above, *sorted((far, best)), xtol=1e-12)))
    lower, upper = ends
    spread = (upper - lower) / (2 * 1.959963984540054)
    return Combined(best, spread, lower, upper, len(profiles), math.nan)
