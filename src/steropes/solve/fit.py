"""The record of an optimisation: where it ended, how, and how far from an optimum."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..likelihoods.nuisance import Nuisance

__all__ = ["Fit"]


@dataclass
class Fit:
    """One replicate's result.

    Attributes
    ----------
    beta : (p,) array
        Coefficients of the columns of X in the user's units.
    loss : float
        Negative log-likelihood, without the constants that do not depend on β.
    objective : float
        Loss and penalty, the prior's smooth term among it where it has one.
    optimality : float
        The certificate, computed from the exact gradient at ``beta`` over all p columns: the
        largest violation of the optimality (KKT) conditions, each in units of the column's
        λ_j where it has a Laplace part, otherwise of its score's standard error √(H_jj), at the
        last Hessian computed, or at ``beta`` where `steropes.solve.certified` was asked.
    tol : float
        What was asked for.
    n_iter : int
        Newton steps.
    n_hessian : int
        Gram matrices computed for the batch that the replicate was in.
    nuisance : Nuisance or None
        The likelihood's own parameters, where it has some.
    """

    beta: np.ndarray
    loss: float
    objective: float
    optimality: float
    tol: float
    n_iter: int
    n_hessian: int = 0
    nuisance: Nuisance | None = field(default=None, repr=False)

    @property
    def converged(self) -> bool:
        """Whether the certificate is at or below the tolerance."""
        return bool(self.optimality <= self.tol)
