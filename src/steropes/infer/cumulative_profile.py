"""Profile likelihood of one coefficient of a cumulative model: α and all other β refitted."""

from __future__ import annotations

import numpy as np
from scipy import optimize, stats

from ..errors import SeparationError
from ..fit import Problem, Replicates
from ..solve import Fit

__all__ = ["Profile", "profile_interval"]

NEVER = 1e300  # an ℓ1 penalty that keeps a column out
FARTHEST = 64.0  # Wald half-widths within which an end of an interval is looked for


class Profile:
    """The profile log-likelihood of a coefficient; points are replicates with their own offsets.

    Parameters
    ----------
    problem : Problem
    fit : Fit
        Its maximum, without a prior, from where the points start.
    j : int
        The coefficient.
    """

    def __init__(self, problem: Problem, fit: Fit, j: int) -> None:
        self.problem, self.fit, self.j = problem, fit, j
        one = np.zeros((problem.design.p, 1))
        one[j] = problem.design.scale[j]
        self.column = problem.design.matmul(one, problem.likelihood.backend)
        self.common = problem.common()

    def __call__(self, values: np.ndarray, tol: float = 1e-8) -> tuple[np.ndarray, np.ndarray]:
        """Largest log-likelihood with β_j at each value (in X's units), and its derivatives."""
        problem, p = self.problem, self.problem.design.p
        base = np.zeros(problem.design.n) if problem.offset is None else problem.offset

        def weights(numbers: list[int]) -> np.ndarray:
            return np.repeat(problem.weights[:, None], len(numbers), axis=1)

        def offsets(numbers: list[int]) -> np.ndarray:
            return base[:, None] + self.column * values[numbers]

        points = Replicates(problem, self.common, len(values), weights, 0.0, offsets)
        l1, start = np.zeros(p), self.fit.beta * problem.design.scale
        l1[self.j], start[self.j] = NEVER, 0.0
        height, slope = np.empty(len(values)), np.empty(len(values))
        for group in points.solve(
            l1, np.zeros(p), tol, lambda k: start[:, None], "during", self.fit.nuisance
        ):
            height[group.numbers] = [-fit.loss for fit in group.fits]
            g = group.batch.gradients()[self.j]
            slope[group.numbers] = -g * problem.design.scale[self.j]
        return height, slope


def profile_interval(
    at: Profile, estimate: float, se: float, best: float, level: float, name: str
) -> tuple[float, float]:
    """Where twice the log-likelihood has fallen by the chi-squared quantile, on both sides."""
    drop = 0.5 * float(stats.chi2.ppf(level, 1))
    half = se * np.sqrt(2.0 * drop)

    def above(value: float) -> float:
        return float(at(np.array([value]))[0][0]) - best + drop

    ends = []
    for side in (-1.0, 1.0):
        inner, reach = estimate, 1.0
        while above(estimate + side * reach * half) > 0:
            inner, reach = estimate + side * reach * half, 2.0 * reach
            if reach > FARTHEST:
                raise SeparationError(
                    f"The profile likelihood of {name!r} stays flat; its interval has no end.",
                    [name],
                )
        outer = estimate + side * reach * half
        ends.append(float(optimize.brentq(above, inner, outer, xtol=1e-7 * half, rtol=1e-12)))
    return ends[0], ends[1]
