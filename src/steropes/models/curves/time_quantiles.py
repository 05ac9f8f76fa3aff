"""Quantiles of the time to the event, read from the survival curves of rows."""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ...data import refuse_other_order
from ...data.input_types import LabelsLike, VectorLike
from ...data.plottable_result_tables import draw_estimates
from ...data.survival_curve_quantiles import first_crossings
from ...data.vector_checks import check_vector
from ...errors import DataError
from ...infer.baseline_hazard import Baseline
from ..fitting.default_standard_errors import NamesErrors, name_errors
from ..fitting.proportional_hazards import ProportionalHazardsModel
from ..fitting.setting_types import Kind, MatrixLike
from .cox_curves import survival
from .fine_gray_curves import incidence

__all__ = [
    "TimeQuantile",
    "hazards_before",
    "predict_quantile",
    "quantile_limits",
    "quantile_times",
]

# Curves are computed in blocks of at most this many entries, which bounds the memory.
MAX_ENTRIES = 4_000_000


class _Arrays(NamedTuple):
    """The arrays of quantiles."""

    estimate: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def plot(self, **options: Any) -> Any:
        """Draw a line for each row of X and each q by `steropes.plots.forest`.

        Parameters
        ----------
        **options
            As of the function.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        return draw_estimates(*self, **{"label": "Time", **options})


class TimeQuantile(NamesErrors, _Arrays):
    """Quantiles of times with their limits, arrays of one shape; ``errors`` is their kind."""


def quantile_times(
    baseline: Baseline,
    eta: np.ndarray,
    codes: np.ndarray,
    probabilities: np.ndarray,
    last_seen: np.ndarray,
    past: np.ndarray | None = None,
) -> np.ndarray:
    """Find the times by which given shares of people like each row have had the event.

    Parameters
    ----------
    eta : (n, Q) array
        Linear predictors in each interval of time in which effects are constant.
    codes : (n,) int array
        Strata.
    probabilities : (m,) array
        Shares, between 0 and 1.
    last_seen : (strata,) array
        The last time at which anyone of a stratum was under observation.
    past : (n,) array, optional
        Cumulative hazards that people have already survived.

    Returns
    -------
    (n, m) array
        NaN where a curve ends before the share is reached.
    """
    stratum, time = baseline.steps()[:2]
    out = np.full((len(eta), len(probabilities)), np.nan)
    for s in np.unique(codes):
        at, rows = np.unique(time[stratum == s]), np.flatnonzero(codes == s)
        for block in np.array_split(rows, 1 + len(rows) * len(at) // MAX_ENTRIES):
            with np.errstate(over="ignore"):
                hazard = np.exp(baseline.log_cumulative_of(eta[block], codes[block], at))
            if past is not None:
                with np.errstate(invalid="ignore"):  # beyond all survival
                    hazard = np.maximum(hazard - past[block, None], 0.0)
            for k, p in enumerate(probabilities):
                out[block, k] = first_crossings(at, np.exp(-hazard), 1.0 - p, last_seen[s])
    return out


def hazards_before(
    baseline: Baseline, eta: np.ndarray, codes: np.ndarray, after: object, last_seen: np.ndarray
) -> np.ndarray:
    """Compute the cumulative hazard of each row up to a time, (n,); NaN beyond observation.

    Parameters
    ----------
    eta : (n, Q) array
    codes : (n,) int array
        Strata.
    after : number or (n,) array
    last_seen : (strata,) array
    """
    n = len(eta)
    t = np.full(n, float(after)) if isinstance(after, Real) else check_vector(after, n, "after")
    with np.errstate(over="ignore"):
        H = np.exp(baseline.log_cumulative_at(eta, codes, t))
    return np.where(t > last_seen[codes], np.nan, H)


def quantile_limits(
    table: pd.DataFrame, codes: np.ndarray, probabilities: np.ndarray, last_seen: np.ndarray
) -> TimeQuantile:
    """Find quantiles of times and their limits, where the limits of the curves reach them.

    Parameters
    ----------
    table : DataFrame
        Curves row by row: ``row``, ``time``, ``survival``, ``lower``, ``upper``.
    codes : (n,) int array
        Strata.
    probabilities : (m,) array
    last_seen : (strata,) array

    Returns
    -------
    TimeQuantile of (n, m) arrays
        A lower limit that is never reached is the last time at which anyone of the stratum was
        under observation, and such an upper limit is infinite.
    """
    n, stratum_of_line = len(codes), codes[table["row"].to_numpy()]
    out = TimeQuantile(*(np.full((n, len(probabilities)), x) for x in (np.nan, np.nan, np.inf)))
    out.lower[:] = last_seen[codes][:, None]
    for s in np.unique(stratum_of_line):
        rows = np.flatnonzero(codes == s)
        part = table[stratum_of_line == s]
        at = part["time"].to_numpy()[: len(part) // len(rows)]
        for x, name in zip(out, ("survival", "lower", "upper"), strict=True):
            # Limits are undefined where S is zero or one; zero is at or below all shares.
            S = part["survival"].to_numpy()
            curve = np.where((S <= 0) & (name != "upper"), 0.0, part[name].to_numpy())
            for k, p in enumerate(probabilities):
                curves = curve.reshape(len(rows), -1)
                found = first_crossings(at, curves, 1.0 - p, last_seen[s])
                known = np.isfinite(found)
                x[rows[known], k] = found[known]
    return out


@overload
def predict_quantile(
    model: Any,
    X: MatrixLike,
    q: ArrayLike = 0.5,
    *,
    level: None = None,
    strata: LabelsLike | None = None,
    offset: VectorLike | None = None,
    after: ArrayLike | None = None,
) -> np.ndarray: ...
@overload
def predict_quantile(
    model: Any,
    X: MatrixLike,
    q: ArrayLike = 0.5,
    *,
    level: float,
    strata: LabelsLike | None = None,
    offset: VectorLike | None = None,
    kind: Kind | None = None,
) -> TimeQuantile: ...


def predict_quantile(
    model: ProportionalHazardsModel,
    X: MatrixLike,
    q: ArrayLike = 0.5,
    *,
    level: float | None = None,
    strata: LabelsLike | None = None,
    offset: VectorLike | None = None,
    after: ArrayLike | None = None,
    kind: Kind | None = None,
) -> np.ndarray | TimeQuantile:
    """Predict the time by which a share q has had the event; by default the median.

    This is the first event time at which the event's probability is q or more, as in R's
    ``quantile(survfit(fit, newdata, conf.type="log-log"))``.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        Covariates, with the columns of the fit.
    q : number or (m,) array
        Between 0 and 1.
    level : float, optional
        Confidence level of intervals, whose ends are the times at which the limits of the
        curve reach q, with errors of the kind ``kind``.
    strata : (n,) labels, optional
        Required if the model was fitted with strata.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.
    after : number or (n,) array, optional
        For Cox models and without ``level``: time that each person has already lived. The
        quantile is then that of the time of the event given survival to ``after``, counted
        from time 0.
    kind : {"model", "robust"}, optional
        With ``level``: the kind of errors of the curves, by default as in
        `CoxRegression.curves.survival`. In Fine–Gray models they are always robust.

    Returns
    -------
    (n, m) array, or (n,) for a single q
        NaN if the curve ends before q is reached. With ``level`` a named tuple of such
        arrays: ``estimate``, ``lower``, ``upper``. If the curve's lower limit never reaches
        q, the quantile's lower limit is the last time at which anyone of the row's stratum
        was under observation; if the upper limit never does, its upper limit is infinite.

    Raises
    ------
    DataError
        If q is not between 0 and 1, a stratum is unknown, or ``after`` does not apply.

    References
    ----------
    Brookmeyer and Crowley (1982), Biometrics 38:29–41.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> model = steropes.CoxRegression().fit([[0.0], [1.0], [0.0], [0.0], [1.0]], y)
    >>> model.curves.quantile([[0.0], [1.0]], 0.25).tolist()
    [3.0, 3.0]
    """
    check_is_fitted(model)
    refuse_other_order(X, strata=strata)
    points = check_vector(np.atleast_1d(q), None, "q")
    if not ((points > 0) & (points < 1)).all():
        raise DataError("q must be between 0 and 1.")
    eta = model._linear_predictors(X, offset)
    codes = model._stratum_codes(X, strata, len(eta))
    single = np.ndim(q) == 0
    if after is not None and (level is not None or not model._survival_is_conditional):
        raise DataError(
            "after= is for quantiles of Cox models without limits: competing events or the "
            "limits of conditional curves are not available."
        )
    if kind is not None and (level is None or not model._survival_is_conditional):
        raise DataError("kind= goes with level=, and with Cox models only.")
    if level is None:
        baseline, past = model._baseline(), None
        if after is not None:
            past = hazards_before(baseline, eta, codes, after, model._last_seen)
        times = quantile_times(baseline, eta, codes, points, model._last_seen, past)
        return times[:, 0] if single else times
    table = _survival_table(model, X, level, strata, offset, kind)
    limits = quantile_limits(table, codes, points, model._last_seen)
    found = TimeQuantile(*(x[:, 0] for x in limits)) if single else limits
    return found.with_errors(table.attrs["errors"])


def _survival_table(
    model: ProportionalHazardsModel,
    X: MatrixLike,
    level: float,
    strata: LabelsLike | None,
    offset: VectorLike | None,
    kind: Kind | None,
) -> pd.DataFrame:
    """Compute the probability of no event at all event times, with its limits."""
    if model._survival_is_conditional:
        return survival(model, X, None, level, strata, offset, kind)
    table = incidence(model, X, None, level, strata, offset)
    free = 1.0 - table[["incidence", "upper", "lower"]]
    free.columns = pd.Index(["survival", "lower", "upper"])
    return name_errors(pd.concat([table[["row", "time"]], free], axis=1), table.attrs["errors"])
