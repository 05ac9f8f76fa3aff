"""Ratios corrected for misclassification, selection or unmeasured confounding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from steropes.data.html_representations import FieldsInHtml
from steropes.data.plottable_result_tables import drawn_by
from steropes.data.vector_checks import check_level
from steropes.designs.bias_analysis.biases import (
    Bias,
    Misclassification,
    SelectionBias,
    UnmeasuredConfounder,
)
from steropes.designs.bias_analysis.observed_ratios import (
    AnyRatio,
    ObservedRatio,
    check_counts,
    is_row,
    log_measure,
    observed_ratio,
)
from steropes.designs.values.argument_checks import check_whole
from steropes.designs.values.normal_quantile import Z
from steropes.errors import DataError

__all__ = ["BiasAnalysis", "CorrectedRatios", "bias_analysis", "correct_ratio"]

# Relative step of central differences, whose error is of the order of its square.
STEP = 1e-4


@dataclass(frozen=True, repr=False)
class BiasAnalysis(FieldsInHtml):
    """An estimate with biases removed.

    Attributes
    ----------
    summary : DataFrame
        ``estimate``, ``lower`` and ``upper`` of the ratio: ``observed``; with biases of known size
        ``corrected``; otherwise medians and quantiles with ``systematic error`` alone and with
        ``systematic and random error``.
    draws : DataFrame
        A row per draw: parameters of the biases, ``log_ratio`` without random error and
        ``log_ratio_with_error``.
    discarded : int
        Draws that the counts contradict, since a corrected count is not positive. Leaving them out
        changes the distributions of the parameters: with many, choose others.

    Examples
    --------
    >>> from steropes.designs.bias_analysis import Misclassification, bias_analysis, trapezoid
    >>> often = trapezoid(0.75, 0.85, 0.95, 1)
    >>> found = bias_analysis([[45, 94], [257, 945]], Misclassification("exposure", often, often))
    >>> found
    BiasAnalysis(2.51 (1.34 to 17.22) instead of 1.76, 4.0 % of the draws discarded)
    """

    summary: pd.DataFrame
    draws: pd.DataFrame
    discarded: int

    def __repr__(self) -> str:
        estimate, lower, upper = self.summary.iloc[-1]
        share = self.discarded / max(self.discarded + len(self.draws), 1)
        note = f", {100 * share:.1f} % of the draws discarded" if self.discarded else ""
        observed = self.summary.loc["observed", "estimate"]
        return (
            f"BiasAnalysis({estimate:.2f} ({lower:.2f} to {upper:.2f}) instead of "
            f"{observed:.2f}{note})"
        )

    def plot(self, **options: Any) -> Any:
        """Draw the densities of the corrected ratio.

        Parameters
        ----------
        **options
            As of `steropes.plots.bias_draws`.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        observed = float(np.log(self.summary.loc["observed", "estimate"]))
        return drawn_by("bias_draws", self.draws, observed=observed, **options)


