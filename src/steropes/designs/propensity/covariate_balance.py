"""Covariate balance before and after adjustment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.data.diagnostic_limits import IMBALANCE
from steropes.data.html_representations import TextInHtml
from steropes.data.plottable_result_tables import drawn_by
from steropes.designs.covariates.covariates_by_column import IntoCovariates
from steropes.designs.covariates.weighted_moments import (
    CovariateMoments,
    mean_difference,
    standardized_difference,
)
from steropes.designs.values.estimands import (
    SPREAD_OF_ESTIMAND,
    Denominator,
    check_estimand,
    denominators,
)
from steropes.designs.values.input_checks import require_arms
from steropes.errors import DataError

__all__ = ["Balance", "balance_of_rows", "covariate_balance"]


@dataclass(frozen=True, repr=False, eq=False)
class Balance(TextInHtml):
    """Means and standardised differences of covariates before and after adjustment.

    Attributes
    ----------
    table : DataFrame
        One row per covariate, sorted by the size of the difference before: ``covariate_id``,
        ``name``, ``analysis_id``; with the suffixes ``_before`` and ``_after`` ``target_mean``,
        ``comparator_mean``, ``mean`` (of both arms), ``smd`` (standardised mean difference),
        ``smd_variance`` and ``p`` (of the hypothesis that the difference is within the threshold);
        then the shifts by adjustment of each arm and of both, ``target_smd``, ``comparator_smd``
        and ``both_smd``.
    threshold : float
        The largest difference under the null hypothesis of the p-values.
    people : dict of str to (int, int)
        Numbers of target and comparator people with positive weight ``before`` and ``after``.

    See Also
    --------
    covariate_balance : Compute it.
    table_one : Tabulate selected covariates.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs import covariate_balance
    >>> people = pd.DataFrame({"male": [1, 1, 0, 0, 1, 0], "old": [1, 0, 1, 0, 1, 0]})
    >>> balance = covariate_balance(people, [1, 1, 1, 0, 0, 0], after=[1, 0, 1, 0, 1, 1])
    >>> balance, balance.people["after"]
    (Balance(2 covariates, largest difference 1.061: old), (2, 2))
    """

    table: pd.DataFrame
    threshold: float
    people: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __repr__(self) -> str:
        name, smd = self.worst()
        return f"Balance({len(self.table):,} covariates, largest difference {smd:.3f}: {name})"

    def worst(self) -> tuple[str, float]:
        """Return the covariate with the largest difference after adjustment.

        Returns
        -------
        name : str
            Its name; empty if no difference is known.
        difference : float
            Its standardised difference.
        """
        smd = self.table["smd_after"].abs()
        if not smd.notna().any():
            return "", float("nan")
        line = self.table.loc[smd.idxmax()]
        return str(line["name"]), float(line["smd_after"])

    def plot(self, **options: Any) -> Any:
        """Draw the most unequal covariates before and after by `steropes.plots.love_plot`.

        Parameters
        ----------
        **options
            As of the function.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        return drawn_by("love_plot", self.table, threshold=self.threshold, **options)

    @property
    def largest(self) -> float:
        """Largest absolute standardised difference after adjustment."""
        return float(self.table["smd_after"].abs().max())

    @property
    def smallest_p(self) -> float:
        """Smallest p-value after adjustment, times the number of covariates (at most 1).

        By this Bonferroni rule a covariate is unbalanced only if its difference exceeds the
        threshold by more than chance, over all covariates.
        """
        p = self.table["p_after"].dropna()
        return min(1.0, float(p.min()) * len(p)) if len(p) else float("nan")

    def families(self) -> pd.DataFrame:
        """Summarise balance by family of covariates (those of one analysis).

        Returns
        -------
        DataFrame
            One row per family, ordered by its number: ``analysis_id``, ``covariates``; the number
            beyond the threshold and the largest absolute difference, ``over_`` and ``largest_``
            ``before`` and ``after``; ``p_after``, the smallest p-value after adjustment times the
            number of covariates in the family (at most 1); ``worst``, the covariate with the
            largest difference after adjustment.
        """
        rows = []
        for number, of in self.table.groupby("analysis_id", sort=True):
            part = Balance(of.reset_index(drop=True), self.threshold)
            row: dict[str, object] = {"analysis_id": int(str(number)), "covariates": len(of)}
            for when in ("before", "after"):
                size = of[f"smd_{when}"].abs()
                row[f"over_{when}"] = int((size > self.threshold).sum())
                row[f"largest_{when}"] = float(size.max())
            rows.append({**row, "p_after": part.smallest_p, "worst": part.worst()[0]})
        columns = ["analysis_id", "covariates", "over_before", "largest_before", "over_after"]
        return pd.DataFrame(rows, columns=[*columns, "largest_after", "p_after", "worst"])

    def generalizability(self, estimand: str) -> float:
        """Compute the largest shift of a covariate in the estimand's population by adjustment.

        Parameters
        ----------
        estimand : {"att", "atc", "ate", "ato", "atm", "entropy"}
            The population: the target for "att", the comparator for "atc", otherwise both arms.

        Returns
        -------
        float
            Largest absolute standardised difference between before and after.
        """
        name = check_estimand(estimand)
        column = {"att": "target_smd", "atu": "comparator_smd"}.get(name, "both_smd")
        return float(self.table[column].abs().max())


