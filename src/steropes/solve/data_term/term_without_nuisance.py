"""Members of data terms about nuisance parameters, for likelihoods that have none."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ...likelihoods.nuisance_interface import Nuisance

__all__ = ["TermWithoutNuisance"]


class TermWithoutNuisance(ABC):
    """Members of `DataTerm` that are zero or absent without nuisance parameters."""

    lanes: int

    @property
    @abstractmethod
    def loss(self) -> np.ndarray:
        """See `DataTerm`."""

    @property
    def data_loss(self) -> np.ndarray:
        """See `DataTerm`."""
        return self.loss

    @property
    def nuisance_decrement(self) -> np.ndarray:
        """See `DataTerm`."""
        return np.zeros(self.lanes)

    @property
    def nuisance_error(self) -> np.ndarray:
        """See `DataTerm`."""
        return np.zeros(self.lanes)

    def nuisance(self, lane: int) -> Nuisance | None:
        """See `DataTerm.nuisance`."""
        return None

    def readmit(self, tol: float) -> np.ndarray:
        """See `DataTerm.readmit`."""
        return np.zeros(self.lanes, bool)
