"""Confidence intervals from bootstrap draws: percentile, basic and BCa."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import stats

from ..data import check_level
from ..data.html_representations import SHOWN_ROWS
from ..data.plottable_result_tables import ResultTable, present_coefficients
from ..errors import DataError

__all__ = ["Bootstrap", "BootstrapMethod", "standard_deviations"]


BootstrapMethod = Literal["percentile", "basic", "bca"]


@dataclass(repr=False)
class Bootstrap:
    """Coefficients of bootstrap draws, with standard errors and confidence intervals.

    The ``bootstrap`` method of the estimators returns it.

    Attributes
    ----------
    coef : (n, p) array
        Coefficients of each draw in X's units, the intercept at X = 0. A value is ±inf if the
        draw's likelihood has no finite maximum along the coefficient, and NaN if the draw does not
        identify it because its column is constant or collinear there.
    names : list of str
        Names of the p coefficients.
    estimate : (p,) array
        Coefficients of the fit to the full data.
    acceleration : (p,) array
        Acceleration of BCa intervals; computed when it is first needed.
    units : {"rows", "strata", "clusters"}
        The kind of unit that was drawn.
    converged : (n,) bool array
        Whether a draw's certificate is below the tolerance.
    variance : (n,) array or None
        With ``reselect``, the prior's variance chosen in each draw.
    ratio : str or None
        Name of exp(coef), such as "hazard ratio"; None if it is no ratio.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2))
    >>> y = X @ [1.0, 0.0] + rng.standard_normal(200)
    >>> draws = steropes.LinearRegression().fit(X, y).inference.bootstrap(100, random_state=1)
    >>> draws
    <Bootstrap of 3 coefficients: 100 draws of rows>
    >>> list(draws.confint(0.9, "bca").columns)
    ['lower', 'upper']
    >>> bool((draws.se < 0.15).all())
    True
    """

    coef: np.ndarray
    names: list[str]
    estimate: np.ndarray
    _acceleration: np.ndarray | Callable[[], np.ndarray]
    units: str
    converged: np.ndarray
    variance: np.ndarray | None = field(default=None)
    ratio: str | None = field(default=None)

    def __repr__(self) -> str:
        """Describe the draws, and count those without finite or identified coefficients."""
        n, p = self.coef.shape
        text = f"Bootstrap of {p} coefficients: {n} draws of {self.units}"
        for count, what in (
            (int(self.separated.sum()), "without a finite optimum"),
            (int(self.undetermined.sum()), "that do not determine a coefficient"),
            (int((~self.converged).sum()), "above the tolerance"),
        ):
            if count:
                text += f", {count} {what}"
        return f"<{text}>"

    def _repr_html_(self) -> str:
        """Show the standard errors and percentile intervals as HTML, of the first coefficients."""
        table = pd.concat([self.se.rename("se"), self.confint()], axis=1)
        table.insert(0, "estimate", self.estimate)
        shown = table.iloc[:SHOWN_ROWS].to_html(border=0, float_format="{:.4g}".format)
        rest = f"<p>{len(table) - SHOWN_ROWS} more in confint().</p>" * (len(table) > SHOWN_ROWS)
        return f"<p><b>{html.escape(repr(self)[1:-1])}</b></p>{shown}{rest}"

    @property
    def acceleration(self) -> np.ndarray:
        """Acceleration of BCa intervals (Efron 1987), (p,)."""
        if callable(self._acceleration):
            self._acceleration = self._acceleration()
        return self._acceleration

    def __getstate__(self) -> dict[str, object]:
        """Compute the acceleration before pickling, since the data stay out of a pickle."""
        return {**self.__dict__, "_acceleration": self.acceleration}

    @property
    def separated(self) -> np.ndarray:
        """Draws in which some coefficient has no finite optimum, (n,) bool."""
        return np.asarray(np.isinf(self.coef).any(axis=1))

    @property
    def undetermined(self) -> np.ndarray:
        """Draws that do not identify some coefficient, (n,) bool."""
        return np.asarray(np.isnan(self.coef).any(axis=1))

    @property
    def nonzero(self) -> pd.Series:
        """Share of nonzero values of each coefficient among the draws that identify it."""
        known = ~np.isnan(self.coef)
        count = np.maximum(known.sum(axis=0), 1)
        return pd.Series((known & (self.coef != 0)).sum(axis=0) / count, self.names)

    @property
    def se(self) -> pd.Series:
        """Standard deviation of each coefficient over the draws; inf if some are infinite."""
        return pd.Series(standard_deviations(self.coef), self.names)

    def confint(self, level: float = 0.95, method: BootstrapMethod = "percentile") -> ResultTable:
        """Compute bootstrap confidence intervals of all coefficients.

        Parameters
        ----------
        level : float, default=0.95
            Confidence level, between 0 and 1.
        method : {"percentile", "basic", "bca"}, default="percentile"
            The quantiles of the draws; the quantiles reflected at the estimate, 2 θ̂ − q; or
            quantiles corrected for bias and acceleration. The bias of BCa is Φ⁻¹((r + ½) / (n + 1))
            with r the number of draws below the estimate, equal ones counted half, so that it is
            finite even if all draws are on one side. For coefficients that are often exactly zero
            the intervals only describe the estimator's distribution; see ``nonzero``.

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``, one row per coefficient. A draw that does not identify
            a coefficient counts as −∞ for the lower limit and as +∞ for the upper one.

        Raises
        ------
        DataError
            The level is not between 0 and 1, or the method is unknown.

        References
        ----------
        Efron (1987), JASA 82:171–185. Davison and Hinkley (1997), Bootstrap Methods and Their
        Application, §5.3.
        """
        level = check_level(level)
        if method not in ("percentile", "basic", "bca"):
            raise DataError(f"method must be 'percentile', 'basic' or 'bca', not {method!r}.")
        rows = [self._interval(j, 0.5 - level / 2, method) for j in range(len(self.names))]
        table = pd.DataFrame(rows, self.names, ["lower", "upper"])
        return present_coefficients(table, self.ratio, level)

    def plot(
        self, *, level: float = 0.95, method: BootstrapMethod = "percentile", **options: Any
    ) -> Any:
        """Draw estimates with bootstrap intervals by `steropes.plots.forest`.

        Lines are shaded by the share of draws in which a coefficient is not zero, if there are any
        in which one is.

        Parameters
        ----------
        level, method
            As of `confint`.
        **options
            As of the function.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        table = self.confint(level, method)
        table.insert(0, "coef", self.estimate)
        if (shade := self.nonzero).lt(1.0).any():
            options = {"shade": shade, **options}
        return table.plot(**options)

    def _interval(self, j: int, tail: float, method: str) -> tuple[float, float]:
        """Compute the interval of coefficient j with probability ``tail`` on each side."""
        draws, estimate = self.coef[:, j], float(self.estimate[j])
        low, high = np.sort(np.nan_to_num(draws, nan=-np.inf, posinf=np.inf, neginf=-np.inf)), None
        high = np.sort(np.nan_to_num(draws, nan=np.inf, posinf=np.inf, neginf=-np.inf))
        lower, upper = tail, 1.0 - tail
        if method == "bca":
            lower, upper = self._bca_tails(draws, estimate, float(self.acceleration[j]), tail)
        ends = _quantile(low, lower), _quantile(high, upper)
        if method == "basic":
            ends = 2.0 * estimate - ends[1], 2.0 * estimate - ends[0]
        return ends

    @staticmethod
    def _bca_tails(
        draws: np.ndarray, estimate: float, a: float, tail: float
    ) -> tuple[float, float]:
        """Compute BCa's tail probabilities (Efron 1987, §3) from the bias and acceleration a."""
        known = draws[~np.isnan(draws)]
        below = (known < estimate).sum() + 0.5 * (known == estimate).sum()
        z0 = stats.norm.ppf((below + 0.5) / (len(known) + 1.0))
        z = z0 + stats.norm.ppf([tail, 1.0 - tail])
        room = 1.0 - a * z
        # Beyond the pole of the transformation the limit is the extreme draw.
        at = np.where(room > 0, z0 + z / np.where(room > 0, room, 1.0), np.sign(z) * np.inf)
        lower, upper = stats.norm.cdf(at)
        return float(lower), float(upper)


def standard_deviations(coef: np.ndarray) -> np.ndarray:
    """Compute each column's standard deviation over known draws; inf if some are infinite."""
    out = np.full(coef.shape[1], np.nan)
    for j, draws in enumerate(coef.T):
        known = draws[~np.isnan(draws)]
        if np.isinf(known).any():
            out[j] = np.inf
        elif len(known) > 1:
            out[j] = known.std(ddof=1)
    return out


def _quantile(ordered: np.ndarray, at: float) -> float:
    """Compute a quantile as `numpy.quantile` does, for sorted values that may be infinite."""
    place = at * (len(ordered) - 1)
    i = int(np.floor(place))
    share, low = place - i, float(ordered[i])
    if share == 0.0 or i + 1 == len(ordered):
        return low
    high = float(ordered[i + 1])
    if np.isinf(low) or np.isinf(high):
        # Nothing lies between a finite and an infinite value, so the outer one is taken.
        return low if low == high or (np.isinf(low) and at < 0.5) else high
    return low + share * (high - low)
