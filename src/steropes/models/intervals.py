"""Confidence intervals of an estimator's coefficients, by the method that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ..errors import DataError
from .annotations import IntervalMethod
from .profiling import Profiling
from .resampling import Resampling
from .tables import check_level, positions

__all__ = ["Intervals"]


class Intervals(Resampling, Profiling):
    """Wald, robust, profile and bootstrap intervals of a fitted estimator."""

    random_state: Any

    def confint(
        self,
        params: str | int | Sequence[str | int] | None = None,
        level: float = 0.95,
        method: IntervalMethod = "wald",
        cluster: Any = None,
    ) -> pd.DataFrame:
        """Confidence intervals of the coefficients.

        Parameters
        ----------
        params : name, position, sequence of them, or mask, optional
            Coefficients; default all, or by ``"profile"`` all without a prior of their own. A
            mask has one entry for each coefficient.
        level : float
            Between 0 and 1.
        method : {"wald", "robust", "profile", "bootstrap"}
            ``"wald"``, ``"robust"``: coefficient ± normal quantile (of linear models, t) ×
            standard error, the model's or the robust one (see `vcov`).
            ``"profile"``: where the profile log-likelihood (see `profile`) has fallen by half the
            chi-squared quantile; under a prior on the others, with them refitted under it. A
            side on which it never does is infinite. Of a penalised coefficient its own prior is
            left out: the interval is of its likelihood.
            ``"bootstrap"``: percentiles of 200 draws with the model's ``random_state``; see
            `bootstrap` for more draws, and basic and BCa intervals.
        cluster : (n,) labels, optional
            With ``"robust"`` (see `vcov`) or ``"bootstrap"``: what is drawn together.

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``.

        Warns
        -----
        MonotoneLikelihoodWarning
            A profile that rises for ever on one side.

        References
        ----------
        Venzon and Moolgavkar (1988), Applied Statistics 37:87–94 (profile).
        """
        check_is_fitted(self, "coef_")
        names = self._coefficient_names()
        if method not in ("profile", "bootstrap"):
            if method not in ("wald", "robust"):
                raise DataError(
                    f"method must be 'wald', 'robust', 'profile' or 'bootstrap', not {method!r}."
                )
            return super().confint(params, level, method, cluster)
        check_level(level)
        if params is not None:
            chosen = positions(params, names)
        else:
            chosen = self._unpenalised() if method == "profile" else list(range(len(names)))
        if method == "bootstrap":
            drawn = self.bootstrap(cluster=cluster, random_state=self.random_state)
            return drawn.confint(level).iloc[chosen]
        if cluster is not None:
            raise DataError("cluster goes with method='robust' or 'bootstrap', not 'profile'.")
        limits = self._profile_intervals(chosen, level)
        return pd.DataFrame(limits, [names[j] for j in chosen], ["lower", "upper"])

    def _unpenalised(self) -> list[int]:
        """Places of the coefficients without a prior of their own."""
        l1, l2 = self._needs_data("an interval").penalties(self.prior_)
        free = [int(j) for j in np.flatnonzero((l1 == 0) & (l2 == 0))]
        if not free:
            raise DataError(
                "Every coefficient has a prior. Name those whose profile intervals are wanted, "
                "which are of their likelihood with the prior on the others."
            )
        return free
