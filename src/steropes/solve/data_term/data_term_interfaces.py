"""Interfaces through which the solver sees models and data.

A data term is B replicates of a loss L_b(β) over the same p columns, each at its own point. The
solver moves the points along directions and requests losses, gradients and Hessians over a
*working set* of columns, and occasionally the gradient over all columns. It never sees X, the
outcome or a linear predictor, so rows on this machine, in shards, on a device or at other sites
are all used in the same way.

The last axis of every array runs over *lanes*: the B replicates, padded to an efficient width.
Losses and gradients of a lane without a replicate are zero. Coefficients are those of the columns
divided by ``scale``. Arrays (k, lanes) and (p, lanes) are where `DataTerm.asarray` transfers them:
on the host, or on the device of the rows if there are many columns and lanes. Arrays (lanes,), (k,)
and (p,) are on the host.
"""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np

from ...backends.backend_interface import Array, DeviceMatrix
from ...backends.thread_pool import ThreadPool
from ...likelihoods.nuisance_interface import Nuisance
from ...priors import Prior
from ..subproblem import ColumnOperator

__all__ = ["Accuracy", "CurvatureAt", "DataTerm", "Trial"]


Accuracy = Literal["coarse", "near", "exact"]


class Trial(Protocol):
    """A search direction from the current point of each replicate."""

    def loss(self, t: np.ndarray) -> np.ndarray:
        """Evaluate the losses (lanes,) at the points plus t (lanes,) times the direction."""

    def commit(self) -> None:
        """Move the points to the last place at which `loss` was evaluated."""


class CurvatureAt(Protocol):
    """The curvature of one replicate, frozen at the point where it was requested.

    Sums are over the working set at the time of the call, which may have grown since then.

    Attributes
    ----------
    grouped : bool
        Whether the curvature in the linear predictors has rank-one terms in addition to its
        diagonal.
    """

    grouped: bool

    @property
    def convex(self) -> bool:
        """Whether the Hessian is positive semidefinite."""

    def matrix(self, first: int = 0, rough: bool = False) -> np.ndarray:
        """Compute the Hessian, (k, k); rows before ``first`` are undefined.

        With ``rough`` it may be rounded to single precision.
        """

    def diagonal(self) -> np.ndarray:
        """Compute the Hessian's diagonal, (k,)."""

    def uncentred(self) -> np.ndarray:
        """Compute the diagonal (k,) before terms that may cancel it are subtracted.

        Rounding errors of the diagonal are relative to this.
        """

    def by_columns(self) -> ColumnOperator | None:
        """Return the Hessian as an operator for wide W; None unless `DataTerm.columnar`."""

    def on_device(self, known: DeviceMatrix | None, rough: bool = False) -> DeviceMatrix | None:
        """Compute the Hessian on the device of the rows; None if they are not on a device.

        ``known`` is that of the first columns of the working set. None also if the Hessian may be
        indefinite, since it is modified on the host.
        """

    def sent(self, G: np.ndarray) -> DeviceMatrix | None:
        """Transfer a Hessian G (k, k) of the host to the device; None if there is none."""