def covariate_balance(
    features: IntoCovariates,
    treated: ArrayLike,
    after: ArrayLike,
    *,
    before: ArrayLike | None = None,
    sets: ArrayLike | None = None,
    estimand: str | None = "ate",
    threshold: float = IMBALANCE,
) -> Balance:
    """Compare the arms covariate by covariate.

    Differences of means are divided by standard deviations before adjustment, as in
    `balance_table`, so that adjustment changes the differences only: those of the target under
    "att", of the comparator under "atc", and otherwise the root of the mean of both variances.
    ``estimand=None`` gives the definition of R's CohortMethod, which OMOP studies report: the mean
    of both arms' variances at the same stage (before or after) as the difference, with the
    denominator n without weights and Σw(x − m)² / (1 − Σw²) with weights that sum to one.

    Parameters
    ----------
    features : Covariates, data frame, sparse matrix or array_like, shape (n, p)
        Covariates of n people. Columns without names are called x0, x1 and so on.
    treated : array_like, shape (n,)
        1 for the target arm.
    after : array_like, shape (n,)
        Weights after adjustment; 0 for people left out.
    before : array_like, shape (n,), optional
        Weights before adjustment; default 1.
    sets : array_like of int, shape (n,), optional
        Matched sets or strata of which ``after`` are the weights, equal within an arm of a set.
        Variances and p-values after adjustment are then those of arms that are random within
        sets (Hansen and Bowers 2008). Default: variances of weighted means.
    estimand : {"ate", "att", "atc", "ato", "atm", "entropy"} or None, default "ate"
        Population of the effect, which determines the denominator; None is CohortMethod's.
    threshold : float, default 0.1
        The largest difference under the null hypothesis of the p-values.

    Returns
    -------
    Balance
        Means and differences of every covariate.

    Raises
    ------
    DataError
        Shapes disagree, a covariate or weight is no finite number, or an arm has no one.

    See Also
    --------
    balance_table : The same differences with variance ratios, distribution functions and labels.

    References
    ----------
    Austin and Stuart (2015), Stat Med 34:3661; Hansen and Bowers (2008), Stat Sci 23:219.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs import covariate_balance
    >>> people = pd.DataFrame({"male": [1, 1, 0, 0, 1, 0], "old": [1, 0, 1, 0, 1, 0]})
    >>> balance = covariate_balance(people, [1, 1, 1, 0, 0, 0], after=[1, 0, 1, 0, 1, 1])
    >>> balance.table[["name", "smd_before", "smd_after"]].round(2)
       name  smd_before  smd_after
    0  male        0.71       0.00
    1   old        0.71       1.06
    """
    covariates = CovariateMoments(features)
    t = require_arms(treated) == 1
    w1 = np.asarray(after, dtype=float)
    w0 = np.ones(len(t)) if before is None else np.asarray(before, dtype=float)
    if covariates.n != len(t):
        raise DataError(f"balance: {covariates.n} rows of covariates for {len(t)} people")
    whose = None
    if estimand is not None:
        whose = SPREAD_OF_ESTIMAND.get(check_estimand(estimand), "pooled")
    s = None if sets is None else np.asarray(sets)
    if s is not None and s.shape != t.shape:
        raise DataError(f"balance: {len(s)} sets for {len(t)} people")
    return _compare(covariates, None, t, w0, w1, threshold, whose, s)


