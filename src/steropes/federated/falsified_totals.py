"""Refusal of totals that no rows have, which at least one site must have falsified.

Totals hide which site it is, and numbers that some rows could have are not noticed. All models of a
plan have convex losses, so that losses and gradients of different points and rounds must fit each
other, and Hessians have no negative curvature.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..errors import DataError
from .site_intercept import Intercept

__all__ = [
    "IMPOSSIBLE",
    "refuse_impossible",
    "refuse_other_intercept",
    "refuse_unconvex_hessian",
    "refuse_unconvex_losses",
]

# Relative rounding error of sums beyond which an inequality between them is violated.
IMPOSSIBLE = 1e-9


def refuse_impossible(wrong: Mapping[str, bool]) -> None:
    """Raise `DataError` with the first total that is wrong, if any.

    Parameters
    ----------
    wrong : mapping of str to bool
        Whether each total contradicts itself or others.
    """
    named = [name for name, is_wrong in wrong.items() if is_wrong]
    if named:
        raise DataError(
            f"the total of {named[0]!r} is impossible: the answer of at least one site is wrong. "
            "Ask the sites for their versions and tables; the totals do not tell which one it is"
        )


def refuse_unconvex_losses(
    theta: np.ndarray,
    loss: float,
    gradient: np.ndarray | None,
    others: list[tuple[np.ndarray, float, np.ndarray | None]],
) -> None:
    """Refuse a loss and a gradient that contradict those of other points.

    A convex loss lies above all its tangents: L(b) ≥ L(a) + ∇L(a)'(b − a).

    Parameters
    ----------
    theta : (P,) array
        The point.
    gradient : (P,) array or None
    others : list of tuple
        Other points with their losses and gradients.
    """
    if not np.isfinite(loss):
        return
    known = [other for other in others if np.isfinite(other[1])]
    size = max((abs(other) for _, other, _ in known), default=0.0) + abs(loss)
    for at, other, slope in known:
        step = theta - at
        gaps = [] if slope is None else [loss - other - slope @ step]
        gaps += [] if gradient is None else [other - loss + gradient @ step]
        refuse_impossible({"loss": any(gap < -IMPOSSIBLE * size for gap in gaps)})


def refuse_unconvex_hessian(H: np.ndarray, uncentred: np.ndarray) -> None:
    """Refuse a Hessian with negative curvature, or with more than its uncentred diagonal.

    Parameters
    ----------
    H : (k, k) array
    uncentred : (k,) array
        Diagonal before rank-one terms are subtracted.
    """
    if not len(H) or not (np.isfinite(H).all() and np.isfinite(uncentred).all()):
        return
    slack = IMPOSSIBLE * len(H)
    largest = uncentred.max()
    wrong = (uncentred < -slack * abs(largest)).any()
    wrong |= (np.diag(H) > uncentred + slack * np.abs(uncentred)).any()
    size = np.sqrt(np.maximum(uncentred, 0.0))
    some = size > 0
    if some.any() and not wrong:
        part = H[np.ix_(some, some)] / size[some] / size[some][:, None]
        wrong = np.linalg.eigvalsh(part).min() < -slack
    refuse_impossible({"hessian": bool(wrong)})


def refuse_other_intercept(
    intercept: Intercept | None, weight: float, outcome: float, slope: float, curvature: float
) -> None:
    """Refuse sums over the common intercept that contradict the description of the rows.

    Parameters
    ----------
    intercept : Intercept or None
        The kind of intercept that all sites share.
    weight, outcome : float
        Total weight, and weighted total of the outcome.
    slope, curvature : float
        First and second derivative of the loss by the intercept.
    """
    slack = IMPOSSIBLE * (weight + abs(outcome) + abs(slope))
    if intercept is not None:
        refuse_impossible(intercept.contradictions(weight, outcome, slope, curvature, slack))
