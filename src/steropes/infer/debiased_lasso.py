"""The debiased lasso: estimates and standard errors of single coefficients."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from ..data import check_level
from ..data.plottable_result_tables import ResultTable, present_coefficients
from ..fit import Problem
from .nodewise_regression import NodewiseRegressions
from .score_contributions import UnitScores

__all__ = ["DebiasedLasso", "debias"]


@dataclass(repr=False)
class DebiasedLasso:
    """Debiased estimates of some coefficients of a lasso, with a covariance matrix.

    The ``debiased_lasso`` method of the estimators returns it.

    Attributes
    ----------
    lasso : Series
        The estimates of the fit.
    nodewise : DataFrame
        For each coefficient the regression of its column on all others: ``penalty`` (λ_j in units
        of √(H_jj / n)), ``nonzero`` (columns with a coefficient) and ``correlation`` (the largest
        remaining correlation with a penalised column, c_j). The remaining bias, in standard errors,
        is at most c_j Σ_k √H_kk |β̂_k − β_k|.
    ratio : str or None
        Name of exp(coef), such as "odds ratio"; None if it is no ratio.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 200))
    >>> y = X[:, 0] + rng.standard_normal(100)
    >>> model = steropes.LinearRegression(prior=steropes.Laplace(0.005)).fit(X, y)
    >>> found = model.inference.debiased_lasso(["x0", "x1"])
    >>> found
    <DebiasedLasso of 2 coefficients>
    >>> found.summary()["coef"].round(2).tolist()
    [1.13, -0.04]
    """

    coef: pd.Series
    lasso: pd.Series
    vcov: pd.DataFrame
    nodewise: pd.DataFrame
    ratio: str | None

    def __repr__(self) -> str:
        return f"<DebiasedLasso of {len(self.coef)} coefficients>"

    def _repr_html_(self) -> str:
        """Show the summary as HTML."""
        table = self.summary().to_html(border=0, float_format="{:.4g}".format)
        return f"<p><b>{html.escape(repr(self)[1:-1])}</b></p>{table}"

    def summary(self, level: float = 0.95) -> ResultTable:
        """Tabulate the debiased estimates with normal intervals and tests.

        Parameters
        ----------
        level : float
            Confidence level, default 0.95.

        Returns
        -------
        DataFrame
            The columns of the estimators' ``summary()``, with the kind of errors in
            ``attrs["errors"]``.
        """
        check_level(level)
        se = np.sqrt(np.diag(self.vcov))
        table = pd.concat([self.coef.rename("coef"), self.confint(level)], axis=1)
        if self.ratio is not None:
            for name in ("coef", "lower", "upper"):
                table[f"exp({name})"] = np.exp(table[name])
        z = self.coef / se
        table = table.assign(se=se, z=z, p=2.0 * stats.norm.sf(np.abs(z)))
        return self._named(present_coefficients(table, self.ratio, level))

    def plot(self, *, level: float = 0.95, **options: Any) -> Any:
        """Draw the estimates with their intervals by `steropes.plots.forest`.

        Parameters
        ----------
        level : float
            Confidence level, default 0.95.
        **options
            As of the function.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        return self.summary(level).plot(**options)

    def confint(self, level: float = 0.95) -> ResultTable:
        """Compute normal confidence intervals.

        Parameters
        ----------
        level : float
            Confidence level, default 0.95.

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``.
        """
        half = stats.norm.ppf(0.5 + check_level(level) / 2) * np.sqrt(np.diag(self.vcov))
        table = pd.DataFrame({"lower": self.coef - half, "upper": self.coef + half})
        return self._named(present_coefficients(table, self.ratio, level))

    def _named(self, table: ResultTable) -> ResultTable:
        """Name the kind of errors in a table as in ``vcov``."""
        table.attrs.update(self.vcov.attrs)
        table.columns.name = self.vcov.columns.name
        return table


def debias(
    problem: Problem,
    beta: np.ndarray,
    free: np.ndarray,
    columns: Sequence[int],
    n: float,
    penalty: float | None,
    dispersion: float,
    unit: tuple[np.ndarray | None] | None,
    ratio: str | None,
) -> DebiasedLasso:
    """Debias the coefficients of some columns.

    With z_j the residuals of the nodewise regression, r the derivative of the loss in η and H_η its
    curvature at the fit, b̂_j = β̂_j − z_j' r / (z_j' H_η x_j) and
    V_jk = z_j' H_η z_k / ((z_j' H_η x_j) (z_k' H_η x_k)), or with the outer products of the scores
    in place of H.

    Parameters
    ----------
    beta : (p,) array
        The fitted coefficients, in X's units.
    free : int array
        Columns that the fit leaves unpenalised.
    n : float
        Effective number of rows.
    penalty : float or None
        λ_j of the nodewise regressions; None to choose it for each.
    dispersion : float
        The residual variance of a linear model, and 1 for others.
    unit : tuple of (n,) int array or None, or None
        For robust errors a tuple with the codes of clusters (None for rows); None for the errors
        of the model.
    ratio : str or None
        See `DebiasedLasso`.
    """
    regressions = NodewiseRegressions(problem, beta, free, n)
    found = [regressions.fit(j, penalty) for j in columns]
    D = np.stack([x.direction for x in found], axis=1)
    Z = np.stack([regressions.predictor(d) for d in D.T], axis=1)
    slopes = np.array([x.slope for x in found])
    estimates = beta[np.asarray(columns)] - Z.T @ regressions.residuals() / slopes
    if unit is None:
        middle = dispersion * Z.T @ regressions.times(Z)
    else:
        U = UnitScores(problem, beta, unit[0]).along(D * regressions.scale[:, None])
        middle = U.T @ U
    names = [problem.design.names[j] for j in columns]
    V = middle / slopes / slopes[:, None]
    nodewise = pd.DataFrame(
        {
            "penalty": [x.penalty for x in found],
            "nonzero": [x.nonzero for x in found],
            "correlation": [x.correlation for x in found],
        },
        names,
    )
    return DebiasedLasso(
        pd.Series(estimates, names),
        pd.Series(beta[np.asarray(columns)], names),
        pd.DataFrame(0.5 * (V + V.T), names, names),
        nodewise,
        ratio,
    )
