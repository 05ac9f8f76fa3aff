"""How fast the steps contract, and whether a new Hessian is worth what it costs."""

from __future__ import annotations

import numpy as np

__all__ = ["LOOSEST", "TIGHTEST", "Rates"]

GOOD = 0.3  # contraction of the KKT violation below which a Hessian is kept
HOPELESS = 0.9  # contraction from which anything is better
NEW = 0.1  # contraction that a new Hessian can be hoped to give


LOOSEST, TIGHTEST = 0.02, 3e-4  # share of the violation to which a single fit's models are solved


class Rates:
    """The replicates' KKT violations one and two steps ago, infinite where there were none."""

    def __init__(self, lanes: int) -> None:
        self.last = np.full(lanes, np.inf)
        self.before = np.full(lanes, np.inf)

    def reset(self) -> None:
        """Forget all: the problem has changed."""
        self.last[:] = self.before[:] = np.inf

    def record(self, violation: np.ndarray, todo: np.ndarray, fresh: bool) -> None:
        """Note where a step starts; a fresh Hessian makes what was before it irrelevant."""
        self.before = np.full(len(violation), np.inf) if fresh else np.where(
            todo, self.last, self.before
        )  # fmt: skip
        self.last = np.where(todo, violation, self.last)

    def reach(self, violation: np.ndarray, fresh: bool) -> float:
        """Share of the first one's violation that its next step can hope to leave.

        Models that are solved further than their Hessian is right are solved in vain. The square
        of the last contraction, as of Newton's steps (Eisenstat and Walker 1996, choice 2).
        """
        if fresh or not np.isfinite(self.last[0]) or self.last[0] <= 0:
            return LOOSEST
        return float(np.clip((violation[0] / self.last[0]) ** 2, TIGHTEST, LOOSEST))

    def slow(self, violation: np.ndarray, todo: np.ndarray) -> np.ndarray:
        """Replicates that the last step brought little."""
        return np.flatnonzero(todo & (violation > GOOD * self.last))

    def stand(self, violation: np.ndarray, todo: np.ndarray) -> bool:
        """Whether the last step of some replicate brought next to nothing."""
        return bool((todo & (violation > HOPELESS * self.last)).any())

    def worth_hessian(self, violation: np.ndarray, tol: float, cost: float) -> bool:
        """Whether a new Hessian costs less than the steps that it is likely to save.

        A single step tells little of the rate, so that of two counts where there were two.

        Parameters
        ----------
        cost : float
            Of a Hessian, in steps.
        """
        live = np.isfinite(self.last) & (violation > tol)
        if not live.any():
            return False
        rates = violation[live] / self.last[live]
        if rates.max() >= HOPELESS:
            return True
        both = np.isfinite(self.before[live])
        two = np.sqrt(violation[live] / self.before[live])
        rate = float(np.where(both, two, rates).max())
        if not 0 < rate < HOPELESS:
            return rate > 0
        left = np.log(tol / violation[live].max())
        return bool(left / np.log(rate) - left / np.log(NEW) > cost)
