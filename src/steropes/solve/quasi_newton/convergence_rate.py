"""Rates at which the steps contract, and whether a new Hessian is worth its cost."""

from __future__ import annotations

import numpy as np

from ..solver_constants import DEFAULT, SolverPolicy

__all__ = ["Rates"]


class Rates:
    """The replicates' KKT violations one and two steps ago, infinite if there was no such step."""

    def __init__(self, lanes: int, policy: SolverPolicy = DEFAULT) -> None:
        self.policy, self.models = policy.hessian, policy.step
        self.last = np.full(lanes, np.inf)
        self.before = np.full(lanes, np.inf)

    def reset(self) -> None:
        """Forget all violations after the problem has changed."""
        self.last[:] = self.before[:] = np.inf

    def record(self, violation: np.ndarray, todo: np.ndarray, fresh: bool) -> None:
        """Record violations (lanes,) before a step; a fresh Hessian starts a new record."""
        self.before = np.full(len(violation), np.inf) if fresh else np.where(
            todo, self.last, self.before
        )  # fmt: skip
        self.last = np.where(todo, violation, self.last)

    def reach(self, violation: np.ndarray, fresh: bool) -> float:
        """Return the share of the first replicate's violation that its next step can leave.

        Solving a model more accurately than its Hessian is in vain. The share is the square of the
        last contraction, as of Newton's method (Eisenstat and Walker 1996, choice 2).
        """
        tightest, loosest = self.models.single_near_shares
        if fresh or not np.isfinite(self.last[0]) or self.last[0] <= 0:
            return loosest
        return float(np.clip((violation[0] / self.last[0]) ** 2, tightest, loosest))

    def slow(self, violation: np.ndarray, todo: np.ndarray) -> np.ndarray:
        """Return the replicates that the last step brought little."""
        return np.flatnonzero(todo & (violation > self.policy.good_contraction * self.last))

    def standing(self, violation: np.ndarray, todo: np.ndarray) -> np.ndarray:
        """Return the replicates with a violation that the last step reduced hardly at all."""
        return np.flatnonzero(todo & (violation > self.policy.bad_contraction * self.last))

    def worth_hessian(
        self, violation: np.ndarray, tol: float, cost: float, patient: bool = False
    ) -> bool:
        """Return whether a new Hessian costs less than the steps that it is likely to save.

        The rate is that of two steps if there were two, because one alone is uncertain.

        Parameters
        ----------
        patient : bool
            Whether to wait for two steps. The first one after columns joined contracts little
            because of them and not because of the Hessian, which its BFGS pair corrects.
        """
        live = np.isfinite(self.last) & (violation > tol)
        if not live.any() or (patient and not np.isfinite(self.before[live]).any()):
            return False
        bad = self.policy.bad_contraction
        rates = violation[live] / self.last[live]
        if rates.max() >= bad:
            return True
        both = np.isfinite(self.before[live])
        two = np.sqrt(violation[live] / self.before[live])
        rate = float(np.where(both, two, rates).max())
        if not 0 < rate < bad:
            return rate > 0
        left = np.log(tol / violation[live].max())
        saved = left / np.log(rate) - left / np.log(self.policy.expected_contraction)
        return bool(saved > cost)
