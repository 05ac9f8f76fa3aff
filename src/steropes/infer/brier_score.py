"""The Brier score of predicted risks by a time, with weights for censoring.

With the risk p of event k by time t, and the Kaplan–Meier curve Ĝ of censoring,

    BS(t) = Σ w [ (δ − p)² I(T ≤ t, event) / Ĝ(T−) + p² I(T > t) / Ĝ(t) ] / Σ w,

where δ is 1 for event k and 0 for a competing one (Graf and others 1999; Gerds and Schumacher 2006;
Schoop and others 2011).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..data import check_weights, refuse_other_order
from ..data.aalen_johansen import aalen_johansen
from ..data.array_conversion import as_numbers
from ..data.group_checks_and_counts import count_people
from ..data.input_types import VectorLike
from ..data.kaplan_meier import product_limit
from ..data.plottable_result_tables import ResultTable, present
from ..data.survival_curve import KaplanMeier
from ..data.survival_outcome import SurvivalOutcome, check_survival
from ..data.vector_checks import check_vector
from ..errors import DataError
from .time_dependent_auc import CensoringWeights

__all__ = ["brier_score", "brier_table", "integrated_brier_score"]


def brier_score(
    predicted: ArrayLike,
    y: VectorLike,
    times: ArrayLike,
    *,
    cause: int = 1,
    sample_weight: VectorLike | None = None,
    train: VectorLike | None = None,
) -> ResultTable:
    """Compute the mean squared error of predicted risks by each time, allowing for censoring.

    Parameters
    ----------
    predicted : (n, T) array, (n,) for one time, or (n,) step functions
        Probabilities of the event by each time, such as ``1 - predict_survival(X, times)`` or
        ``predict_cumulative_incidence(X, times)``; or survival functions of each person, as from
        ``predict_survival_function`` here and in scikit-survival.
    y : (n,) structured array
        ``Surv(time, event)``, without entry times.
    times : (T,) array
        Times by which the event is predicted, before the end of observation.
    cause : int
        The event that is predicted, if there are competing events. Default 1.
    sample_weight : (n,) array, optional
        Nonnegative row weights. Default 1.
    train : (m,) structured array, optional
        Outcome from which the distribution of censoring is estimated, as scikit-survival's
        ``survival_train``. Default ``y``.

    Returns
    -------
    DataFrame
        Indexed by time; columns ``brier``, ``se``, ``null`` and ``scaled``. The standard error is
        from the infinitesimal jackknife and accounts for the estimation of the censoring curve,
        unless ``train`` is given. ``null`` is the score of the same risk for everyone, one minus
        the Kaplan–Meier curve of y (or the Aalen–Johansen incidence), and ``scaled`` is
        1 − brier / null, the index of prediction accuracy.

    Raises
    ------
    DataError
        A risk is not between 0 and 1, y has entry times, a time is beyond the observation or the
        domain of a step function, or step functions are not those of survival without competing
        events.

    See Also
    --------
    integrated_brier_score : Average over time.
    calibration_table : Compare predicted with observed risks.

    References
    ----------
    Graf, Schmoor, Sauerbrei and Schumacher (1999), Statistics in Medicine 18:2529–2545. Gerds and
    Schumacher (2006), Biometrical Journal 48:1029–1040. Schoop, Beyersmann, Schumacher and Binder
    (2011), Biometrical Journal 53:88–112. Kattan and Gerds (2018), Diagnostic and Prognostic
    Research 2:7 (index of prediction accuracy).

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> X = [[0.2], [1.0], [0.1], [0.5], [0.9]]
    >>> model = steropes.CoxRegression(prior=steropes.Normal()).fit(X, y)
    >>> times = [2.5, 3.5]
    >>> steropes.brier_score(1 - model.predict_survival(X, times), y, times).columns.tolist()
    ['brier', 'se', 'null', 'scaled']
    """
    table = brier_table(predicted, y, times, cause, sample_weight, train)
    return present(table, "interval_curves", column="brier", label="Brier score")


def brier_table(
    predicted: ArrayLike,
    y: VectorLike,
    times: ArrayLike,
    cause: int = 1,
    sample_weight: VectorLike | None = None,
    train: VectorLike | None = None,
    train_weight: np.ndarray | None = None,
) -> pd.DataFrame:
    """Compute the table of `brier_score`; the rows of ``train`` may have weights, too."""
    risk, outcome, at, weight, censoring = _read(
        predicted, y, times, sample_weight, train, train_weight
    )
    scores = [
        _score(risk[:, i], outcome, float(t), cause, weight, censoring) for i, t in enumerate(at)
    ]
    names = {"time": outcome.time, "event": outcome.event}
    plain = np.empty(len(weight), [(name, x.dtype) for name, x in names.items()])
    for name, x in names.items():
        plain[name] = x
    if not (outcome.event[weight > 0] == cause).any():
        raise DataError(f"y has no events of cause {cause}, so that there is nothing to predict.")
    marginal = aalen_johansen(plain, sample_weight=weight).at(at)[cause].to_numpy()
    null = np.array([
        _score(np.full(len(weight), marginal[i]), outcome, float(t), cause, weight, censoring)[0]
        for i, t in enumerate(at)
    ])  # fmt: skip
    brier, se = np.array(scores).reshape(-1, 2).T
    scaled = 1.0 - np.divide(brier, null, out=np.full_like(brier, np.nan), where=null > 0)
    table = {"brier": brier, "se": se, "null": null, "scaled": scaled}
    return pd.DataFrame(table, pd.Index(at, name="time"))


def integrated_brier_score(
    predicted: ArrayLike,
    y: VectorLike,
    times: ArrayLike,
    *,
    cause: int = 1,
    sample_weight: VectorLike | None = None,
    train: VectorLike | None = None,
) -> float:
    """Average the Brier score over time.

    Parameters
    ----------
    predicted : (n, T) array, or (n,) step functions
        Probabilities of the event by each time, or survival functions, as in `brier_score`.
    y : (n,) structured array
        ``Surv(time, event)``, without entry times.
    times : (T,) array
        Ascending times, at least two.
    cause : int
        The event that is predicted, if there are competing events. Default 1.
    sample_weight : (n,) array, optional
        Nonnegative row weights. Default 1.
    train : (m,) structured array, optional
        Outcome from which the distribution of censoring is estimated. Default ``y``.

    Returns
    -------
    float
        The integral of `brier_score` by the trapezoidal rule, divided by the length of the period
        from the first to the last time.

    Raises
    ------
    DataError
        If there are fewer than two times or they do not ascend, and as `brier_score`.

    References
    ----------
    Graf, Schmoor, Sauerbrei and Schumacher (1999), Statistics in Medicine 18:2529–2545.

    Examples
    --------
    >>> import numpy as np, steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 1, 1, 0])
    >>> float(steropes.integrated_brier_score(np.full((5, 2), 0.5), y, [2.5, 3.5]))
    0.25
    """
    at = check_vector(np.atleast_1d(times), None, "times")
    if len(at) < 2 or (np.diff(at) <= 0).any():
        raise DataError("times must be two or more ascending times.")
    table = brier_score(
        predicted, y, at, cause=cause, sample_weight=sample_weight, train=train
    )  # fmt: skip
    return float(np.trapezoid(table["brier"], at) / (at[-1] - at[0]))


class _Censoring(NamedTuple):
    """Ĝ(T−) of each row, Ĝ at any time, and the rows' influence on both unless Ĝ is given."""

    before: np.ndarray
    curve: KaplanMeier
    own: CensoringWeights | None