class DataTerm(Protocol):
    """Replicates of a loss; see the module.

    Attributes
    ----------
    p, B, lanes : int
        Numbers of columns, of replicates, and of lanes to which replicates are padded.
    scale : (p,) array
        The number by which each column was divided.
    total : (lanes,) array
        Sum of the row weights.
    trust_radius : float
        Change of the coefficient of a column of unit size beyond which the curvature at the start
        does not describe the loss; infinite for a quadratic loss.
    effective_rows : int
        Rows or events that each add to the curvature; see `Likelihood.effective_rows`.
    W : (k,) int array
        The working set, in the order in which columns joined.
    inside : (p,) bool array
        Whether each column is in the working set.
    rows, entries : int
        Number of rows, and of stored entries of the working set.
    columnar : bool
        Whether Hessians are available as column operators (`CurvatureAt.by_columns`).
    loss : (lanes,) array
        Losses at the points.
    nuisance_error : (lanes,) array
        Distance of the nuisance parameters from their optimum given β, in their own standard errors
        (`steropes.likelihoods.nuisance_likelihood`); zero without nuisance parameters. They
        move with the steps: gradients and curvatures are those after their elimination.
    nuisance_decrement : (lanes,) array
        Their Newton decrement: the descent that they alone add to the slope along a step.
    """

    p: int
    B: int
    lanes: int
    scale: np.ndarray
    total: np.ndarray
    trust_radius: float
    effective_rows: int
    rows: int
    columnar: bool
    pool: ThreadPool

    @property
    def W(self) -> np.ndarray:
        """The working set."""

    @property
    def inside(self) -> np.ndarray:
        """Whether each column is in the working set."""

    @property
    def entries(self) -> int:
        """Stored entries of the working set."""

    def hessian_cost(self, coarse: bool) -> float:
        """Estimate the cost of one replicate's Hessian, in steps of all lanes."""

    @property
    def loss(self) -> np.ndarray:
        """Losses at the points."""

    @property
    def nuisance_error(self) -> np.ndarray:
        """Distance of the nuisance parameters from their optimum."""

    @property
    def nuisance_decrement(self) -> np.ndarray:
        """Newton decrement of the nuisance parameters."""

    @property
    def data_loss(self) -> np.ndarray:
        """Losses without terms that do not come from the data, such as a prior's smooth term."""

    @property
    def dispersion(self) -> np.ndarray | float:
        """Factor, (lanes,), by which the curvature overstates the information of the score."""

    def asarray(self, x: Array) -> Array:
        """Transfer an array to where gradients are, unless it is there."""

    def join(self, columns: np.ndarray) -> int:
        """Add columns to the working set; return how many were new."""

    def set_prior(self, prior: Prior) -> bool:
        """Replace the prior that adds a smooth term to the losses.

        Returns whether the term includes a prior at all, in which case the points must be placed
        again.
        """

    def place(self, beta: Array, like: Nuisance | None = None) -> None:
        """Move the points to β (p, lanes), which is zero outside of the working set.

        Nuisance parameters keep their values, or start near those of ``like``.
        """

    def nuisance(self, lane: int) -> Nuisance | None:
        """Return a replicate's nuisance parameters, or None."""

    def readmit(self, tol: float) -> np.ndarray:
        """Release nuisance parameters from bounds that they should leave; return the lanes."""

    def gradient(self) -> Array:
        """Compute the gradient of the losses over the working set, (k, lanes)."""

    def gradients(self, tol: float) -> Array:
        """Compute the gradient over all columns, (p, lanes).

        ``tol`` is the violation of interest, in units of λ; smaller errors do no harm.
        """

    def along(self, D: Array, live: np.ndarray) -> Trial:
        """Start a search along the directions D over the working set, (k, lanes).

        Only the lanes ``live`` (lanes,) move; D is zero in the others.
        """

    def curvature(
        self, lane: int, thin: int = 1, accuracy: Accuracy = "near"
    ) -> CurvatureAt | None:
        """Return a replicate's curvature at its current point, from one in ``thin`` of its rows.

        Returns None if those rows carry too little information. Where that is cheaper, accuracy may
        be reduced: "near" is sufficient for steps, "coarse" for steps far from the optimum.
        """

    def relative(self, curvature: CurvatureAt) -> Array | None:
        """Compute the diagonals of the replicates' Hessians relative to a curvature's, (k, lanes).

        Only differences in the row weights count. Returns None where the ratios cannot be computed.
        """

    def left_out_score(self, weights: np.ndarray, difference: bool) -> np.ndarray:
        """Compute the log-likelihood (B,) of the rows that each replicate leaves out, at its point.

        Parameters
        ----------
        weights : (n,) array
            Weights of all rows, in the user's order.
        difference : bool
            Whether the score is the log-likelihood of all rows minus that of the replicate's rows.
        """
