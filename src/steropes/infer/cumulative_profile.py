"""Profile likelihood of one coefficient of a cumulative model: α and all other β refitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy import optimize, stats

from ..errors import SeparationError
from ..solve.cumulative_support import CumulativeProblem, fit_cumulative

__all__ = ["profile_interval", "profile_point"]

NEVER = 1e300  # an ℓ1 penalty that keeps a column out
FARTHEST = 64.0  # Wald half-widths within which an end of an interval is looked for


def profile_point(
    problem: CumulativeProblem, j: int, value: float, tol: float = 1e-8
) -> tuple[float, float]:
    """Largest log-likelihood with β_j at a value (in X's units), and its derivative there."""
    design = problem.design
    one = np.zeros((design.p, 1))
    one[j] = design.scale[j]
    column = design.matmul(one, problem.backend)[:, 0]
    offset = value * column if problem.offset is None else problem.offset + value * column
    part = replace(problem, offset=offset, newton=None)
    l1 = np.zeros(design.p)
    l1[j] = NEVER
    likelihood, fit = fit_cumulative(part, l1, np.zeros(design.p), tol)
    newton = part.newton
    assert newton is not None
    ev = likelihood.evaluate(newton.at, newton.eta)
    block, _ = newton.curvature(ev)
    t = block.solve(-likelihood.to_thresholds(ev.la, ev.lb))
    whole = np.zeros(design.n)
    whole[likelihood.levels.order] = ev.s + block.project(t)
    return -fit.loss, -float(column @ whole)


def profile_interval(
    at: Callable[[float], float], estimate: float, se: float, best: float, level: float, name: str
) -> tuple[float, float]:
    """Where twice the log-likelihood has fallen by the chi-squared quantile, on both sides."""
    drop = 0.5 * float(stats.chi2.ppf(level, 1))
    half = se * np.sqrt(2.0 * drop)

    def above(value: float) -> float:
        return at(value) - best + drop

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