def _read(
    predicted: ArrayLike,
    y: VectorLike,
    times: ArrayLike,
    sample_weight: VectorLike | None,
    train: VectorLike | None,
    train_weight: np.ndarray | None,
) -> tuple[np.ndarray, SurvivalOutcome, np.ndarray, np.ndarray, _Censoring]:
    """Validate the arguments and estimate the censoring distribution."""
    refuse_other_order(predicted, "predicted", y=y, sample_weight=sample_weight)
    n = count_people(y)
    at = check_vector(np.atleast_1d(times), None, "times")
    outcome = check_survival(y, n, competing=True)
    functions = _step_functions(predicted)
    if functions is not None:
        risk = _risks_of_functions(functions, at, bool((outcome.event > 1).any()))
    else:
        risk = np.asarray(as_numbers(predicted, "predicted"), np.float64)
    risk = risk[:, None] if risk.ndim == 1 and len(at) == 1 else risk
    if risk.shape != (n, len(at)):
        raise DataError(
            f"predicted has shape {risk.shape}, but there are {n} people and {len(at)} times."
        )
    weight = check_weights(sample_weight, n)
    bad = ~((risk >= 0) & (risk <= 1)) & (weight > 0)[:, None]
    if bad.any():
        i, k = np.argwhere(bad)[0]
        raise DataError(
            f"predicted must be probabilities; row {i} is {risk[i, k]:g} at time {at[k]:g}."
        )
    risk = np.where(weight[:, None] > 0, risk, 0.0)
    if outcome.entry is not None:
        raise DataError("The Brier score is not defined with entry times; leave entry out.")
    used = weight > 0
    if (at >= outcome.time[used].max()).any():
        raise DataError(
            f"Nobody is observed beyond {at.max():g}; choose times before "
            f"{outcome.time[used].max():g}."
        )
    if train is None:
        own = CensoringWeights(outcome.time, outcome.event, weight)
        curve = product_limit(outcome.time, outcome.event, weights=weight, censoring=True)
        return risk, outcome, at, weight, _Censoring(own.before, curve, own)
    m = count_people(train)
    past = check_survival(train, m, competing=True)
    if past.entry is not None:
        raise DataError("The distribution of censoring is not defined with entry times.")
    curve = product_limit(past.time, past.event, weights=train_weight, censoring=True)
    counted = used & (outcome.event > 0) & (outcome.time <= at.max())
    before = np.ones(n)
    before[counted] = curve.at(outcome.time[counted], left=True)
    if not ((before[counted] > 0).all() and (curve.at(at) > 0).all()):
        raise DataError(
            f"In train nobody is observed beyond {past.time.max():g}; choose earlier times."
        )
    return risk, outcome, at, weight, _Censoring(before, curve, None)


