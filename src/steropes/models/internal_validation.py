"""Internal validation of a fitted model: measures of performance corrected for optimism."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ..data.input_types import LabelsLike
from ..data.survival_outcome import SurvivalOutcome
from ..errors import DataError
from ..fit import Problem
from ..infer.bootstrap_draws import Draws, sampling_units
from ..infer.independent_row_scores import outcome_and_predictor
from ..likelihoods import CoxLikelihood
from ..select.folds import random_generator
from ..solve.linear_predictor import linear_predictor
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
        reselect = self.cv is not None if reselect is None else reselect
        # The draws of `bootstrap` are computed again from the same seeds.
        seed = int(random_generator(random_state).integers(2**63))
        fits = self.bootstrap(n, cluster, reselect, random_state=seed)
        unit, _ = sampling_units(problem, self._cluster_codes(cluster, problem))
        draws = Draws(problem.weights, unit, int(n), random_generator(seed))
        apparent = performance(data, self._rows_predictor(problem, self._beta), problem.weights)
        training, test = [], []
        for k in np.flatnonzero(np.isfinite(fits.coef).all(axis=1)):
            eta = self._rows_predictor(problem, self._solver_coefficients(problem, fits.coef[k]))
            training.append(performance(data, eta, draws.one(int(k))))
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
        model: Any = type(self)()
        if hasattr(self, "ties"):
            model.ties = self.ties
        return model.set_params(n_jobs=self.n_jobs)

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
