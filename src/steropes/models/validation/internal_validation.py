"""Internal validation of a fitted model: measures of performance corrected for optimism."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd

from ...data.input_types import LabelsLike
from ...data.plottable_result_tables import ResultTable, present
from ...data.vector_checks import check_vector
from ...data.weighted_quantiles import weighted_quantiles
from ...errors import DataError
from ...fit import Problem
from ...infer.bootstrap_draws import Draws, sampling_units
from ...infer.multinomial_performance import log_odds_of_class
from ...select.folds import random_generator
from ..families.family import Family, ValidationData
from ..families.performance_measures import performance
from ..families.response_families import LOGISTIC
from ..fitting.fit_steps import Estimator
from ..fitting.progress_messages import Progress, shown_shares
from ..fitting.setting_types import Seed
from ..inference.estimator_bootstrap import bootstrap
from .calibration_curves import CalibrationCurve, calibration_frame

__all__ = ["calibration_curve", "refuse_without_measures", "validate"]


# Name of the default task of models with cv; its progress is shown because it takes long.
REPEATED = "cross-validations of the draws (reselect=False leaves them out)"


def validate(
    model: Estimator,
    n: int = 200,
    cluster: LabelsLike | None = None,
    reselect: bool | None = None,
    random_state: Seed = None,
) -> ResultTable:
    """Measure the performance in the data of the fit, corrected for optimism.

    Each bootstrap draw is fitted, and evaluated in the draw (training) and in the data of the
    fit (test). The mean difference estimates how much the apparent performance exceeds that
    in new people of the same kind.

    Parameters
    ----------
    n : int
        Number of draws, default 200.
    cluster : (n,) labels, optional
        Rows that are drawn together, such as those of one person or practice.
    reselect : bool, optional
        Whether each draw chooses the prior's variance again, without which the correction is
        too small. Default whether the model was fitted with ``cv``; progress is then shown on
        standard error. With ``reselect=False`` all draws have the variance of the fit, which
        took a sixth of the time for a ten-fold lasso (500 rows and 30 columns: 5 instead of
        29 seconds of processor time for 200 draws; 2,000 rows and 100 columns: 5 instead
        of 36).
    random_state : int, Generator or None
        Seed of the draws.

    Returns
    -------
    DataFrame
        Indexed by measure; columns ``apparent``, ``training`` and ``test`` (means over
        draws), ``optimism``, ``corrected`` and ``draws`` (the number of draws that determine
        the measure). Measures are ``auc`` (in multinomial models the mean over classes, each
        against all others), or ``concordance`` and, in cumulative models,
        ``spearman``, the rank correlation of outcome and predictor; ``r2``, Nagelkerke's, or
        the explained variance in linear models (deviance in gamma models), relative to a model
        of intercept and offset; ``intercept`` and ``slope`` of the outcome on the linear
        predictor less the offset, the calibration (in multinomial models a common slope of
        all classes); ``brier`` or ``mse``; in multinomial models ``log_loss``. As R's
        ``rms::validate``. The contribution of fixed coefficients belongs to the offset.

    Raises
    ------
    DataError
        For models with effects that change with time, and models whose linear predictors are
        compared within strata only (matched sets, case series).

    See Also
    --------
    validate_by_group : Leave out one site or year at a time.

    References
    ----------
    Harrell, Lee and Mark (1996), Statistics in Medicine 15:361–387. Efron and Tibshirani
    (1993), An Introduction to the Bootstrap, §17.6.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 5))
    >>> y = (rng.random(100) < 1 / (1 + np.exp(-X[:, 0]))) * 1
    >>> table = steropes.LogisticRegression().fit(X, y).validation.validate(20, random_state=1)
    >>> bool(table.loc["auc", "corrected"] < table.loc["auc", "apparent"])
    True
    >>> bool(table.loc["slope", "corrected"] < 1)
    True
    """
    problem = model._require_replicable("a validation")
    data = validation_data(model, problem)
    eta = model._family.predictors_of_fit(problem, model._beta)
    apparent = performance(data, eta, problem.weights)
    training, test = [], []
    for drawn, eta in _drawn_predictors(model, problem, n, cluster, reselect, random_state):
        training.append(performance(data, eta, drawn))
        test.append(performance(data, eta, problem.weights))
    lines = {}
    for name, value in apparent.items():
        pairs = np.array([(a[name], b[name]) for a, b in zip(training, test, strict=True)])
        pairs = pairs.reshape(-1, 2)
        pairs = pairs[np.isfinite(pairs).all(axis=1)]
        within, beyond = pairs.mean(axis=0) if len(pairs) else (np.nan, np.nan)
        gap = within - beyond
        lines[name] = (value, within, beyond, gap, value - gap, len(pairs))
    columns = ["apparent", "training", "test", "optimism", "corrected", "draws"]
    table = pd.DataFrame.from_dict(lines, orient="index", columns=columns)
    return present(table, "performance", hidden=["training", "test"])


def calibration_curve(
    model: Estimator,
    time: float | None = None,
    n: int = 200,
    *,
    value: object = None,
    points: int = 50,
    cluster: LabelsLike | None = None,
    reselect: bool | None = None,
    random_state: Seed = None,
) -> ResultTable:
    """Compute observed as a smooth function of predicted risks or means.

    The outcome is fitted to a restricted cubic spline (three knots) of the linear predictor by
    an unpenalised model of the same family. Bootstrap draws, as in `Validation.validate`, show by
    how much the errors of calibration are smaller in the data of the fit than in new data.

    Parameters
    ----------
    time : float, optional
        Time by which a Cox or Fine–Gray model predicts the event; required for these.
    n : int
        Number of draws, default 200.
    value : float or label, optional
        For cumulative models, the value (or the ordered category) of which P(Y > value) is
        predicted, and for multinomial models the class; required for these. Observed risks
        are then those of a logistic regression of Y > value, or of the class against all
        others.
    points : int
        Number of predictions, between the 5th and the 95th percentile. Default 50.
    cluster : (n,) labels, optional
        Rows that are drawn together.
    reselect : bool, optional
        As in `Validation.validate`, with the same cost.
    random_state : int, Generator or None
        Seed of the draws.

    Returns
    -------
    DataFrame
        ``predicted``, ``apparent`` (the observed risk or, of numbers and counts, the mean),
        ``optimism`` and ``corrected``, as R's ``rms::calibrate``. A model is calibrated where
        observed and predicted numbers are equal.

    Raises
    ------
    DataError
        For families as in `Validation.validate`, models with strata, offset or exposure, or if
        ``time`` or ``value`` is missing.

    See Also
    --------
    calibration_table : Compare risks in groups, without a curve.

    References
    ----------
    Harrell (2015), Regression Modeling Strategies, 2nd ed., §5.3.3. Austin, Harrell and van
    Klaveren (2020), Statistics in Medicine 39:2714–2742. Austin, Putter, Giardiello and van
    Klaveren (2022), Diagnostic and Prognostic Research 6:2 (Fine–Gray models).

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> y = (rng.random(200) < 1 / (1 + np.exp(-X[:, 0]))) * 1
    >>> model = steropes.LogisticRegression().fit(X, y)
    >>> model.validation.calibration_curve(n=10, random_state=1).columns.tolist()
    ['predicted', 'apparent', 'optimism', 'corrected']
    """
    problem = model._require_replicable("a calibration curve")
    data = validation_data(model, problem)
    _refuse_curve(problem, data, time, value, points)
    at, k = None, -1  # the class of a multinomial model
    if time is not None:
        at = float(check_vector(np.atleast_1d(time), 1, "time")[0])
    elif value is not None and data.family.exceeds_values:
        at = model._code_of_value(value)
    elif value is not None:
        k = int(model._code_of_value(value))
        data = ValidationData(LOGISTIC, model._binary_model(), (data.y == k) * 1.0)

    def predictor(eta: np.ndarray) -> np.ndarray:
        return eta if k < 0 else log_odds_of_class(eta, k)

    curve = CalibrationCurve(data, at, model._binary_model())
    whole = predictor(model._family.predictors_of_fit(problem, model._beta))
    weight = problem.weights
    ends = weighted_quantiles(whole, weight, [0.05, 0.95])
    if not ends[0] < ends[1]:
        raise DataError("All predictions are equal, so that there is no curve.")
    shift = curve.shift(whole, weight)
    if np.isnan(shift):
        event, choice = (
            (f"of an event by time {time:g}", "time") if data.family.has_times
            else (f"of values above {value!r}", "value")
        )  # fmt: skip
        raise DataError(
            f"The risk {event} is 0 or 1 for everybody, so that there is no curve. Choose a "
            f"{choice} with people on both sides."
        )
    low, high = curve.link.mean(ends + shift)
    if not np.isfinite(curve.link.predictor(np.array([low, high]))).all():
        raise DataError(
            "Predicted risks are 0 or 1 up to rounding, as of separated outcomes, so that "
            "there is no curve. Use a prior with a smaller variance."
        )
    predicted = np.linspace(low, high, int(points))
    grid = curve.link.predictor(predicted)
    apparent = curve.observed(whole, weight, grid - shift)
    gaps = []
    for drawn, eta in _drawn_predictors(model, problem, n, cluster, reselect, random_state):
        eta = predictor(eta)
        # In each draw, the error of calibration at the same predictions.
        own = grid - curve.shift(eta, drawn)
        if np.isnan(own).any():
            continue  # The draw has a risk of 0 or 1.
        gaps.append(curve.observed(eta, drawn, own) - curve.observed(eta, weight, own))
    return present(calibration_frame(predicted, apparent, gaps), "calibration")


def _drawn_predictors(
    model: Estimator,
    problem: Problem,
    n: int,
    cluster: LabelsLike | None,
    reselect: bool | None,
    random_state: Seed,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the row weights and the linear predictors of each draw with a finite fit."""
    # No one asked for the cross-validations of the default, which take most of the time.
    unasked = reselect is None and model.cv is not None
    show = unasked and not model.verbose
    reselect = unasked or bool(reselect)
    # The draws of `Inference.bootstrap` are computed again from the same seeds.
    seed = int(random_generator(random_state).integers(2**63))
    with shown_shares(REPEATED) if show else nullcontext():
        fits = bootstrap(model, n, cluster, reselect, random_state=seed)
    unit, _ = sampling_units(problem, model._cluster_codes(cluster, problem))
    draws = Draws(problem.weights, unit, int(n), random_generator(seed))
    with Progress(model.verbose or unasked) as progress:
        for k in np.flatnonzero(np.isfinite(fits.coef).all(axis=1)):
            beta = _solver_coefficients(problem, fits.coef[k])
            yield draws.one(int(k)), model._family.predictors_of_fit(problem, beta)
            progress.report("measures of the draws", (int(k) + 1) / len(fits.coef))


