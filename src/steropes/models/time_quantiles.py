"""Medians and other quantiles of the time to the event, by the curves of people."""

from __future__ import annotations

from typing import Any, NamedTuple, overload

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ..data import refuse_other_order
from ..data.curve_crossing import first_crossings
from ..data.vector_checks import check_vector
from ..errors import DataError
from .single_threaded_methods import SingleThreadedMethods

__all__ = ["TimeQuantile", "TimeQuantiles"]

ENTRIES = 4_000_000  # of curves at a time


class TimeQuantile(NamedTuple):
    """Times with their intervals, arrays of one shape."""

    estimate: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


class TimeQuantiles(SingleThreadedMethods):
    """What models with a baseline hazard in each stratum say of times."""

    # What the model supplies.
    _last_seen: np.ndarray
    _baseline: Any
    _linear_predictors: Any
    _stratum_codes: Any
    _survival_table: Any

    @overload
    def predict_quantile(
        self, X: Any, q: Any = 0.5, *, level: None = None, strata: Any = None, offset: Any = None
    ) -> np.ndarray: ...
    @overload
    def predict_quantile(
        self, X: Any, q: Any = 0.5, *, level: float, strata: Any = None, offset: Any = None
    ) -> TimeQuantile: ...
    def predict_quantile(
        self,
        X: Any,
        q: Any = 0.5,
        *,
        level: float | None = None,
        strata: Any = None,
        offset: Any = None,
    ) -> np.ndarray | TimeQuantile:
        """The time by which a share q has had the event; by default the median.

        The first event time at which the event's probability is q or more. As R's
        ``quantile(survfit(fit, newdata, conf.type="log-log"))``.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
        q : number or (m,) array
            Between 0 and 1.
        level : float, optional
            Of intervals: where the curve's limits reach q.
        strata : (n,) labels, optional
            Where the fit had strata.
        offset : (n,) array, optional

        Returns
        -------
        (n, m) array, or (n,) for a single q
            NaN where the curve ends before. With ``level`` a named tuple of such arrays:
            ``estimate``, ``lower``, ``upper``; where a curve's lower limit never falls so far the
            quantile's is the last time at which anyone was seen (in the row's stratum), and where
            the upper one does not, infinite.

        References
        ----------
        Brookmeyer and Crowley (1982), Biometrics 38:29–41.
        """
        check_is_fitted(self, "coef_")
        refuse_other_order(X, strata=strata)
        points = check_vector(np.atleast_1d(q), None, "q")
        if not ((points > 0) & (points < 1)).all():
            raise DataError("q must be between 0 and 1.")
        if level is None:
            found = self._quantile_times(X, points, strata, offset)
        else:
            found = self._quantile_limits(X, points, level, strata, offset)
        parts = [x[:, 0] if np.ndim(q) == 0 else x for x in found]
        return parts[0] if level is None else TimeQuantile(*parts)

    def _quantile_times(
        self, X: Any, points: np.ndarray, strata: Any, offset: Any
    ) -> tuple[np.ndarray, ...]:
        eta = self._linear_predictors(X, offset)
        codes = self._stratum_codes(X, strata, len(eta))
        baseline = self._baseline()
        stratum, time = baseline.steps()[:2]
        out = np.full((len(eta), len(points)), np.nan)
        for s in np.unique(codes):
            at, rows = np.unique(time[stratum == s]), np.flatnonzero(codes == s)
            for some in np.array_split(rows, 1 + len(rows) * len(at) // ENTRIES):
                with np.errstate(over="ignore"):
                    H = np.exp(baseline.log_cumulative_of(eta[some], codes[some], at))
                for k, p in enumerate(points):
                    out[some, k] = first_crossings(at, np.exp(-H), 1.0 - p, self._last_seen[s])
        return (out,)

    def _quantile_limits(
        self, X: Any, points: np.ndarray, level: float, strata: Any, offset: Any
    ) -> tuple[np.ndarray, ...]:
        table: pd.DataFrame = self._survival_table(X, level, strata, offset)
        n = len(self._linear_predictors(X, offset))
        codes = self._stratum_codes(X, strata, n)
        of = codes[table["row"].to_numpy()]
        out = [np.full((n, len(points)), x) for x in (np.nan, np.nan, np.inf)]
        out[1][:] = self._last_seen[codes][:, None]
        for s in np.unique(of):
            rows = np.flatnonzero(codes == s)
            part = table[of == s]
            at = part["time"].to_numpy()[: len(part) // len(rows)]
            for x, name in zip(out, ("survival", "lower", "upper"), strict=True):
                # Where S is one or zero there are no limits: zero is at or below all shares.
                S = part["survival"].to_numpy()
                curve = np.where((S <= 0) & (name != "upper"), 0.0, part[name].to_numpy())
                for k, p in enumerate(points):
                    curves = curve.reshape(len(rows), -1)
                    found = first_crossings(at, curves, 1.0 - p, self._last_seen[s])
                    known = np.isfinite(found)
                    x[rows[known], k] = found[known]
        return tuple(out)