def _step_functions(predicted: object) -> list[Callable[[np.ndarray], np.ndarray]] | None:
    """Return the functions in a one-dimensional sequence of them, or None if it has numbers."""
    if not isinstance(predicted, list | tuple | np.ndarray | pd.Series):
        return None
    one_dimensional = not isinstance(predicted, np.ndarray) or predicted.ndim == 1
    if not one_dimensional or not len(predicted):
        return None
    functions = [f for f in predicted if callable(f)]
    return functions if len(functions) == len(predicted) else None


def _risks_of_functions(
    functions: list[Callable[[np.ndarray], np.ndarray]], times: np.ndarray, competing: bool
) -> np.ndarray:
    """Compute one minus survival functions at some times, (n, T)."""
    if competing:
        raise DataError(
            "With competing events one minus survival is no risk of an event; pass the incidence "
            "at the times, such as predict_cumulative_incidence(X, times)."
        )
    if any(getattr(f, "before", 1.0) != 1.0 for f in functions):
        raise DataError(
            "predicted must be survival functions (predict_survival_function), not cumulative "
            "hazards."
        )
    risk = np.empty((len(functions), len(times)))
    for i, f in enumerate(functions):
        try:
            risk[i] = 1.0 - np.asarray(f(times), np.float64)
        except ValueError as error:
            raise DataError(f"The survival function of row {i} has no value: {error}") from error
    return risk


def _score(
    risk: np.ndarray,
    outcome: SurvivalOutcome,
    t: float,
    cause: int,
    weight: np.ndarray,
    censoring: _Censoring,
) -> tuple[float, float]:
    """Compute BS(t) and its standard error."""
    time, event = outcome.time, outcome.event
    case, control = (event > 0) & (time <= t), time > t
    total = weight.sum()
    error = np.where(case, ((event == cause) - risk) ** 2 / censoring.before, 0.0)
    error = np.where(control, risk**2 / censoring.curve.at([t])[0], error)
    score = float(weight @ error / total)
    influence = weight * (error - score) / total
    if censoring.own is not None:
        # Ĝ(t) is Ĝ just before the next time at which anyone leaves observation.
        at_case = np.where(case, weight * error / total, 0.0)
        at_case[np.where(control, time, np.inf).argmin()] += (
            weight[control] @ error[control] / total
        )
        influence = influence - censoring.own.derivative(at_case)
    return score, float(np.sqrt(influence @ influence))
