"""The record of an optimisation: where it ended, how, and how far from an optimum."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..likelihoods.nuisance import Nuisance
from .data_term import DataTerm
from .proximal_newton.iterate import Iterate

__all__ = ["Fit", "fits"]


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
    eta : (rows of η, 1) array or None
        Linear predictors at ``beta`` that the certificate was made of, where it was X's own; for
        whoever looks at the fit next, and not to be kept.
    """

    beta: np.ndarray
    loss: float
    objective: float
    optimality: float
    tol: float
    n_iter: int
    n_hessian: int = 0
    nuisance: Nuisance | None = field(default=None, repr=False)
    eta: Any = field(default=None, repr=False)

    @property
    def converged(self) -> bool:
        """Whether the certificate is at or below the tolerance."""
        return bool(self.optimality <= self.tol)


def fits(
    term: DataTerm, point: Iterate, certificate: np.ndarray, tol: float, n_hessian: int
) -> list[Fit]:
    """The records of replicates where they are, with their certificates (lanes,)."""
    beta = point.beta / term.scale[:, None]
    return [
        Fit(
            beta=beta[:, b].copy(),
            loss=float(term.data_loss[b]),
            objective=float(point.objective[b]),
            optimality=float(certificate[b]),
            tol=tol,
            n_iter=int(point.steps[b]),
            n_hessian=n_hessian,
            nuisance=term.nuisance(b),
        )
        for b in range(term.B)
    ]
