"""A model with its data, ready for any weights and penalties."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..design.face import DesignLike
from ..likelihoods import Likelihood
from ..likelihoods.nuisance import NuisanceLikelihood
from ..priors import Prior
from ..solve import Batch, Common
from ..solve.data_term import ActiveColumns, LocalTerm, ProfiledTerm
from ..solve.shared_hessian import SharedHessian

__all__ = ["Problem"]

FAR = 30.0  # an offset beyond which zero is no place to start from


@dataclass
class Problem:
    """A model with its data, ready for any weights and penalties.

    Attributes
    ----------
    design : Design, or what keeps its face
        Columns, the intercept first where there is one.
    likelihood : Likelihood
    weights : (n,) array
    offset : (n,) array or None
    prior : Prior or None
    names : list of str
        Columns that the prior applies to.
    n_free : int
        Leading columns (the intercept) that no prior applies to.
    fold_label, fold_together : (n,) int arrays or None
        Outcome classes to spread over folds; strata to keep whole.
    """

    design: DesignLike
    likelihood: Likelihood
    weights: np.ndarray
    offset: np.ndarray | None
    prior: Prior | None
    names: list[str]
    n_free: int = 0
    fold_label: np.ndarray | None = None
    fold_together: np.ndarray | None = None

    def penalties(self, prior: Prior | None) -> tuple[np.ndarray, np.ndarray]:
        """λ and κ of all columns, in X's units."""
        if prior is None:
            return np.zeros(self.design.p), np.zeros(self.design.p)
        penalty = prior.penalty(self.names)
        free = np.zeros(self.n_free)
        return np.concatenate([free, penalty.l1]), np.concatenate([free, penalty.l2])

    def common(self) -> Common:
        """A working set and Hessian for batches of this problem to share."""
        likelihood = self.likelihood
        active = ActiveColumns(self.design, likelihood.order, likelihood.backend)
        return Common(active, SharedHessian(likelihood.backend.pool))

    def term(
        self,
        weights: np.ndarray | None = None,
        B: int = 1,
        active: ActiveColumns | None = None,
        offset: np.ndarray | None = None,
    ) -> LocalTerm:
        """The data term; weights and offsets (n, B) are those of the problem, or the ones given."""
        w = self.weights[:, None] if weights is None else weights
        if offset is None and self.offset is not None:
            offset = self.offset[:, None]
        if isinstance(self.likelihood, NuisanceLikelihood):
            return ProfiledTerm(self.design, self.likelihood, w, offset, B, active)
        return LocalTerm(self.design, self.likelihood, w, offset, B, active)

    def batch(
        self,
        weights: np.ndarray | None = None,
        B: int = 1,
        common: Common | None = None,
        offset: np.ndarray | None = None,
    ) -> Batch:
        """Start a batch of replicates; see `term`."""
        if common is None:
            batch = Batch(self.term(weights, B, None, offset))
        else:
            batch = Batch(self.term(weights, B, common.active, offset), common.hessian)
        if self.start:
            beta = np.zeros((self.design.p, 1))
            beta[0] = self.start
            batch.start_at(np.broadcast_to(beta, (self.design.p, B)))
        return batch

    @property
    def start(self) -> float:
        """Where the intercept starts: at zero, or where it takes a far offset back."""
        if self.offset is None or not self.n_free or np.abs(self.offset).max() < FAR:
            return 0.0
        counted = self.offset[self.weights > 0]
        middle, largest = float(np.median(counted)), float(counted.max())
        return -(middle if largest - middle < 600 else largest)  # exp of the rest is finite
