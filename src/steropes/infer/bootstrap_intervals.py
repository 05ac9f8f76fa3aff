"""Intervals from bootstrap draws: percentile, basic and BCa."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import stats

from ..data import check_level
from ..errors import DataError

__all__ = ["Bootstrap", "BootstrapMethod", "standard_deviations"]

BootstrapMethod = Literal["percentile", "basic", "bca"]


@dataclass(repr=False)
class Bootstrap:
    """Coefficients of bootstrap draws, and intervals from them.

    Attributes
    ----------
    coef : (n, p) array
        A row a draw; ``names`` are those of the columns. ±inf where a draw's likelihood rises for
        ever along the coefficient, NaN where the draw says nothing about it (its column is
        constant or collinear there).
    names : list of str
    estimate : (p,) array
        The fit's own coefficients.
    acceleration : (p,) array
        Of BCa intervals; computed when it is first needed.
    units : {"rows", "strata", "clusters"}
        What was drawn.
    converged : (n,) bool array
        Whether a draw's certificate is below the tolerance.
    variance : (n,) array or None
        With ``reselect``: the prior's variance chosen in each draw.
    """

    coef: np.ndarray
    names: list[str]
    estimate: np.ndarray
    _acceleration: np.ndarray | Callable[[], np.ndarray]
    units: str
    converged: np.ndarray
    variance: np.ndarray | None = field(default=None)

    def __repr__(self) -> str:
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

    @property
    def acceleration(self) -> np.ndarray:
        """Of BCa intervals, (p,)."""
        if callable(self._acceleration):
            self._acceleration = self._acceleration()
        return self._acceleration

    def __getstate__(self) -> dict[str, Any]:
        # What it is computed from are the data, which stay out of a pickle.
        return {**self.__dict__, "_acceleration": self.acceleration}

    @property
    def separated(self) -> np.ndarray:
        """Draws in which some coefficient has no finite optimum, (n,) bool."""
        return np.asarray(np.isinf(self.coef).any(axis=1))

    @property
    def undetermined(self) -> np.ndarray:
        """Draws that say nothing about some coefficient, (n,) bool."""
        return np.asarray(np.isnan(self.coef).any(axis=1))

    @property
    def nonzero(self) -> pd.Series:
        """Share of draws in which each coefficient is not zero, of those that say something."""
        known = ~np.isnan(self.coef)
        count = np.maximum(known.sum(axis=0), 1)
        return pd.Series((known & (self.coef != 0)).sum(axis=0) / count, self.names)

    @property
    def se(self) -> pd.Series:
        """Standard deviation of each coefficient over the draws; inf where some are infinite."""
        return pd.Series(standard_deviations(self.coef), self.names)

    def confint(self, level: float = 0.95, method: BootstrapMethod = "percentile") -> pd.DataFrame:
        """Intervals of all coefficients.

        Parameters
        ----------
        level : float
            Between 0 and 1.
        method : {"percentile", "basic", "bca"}
            The draws' quantiles; those reflected at the estimate, 2 θ̂ − q; or quantiles
            corrected for bias and acceleration. BCa's bias is Φ⁻¹((r + ½) / (n + 1)) with r the
            number of draws below the estimate, equal ones counting half: finite also where all
            draws are on one side. Of coefficients that are often exactly zero all three are
            descriptions of the estimator; see ``nonzero``.

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``. A draw that says nothing about a coefficient counts
            as −∞ for its lower limit and as +∞ for the upper one.

        References
        ----------
        Efron (1987), JASA 82:171–185. Davison and Hinkley (1997), Bootstrap Methods and Their
        Application, §5.3.
        """
        level = check_level(level)
        if method not in ("percentile", "basic", "bca"):
            raise DataError(f"method must be 'percentile', 'basic' or 'bca', not {method!r}.")
        rows = [self._interval(j, 0.5 - level / 2, method) for j in range(len(self.names))]
        return pd.DataFrame(rows, self.names, ["lower", "upper"])

    def _interval(self, j: int, tail: float, method: str) -> tuple[float, float]:
        draws, estimate = self.coef[:, j], float(self.estimate[j])
        low, high = np.sort(np.nan_to_num(draws, nan=-np.inf, posinf=np.inf, neginf=-np.inf)), None
        high = np.sort(np.nan_to_num(draws, nan=np.inf, posinf=np.inf, neginf=-np.inf))
        lower, upper = tail, 1.0 - tail
        if method == "bca":
            lower, upper = self._corrected(draws, estimate, float(self.acceleration[j]), tail)
        ends = _quantile(low, lower), _quantile(high, upper)
        if method == "basic":
            ends = 2.0 * estimate - ends[1], 2.0 * estimate - ends[0]
        return ends

    @staticmethod
    def _corrected(draws: Any, estimate: float, a: float, tail: float) -> tuple[float, float]:
        """The tail probabilities of BCa (Efron 1987, §3), with the bias and the acceleration."""
        known = draws[~np.isnan(draws)]
        below = (known < estimate).sum() + 0.5 * (known == estimate).sum()
        z0 = stats.norm.ppf((below + 0.5) / (len(known) + 1.0))
        z = z0 + stats.norm.ppf([tail, 1.0 - tail])
        room = 1.0 - a * z
        # Beyond the pole of the transformation there is nothing but the extreme draw.
        at = np.where(room > 0, z0 + z / np.where(room > 0, room, 1.0), np.sign(z) * np.inf)
        lower, upper = stats.norm.cdf(at)
        return float(lower), float(upper)


def standard_deviations(coef: np.ndarray) -> np.ndarray:
    """Standard deviation of each column over the draws that are known; inf where some are."""
    out = np.full(coef.shape[1], np.nan)
    for j, draws in enumerate(coef.T):
        known = draws[~np.isnan(draws)]
        if np.isinf(known).any():
            out[j] = np.inf
        elif len(known) > 1:
            out[j] = known.std(ddof=1)
    return out


def _quantile(ordered: np.ndarray, at: float) -> float:
    """As `numpy.quantile`, of values that may be infinite."""
    place = at * (len(ordered) - 1)
    i = int(np.floor(place))
    share, low = place - i, float(ordered[i])
    if share == 0.0 or i + 1 == len(ordered):
        return low
    high = float(ordered[i + 1])
    if np.isinf(low) or np.isinf(high):
        # Between a finite and an infinite value there is no number: the outer one.
        return low if low == high or (np.isinf(low) and at < 0.5) else high
    return low + share * (high - low)