def validation_data(model: Estimator, problem: Problem) -> ValidationData:
    """Return the outcome of the fit; refuse families without measures of performance."""
    refuse_without_measures(model)
    y, strata = model._family.outcome_of_fit(problem)
    offset = model._family.offset_of_rows(problem)
    return ValidationData(model._family, without_prior(model), y, strata, offset)


def without_prior(model: Estimator) -> Any:
    """Return an estimator of the same kind without prior, for recalibration."""
    known = model.get_params(deep=False)
    kept = {name: known[name] for name in model._family.outcome_settings if name in known}
    estimator: type[Any] = type(model)  # each class declares its own parameters
    return estimator(n_jobs=model.n_jobs, **kept)


def _solver_coefficients(problem: Problem, coef: np.ndarray) -> np.ndarray:
    """Convert coefficients with the intercept at X = 0 to the solver's parametrisation."""
    if not problem.n_free:
        return coef
    return 2.0 * coef - problem.design.uncentered_coefficients(coef)  # the inverse


def refuse_without_measures(model: object) -> None:
    """Refuse a model of a family without measures of performance, or with changing effects."""
    family = getattr(model, "_family", None)
    changing = getattr(model, "_effects", None) is not None or getattr(model, "time_varying", None)
    if (
        not isinstance(family, Family)
        or not family.has_measures
        or (changing and not family.measures_changing_effects)
    ):
        raise DataError(
            "Measures of performance are available for generalised linear, multinomial, Cox, "
            "Fine–Gray and cumulative models with constant effects, not for this "
            f"{type(model).__name__}. Use scikit-learn's cross_val_score for its score."
        )


def _refuse_curve(
    problem: Problem, data: ValidationData, time: float | None, value: object, points: int
) -> None:
    """Refuse a calibration curve of a model without one, or with arguments of other models."""
    if data.strata is not None:
        raise DataError("Calibration curves are of models without strata.")
    if problem.offset is not None:
        raise DataError("Calibration curves are of models without offset or exposure.")
    if data.family.has_times != (time is not None):
        raise DataError("time is required for survival models and only allowed for them.")
    if data.family.has_values != (value is not None):
        raise DataError(
            "value is required for cumulative and multinomial models and only allowed for them."
        )
    if not (isinstance(points, int | np.integer) and points >= 2):
        raise DataError(f"points must be a whole number from 2, not {points!r}.")
