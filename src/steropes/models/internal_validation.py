"""Internal validation of a fitted model: measures of performance corrected for optimism."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.special import expit

from ..data.input_types import LabelsLike
from ..data.survival_outcome import Surv, SurvivalOutcome
from ..design import null_design
from ..errors import DataError
from ..fit import Problem
from ..infer.bootstrap_draws import Draws, sampling_units
from ..infer.independent_row_scores import outcome_and_predictor
from ..likelihoods import CoxLikelihood
from ..select.folds import random_generator
from ..solve.linear_predictor import linear_predictor
from .calibration_curves import CalibrationCurve, calibration_frame
from .performance import ValidationData, performance
from .resampling import Resampling
from .setting_types import Seed

__all__ = ["InternalValidation"]


class InternalValidation(Resampling):
    """Measures of performance with a correction for optimism by the bootstrap."""

    # Family of the measures of performance; None if there are none.
    _performance_family: ClassVar[str | None] = None

    def validate(
        self,
        n: int = 200,
        cluster: LabelsLike | None = None,
        reselect: bool | None = None,
        random_state: Seed = None,
    ) -> pd.DataFrame:
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
            too small. Default whether the model was fitted with ``cv``.
        random_state : int, Generator or None
            Seed of the draws.

        Returns
        -------
        DataFrame
            Indexed by measure; columns ``apparent``, ``training`` and ``test`` (means over
            draws), ``optimism``, ``corrected`` and ``draws`` (the number of draws that determine
            the measure). Measures are ``auc`` or ``concordance``; ``r2``, Nagelkerke's, or the
            explained variance in linear models; ``intercept`` and ``slope`` of the outcome on the
            linear predictor, the calibration; ``brier`` or ``mse``. As R's ``rms::validate``.

        Raises
        ------
        DataError
            For models other than linear, logistic, Poisson and Cox models with constant effects.

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
        >>> table = steropes.LogisticRegression().fit(X, y).validate(20, random_state=1)
        >>> bool(table.loc["auc", "corrected"] < table.loc["auc", "apparent"])
        True
        >>> bool(table.loc["slope", "corrected"] < 1)
        True
        """
        problem = self._require_replicable("a validation")
        data = self._validation_data(problem)
        apparent = performance(data, self._rows_predictor(problem, self._beta), problem.weights)
        training, test = [], []
        for drawn, eta in self._drawn_predictors(problem, n, cluster, reselect, random_state):
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
        return pd.DataFrame.from_dict(lines, orient="index", columns=columns)

    def calibration_curve(
        self,
        time: float | None = None,
        n: int = 200,
        *,
        points: int = 50,
        cluster: LabelsLike | None = None,
        reselect: bool | None = None,
        random_state: Seed = None,
    ) -> pd.DataFrame:
        """Compute observed risks as a smooth function of predicted risks, corrected for optimism.

        The outcome is fitted to a restricted cubic spline (three knots) of the linear predictor,
        by logistic or Cox regression. Bootstrap draws, as in `validate`, show by how much the
        errors of calibration are smaller in the data of the fit than in new data.

        Parameters
        ----------
        time : float, optional
            Time by which a Cox model predicts the event; required for these.
        n : int
            Number of draws, default 200.
        points : int
            Number of predicted risks, between the 5th and the 95th percentile. Default 50.
        cluster : (n,) labels, optional
            Rows that are drawn together.
        reselect : bool, optional
            As in `validate`.
        random_state : int, Generator or None
            Seed of the draws.

        Returns
        -------
        DataFrame
            ``predicted``, ``apparent`` (the observed risk), ``optimism`` and ``corrected``, as R's
            ``rms::calibrate``. A model is calibrated where the observed risk equals the predicted
            one.

        Raises
        ------
        DataError
            For models other than logistic and Cox models without strata and offset, or if
            ``time`` is missing.

        See Also
        --------
        calibration_table : Compare risks in groups, without a curve.

        References
        ----------
        Harrell (2015), Regression Modeling Strategies, 2nd ed., §5.3.3. Austin, Harrell and van
        Klaveren (2020), Statistics in Medicine 39:2714–2742.

        Examples
        --------
        >>> import numpy as np
        >>> import steropes
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((200, 3))
        >>> y = (rng.random(200) < 1 / (1 + np.exp(-X[:, 0]))) * 1
        >>> model = steropes.LogisticRegression().fit(X, y)
        >>> model.calibration_curve(n=10, random_state=1).columns.tolist()
        ['predicted', 'apparent', 'optimism', 'corrected']
        """
        problem = self._require_replicable("a calibration curve")
        data = self._validation_data(problem)
        survival = data.family == "cox"
        if data.family not in ("logistic", "cox") or data.strata is not None:
            raise DataError("Calibration curves are of logistic, and Cox models without strata.")
        if problem.offset is not None:
            raise DataError("Calibration curves are of models without offset.")
        if survival != (time is not None):
            raise DataError("time is required for Cox models and only allowed for them.")
        if not (isinstance(points, int | np.integer) and points >= 2):
            raise DataError(f"points must be a whole number from 2, not {points!r}.")
        curve = CalibrationCurve(data, None if time is None else float(time))
        whole, weight = self._rows_predictor(problem, self._beta), problem.weights
        ends = np.quantile(whole[weight > 0], [0.05, 0.95])
        if not ends[0] < ends[1]:
            raise DataError("All predicted risks are equal, so that there is no curve.")
        log_hazard = 0.0 if time is None else self._log_hazard(data, whole, weight, float(time))
        low, high = _risk(ends + log_hazard, survival)
        predicted = np.linspace(low, high, int(points))
        grid = _predictor(predicted, survival) - log_hazard
        apparent = curve.observed(whole, weight, grid)
        gaps = []
        for drawn, eta in self._drawn_predictors(problem, n, cluster, reselect, random_state):
            # In each draw, the error of calibration at the same predicted risks.
            own = 0.0 if time is None else self._log_hazard(data, eta, drawn, float(time))
            at = _predictor(predicted, survival) - own
            gaps.append(curve.observed(eta, drawn, at) - curve.observed(eta, weight, at))
        return calibration_frame(predicted, apparent, gaps)

    def _drawn_predictors(
        self,
        problem: Problem,
        n: int,
        cluster: LabelsLike | None,
        reselect: bool | None,
        random_state: Seed,
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the row weights and the linear predictors of each draw with a finite fit."""
        reselect = self.cv is not None if reselect is None else reselect
        # The draws of `bootstrap` are computed again from the same seeds.
        seed = int(random_generator(random_state).integers(2**63))
        fits = self.bootstrap(n, cluster, reselect, random_state=seed)
        unit, _ = sampling_units(problem, self._cluster_codes(cluster, problem))
        draws = Draws(problem.weights, unit, int(n), random_generator(seed))
        for k in np.flatnonzero(np.isfinite(fits.coef).all(axis=1)):
            beta = self._solver_coefficients(problem, fits.coef[k])
            yield draws.one(int(k)), self._rows_predictor(problem, beta)

    @staticmethod
    def _log_hazard(
        data: ValidationData, eta: np.ndarray, weight: np.ndarray, time: float
    ) -> float:
        """Estimate the log baseline cumulative hazard by a time, for given linear predictors."""
        model: Any = data.empty
        outcome = Surv(*data.y)
        fit = model.fit(null_design(len(eta)), outcome, sample_weight=weight, offset=eta)
        survival = float(fit.predict_survival(np.zeros((1, 0)), [time])[0, 0])
        if not 0 < survival < 1:
            raise DataError(f"The survival at time {time:g} is not between 0 and 1.")
        return float(np.log(-np.log(survival)))

    def _validation_data(self, problem: Problem) -> ValidationData:
        """Return the outcome of the fit; refuse families without measures of performance."""
        family = self._performance_family
        if family is None or getattr(self, "_effects", None) is not None:
            raise DataError(
                "Measures of performance are available for linear, logistic, Poisson and Cox "
                f"models with constant effects, not for this {type(self).__name__}. Use "
                "scikit-learn's cross_val_score for its score."
            )
        empty = self._without_prior()
        likelihood = problem.likelihood
        if not isinstance(likelihood, CoxLikelihood):
            return ValidationData(family, empty, outcome_and_predictor(problem, self._beta)[0])
        time, event, entry = likelihood.outcome()
        strata = np.zeros(len(time), np.int64)
        strata[likelihood.row_of_x] = likelihood.stratum
        outcome = SurvivalOutcome(time, (event == 1).astype(np.int64), entry)
        return ValidationData(family, empty, outcome, strata if strata.any() else None)

    def _without_prior(self) -> Any:
        """Return an estimator of the same kind without prior, for recalibration."""
        kept = {k: v for k, v in self.get_params(deep=False).items() if k in ("ties", "n_jobs")}
        return type(self)(**kept)

    @staticmethod
    def _solver_coefficients(problem: Problem, coef: np.ndarray) -> np.ndarray:
        """Convert coefficients with the intercept at X = 0 to the solver's parametrisation."""
        if not problem.n_free:
            return coef
        return 2.0 * coef - problem.design.uncentered_coefficients(coef)  # the inverse

    @staticmethod
    def _rows_predictor(problem: Problem, beta: np.ndarray) -> np.ndarray:
        """Compute η with intercept and offset, (n,) in the rows of X, up to a constant of η."""
        likelihood = problem.likelihood
        eta = likelihood.backend.to_host(linear_predictor(problem, beta * problem.design.scale))
        out = np.empty(len(eta))
        out[likelihood.row_of_x] = eta[:, 0]
        return out


def _risk(eta: np.ndarray, survival: bool) -> np.ndarray:
    """Compute risks: by the complementary log-log link for survival, otherwise by the logit."""
    if survival:
        with np.errstate(over="ignore"):  # the risk is then one
            return np.asarray(-np.expm1(-np.exp(eta)))
    return np.asarray(expit(eta))


def _predictor(risk: np.ndarray, survival: bool) -> np.ndarray:
    """Compute the linear predictors of risks, the inverse of `_risk`."""
    if survival:
        return np.asarray(np.log(-np.log1p(-risk)))
    return np.asarray(np.log(risk) - np.log1p(-risk))
