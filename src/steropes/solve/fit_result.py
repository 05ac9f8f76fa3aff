"""The result of an optimisation: its end, its cost and its distance from an optimum."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..backends.array_namespace import to_host
from ..backends.backend_interface import Array
from ..likelihoods.nuisance_interface import Nuisance
from .current_iterates import Iterate
from .data_term import DataTerm

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
        Loss plus penalty, including the prior's smooth term, if any.
    optimality : float
        The certificate, computed from the exact gradient at ``beta`` over all p columns: the
        largest violation of the optimality (KKT) conditions, in units of the column's λ_j or,
        without a Laplace part, of its score's standard error √(H_jj). H is the last Hessian
        computed, or that at ``beta`` after `steropes.solve.certified_fit`.
    tol : float
        The requested tolerance.
    n_iter : int
        Number of Newton steps.
    n_hessian : int
        Number of Gram matrices computed for the replicate's batch.
    nuisance : Nuisance or None
        The likelihood's nuisance parameters, if any.
    eta : (rows of η, 1) array or None
        Linear predictors at ``beta`` from the certificate, for the next check of the fit only; they
        are as long as X.
    """

    beta: np.ndarray
    loss: float
    objective: float
    optimality: float
    tol: float
    n_iter: int
    n_hessian: int = 0
    nuisance: Nuisance | None = field(default=None, repr=False)
    eta: Array = field(default=None, repr=False)

    @property
    def converged(self) -> bool:
        """Whether the certificate is at or below the tolerance."""
        return bool(self.optimality <= self.tol)


def fits(
    term: DataTerm, point: Iterate, certificate: np.ndarray, tol: float, n_hessian: int
) -> list[Fit]:
    """Return the results of replicates at their points, with their certificates (lanes,)."""
    beta = to_host(point.beta) / term.scale[:, None]
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
