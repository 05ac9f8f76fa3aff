"""The result of an effect estimate: the ratio with limits, its profile likelihood, and plots."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from steropes.data.formatted_tables_for_papers import Interval
from steropes.data.html_representations import TextInHtml
from steropes.data.plottable_result_tables import ResultTable, present
from steropes.designs.effects.e_values import e_value, e_value_of_limit
from steropes.designs.effects.outcome_families import Kind, outcome_family
from steropes.designs.effects.outcome_regression import (
    PERIODS,
)
from steropes.designs.values.ratios_from_logarithms import ratio_of

__all__ = ["Estimate", "empty_interactions", "empty_profile", "empty_subgroups"]

COUNTED = ("subjects", "days", "outcomes")


@dataclass(frozen=True, repr=False, eq=False)
class Estimate(TextInHtml):
    """The effect of target against comparator on an outcome.

    Attributes
    ----------
    log_rr : float
        Log ratio; NaN if there is no estimate.
    se : float
        Its standard error; for a profile interval the width over 2 × 1.96.
    lower, upper : float
        Limits of the 95 % interval on the log scale; infinite if there is no estimate.
    llr : float
        Log-likelihood at the estimate minus that at no effect.
    interval : str
        Kind of the interval.
    profile : DataFrame
        ``log_rr``, ``log_likelihood`` (minus its maximum) and ``gradient``; may be empty.
    interactions : DataFrame
        ``covariate_id``, ``log_rr``, ``se``, ``lower``, ``upper``, ``p``: the change of the log
        ratio per unit of the covariate.
    subgroups : DataFrame
        Effects within the levels of each 0/1 covariate of the interactions, at the average of the
        other covariates: ``covariate_id``, ``level`` (0, 1), ``log_rr``, ``se``, ``lower``,
        ``upper``, ``p``, and the level's ``target_subjects``, ``comparator_subjects``,
        ``target_days``, ``comparator_days``, ``target_outcomes``, ``comparator_outcomes``.
    periods : DataFrame
        Effects in the periods between ``OutcomeModel.split_days``, if there are any: ``first_day``,
        ``last_day`` (missing in the last one), ``log_rr``, ``se``, ``lower``, ``upper``, ``p``,
        ``target_outcomes``, ``comparator_outcomes``, and the informative outcomes of each arm.
    proportional_p : float
        P-value of the test of proportional hazards, with time transformed to one minus the
        Kaplan–Meier curve of everybody.
    kind : str
        Kind of the outcome model, which determines the kind of ratio.
    common : bool
        Whether at least 15 % of the people had the outcome, which determines the form of E-values.
    converged : bool
        Whether all fits converged.
    note : str
        The reason why there is no estimate; empty if there is one.

    See Also
    --------
    estimate_effect : Estimate it.

    Examples
    --------
    >>> from steropes.designs.effects import Estimate
    >>> estimate = Estimate(log_rr=0.693, se=0.2, lower=0.301, upper=1.085)
    >>> round(estimate.p, 4), round(estimate.e_value, 2)
    (0.0005, 3.41)
    """

    log_rr: float = math.nan
    se: float = math.nan
    lower: float = math.nan
    upper: float = math.nan
    llr: float = math.nan
    interval: str = ""
    profile: pd.DataFrame = field(default_factory=lambda: empty_profile())
    interactions: pd.DataFrame = field(default_factory=lambda: empty_interactions())
    subgroups: pd.DataFrame = field(default_factory=lambda: empty_subgroups())
    periods: pd.DataFrame = field(default_factory=lambda: empty_periods())
    proportional_p: float = math.nan
    kind: Kind = "cox"
    common: bool = False
    converged: bool = True
    note: str = ""

    def __repr__(self) -> str:
        if self.note:
            return f"Estimate(none: {self.note})"
        low, high = (math.exp(min(x, 700)) for x in (self.lower, self.upper))
        return f"Estimate({math.exp(self.log_rr):.3f}, {low:.3f} to {high:.3f})"

    def summary(self) -> ResultTable:
        """Tabulate the ratio with its 95 % limits and p-value, with a plot and for papers.

        Returns
        -------
        ResultTable
            One row, named by the ratio: ``ratio``, ``lower``, ``upper`` and ``p``.

        Examples
        --------
        >>> from steropes.designs.effects import Estimate
        >>> estimate = Estimate(log_rr=0.693, se=0.2, lower=0.301, upper=1.085)
        >>> print(estimate.summary().paper_table().iloc[0].tolist())
        ['2.00 (1.35 to 2.96)', '< 0.001']
        """
        numbers = {
            name: [ratio_of(x)]
            for name, x in (("ratio", self.log_rr), ("lower", self.lower), ("upper", self.upper))
        }
        name = outcome_family(self.kind).ratio
        return present(
            pd.DataFrame({**numbers, "p": [self.p]}, [name]),
            "ratio_forest",
            intervals=[Interval("Estimate", "ratio", level=0.95)],
            columns=tuple(numbers),
            ratio=name[:1].upper() + name[1:],
        )

    def plot(self, **options: Any) -> Any:
        """Draw the ratio with its limits by `steropes.plots.ratio_forest`.

        Parameters
        ----------
        **options
            As of the function.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        return self.summary().plot(**options)

    @property
    def p(self) -> float:
        """Two-sided p-value."""
        from scipy.special import ndtr

        return float(2 * ndtr(-abs(self.log_rr / self.se))) if self.se > 0 else math.nan

    @property
    def one_sided_p(self) -> float:
        """P-value of the hypothesis that the ratio is at most one."""
        from scipy.special import ndtr

        return float(ndtr(-self.log_rr / self.se)) if self.se > 0 else math.nan

    @property
    def e_value(self) -> float:
        """E-value of the estimate.

        VanderWeele and Ding (2017), Ann Intern Med 167:268, in the form for common outcomes if
        ``common``.
        """
        return e_value(self.log_rr, self.kind, self.common)

    @property
    def e_value_limit(self) -> float:
        """E-value of the limit nearer to no effect; 1 if the interval includes no effect."""
        if math.isnan(self.log_rr):
            return math.nan
        return e_value_of_limit(self.lower, self.upper, self.kind, self.common)


def empty_profile() -> pd.DataFrame:
    """Create a profile without points."""
    return pd.DataFrame({c: np.empty(0) for c in ("log_rr", "log_likelihood", "gradient")})


def empty_interactions() -> pd.DataFrame:
    """Create an empty table of interactions."""
    columns = ("covariate_id", "log_rr", "se", "lower", "upper", "p")
    return pd.DataFrame({c: np.empty(0) for c in columns})


def empty_periods() -> pd.DataFrame:
    """Create an empty table of effects by period."""
    return pd.DataFrame({c: np.empty(0) for c in (*PERIODS, "p")})


def empty_subgroups() -> pd.DataFrame:
    """Create an empty table of subgroups."""
    counts = [f"{arm}_{c}" for c in COUNTED for arm in ("target", "comparator")]
    columns = ("covariate_id", "level", "log_rr", "se", "lower", "upper", "p", *counts)
    return pd.DataFrame({c: np.empty(0) for c in columns})
