"""Balance of fitted weights, which is computed when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from steropes.designs.comparative.balance_table import balance_table, shares_of_groups
from steropes.designs.comparative.covariate_columns import CovariateColumns
from steropes.models.fitting.sklearn_base_types import BaseEstimator

__all__ = ["BalanceOnDemand"]


class BalanceOnDemand(BaseEstimator):
    """Base class of fitted weights, with their balance.

    The balance of many columns takes as long as the weights themselves, which are often all that is
    wanted, for example in the draws of a bootstrap. The columns are kept until it is computed.
    """

    # A balance, or the function that computes it.
    _balance: pd.DataFrame | Callable[[], pd.DataFrame]

    @property
    def balance_(self) -> pd.DataFrame:
        """Balance of the covariates before and after; see `balance_table`."""
        if "_balance" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no balance_ before fit.")
        if not isinstance(self._balance, pd.DataFrame):
            self._balance = self._balance()  # releases the columns
        return self._balance

    def _balance_later(
        self,
        columns: CovariateColumns,
        target: NDArray,
        weights: NDArray,
        estimand: str,
        before: NDArray | None = None,
    ) -> None:
        """Set the balance of two groups; refuse weights that leave out a whole group.

        Parameters
        ----------
        target : ndarray, shape (n,)
            1 or True for the target group.
        before : ndarray, shape (n,), optional
            Weights of people before adjustment.
        """
        arm, own = (target == 1).astype(int), weights.copy()
        shares_of_groups(own, arm == 1, columns.n)
        kept = columns.without_source()
        self._balance = lambda: balance_table(kept, arm, own, estimand=estimand, before=before)

    def __getstate__(self) -> dict[str, Any]:
        """Store the balance instead of the columns of X."""
        if "_balance" in self.__dict__:
            _ = self.balance_
        state: dict[str, Any] = super().__getstate__()
        return state
