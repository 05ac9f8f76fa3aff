"""The coefficients of all replicates at the current step, with objectives and gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..backends.backend_interface import Array
from .data_term import DataTerm

__all__ = ["Iterate"]


@dataclass
class Iterate:
    """The replicates' coefficients with their objectives and gradients.

    Attributes
    ----------
    beta : (p, lanes) array
        In the scaled columns, where the term's gradients are.
    objective : (lanes,) array
        Loss plus the penalty of the running descent or, between fits, of the last one. A descent
        computes it when it begins and each step updates it; `place` and the derivative along a path
        move the points without it, so that it is out of date until the next descent.
    gradients : (p, lanes) array or None
        Gradients of the loss over all columns, if they are known at these coefficients: from a
        check of all columns until the points or nuisance parameters move.
    steps : (lanes,) int array
        Number of steps so far.
    """

    beta: Array
    objective: np.ndarray
    gradients: Array | None
    steps: np.ndarray

    @classmethod
    def zero(cls, term: DataTerm) -> Iterate:
        """Return the iterates of a term with all coefficients at zero."""
        beta, lanes = term.asarray(np.zeros((term.p, term.lanes))), term.lanes
        return cls(beta, np.zeros(lanes), None, np.zeros(lanes, np.int64))

    def place(self, beta: Array) -> None:
        """Set the coefficients (p, B); lanes without a replicate are unchanged."""
        self.beta[:, : beta.shape[1]] = beta
        self.gradients = None

    def move(self, W: np.ndarray, beta: Array, objective: np.ndarray | None = None) -> None:
        """Set coefficients (k, lanes) of the columns W, and the objective if it is known."""
        self.beta[W] = beta
        self.gradients = None
        if objective is not None:
            self.objective = objective

    def begin(self) -> None:
        """Reset the count of steps."""
        self.steps[:] = 0

    def stepped(self, lanes: np.ndarray) -> None:
        """Count a step of some replicates, (lanes,) bool."""
        self.steps += lanes
