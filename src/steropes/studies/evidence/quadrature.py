"""Likelihoods of databases averaged over effects that differ between them, by quadrature."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steropes.errors import DataError
from steropes.studies.evidence.profile_interpolation import Profile

__all__ = [
    "KnownLikelihood",
    "Likelihood",
    "averaged_likelihood",
    "effects_grid",
    "means_grid",
    "spreads_grid",
    "trapezoid_weights",
]

NOTHING = -300.0  # log of a density that adds nothing; what is below it is slow to compute with
NEGLIGIBLE = 30.0  # fall of a log-density beyond which it adds nothing to an integral
GROWTH = 1.08  # of one step to the next in the tails of the grid of means
WIDE = 8.0  # prior standard deviations that the first grid of effects reaches to
DOUBLINGS = 30  # of the grid of effects, until it holds all mass
RISE = 1e-3  # of a log-likelihood over the outermost tenth of the grid, above which it rises

Likelihood = Callable[[ArrayLike], NDArray]


class KnownLikelihood:
    """A log-likelihood, and where it is not known."""

    def __init__(self, f: Likelihood, number: int) -> None:
        self.f, self.number = f, number
        self.low, self.high = -math.inf, math.inf
        self.points = np.empty(0)
        if isinstance(f, Profile):
            self.low, self.high, self.points = f.low, f.high, f.points
        self.ends = [e for e in (self.low, self.high) if math.isfinite(e)]

    @property
    def name(self) -> str:
        """Name it in a message."""
        named = isinstance(self.f, Profile) and self.f.name
        return f"the profile of {named}" if named else f"likelihood {self.number}"

    def most(self, effect: NDArray) -> NDArray:
        """Evaluate it, or the most that it can be where it is unknown.

        A profile that falls at its end is nowhere higher beyond it, as it has one maximum.
        """
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # looked at below
            f = self.f.nearest if isinstance(self.f, Profile) else self.f
            values = np.asarray(f(effect), dtype=float)
        if values.shape != effect.shape:
            raise DataError(f"{self.name} gives {values.shape} values of {effect.shape} effects")
        if np.isnan(values).any() or not math.isfinite(values.max()):
            raise DataError(
                f"{self.name} is no number at some log ratio, or nowhere above zero; "
                "leave out databases without an estimate and a positive standard error"
            )
        return values

    def unknown(self, effect: NDArray) -> NDArray:
        """Tell at which effects it is unknown."""
        return np.asarray((effect < self.low) | (effect > self.high))

    def rises_beyond(self, grid: NDArray) -> bool:
        """Tell whether it rises towards effects beyond a grid about zero."""
        left, inner_left, inner_right, right = self.most(grid[-1] * np.array([-1, -0.9, 0.9, 1]))
        return bool(max(left - inner_left, right - inner_right) > RISE)

    def refuse_rising_end(self) -> None:
        """Refuse a profile that rises where it ends, of which nothing is known beyond."""
        for side, end in ((-1, self.low), (1, self.high)):
            if isinstance(self.f, Profile) and math.isfinite(end) and not self.f.falls(side):
                raise DataError(
                    f"{self.name} still rises at {end:.4g}, where its points end: store it over a "
                    "wider range"
                )


def effects_grid(known: Sequence[KnownLikelihood], mean_sd: float, tau_sd: float) -> NDArray:
    """Effects that hold the mass of every likelihood and, were the effect the same, of the mean."""
    for f in known:
        f.refuse_rising_end()
    points = np.concatenate([f.points for f in known])
    ends = [abs(e) for f in known for e in f.ends]  # a flat side ends far from its likelihood
    reach = max([WIDE * (mean_sd + tau_sd), *ends])
    for _ in range(DOUBLINGS):
        grid = np.union1d(np.linspace(-reach, reach, 4001), points[np.abs(points) < reach])
        together = _together(known, grid, mean_sd)
        inside = max(together[0], together[-1]) < together.max() - NEGLIGIBLE
        if inside and not any(f.rises_beyond(grid) for f in known):
            return grid
        reach *= 2
    raise DataError("a likelihood rises for ever, and faster than the prior of the mean falls")


def _together(known: Sequence[KnownLikelihood], effect: NDArray, mean_sd: float) -> NDArray:
    """Log posterior, but for a constant, of an effect that is the same everywhere."""
    total: NDArray = np.sum([f.most(effect) for f in known], axis=0)
    return total - 0.5 * (effect / mean_sd) ** 2


def means_grid(
    known: Sequence[KnownLikelihood], effect: NDArray, mean_sd: float, points: int
) -> NDArray:
    """Means that can have any posterior mass.

    Evenly about what the likelihoods allow together, as if the effect were the same. The larger τ
    is, and where databases contradict each other, the mean may be far from there: the less precise
    ones count the more. So the grid goes on to both ends, in steps that grow.
    """

    def total(b: NDArray) -> NDArray:
        return _together(known, b, mean_sd)

    middle = np.linspace(*_likely(total, effect, total(effect)), points // 2)
    step = float(middle[1] - middle[0])
    beyond = step * (GROWTH ** np.arange(1, 400) - 1) / (1 - 1 / GROWTH)
    below, above = middle[0] - beyond, middle[-1] + beyond
    return np.concatenate((below[below > effect[0]][::-1], middle, above[above < effect[-1]]))


def spreads_grid(tau_sd: float, points: int) -> NDArray:
    """From 0 to 5 prior standard deviations, denser near 0."""
    return 5 * tau_sd * np.linspace(0, 1, points) ** 3


def trapezoid_weights(x: NDArray) -> NDArray:
    """Weights of the trapezoidal rule."""
    w = np.zeros(len(x))
    w[:-1] += np.diff(x) / 2
    w[1:] += np.diff(x) / 2
    return w


def averaged_likelihood(
    f: KnownLikelihood, wide: NDArray, mu: NDArray, tau: NDArray, points: int
) -> tuple[NDArray, NDArray]:
    """Log of a database's likelihood averaged over effects normal about each μ with each τ.

    Returns the least and the most that it can be: as if the likelihood were zero where it is not
    known, and as if it kept its last value.
    """
    from scipy.special import ndtr

    low, high = _likely(f.most, wide, f.most(wide))
    effect = np.linspace(max(low, f.low), min(high, f.high), points)
    values = f.most(effect)
    top, h = values.max(), effect[1] - effect[0]
    scaled = np.exp(values - top) * trapezoid_weights(effect)
    at_mean = f.most(mu) - top
    least, most = np.empty((2, len(mu), len(tau)))
    squares = -0.5 * (effect[None, :] - mu[:, None]) ** 2
    density = np.empty_like(squares)
    ends = [(side, e, float(f.most(np.array([e]))[0]) - top) for side, e in
            ((-1, f.low), (1, f.high)) if math.isfinite(e)]  # fmt: skip
    for j, t in enumerate(tau):
        if t < 1.5 * h:  # narrower than the grid: the effect is the mean
            least[:, j] = np.where(f.unknown(mu), NOTHING, at_mean)
            most[:, j] = at_mean
            continue
        np.multiply(squares, 1 / t**2, out=density)
        np.exp(np.maximum(density, NOTHING, out=density), out=density)
        inside = density @ scaled / (t * math.sqrt(2 * math.pi))
        outside = sum((math.exp(v) * ndtr(side * (mu - e) / t) for side, e, v in ends), 0 * mu)
        least[:, j] = np.log(np.maximum(inside, 1e-300))
        most[:, j] = np.log(np.maximum(inside + outside, 1e-300))
    return least, most


def _likely(
    f: Callable[[NDArray], NDArray], effect: NDArray, values: NDArray
) -> tuple[float, float]:
    """Ends of the effects at which a log-likelihood is not negligible against its maximum.

    Narrow ones are looked at more closely: one that stands between two points seems to have its
    maximum at one of them, far below.
    """
    for _ in range(8):
        above = np.flatnonzero(values > values.max() - NEGLIGIBLE)
        low, high = effect[max(above[0] - 1, 0)], effect[min(above[-1] + 1, len(effect) - 1)]
        if len(above) > 40:
            break
        effect = np.linspace(low, high, 201)
        values = np.asarray(f(effect), dtype=float)
    return float(low), float(high)
