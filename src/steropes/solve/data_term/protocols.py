"""What the solver asks of model and data, whatever holds them.

A data term is B replicates of a loss L_b(β) over the same p columns, each at a point of its own.
The solver moves the points along directions and asks for losses, gradients and Hessians over a
*working set* of columns, and now and then for the gradient over all. It never sees X, the outcome
or a linear predictor: rows on this machine, in shards, on a device or at other sites are all the
same to it.

Replicates come in *lanes*: the last axis of every array, B padded to what is quick to work on.
A lane without a replicate has losses and gradients of zero. Coefficients are those of columns
divided by ``scale``.
"""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np

from ...backends.threads import ThreadPool
from ...likelihoods.nuisance import Nuisance
from ...priors import Prior
from ..quadratic import ColumnOperator

__all__ = ["Accuracy", "CurvatureAt", "DataTerm", "Trial"]


Accuracy = Literal["coarse", "near", "exact"]


class Trial(Protocol):
    """A direction from the point of each replicate."""

    def loss(self, t: np.ndarray) -> np.ndarray:
        """Losses at the points plus t (lanes,) times the direction, (lanes,)."""

    def commit(self) -> None:
        """Let the points be where `loss` was last asked for."""


class CurvatureAt(Protocol):
    """The curvature of one replicate at the point where it was when this was asked for.

    Sums are over the working set as it is at the time of the call: it may have grown since.

    Attributes
    ----------
    grouped : bool
        Whether there are rank-one terms beside the diagonal of the linear predictors.
    convex : bool
        Whether the Hessian is never indefinite.
    """

    grouped: bool
    convex: bool

    def matrix(self, first: int = 0, rough: bool = False) -> np.ndarray:
        """The Hessian, (k, k), of which the rows from ``first`` on count; others may be anything.

        With ``rough`` it may be rounded to single precision.
        """

    def diagonal(self) -> np.ndarray:
        """The Hessian's diagonal, (k,)."""

    def uncentred(self) -> np.ndarray:
        """The diagonal before terms that may cancel it are taken out, (k,): what is rounding."""

    def by_columns(self) -> ColumnOperator | None:
        """The Hessian where W is too wide for an array; None unless `DataTerm.columnar`."""


class DataTerm(Protocol):
    """Replicates of a loss; see the module.

    Attributes
    ----------
    p, B, lanes : int
        Columns, replicates, and the lanes that those are padded to.
    scale : (p,) array
        What each column was divided by.
    total : (lanes,) array
        Sum of the row weights.
    reach : float
        Change of a coefficient of a column of size one beyond which the curvature at the start
        says nothing of the loss; infinite for a quadratic loss.
    effective_rows : int
        Rows or events that each add to the curvature; see `Likelihood.effective_rows`.
    W : (k,) int array
        The working set, in the order in which columns joined.
    inside : (p,) bool array
        Whether a column is in it.
    rows, entries : int
        Rows, and entries of the working set in them.
    columnar : bool
        Whether Hessians may be of the columns alone (`CurvatureAt.by_columns`).
    loss : (lanes,) array
        At the points.
    unsettled : (lanes,) array
        How far nuisance parameters are from their optimum at the points, in their own standard
        errors (`steropes.likelihoods.nuisance`); zero where there are none. They move with the
        steps: gradients and curvatures are what is left once they are eliminated.
    fall : (lanes,) array
        What those parameters alone add to the slope along a step, counted downwards.
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
        """Whether columns are in it."""

    @property
    def entries(self) -> int:
        """Its entries."""

    def hessian_cost(self, coarse: bool) -> float:
        """What a replicate's Hessian over the working set costs, in steps of all lanes."""

    @property
    def loss(self) -> np.ndarray:
        """At the points."""

    @property
    def unsettled(self) -> np.ndarray:
        """Of nuisance parameters at the points."""

    @property
    def fall(self) -> np.ndarray:
        """Of nuisance parameters at the points."""

    @property
    def data_loss(self) -> np.ndarray:
        """The loss without what is not of the data, such as a prior's smooth term."""

    @property
    def dispersion(self) -> np.ndarray | float:
        """Variance by which the curvature overstates the score's information, (lanes,)."""

    def join(self, columns: np.ndarray) -> int:
        """Let columns into the working set; returns how many were not in it."""

    def keep(self, at: np.ndarray) -> None:
        """Let only these places of the working set stay in it; the others have β = 0."""

    def set_prior(self, prior: Prior) -> bool:
        """Take in what another prior adds to the losses.

        Returns whether a prior adds anything to them: then the points have to be placed again.
        """

    def place(self, beta: np.ndarray, like: Nuisance | None = None) -> None:
        """Let the points be at β (p, lanes), zero outside of the working set.

        Nuisance parameters stay where they are, or start near those of ``like``.
        """

    def nuisance(self, lane: int) -> Nuisance | None:
        """A replicate's nuisance parameters, where it has some."""

    def readmit(self, tol: float) -> np.ndarray:
        """Let nuisance parameters in that had run into a bound and should leave it, (lanes,)."""

    def gradient(self) -> np.ndarray:
        """Gradient of the losses over the working set, (k, lanes)."""

    def gradients(self, tol: float) -> np.ndarray:
        """Gradient over all columns, (p, lanes); ``tol`` is the violation of interest, in λ."""

    def along(self, D: np.ndarray, live: np.ndarray) -> Trial:
        """Set out in directions D over the working set, (k, lanes).

        Only the lanes ``live`` (lanes,) move; the others have D = 0.
        """

    def curvature(
        self, lane: int, thin: int = 1, accuracy: Accuracy = "near"
    ) -> CurvatureAt | None:
        """The curvature of a replicate where it stands, by one in ``thin`` of its rows.

        None where those rows say too little. It may be less accurate where that is cheaper:
        "near" what is good enough for steps, "coarse" what is far from the end.
        """

    def relative(self, curvature: CurvatureAt) -> np.ndarray | None:
        """Diagonals of the replicates' Hessians relative to a curvature's, (k, lanes).

        As far as they differ by their row weights; None where that can't be told.
        """

    def left_out_score(self, weights: np.ndarray, difference: bool) -> np.ndarray:
        """Log-likelihood of the rows that each replicate leaves out, at its point, (B,).

        Parameters
        ----------
        weights : (n,) array
            Weights of all rows, in the user's order.
        difference : bool
            Whether it is the likelihood of all rows less that of the replicate's own.
        """
