"""Refusals of cumulative models: columns the data say nothing about, and separation."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ..errors import SeparationError
from ..solve.cumulative import CumulativeFit, CumulativeNewton
from ..solve.cumulative_support import CumulativeProblem

__all__ = ["refuse_separated", "refuse_undetermined_columns"]

COLLINEAR = 1e-10  # share of a column's information that the other columns leave it
FLAT = 1e-4  # information along a direction, relative to that at the start
FAR = 10.0  # how far to walk in η along a direction that looks flat
NAMED = 8  # columns listed in a message


def refuse_undetermined_columns(
    problem: CumulativeProblem, names: list[str], free: np.ndarray
) -> np.ndarray:
    """Raise `SeparationError` for columns without penalty that are constant or collinear.

    The optimisation that this starts is kept in the problem, and its Hessian with it.

    Returns
    -------
    (k,) array
        The information of each of the columns ``free`` at β = 0, for `refuse_separated`.
    """
    newton = problem.newton = problem.start(problem.levels)
    S, raw = newton.information(free)
    h = np.diag(S)
    empty = ~(h > COLLINEAR * np.where(raw > 0, raw, 1.0)) | ~(raw > 0)
    if empty.any():
        bad = [names[j] for j in free[empty]]
        raise SeparationError(
            f"The data say nothing about the coefficients of {_listed(bad)}: constant among the "
            "rows that count. α takes the place of an intercept. Drop these columns or give "
            "them a prior.",
            bad,
        )
    size = np.sqrt(h)
    C = S / size / size[:, None]
    _, pivot, rank, _ = linalg.lapack.dpstrf(C, tol=COLLINEAR, lower=1)
    if rank < len(free):
        pivot = pivot - 1
        loose, kept = pivot[rank:], pivot[:rank]
        bad = [names[free[j]] for j in sorted(loose)]
        weight = linalg.lstsq(C[np.ix_(kept, kept)], C[np.ix_(kept, loose)])[0]
        partner = kept[np.flatnonzero(np.abs(weight).max(axis=1) > 1e-6)]
        raise SeparationError(
            f"Collinear columns: {_listed(bad)} can be written as a combination of "
            f"{_listed([names[free[j]] for j in sorted(partner)]) or 'other columns'}. Drop one "
            "or give them a prior.",
            bad,
        )
    return h


def refuse_separated(
    problem: CumulativeProblem,
    newton: CumulativeNewton,
    fit: CumulativeFit,
    names: list[str],
    free: np.ndarray,
    h0: np.ndarray,
) -> None:
    """Raise `SeparationError` where the likelihood rises for ever along some direction of β.

    The direction with the least information, relative to β = 0, is walked in both senses with
    α fitted anew: at a finite maximum the likelihood has fallen by the time η has changed by
    ten; along a direction of separation it has not.
    """
    if newton.S is None or not np.isfinite(fit.loss):
        return
    spread = np.ptp(newton.eta - newton.offset)
    at = np.searchsorted(np.sort(newton.W), free)
    at = np.argsort(newton.W, kind="stable")[at]
    S = newton.S[np.ix_(at, at)]
    if fit.converged and spread < 12 and (np.diag(S) > FLAT * h0).all():
        return
    root = np.sqrt(h0)
    value, vector = linalg.eigh(S / root / root[:, None], subset_by_index=[0, 0])
    if value[0] > FLAT:
        return
    d = np.zeros(len(newton.W))
    d[at] = vector[:, 0] / root
    step = newton._matmul(d)
    reach = float(np.ptp(step))
    if reach == 0:
        return
    slack = 1e-3 * float(problem.weights.max()) + 1e-9 * abs(fit.loss)
    never = np.full(problem.design.p, 1e300)
    for sense in (1.0, -1.0):
        walk = CumulativeNewton(
            problem.design, newton.likelihood, newton.eta + sense * FAR / reach * step
        )
        walk.at = newton.at
        there = walk.solve(never, np.zeros_like(never), tol=1e-4, max_iter=60)
        if there.loss <= fit.loss + slack:
            share = np.abs(vector[:, 0])
            bad = [names[free[j]] for j in np.argsort(-share) if share[j] > 0.1 * share.max()]
            raise SeparationError(
                "The likelihood has no finite maximum: it keeps rising as the coefficients of "
                f"{_listed(bad)} go to infinity (the outcome is separated by them). Drop or "
                "merge these columns, or give them a prior.",
                bad,
            )


def _listed(names: list[str]) -> str:
    text = ", ".join(repr(s) for s in names[:NAMED])
    return text + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
