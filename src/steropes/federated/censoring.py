"""The censoring distribution of all sites, for Fine and Gray's model with one baseline.

G(t) = Π_{s ≤ t} (1 − c(s) / n(s)), with c(s) the weight censored at s and n(s) that which leaves
later or is censored at s, as in `steropes.likelihoods.censoring`. A site tells how much leaves and
how much is censored at each of its times; the lead adds up and sends G to all. Each fold of a
cross-validation has the G of its training rows, and that of its own for their score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .protocol import Message
from .rows import SiteRows

__all__ = ["CensoringOfAll", "leaving", "pooled_censoring"]

ROUNDING = 1e-12  # of the weight at a time


@dataclass(frozen=True)
class CensoringOfAll:
    """G of all rows, and for each fold f without its rows, 1 + 2 f, and of them alone, 2 + 2 f.

    Attributes
    ----------
    times : (L,) array
        At which someone leaves, ascending.
    G : (1 + 2 folds, L) array
        Up to and including each time.
    """

    times: np.ndarray
    G: np.ndarray

    def before(self, t: np.ndarray, which: int) -> np.ndarray:
        """G(t−)."""
        at = np.searchsorted(self.times, t, side="left")
        return np.concatenate([[1.0], self.G[which]])[at]


def leaving(rows: SiteRows) -> dict[str, np.ndarray]:
    """What of a site makes the censoring distribution.

    Returns
    -------
    dict
        ``leave_times`` (L,), and the weights that leave and that are censored there: ``leave``
        and ``censored``, (1 + folds, L), of all rows and of those that each fold leaves out.
    """
    w = rows.problem.weights
    assert rows.codes is not None
    times, at = np.unique(rows.y[w > 0], return_inverse=True)
    at = at.reshape(-1)
    weights = [w] if rows.held_out is None else [w, *(w * out for out in rows.held_out.T)]
    censored = rows.codes == 0

    def each(some: np.ndarray) -> np.ndarray:
        return np.array([np.bincount(at, (x * some)[w > 0], minlength=len(times)) for x in weights])

    return {"leave_times": times, "leave": each(np.ones(len(w))), "censored": each(censored)}


def pooled_censoring(answers: list[Message], folds: int) -> CensoringOfAll:
    """G of all sites from what each told."""
    own = [np.asarray(a.arrays["leave_times"], float) for a in answers]
    times = np.unique(np.concatenate(own))
    leave, censored = np.zeros((1 + folds, len(times))), np.zeros((1 + folds, len(times)))
    for t, a in zip(own, answers, strict=True):
        at = np.searchsorted(times, t)
        leave[:, at] += a.array("leave", (1 + folds, len(t)))
        censored[:, at] += a.array("censored", (1 + folds, len(t)))
    return CensoringOfAll(
        times, np.array([_distribution(x, c) for x, c in _by_rows(leave, censored)])
    )


def _by_rows(leave: np.ndarray, censored: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """All rows; then those without each fold, and the fold's."""
    out = [(leave[0], censored[0])]
    for x, c in zip(leave[1:], censored[1:], strict=True):
        out += [(_without(leave[0], x), _without(censored[0], c)), (x, c)]
    return out


def _without(whole: np.ndarray, part: np.ndarray) -> np.ndarray:
    """What is left, and nothing where that is rounding."""
    rest = whole - part
    return np.where(rest > ROUNDING * whole, rest, 0.0)


def _distribution(leave: np.ndarray, censored: np.ndarray) -> np.ndarray:
    later = np.append(np.cumsum(leave[::-1])[::-1][1:], 0.0)
    n = later + censored
    with np.errstate(divide="ignore"):
        return np.exp(np.cumsum(np.log(np.where(n > 0, later, 1.0) / np.where(n > 0, n, 1.0))))
