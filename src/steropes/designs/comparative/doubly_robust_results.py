"""Results of a doubly robust fit: truncated scores, joint intervals and effect modification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from steropes.designs.comparative.balance_on_demand import BalanceOnDemand
from steropes.designs.comparative.balance_table import balance_table
from steropes.designs.comparative.covariate_columns import CovariateColumns
from steropes.designs.comparative.doubly_robust_effect_table import (
    Repeats,
    name_of_errors,
    rows_of_outcome,
    truncation_rows,
)
from steropes.designs.comparative.doubly_robust_inputs import Settings
from steropes.designs.comparative.effect_table_rows import EffectRow
from steropes.designs.doubly_robust.counterfactual_means import ArmMeans
from steropes.designs.doubly_robust.heterogeneity_of_effects import effect_modification
from steropes.designs.doubly_robust.joint_intervals import joint_quantile
from steropes.designs.doubly_robust.subgroup_effects import read_subgroups, subgroup_effects
from steropes.designs.values.argument_checks import check_whole
from steropes.errors import DataError, listed
from steropes.priors import Prior

__all__ = ["DoublyRobustResults"]

# Bounds of scores at which `truncation` computes the effects again.
BOUNDS = (0.0, 0.005, 0.01, 0.025, 0.05, 0.1)


class DoublyRobustResults(BalanceOnDemand):
    """Base class of `DoublyRobust` with the methods of a fit."""

    level: float
    bound_: float
    influence_: pd.DataFrame
    contributions_: pd.DataFrame
    weights_: NDArray
    _settings: Settings
    _repeats: Mapping[str, Repeats]
    _clusters: NDArray | None
    _crossed: bool
    _stacked: Mapping[str, ArmMeans]
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
        how = name_of_errors(self._crossed, self._clusters, bool(self._stacked))
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
        if self._stacked:
            raise DataError("truncation is for errors='influence', whose scores have a bound.")
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

    def modification(
        self, modifiers: Any, *, outcome: str | None = None, prior: Prior | None = None
    ) -> pd.DataFrame:
        """Regress the pseudo-outcomes D₁ − D₀ on modifiers of the effect.

        Parameters
        ----------
        modifiers : data frame or array, shape (n, q)
            Columns measured before the treatment, such as subgroups. Labels have indicators.
        outcome : str, optional
            Name of the outcome, if there are several. Default: the first.
        prior : Laplace, optional
            Prior of the coefficients, for many modifiers: its variance is chosen by ten folds, and
            coefficients are those of the debiased lasso, with robust errors.

        Returns
        -------
        DataFrame
            A row per coefficient: ``coef`` (the change of the difference for an increase by one),
            ``se``, ``lower``, ``upper``, ``p``; ``attrs["joint_p"]`` is of the test that no
            modifier changes the effect. The row "intercept" is the difference where all modifiers
            are zero. With a prior there is no such row. Then ``p_adjusted`` has Holm's
            p-values for all modifiers, and the joint p-value is the smallest of them.

        References
        ----------
        Semenova and Chernozhukov (2021), Econometrics Journal 24:264–289. Van de Geer, Bühlmann,
        Ritov and Dezeure (2014), Annals of Statistics 42:1166–1202 (debiased lasso).

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
        people = next(iter(self._repeats.values())).people
        return effect_modification(
            self._pseudo("modification", outcome), modifiers, people.weights, self._clusters,
            self.level, prior,
        )  # fmt: skip

    def baseline_risk_groups(self, number: int = 4, *, outcome: str | None = None) -> NDArray:
        """Divide people by their predicted outcome under the comparator's treatment.

        Predictions are cross-fitted, so that no one's own outcome decides the group, which would
        bias the effects within groups.

        Parameters
        ----------
        number : int, default 4
            Number of groups of about equal size.
        outcome : str, optional
            Name of the outcome, if there are several. Default: the first.

        Returns
        -------
        ndarray of int, shape (n,)
            Groups from 1, the lowest risk, for `subgroups`.

        References
        ----------
        Rekkas and others (2023), JAMIA Open 6:ooad026.

        Examples
        --------
        >>> import numpy as np
        >>> from steropes.designs import DoublyRobust
        >>> rng = np.random.default_rng(0)
        >>> X, treatment = rng.standard_normal((400, 1)), np.arange(400) % 2
        >>> found = DoublyRobust().fit(X, treatment, X[:, 0] + rng.standard_normal(400))
        >>> np.bincount(found.baseline_risk_groups()).tolist()
        [0, 100, 100, 100, 100]
        """
        check_is_fitted(self)
        check_whole("number", number, 2)
        name = self._name_of(outcome)
        nuisances = self._repeats["" if name not in self._repeats else name].nuisances
        risk = np.mean([each.means[:, 1] for each in nuisances], axis=0)
        edges = np.quantile(risk, np.arange(1, number) / number)
        return np.asarray(np.searchsorted(edges, risk, side="left") + 1)

    def subgroups(
        self, groups: Any, *, X: Any = None, outcome: str | None = None, draws: int = 1000,
        random_state: int = 0,
    ) -> pd.DataFrame:  # fmt: skip
        """Estimate the difference within each level of columns, and whether it differs there.

        Parameters
        ----------
        groups : data frame or mapping of labels by column
            Columns measured before the treatment, such as sex, or `baseline_risk_groups`.
        X : data frame, array, sparse matrix or Design, shape (n, p), optional
            Covariates whose balance is checked in each subgroup.
        outcome : str, optional
            Name of the outcome, if there are several. Default: the first.
        draws : int, default 1000
            Number of draws of multipliers, by which tests and intervals account for all subgroups.
        random_state : int, default 0
            Seed of the draws.

        Returns
        -------
        DataFrame
            A row per subgroup: ``column``, ``level``, people of the ``target`` and of the
            ``comparator``, ``estimate`` (the difference), ``se``, ``lower``, ``upper``,
            ``joint_lower`` and ``joint_upper`` (which hold for all rows together), ``difference``
            (from the effect in everybody else) with ``difference_se``, ``p`` and ``p_adjusted``
            (for all rows), and with X ``largest_smd``, the largest standardised difference of a
            covariate after weighting.

        References
        ----------
        Semenova and Chernozhukov (2021), Econometrics Journal 24:264–289. Chernozhukov,
        Chetverikov and Kato (2013), Annals of Statistics 41:2786–2819.

        Examples
        --------
        >>> import numpy as np
        >>> from steropes.designs import DoublyRobust
        >>> rng = np.random.default_rng(0)
        >>> X, treatment = rng.standard_normal((400, 1)), np.arange(400) % 2
        >>> old = (X[:, 0] > 0).astype(int)
        >>> found = DoublyRobust().fit(X, treatment, treatment * old + rng.standard_normal(400))
        >>> table = found.subgroups({"old": old})
        >>> table["level"].tolist(), bool((table["p_adjusted"] < 0.05).all())
        ([0, 1], True)
        """
        check_is_fitted(self)
        people = next(iter(self._repeats.values())).people
        pseudo = self._pseudo("subgroups", outcome)
        known = read_subgroups(groups, len(pseudo))
        table = subgroup_effects(
            pseudo, people.weights, people.target, known, self._clusters, self.level, draws,
            random_state,
        )  # fmt: skip
        if X is None:
            return table
        columns, arms = CovariateColumns.of(X), people.target.astype(int)
        sizes = [
            balance_table(columns, arms, self.weights_ * inside, before=people.weights * inside)
            for inside in known.values()
        ]
        return table.assign(largest_smd=[float(b["smd_after"].abs().max()) for b in sizes])

    def _name_of(self, outcome: str | None) -> str:
        """Return the name of an outcome in the tables of influences."""
        name = next(iter(self.contributions_)) if outcome is None else outcome
        if name not in self.contributions_:
            raise DataError(
                f"outcome must be one of {listed(list(self.contributions_))}, not {name!r}."
            )
        return str(name)

    def _pseudo(self, what: str, outcome: str | None) -> NDArray:
        """Return the pseudo-outcomes of an outcome, (n,)."""
        if self._settings.estimand != "ate":
            raise DataError(f"{what} needs estimand='ATE', whose pseudo-outcomes are means.")
        return self.contributions_[self._name_of(outcome)].to_numpy()