def bias_analysis(
    estimate: AnyRatio | ArrayLike,
    biases: Bias | Sequence[Bias],
    *,
    counts: ArrayLike | None = None,
    measure: str = "odds ratio",
    draws: int = 10_000,
    level: float = 0.95,
    random_state: int = 0,
) -> BiasAnalysis:
    """Remove biases from an estimate, with the uncertainty of their size.

    Parameters of biases are numbers (a simple analysis) or distributions, which are drawn
    (a probabilistic analysis). All draws are computed at once.

    Parameters
    ----------
    estimate : array_like, shape (2, 2), or an estimate
        A table of counts: the exposed and the unexposed cases, then the exposed and the unexposed
        people without the outcome. Or an `Estimate`, a combined or calibrated effect, a row of the
        estimates of any result, such as ``GroupComparison.effects``, a model's ``summary()``, a
        case series, a grid, a synthesis or a target trial, or (ratio, lower, upper) with limits of
        95 %. Of a row with a standard error this counts, not its limits, whose level it does not
        have; give the three numbers for limits of a profile.
    biases : Misclassification, UnmeasuredConfounder, SelectionBias, or a sequence of them
        The biases in the order in which they are removed: the reverse of that in which they arose,
        which is often misclassification, then selection, then confounding.
    counts : array_like, shape (2, 2), optional
        The table of counts behind an estimate, for biases that depend on it. The ratio of the
        corrected to the observed ``measure`` of the table is applied to the estimate, and the ratio
        of their standard errors to its standard error.
    measure : {"odds ratio", "risk ratio"}, default "odds ratio"
        The ratio of the table.
    draws : int, default 10000
        Number of draws, including those that are discarded.
    level : float, default 0.95
        Coverage of the limits.
    random_state : int, default 0
        Seed of the draws.

    Returns
    -------
    BiasAnalysis
        The corrected ratio, its draws, and how many draws the counts contradict.

    Raises
    ------
    DataError
        A bias needs counts that are not given, or the counts contradict all draws.

    Notes
    -----
    Random error is normal, with the variance of the corrected log ratio as a function of the
    counts (delta method; for misclassification that of Chu and others 2006), which is larger than
    that of the observed ratio. Draws of an estimate without counts have its standard error.

    References
    ----------
    Fox, MacLehose and Lash (2021), Applying Quantitative Bias Analysis to Epidemiologic Data, 2nd
    edition, Springer. Lash and others (2014), International Journal of Epidemiology 43:1969–1985.
    Chu, Wang, Cole and Greenland (2006), Annals of Epidemiology 16:834–841.

    Examples
    --------
    >>> from steropes.designs.bias_analysis import UnmeasuredConfounder, bias_analysis, trapezoid
    >>> frailty = UnmeasuredConfounder(
    ...     exposed=trapezoid(0.3, 0.4, 0.5, 0.6), unexposed=0.2, risk_ratio=trapezoid(1, 1.5, 2, 3)
    ... )
    >>> bias_analysis((1.5, 1.2, 1.9), frailty).summary.round(2)
                                 estimate  lower  upper
    observed                         1.50   1.20   1.90
    systematic error                 1.28   1.08   1.45
    systematic and random error      1.27   0.97   1.66
    """
    several: list[Any] = [*biases] if isinstance(biases, Sequence) else [biases]
    kinds = Misclassification | UnmeasuredConfounder | SelectionBias
    if not several or not all(isinstance(bias, kinds) for bias in several):
        raise DataError(
            "biases must be Misclassification, UnmeasuredConfounder or SelectionBias, or a list."
        )
    check_level(level)
    cells, observed = _observed(estimate, counts, measure)
    fixed = all(bias.fixed for bias in several)
    number = 1 if fixed else check_whole("draws", draws, 2)
    rng = np.random.default_rng(check_whole("random_state", random_state, 0))
    drawn = [bias.draw(number, rng) for bias in several]
    found = correct_ratio(observed, cells, several, drawn, measure)
    good = np.isfinite(found.log_ratio) & np.isfinite(found.se)
    if not good.any():
        raise DataError(
            "The counts contradict every value of the parameters: a corrected count is not "
            "positive. A share of exposed people (or of cases) must lie between 1 − specificity "
            "and the sensitivity."
        )
    error = rng.standard_normal(number) * found.se
    table = _table_of_draws(drawn).assign(
        log_ratio=found.log_ratio, log_ratio_with_error=found.log_ratio + error
    )
    table = table[good].reset_index(drop=True)
    # Limits of profiles need not be symmetric.
    spread = np.array(
        [0.0, observed.lower - observed.log_ratio, observed.upper - observed.log_ratio]
    )
    spread *= float(ndtri(0.5 + level / 2)) / Z
    rows = {"observed": observed.log_ratio + spread}
    if fixed:
        rows["corrected"] = found.log_ratio[0] + found.se[0] / observed.se * spread
    else:
        at = [0.5, 0.5 - level / 2, 0.5 + level / 2]
        rows["systematic error"] = np.quantile(table["log_ratio"], at)
        rows["systematic and random error"] = np.quantile(table["log_ratio_with_error"], at)
    summary = pd.DataFrame.from_dict(
        {name: np.exp(row) for name, row in rows.items()}, "index",
        columns=["estimate", "lower", "upper"],
    )  # fmt: skip
    return BiasAnalysis(summary, table, int((~good).sum()))


