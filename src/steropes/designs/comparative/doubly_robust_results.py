"""Results of a doubly robust fit: bounds of scores, joint intervals, modifiers of the effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from steropes.designs.comparative.doubly_robust_inputs import Settings
from steropes.designs.comparative.doubly_robust_rows import (
    Repeats,
    name_of_errors,
    rows_of_outcome,
    truncation_rows,
)
from steropes.designs.comparative.effect_rows import EffectRow
from steropes.designs.doubly_robust.joint_intervals import joint_quantile
from steropes.designs.doubly_robust.modifiers import effect_modification
from steropes.errors import DataError, listed
from steropes.models.fitting.sklearn_base import BaseEstimator

__all__ = ["DoublyRobustResults"]

# Bounds of scores at which `truncation` computes the effects again.
BOUNDS = (0.0, 0.005, 0.01, 0.025, 0.05, 0.1)


class DoublyRobustResults(BaseEstimator):
    """Base class of `DoublyRobust` with the methods of a fit."""

    level: float
    bound_: float
    influence_: pd.DataFrame
    contributions_: pd.DataFrame
    _settings: Settings
    _repeats: Mapping[str, Repeats]
    _clusters: NDArray | None
    _crossed: bool
    # Both means with their covariance, by outcome and repeat.
    _estimates: Mapping[str, list[tuple[NDArray, NDArray]]]

    def effect_rows(self, level: float, method: str) -> list[EffectRow]:
        """Return the effects of all outcomes as `compare_groups` tabulates them.

        Parameters
        ----------
        level : float
            Confidence level.
        method : str
            Name of the method in the rows.

        Returns
        -------
        list of EffectRow
            A row per outcome and measure.
        """
        return [row for _, row in self._rows_by_outcome(level, method)]

    def _rows_by_outcome(self, level: float, method: str) -> list[tuple[str, EffectRow]]:
        """Return the names of outcomes with their effects."""
        how = name_of_errors(self._crossed, self._clusters)
        return [
            (name, row)
            for name, repeats in self._repeats.items()
            for row in rows_of_outcome(repeats.statistic, self._estimates[name], method, how, level)
        ]

    def truncation(self, bounds: Sequence[float] = BOUNDS) -> pd.DataFrame:
        """Compute the effects again with other bounds of the scores.

        Parameters
        ----------
        bounds : sequence of float, default (0, 0.005, 0.01, 0.025, 0.05, 0.1)
            Bounds, at least 0 and below 0.5.

        Returns
        -------
        DataFrame
            ``bound``, ``outcome`` if several were given, ``measure``, ``estimate``, ``lower``,
            ``upper``, ``se``, ``bounded`` (share of people whose score changes) and
            ``largest_weight``. Models are not fitted again.

        Examples
        --------
        >>> import numpy as np
        >>> from steropes.designs import DoublyRobust
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((300, 1))
        >>> treatment = (rng.random(300) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
        >>> found = DoublyRobust().fit(X, treatment, X[:, 0] + rng.standard_normal(300))
        >>> found.truncation([0.01, 0.1])["bounded"].round(2).tolist()
        [0.03, 0.28]
        """
        check_is_fitted(self)
        wrong = [x for x in bounds if not 0 <= x < 0.5]
        if wrong:
            raise DataError(f"bounds must be at least 0 and below 0.5; one is {wrong[0]!r}.")
        return truncation_rows(self._repeats, bounds, self._settings, self._clusters, self.level)

    def joint_intervals(self, *, draws: int = 1000, random_state: int = 0) -> pd.DataFrame:
        """Compute intervals that hold for the differences of all outcomes together.

        The quantile of the largest of all |z| comes from draws of the influence functions with
        normal multipliers, without a further fit.

        Parameters
        ----------
        draws : int, default 1000
            Number of draws.
        random_state : int, default 0
            Seed of the multipliers.

        Returns
        -------
        DataFrame
            ``outcome``, ``measure``, ``estimate``, ``lower``, ``upper``, ``se``, and ``p``,
            adjusted for all outcomes.

        References
        ----------
        Chernozhukov, Chetverikov and Kato (2013), Annals of Statistics 41:2786–2819.

        Examples
        --------
        >>> import numpy as np
        >>> from steropes.designs import DoublyRobust
        >>> rng = np.random.default_rng(0)
        >>> X, treatment = rng.standard_normal((300, 1)), np.arange(300) % 2
        >>> y = {name: rng.standard_normal(300) for name in ("pain", "fatigue", "sleep")}
        >>> DoublyRobust().fit(X, treatment, y).joint_intervals().shape
        (3, 7)
        """
        check_is_fitted(self)
        rows = self.effect_rows(self.level, self._settings.method)
        differences = [row for row in rows if row.measure.endswith("difference")]
        quantile, largest = joint_quantile(
            self.influence_.to_numpy(), self._clusters, self.level, draws, random_state
        )
        value, se = (np.array([getattr(r, k) for r in differences]) for k in ("estimate", "se"))
        z = np.abs(value) / se
        return pd.DataFrame({
            "outcome": list(self.influence_), "measure": [r.measure for r in differences],
            "estimate": value, "lower": value - quantile * se, "upper": value + quantile * se,
            "se": se,
            "p": (1 + (largest[:, None] >= z).sum(axis=0)) / (1 + len(largest)),
        })  # fmt: skip

    def modification(self, modifiers: Any, *, outcome: str | None = None) -> pd.DataFrame:
        """Regress the pseudo-outcomes D₁ − D₀ on modifiers of the effect.

        Parameters
        ----------
        modifiers : data frame or array, shape (n, q)
            Columns measured before the treatment, such as subgroups. Labels have indicators.
        outcome : str, optional
            Name of the outcome, if there are several. Default: the first.

        Returns
        -------
        DataFrame
            A row per coefficient: ``coef`` (the change of the difference for an increase by one),
            ``se``, ``lower``, ``upper``, ``p``; ``attrs["joint_p"]`` is of the test that no
            modifier changes the effect. The row "intercept" is the difference where all modifiers
            are zero.

        References
        ----------
        Semenova and Chernozhukov (2021), Econometrics Journal 24:264–289.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from steropes.designs import DoublyRobust
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((600, 1))
        >>> treatment = rng.integers(0, 2, 600)
        >>> y = treatment * X[:, 0] + rng.standard_normal(600)
        >>> found = DoublyRobust(method="aipw").fit(X, treatment, y)
        >>> found.modification(pd.DataFrame({"x": X[:, 0]}))["coef"].round(1).tolist()
        [0.0, 1.0]
        """
        check_is_fitted(self)
        if self._settings.estimand != "ate":
            raise DataError("modification needs estimand='ATE', whose pseudo-outcomes are means.")
        name = next(iter(self.contributions_)) if outcome is None else outcome
        if name not in self.contributions_:
            raise DataError(
                f"outcome must be one of {listed(list(self.contributions_))}, not {name!r}."
            )
        people = next(iter(self._repeats.values())).people
        return effect_modification(
            self.contributions_[name].to_numpy(), modifiers, people.weights, self._clusters,
            self.level,
        )  # fmt: skip
