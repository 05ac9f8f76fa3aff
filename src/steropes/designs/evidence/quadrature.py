"""Quadrature of likelihoods over effects that differ between databases."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steropes.designs.evidence.profile_interpolation import Profile
from steropes.errors import DataError

__all__ = [
    "HEAVY_DF",
    "UNKNOWN",
    "KnownLikelihood",
    "Likelihood",
    "averaged_likelihood",
    "effects_grid",
    "heavy_cdf",
    "likely_range",
    "means_grid",
    "mixture_quantiles",
    "spreads_grid",
    "trapezoid_weights",
]

NOTHING = -300.0  # Log-densities are truncated here; smaller ones are negligible and slow.
# Results may depend this much, and no more, on profiles beyond their ends, where these are unknown:
# a change of a mean or standard deviation as a share of the standard deviation, or a difference of
# probabilities. It is about the error of the quadrature.
UNKNOWN = 0.02
NEGLIGIBLE = 30.0  # A log-density this far below its maximum contributes nothing to an integral.
GROWTH = 1.08  # The ratio of successive steps in the tails of the grid of means.
WIDE = 8.0  # The first grid of effects extends to this many prior standard deviations.
HEAVY_DF = 4  # Degrees of freedom of effects with heavy tails.
DIP = 0.1  # A log-likelihood has a minimum between effects if it falls this far below both.
RISE = 1e-3  # A larger increase over the outermost tenth of the grid counts as rising.

Likelihood = Callable[[ArrayLike], NDArray]


class KnownLikelihood:
    """A log-likelihood with the range in which it is known."""

    def __init__(self, f: Likelihood, number: int) -> None:
        self.f, self.number = f, number
        self.low, self.high = -math.inf, math.inf
        self.points = np.empty(0)
        if isinstance(f, Profile):
            self.low, self.high, self.points = f.low, f.high, f.points
        self.ends = [e for e in (self.low, self.high) if math.isfinite(e)]

    @property
    def name(self) -> str:
        """The name in messages."""
        named = isinstance(self.f, Profile) and self.f.name
        return f"the profile of {named}" if named else f"likelihood {self.number}"

    def upper_bound(self, effect: NDArray) -> NDArray:
        """Evaluate the log-likelihood, or its upper bound where it is unknown.

        A profile has a single maximum, so its value at an end towards which it falls is an upper
        bound beyond that end.
        """
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # Checked below.
            f = self.f.nearest if isinstance(self.f, Profile) else self.f
            values = np.asarray(f(effect), dtype=float)
        if values.shape != effect.shape:
            raise DataError(f"{self.name} returns {values.shape} values for {effect.shape} effects")
        if np.isnan(values).any() or not math.isfinite(values.max()):
            raise DataError(
                f"{self.name} is not a number at some log ratio, or zero everywhere; "
                "leave out databases without an estimate and a positive standard error"
            )
        return values

    def unknown(self, effect: NDArray) -> NDArray:
        """Mark the effects at which it is unknown."""
        return np.asarray((effect < self.low) | (effect > self.high))

    def rises_beyond(self, grid: NDArray) -> bool:
        """Check whether it rises towards effects beyond a grid around zero."""
        left, inner_left, inner_right, right = self.upper_bound(
            grid[-1] * np.array([-1, -0.9, 0.9, 1])
        )
        return bool(max(left - inner_left, right - inner_right) > RISE)

    def refuse_rising_end(self) -> None:
        """Raise if a profile still rises at its last point, beyond which it is unknown."""
        for side, end in ((-1, self.low), (1, self.high)):
            if isinstance(self.f, Profile) and math.isfinite(end) and not self.f.falls(side):
                raise DataError(
                    f"{self.name} still rises at {end:.4g}, its last point: store it over a wider "
                    "range"
                )


def effects_grid(known: Sequence[KnownLikelihood], mean_sd: float, tau_sd: float) -> NDArray:
    """Choose effects that cover the mass of every likelihood and of a common mean."""
    for f in known:
        f.refuse_rising_end()
    points = np.concatenate([f.points for f in known])
    ends = [abs(e) for f in known for e in f.ends]  # A flat side ends far from the maximum.
    reach = max([WIDE * (mean_sd + tau_sd), *ends])
    for _ in range(30):
        grid = np.union1d(np.linspace(-reach, reach, 4001), points[np.abs(points) < reach])
        together = _together(known, grid, mean_sd)
        inside = max(together[0], together[-1]) < together.max() - NEGLIGIBLE
        if inside and not any(f.rises_beyond(grid) for f in known):
            return grid
        reach *= 2
    raise DataError("a likelihood keeps rising, and faster than the prior of the mean falls")


def _together(known: Sequence[KnownLikelihood], effect: NDArray, mean_sd: float) -> NDArray:
    """Compute the log posterior, up to a constant, of an effect common to all databases."""
    total: NDArray = np.sum([f.upper_bound(effect) for f in known], axis=0)
    return total - 0.5 * (effect / mean_sd) ** 2


def means_grid(
    known: Sequence[KnownLikelihood], effect: NDArray, mean_sd: float, points: int
) -> NDArray:
    """Choose means that can have any posterior mass.

    They are evenly spaced in the range that the likelihoods support jointly for a common effect.
    With a large τ, or if databases disagree, the mean may lie far from there, because less precise
    databases have more influence. The grid therefore continues to both ends in growing steps.
    """

    def total(b: NDArray) -> NDArray:
        return _together(known, b, mean_sd)

    middle = _covering_grid(total, effect, points // 2)[0]
    beyond = (GROWTH ** np.arange(1, 400) - 1) / (1 - 1 / GROWTH)
    below = middle[0] - float(middle[1] - middle[0]) * beyond
    above = middle[-1] + float(middle[-1] - middle[-2]) * beyond
    return np.concatenate((below[below > effect[0]][::-1], middle, above[above < effect[-1]]))


def spreads_grid(tau_sd: float, points: int) -> NDArray:
    """Choose values of τ from 0 to 5 prior standard deviations, denser near 0."""
    return 5 * tau_sd * np.linspace(0, 1, points) ** 3


def trapezoid_weights(x: NDArray) -> NDArray:
    """Compute the weights of the trapezoidal rule."""
    w = np.zeros(len(x))
    w[:-1] += np.diff(x) / 2
    w[1:] += np.diff(x) / 2
    return w


def averaged_likelihood(
    f: KnownLikelihood,
    wide: NDArray,
    mu: NDArray,
    tau: NDArray,
    points: int,
    heavy_tails: bool = False,
) -> tuple[NDArray, NDArray]:
    """Average a likelihood over effects with each mean μ and scale τ, on the log scale.

    Effects are normal, or have a t distribution with four degrees of freedom. Returns lower and
    upper bounds: with a likelihood of zero where it is unknown, and with its last value there.
    """
    from scipy.special import ndtr

    effect, distance = _covering_grid(f.upper_bound, wide, points, (f.low, f.high))
    values = f.upper_bound(effect)
    top, h = values.max(), distance(mu)
    scaled = np.exp(values - top) * trapezoid_weights(effect)
    at_mean = f.upper_bound(mu) - top
    least, most = np.empty((2, len(mu), len(tau)))
    squares = -0.5 * (effect[None, :] - mu[:, None]) ** 2
    density = np.empty_like(squares)
    height = 0.375 if heavy_tails else 1 / math.sqrt(2 * math.pi)  # the density at its mean
    ends = [(side, e, float(f.upper_bound(np.array([e]))[0]) - top) for side, e in
            ((-1, f.low), (1, f.high)) if math.isfinite(e)]  # fmt: skip
    for j, t in enumerate(tau):
        narrow = t < 1.5 * h  # Narrower than the grid: the effect equals the mean.
        if narrow.all():
            least[:, j] = np.where(f.unknown(mu), NOTHING, at_mean)
            most[:, j] = at_mean
            continue
        np.multiply(squares, 1 / t**2, out=density)
        if heavy_tails:  # (1 + z² / 4)^(−5/2)
            np.subtract(1.0, np.multiply(density, 0.5, out=density), out=density)
            np.divide(1.0, density**2 * np.sqrt(density), out=density)
        else:
            np.exp(np.maximum(density, NOTHING, out=density), out=density)
        inside = density @ scaled * (height / t)
        beyond = [(math.exp(v), side * (mu - e) / t) for side, e, v in ends]
        tails = (v * (heavy_cdf(x) if heavy_tails else ndtr(x)) for v, x in beyond)
        outside = sum(tails, 0 * mu)
        least[:, j] = np.log(np.maximum(inside, 1e-300))
        most[:, j] = np.log(np.maximum(inside + outside, 1e-300))
        least[narrow, j] = most[narrow, j] = at_mean[narrow]
    return least, most


def _covering_grid(
    f: Callable[[NDArray], NDArray],
    wide: NDArray,
    points: int,
    known: tuple[float, float] = (-math.inf, math.inf),
) -> tuple[NDArray, Callable[[NDArray], NDArray]]:
    """Choose effects that cover a log-likelihood, and again each part between its minima.

    A likelihood may be narrow and yet not negligible far away, as R's parametric approximation,
    which rises again towards a limit. Returns the effects, and their distance at given effects.
    """
    low, high = likely_range(f, wide, f(wide))
    low, high = max(low, known[0]), min(high, known[1])
    effect = np.linspace(low, high, points)
    step = float(effect[1] - effect[0])
    dense = np.union1d(np.linspace(low, high, 2001), wide[(wide > low) & (wide < high)])
    values = np.asarray(f(dense), dtype=float)
    highest = np.maximum.accumulate
    dip = np.minimum(highest(values), highest(values[::-1])[::-1]) - values > DIP
    edges = np.diff(np.concatenate(([0], dip, [0])))
    starts, ends = np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist()
    cuts = [i + int(np.argmin(values[i:j])) for i, j in zip(starts, ends, strict=True)]
    parts = []
    for i, j in zip([0, *cuts], [*cuts, len(dense) - 1], strict=True) if cuts else ():
        if values[i : j + 1].max() > values.max() - NEGLIGIBLE:
            parts.append(likely_range(f, dense[i : j + 1], values[i : j + 1]))
    for part in parts:
        effect = np.union1d(effect, np.linspace(*part, points))

    def distance(at: NDArray) -> NDArray:
        if not parts:
            return np.full(len(at), step)
        left, right = np.array(parts).T  # Effects beside all parts have the mass of the nearest.
        beside = np.maximum(left - at[:, None], at[:, None] - right)
        return np.asarray(((right - left) / (points - 1))[np.argmin(beside, axis=1)])

    return effect, distance


def heavy_cdf(x: NDArray) -> NDArray:
    """Compute the distribution function of a t distribution with four degrees of freedom."""
    square = x**2
    return np.asarray(0.5 + 0.5 * x * (square + 6) / (square + 4) ** 1.5)


def mixture_quantiles(
    centre: NDArray, spread: NDArray, mass: NDArray, at: Sequence[float]
) -> list[float]:
    """Compute quantiles of a mixture of normal distributions with the given masses."""
    from scipy.optimize import brentq
    from scipy.special import ndtr

    kept = mass > 1e-12 * mass.max()
    centre, spread, mass = centre[kept], spread[kept], mass[kept] / mass[kept].sum()
    low, high = float((centre - 12 * spread).min()), float((centre + 12 * spread).max())
    return [
        float(brentq(lambda x, p=p: float(mass @ ndtr((x - centre) / spread)) - p, low, high))
        for p in at
    ]


def likely_range(
    f: Callable[[NDArray], NDArray], effect: NDArray, values: NDArray
) -> tuple[float, float]:
    """Find the range of effects in which a log-likelihood is not negligible.

    Narrow ranges are refined: a peak between two points would appear to have its maximum at one of
    them, far too low.
    """
    for _ in range(8):
        above = np.flatnonzero(values > values.max() - NEGLIGIBLE)
        low, high = effect[max(above[0] - 1, 0)], effect[min(above[-1] + 1, len(effect) - 1)]
        if len(above) > 40:
            break
        effect = np.linspace(low, high, 201)
        values = np.asarray(f(effect), dtype=float)
    return float(low), float(high)