@dataclass(frozen=True)
class CorrectedRatios:
    """Log ratios without biases and their standard errors, (draws,) each; NaN if contradicted."""

    log_ratio: NDArray
    se: NDArray


def correct_ratio(
    observed: ObservedRatio,
    cells: NDArray | None,
    biases: Sequence[Bias],
    drawn: Sequence[dict[str, NDArray]],
    measure: str,
) -> CorrectedRatios:
    """Remove biases of given sizes from a ratio.

    Parameters
    ----------
    observed : ObservedRatio
    cells : ndarray, shape (4,), or None
        The counts behind it.
    biases : sequence of Bias
    drawn : sequence of dict of str to ndarray, shape (draws,)
        The parameters of each.
    measure : {"odds ratio", "risk ratio"}
    """
    shift = -sum((bias.log_factor(own) for bias, own in zip(biases, drawn, strict=True)), 0.0)
    shift = np.atleast_1d(shift)
    if cells is None:
        return _without_counts(observed, biases, drawn, measure, shift)

    def corrected(given: NDArray) -> NDArray:
        now = np.repeat(given[:, None], len(shift), axis=1)
        for bias, own in zip(biases, drawn, strict=True):
            now = bias.corrected(now, own)
        return log_measure(now, measure)

    def variance(of: Any) -> NDArray:
        total = 0.0
        for i, count in enumerate(cells):
            moved = np.zeros(4)
            moved[i] = STEP * count
            total += ((of(cells + moved) - of(cells - moved)) / (2 * STEP * count)) ** 2 * count
        return np.asarray(total)

    plain = log_measure(cells[:, None], measure)[0]
    plain_variance = variance(lambda x: log_measure(x[:, None], measure))[0]
    log_ratio = observed.log_ratio + corrected(cells) - plain + shift
    return CorrectedRatios(log_ratio, observed.se * np.sqrt(variance(corrected) / plain_variance))


def _without_counts(
    observed: ObservedRatio,
    biases: Sequence[Bias],
    drawn: Sequence[dict[str, NDArray]],
    measure: str,
    shift: NDArray,
) -> CorrectedRatios:
    """Remove biases that do not depend on counts; refuse others."""
    for bias, own in zip(biases, drawn, strict=True):
        selection = isinstance(bias, SelectionBias)
        if isinstance(bias, Misclassification) or (selection and measure != "odds ratio"):
            raise DataError(
                f"{type(bias).__name__} of this estimate depends on the numbers of people; give "
                "counts=[[exposed cases, unexposed cases], [exposed others, unexposed others]]."
            )
        if selection:
            factor = bias.corrected(np.ones((4, len(shift))), own)
            shift = shift + log_measure(factor, "odds ratio")
    return CorrectedRatios(observed.log_ratio + shift, np.full(len(shift), observed.se))


def _observed(
    estimate: Any, counts: ArrayLike | None, measure: str
) -> tuple[NDArray | None, ObservedRatio]:
    """Return the counts, if there are any, and the observed ratio."""
    if isinstance(estimate, pd.Series) or is_row(estimate) or np.ndim(estimate) != 2:
        cells = None if counts is None else check_counts("counts", counts)
        return cells, observed_ratio(estimate)
    if counts is not None:
        raise DataError("estimate is a table of counts already; leave counts out.")
    cells = check_counts("estimate", estimate)
    log_ratio = float(log_measure(cells[:, None], measure)[0])
    a, b, c, d = cells
    variance = 1 / a + 1 / b + 1 / c + 1 / d
    if measure == "risk ratio":
        variance = 1 / a - 1 / (a + c) + 1 / b - 1 / (b + d)
    se = float(np.sqrt(variance))
    return cells, ObservedRatio(log_ratio, se, log_ratio - Z * se, log_ratio + Z * se)


def _table_of_draws(drawn: Sequence[dict[str, NDArray]]) -> pd.DataFrame:
    """Put the drawn parameters in one table; equal names get a number."""
    columns: dict[str, NDArray] = {}
    for own in drawn:
        for name, values in own.items():
            label, number = name, 2
            while label in columns:
                label, number = f"{name} {number}", number + 1
            columns[label] = values
    return pd.DataFrame(columns)
