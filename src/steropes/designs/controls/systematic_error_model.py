"""Systematic error that varies with the true effect, and calibrated intervals.

With positive controls the mean and the spread of the error may differ from those at no effect. All
results are optima or roots, so that the same estimates give the same bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.backends.blas_threads import single_threaded_blas
from steropes.data.diagnostic_limits import LEAST_CONTROLS
from steropes.data.html_representations import FieldsInHtml
from steropes.designs.controls.empirical_calibration import (
    Calibrated,
    SystematicError,
    calibrate,
    fit_systematic_error,
)
from steropes.designs.values.normal_quantile import Z
from steropes.errors import DataError

__all__ = ["ErrorModel", "calibrate_interval", "fit_error_model", "leave_one_group_out"]

FARTHEST = 40.0  # The range around the estimate in which limits are searched, on the log scale.


@dataclass(frozen=True)
class ErrorModel(FieldsInHtml):
    """Systematic error as a linear function of the true log ratio t: mean a + b t, sd c + d |t|.

    Attributes
    ----------
    intercept : float
        a, the mean at no effect.
    slope : float
        b, the change of the mean with t.
    sd : float
        c, the standard deviation at no effect.
    sd_slope : float
        d, the change of the standard deviation with ``|t|``.
    controls : int
        Number of estimates in the fit.

    Examples
    --------
    >>> from steropes.designs.controls import ErrorModel
    >>> model = ErrorModel(intercept=0.1, slope=1.0, sd=0.15, sd_slope=0.05, controls=60)
    >>> round(model.mean_at(0.5), 3), round(model.sd_at(0.5), 3)
    (0.6, 0.175)
    """

    intercept: float
    slope: float
    sd: float
    sd_slope: float
    controls: int

    def mean_at(self, t: float) -> float:
        """Compute the mean of estimates at a true log ratio.

        Parameters
        ----------
        t : float
            The true log ratio.

        Returns
        -------
        float
            The mean a + b t.
        """
        return self.intercept + self.slope * t

    def sd_at(self, t: float) -> float:
        """Compute the standard deviation of the systematic error at a true log ratio.

        Parameters
        ----------
        t : float
            The true log ratio.

        Returns
        -------
        float
            The standard deviation c + d ``|t|``, at least zero.
        """
        return max(self.sd + self.sd_slope * abs(t), 0.0)


def fit_error_model(log_rr: ArrayLike, se: ArrayLike, true_log_rr: ArrayLike) -> ErrorModel:
    """Fit the model to negative and positive controls by maximum likelihood.

    An estimate y with standard error s is normal with mean a + b t and variance (c + d |t|)² + s².
    The standard deviation is constrained to be at least zero from no effect to the largest true
    effect. Estimates without a finite value and standard error are left out. With fewer than five
    usable positive controls the error is that of the negative controls, whatever t.

    Parameters
    ----------
    log_rr : array_like, shape (n,)
        Log ratios of the controls.
    se : array_like, shape (n,)
        Their standard errors.
    true_log_rr : array_like, shape (n,)
        Their true log ratios, 0 for negative controls.

    Returns
    -------
    ErrorModel
        The fitted model.

    Raises
    ------
    DataError
        There is no usable estimate.

    References
    ----------
    Schuemie, Hripcsak, Ryan, Madigan and Suchard (2018), PNAS 115:2571.

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs.controls import fit_error_model
    >>> rng = np.random.default_rng(1)
    >>> true = np.repeat(np.log([1.0, 1.5, 2.0, 4.0]), 20)
    >>> log_rr = rng.normal(0.1 + true, 0.2)
    >>> model = fit_error_model(log_rr, np.full(80, 0.1), true)
    >>> model.controls, round(model.slope, 1)
    (80, 1.0)
    """
    y, s, t = (np.asarray(v, dtype=float) for v in (log_rr, se, true_log_rr))
    good = np.isfinite(y) & np.isfinite(s) & (s > 0) & np.isfinite(t)
    y, s, t = y[good], s[good], t[good]
    if (t != 0).sum() < LEAST_CONTROLS or len(np.unique(t)) < 2:
        error = fit_systematic_error(y[t == 0], s[t == 0])
        return ErrorModel(error.mean, 1.0, error.sd, 0.0, error.controls)
    order = np.lexsort((s, y, t))  # The result must not depend on the order of the controls.
    y, s, t = y[order], s[order], t[order]
    share = np.abs(t) / np.abs(t).max()
    with single_threaded_blas():  # The result must not depend on the number of threads.
        fits = [_descend(start, y, s, t, share) for start in _starts(y, s, t, share)]
    _, (a, b), (low, high) = min(fits, key=lambda fit: fit[0])
    return ErrorModel(a, b, low, (high - low) / float(np.abs(t).max()), len(y))


def _line_through(y: NDArray, t: NDArray, w: NDArray) -> tuple[float, float]:
    """Fit y = a + b t by weighted least squares."""
    total = w.sum()
    centre_t, centre_y = (w * t).sum() / total, (w * y).sum() / total
    slope = (w * (t - centre_t) * (y - centre_y)).sum() / (w * (t - centre_t) ** 2).sum()
    return float(centre_y - slope * centre_t), float(slope)


def _value(
    ends: NDArray, y: NDArray, s: NDArray, t: NDArray, share: NDArray
) -> tuple[float, NDArray]:
    """Return minus the log-likelihood profiled over a and b, and its gradient by the two sds.

    Given both sds, a and b are weighted least squares, so that only the sds are searched.
    """
    sd = ends[0] * (1 - share) + ends[1] * share
    v = sd**2 + s**2
    a, b = _line_through(y, t, 1 / v)
    r = y - a - b * t
    by_sd = sd / v * (1 - r**2 / v)
    slopes = np.array([(by_sd * (1 - share)).sum(), (by_sd * share).sum()])
    return float(0.5 * (np.log(v) + r**2 / v).sum()), slopes


def _starts(y: NDArray, s: NDArray, t: NDArray, share: NDArray) -> list[tuple[float, float]]:
    """Choose starting points: two usual ones and the best points of three coarse grids.

    The likelihood is flat in an sd at zero, so that a descent that reaches it stays there, although
    the maximum may lie elsewhere: in the interior, or with the other sd at zero.
    """
    sds = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    grids = (
        [(low, high) for low in sds for high in sds],
        [(low, 0.0) for low in sds],
        [(0.0, high) for high in sds],
    )

    def value(ends: tuple[float, float]) -> float:
        return _value(np.array(ends), y, s, t, share)[0]

    return [(0.3, 0.3), (0.03, 0.03), *(min(grid, key=value) for grid in grids)]


def _descend(
    start: tuple[float, float], y: NDArray, s: NDArray, t: NDArray, share: NDArray
) -> tuple[float, tuple[float, float], tuple[float, float]]:
    """Minimise from a start; return the minimum, (a, b), and the sds at zero and largest effect."""
    from scipy.optimize import minimize

    limits = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 500}
    found: Any = minimize(
        _value, start, (y, s, t, share), jac=True, bounds=[(0, None)] * 2, method="L-BFGS-B",
        options=limits,
    )  # fmt: skip
    low, high = (float(x) for x in found.x)
    sd = low * (1 - share) + high * share
    return float(found.fun), _line_through(y, t, 1 / (sd**2 + s**2)), (low, high)


def calibrate_interval(log_rr: float, se: float, model: ErrorModel) -> Calibrated:
    """Calibrate an estimate and its interval by negative and positive controls.

    The limits are the t at which the estimate is 1.96 standard deviations from its mean; the
    calibrated estimate is the t at which it equals its mean. The p-value is that of no effect.

    Parameters
    ----------
    log_rr : float
        Log ratio.
    se : float
        Its standard error.
    model : ErrorModel
        The model of the systematic error.

    Returns
    -------
    Calibrated
        Named tuple of the calibrated log ratio, its standard error, 95 % limits and p-values.

    References
    ----------
    Schuemie, Hripcsak, Ryan, Madigan and Suchard (2018), PNAS 115:2571.

    Examples
    --------
    >>> from steropes.designs.controls import ErrorModel, calibrate_interval
    >>> model = ErrorModel(intercept=0.1, slope=1.0, sd=0.15, sd_slope=0.05, controls=60)
    >>> round(calibrate_interval(0.5, 0.2, model).log_rr, 3)
    0.4
    """
    if not (math.isfinite(log_rr) and math.isfinite(se) and se > 0):
        return Calibrated(*(math.nan,) * 6)
    null = calibrate(log_rr, se, SystematicError(model.intercept, model.sd, model.controls))
    if model.slope == 1 and model.sd_slope == 0:
        return null
    if model.slope <= 0:  # Estimates carry no information on the size of an effect.
        return Calibrated(math.nan, math.nan, -math.inf, math.inf, null.p, null.one_sided_p)
    centre = (log_rr - model.intercept) / model.slope
    low, high = (_where(side * Z, log_rr, se, model, centre) for side in (1.0, -1.0))
    width = (high - low) / (2 * Z) if math.isfinite(high - low) else math.nan
    return Calibrated(centre, width, low, high, null.p, null.one_sided_p)


def _where(z: float, log_rr: float, se: float, model: ErrorModel, centre: float) -> float:
    """Find the t next to the centre at which the estimate is z sds above its mean."""
    from scipy.optimize import brentq

    def beyond(t: float) -> float:
        return log_rr - model.mean_at(t) - z * math.hypot(model.sd_at(t), se)

    # Away from the centre the sd may grow faster than the mean; then there is no limit.
    side = -1.0 if z > 0 else 1.0
    for step in np.geomspace(1e-3, FARTHEST, 200):
        t = centre + side * float(step)
        if beyond(t) * z >= 0:
            return float(brentq(beyond, *sorted((centre, t)), xtol=1e-14))
    return side * math.inf


def leave_one_group_out(
    log_rr: ArrayLike, se: ArrayLike, true_log_rr: ArrayLike, group: ArrayLike
) -> pd.DataFrame:
    """Calibrate the controls of each group by those of all other groups.

    A group is a negative control with the positive controls made from it, which are correlated.

    Parameters
    ----------
    log_rr : array_like, shape (n,)
        Log ratios of the controls; NaN or infinite if there is none.
    se : array_like, shape (n,)
        Their standard errors.
    true_log_rr : array_like, shape (n,)
        Their true log ratios, 0 for negative controls.
    group : array_like, shape (n,)
        The negative control that each control is or was made from.

    Returns
    -------
    DataFrame
        One row per control, in order: ``log_rr``, ``lower``, ``upper``, ``se``, ``p``, the same
        with the prefix ``calibrated_``, and whether each interval includes the true effect,
        ``covers`` and ``calibrated_covers``; NaN without an estimate, or without other controls.

    Raises
    ------
    DataError
        The arrays differ in length.

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs.controls import leave_one_group_out
    >>> log_rr, se, zero = [0.1, -0.2, 0.4, 0.3], np.full(4, 0.1), np.zeros(4)
    >>> leave_one_group_out(log_rr, se, zero, [1, 2, 3, 4])["calibrated_covers"].tolist()
    [1.0, 0.0, 1.0, 1.0]
    """
    y, s, t = (np.asarray(v, dtype=float) for v in (log_rr, se, true_log_rr))
    of = np.asarray(group)
    names = ("log_rr", "lower", "upper", "se", "p", "covers")
    table = np.full((len(y), 2 * len(names)), np.nan)
    plain = SystematicError(0.0, 0.0, 0)
    for g in np.unique(of):
        own, others = np.flatnonzero(of == g), of != g
        try:
            model: ErrorModel | None = fit_error_model(y[others], s[others], t[others])
        except DataError:
            model = None
        for i in own:
            table[i, : len(names)] = _line(calibrate(y[i], s[i], plain), t[i])
            if model is not None:
                table[i, len(names) :] = _line(calibrate_interval(y[i], s[i], model), t[i])
    return pd.DataFrame(table, columns=[*names, *(f"calibrated_{n}" for n in names)])


def _line(c: Calibrated, truth: float) -> tuple[float, ...]:
    """Return the numbers of an estimate and whether its interval includes the truth."""
    covers = math.nan if math.isnan(c.p) else float(c.lower <= truth <= c.upper)
    return c.log_rr, c.lower, c.upper, c.se, c.p, covers