def balance_of_rows(
    covariates: CovariateMoments,
    rows: NDArray,
    treated: NDArray,
    after: NDArray,
    threshold: float,
    sets: NDArray | None = None,
) -> Balance:
    """Compare the arms of some of the people without a copy of their covariates.

    Parameters
    ----------
    rows : ndarray of int, shape (n,)
        Rows of the people who are compared, ascending.
    treated, after, sets : ndarray, shape (n,)
        As in `covariate_balance`.

    Returns
    -------
    Balance
        The same as `covariate_balance` of a copy of these rows with ``estimand=None``.
    """
    before = np.ones(len(rows))
    return _compare(covariates, rows, treated == 1, before, after, threshold, sets=sets)


def _compare(
    covariates: CovariateMoments,
    rows: NDArray | None,
    treated: NDArray,
    before: NDArray,
    after: NDArray,
    threshold: float,
    whose: Denominator | None = None,
    sets: NDArray | None = None,
) -> Balance:
    """Tabulate the balance of some rows, or all, under weights before and after adjustment."""
    for w, when in ((before, "before"), (after, "after")):
        if w.shape != treated.shape:
            raise DataError(f"balance: {len(w)} weights {when} for {len(treated)} people")
        if not ((w >= 0) & np.isfinite(w)).all():
            remedy = ""
            if (w[w < 0] == -1).all() and (w == np.round(w)).all():
                remedy = f". For the sets of match_scores or match_pairs pass {when}=sets >= 0"
            raise DataError(f"balance: weights {when} must be numbers of 0 or more{remedy}")
        if not (w[treated].any() and w[~treated].any()):
            raise DataError(f"balance: an arm has nobody {when} adjustment")
    spread = None if whose is None else _spread_before(covariates, rows, treated, before, whose)
    first, second = (
        _summary(covariates, rows, treated, w, threshold, spread, s)
        for w, s in ((before, None), (after, sets))
    )
    shown = ("target_mean", "comparator_mean", "mean", "smd", "smd_variance", "p")
    made = {
        f"{k}_{when}": found[k]
        for when, found in (("before", first), ("after", second))
        for k in shown
    }
    made["target_smd"] = _shift(first, second, "target")
    made["comparator_smd"] = _shift(first, second, "comparator")
    # As in R, the spread is that before adjustment alone.
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = mean_difference(first["mean"], second["mean"]) / first["sd"]
    made["both_smd"] = np.where(np.isinf(moved), np.nan, moved)
    size = np.abs(made["smd_before"])
    order = np.argsort(-np.where(np.isnan(size), -1.0, size), kind="stable")
    described = covariates.columns.iloc[order].reset_index(drop=True)
    sorted_values = pd.DataFrame({name: values[order] for name, values in made.items()})
    table = pd.concat([described, sorted_values], axis=1)
    people = {
        when: (int((w[treated] > 0).sum()), int((w[~treated] > 0).sum()))
        for when, w in (("before", before), ("after", after))
    }
    return Balance(table, threshold, people)


def _spread_before(
    covariates: CovariateMoments,
    rows: NDArray | None,
    treated: NDArray,
    before: NDArray,
    whose: Denominator,
) -> NDArray:
    """Compute the denominators of `balance_table`, (p,)."""
    shares = np.column_stack(
        [np.where(treated, before, 0.0), np.where(treated, 0.0, before), before]
    )
    moments = covariates(shares / shares.sum(axis=0), rows)
    numeric = covariates.numeric[:, None]
    return denominators(np.where(numeric, moments.corrected, moments.variance), whose)


def _summary(
    covariates: CovariateMoments,
    rows: NDArray | None,
    treated: NDArray,
    weight: NDArray,
    threshold: float,
    spread: NDArray | None,
    sets: NDArray | None,
) -> dict[str, NDArray]:
    """Compute means, standardised differences, their variances and p-values for given weights.

    The differences are divided by ``spread``, (p,), or by the standard deviations under these
    weights, which may be those of ``sets``.
    """
    from scipy.special import ndtr

    plain = bool(((weight == 0) | (weight == 1)).all())
    arms = (np.where(treated, weight, 0.0), np.where(treated, 0.0, weight))
    shares = np.column_stack([w / w.sum() for w in (*arms, weight)])
    squares = shares[:, :2] ** 2
    sizes = squares.sum(axis=0)
    moments = covariates(shares if plain else np.hstack([shares, squares / sizes]), rows)
    means = moments.mean
    deviations = np.sqrt(moments.corrected[:, :3])
    if plain:
        deviations[:, :2] = np.sqrt(moments.variance[:, :2])
    found = {
        f"{of}{what}": values[:, k]
        for k, of in enumerate(("target_", "comparator_", ""))
        for what, values in (("mean", means), ("sd", deviations))
    }
    if spread is None:
        spread = np.sqrt((deviations[:, :2] ** 2).sum(axis=1) / 2)
    smd = standardized_difference(means[:, 0], means[:, 1], spread)
    with np.errstate(divide="ignore", invalid="ignore"):
        if sets is not None:
            variance = _variance_in_sets(covariates, rows, treated, weight, sets) / spread**2
        elif plain:  # The variance of Hedges and Olkin for two samples.
            n1, n0 = (float(weight[a].sum()) for a in (treated, ~treated))
            variance = (n1 + n0) / (n1 * n0) + smd**2 / (2 * (n1 + n0 - 2))
        else:  # Σ w² (x − mean)² of each arm, about its mean under w.
            around = moments.variance[:, 3:] + (means[:, 3:] - means[:, :2]) ** 2
            variance = (around @ sizes) / spread**2
        root = np.sqrt(variance)
        p = ndtr(-(np.abs(smd) - threshold) / root) + ndtr((-np.abs(smd) - threshold) / root)
        p = np.where(np.isinf(smd), 0.0, p)
    return found | {"smd": smd, "smd_variance": variance, "p": p}


def _variance_in_sets(
    covariates: CovariateMoments,
    rows: NDArray | None,
    treated: NDArray,
    weight: NDArray,
    sets: NDArray,
) -> NDArray:
    """Compute the variance of differences of means if the arms of each set are random, (p,).

    With shares q of the arms' weights and the variance S² of everybody in a set, it is
    Σ S² (q₁² / n₁ + q₀² / n₀ − (q₁ − q₀)² / n), for which an arm may have one person (Hansen and
    Bowers 2008, whose q₁ = q₀). Sets with one arm have no random part.
    """
    used = np.flatnonzero(weight > 0)
    w, t, number = weight[used], treated[used], np.unique(sets[used], return_inverse=True)[1]
    n1, n0 = np.bincount(number, t), np.bincount(number, ~t)
    q1, q0 = (np.bincount(number, w * arm) / w[arm].sum() for arm in (t, ~t))
    n = n1 + n0
    factor = (q1**2 / n1 + q0**2 / n0 - (q1 - q0) ** 2 / n) / (n - 1)
    factor[(n1 == 0) | (n0 == 0)] = 0.0
    return covariates.within(number, used if rows is None else rows[used], factor)


def _shift(first: dict[str, NDArray], second: dict[str, NDArray], arm: str) -> NDArray:
    """Standardise the change of an arm's means from before to after adjustment."""
    spread = np.sqrt((first[f"{arm}_sd"] ** 2 + second[f"{arm}_sd"] ** 2) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = mean_difference(first[f"{arm}_mean"], second[f"{arm}_mean"]) / spread
    return np.where(np.isfinite(moved), moved, np.where(np.isnan(moved), 0.0, np.nan))
