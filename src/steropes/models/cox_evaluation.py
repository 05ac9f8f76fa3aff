"""Concordance and AUC of a Cox model, and tests of proportional hazards."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..data import check_strata, check_survival, check_weights, refuse_other_order
from ..data.group_checks_and_counts import count_people
from ..data.input_types import LabelsLike, VectorLike
from ..errors import DataError
from ..infer.proportional_hazards_test import proportionality_test
from ..likelihoods import CoxLikelihood
from ..likelihoods.piecewise_cox_likelihood import cut_at
from .assumption_checks import AssumptionCheck, describe_changes
from .discrimination import auc_table, concordance_with_se, pair_weights, times_of_events
from .restricted_means_and_expected_events import CoxExpectations
from .setting_types import MatrixLike

__all__ = ["CoxEvaluation"]


class CoxEvaluation(CoxExpectations):
    """Measures of discrimination, and tests of proportional hazards."""

    # Defined by the estimator.
    _cuts: np.ndarray
    residuals: Any

    if TYPE_CHECKING:

        def _log_cumulative(
            self,
            X: MatrixLike,
            times: ArrayLike,
            strata: LabelsLike | None,
            offset: VectorLike | None,
        ) -> np.ndarray: ...
        def _known_times(self, times: np.ndarray) -> np.ndarray: ...

    @overload
    def concordance(
        self,
        X: MatrixLike,
        y: VectorLike,
        sample_weight: VectorLike | None = None,
        strata: LabelsLike | None = None,
        offset: VectorLike | None = None,
        return_se: Literal[False] = False,
        cluster: LabelsLike | None = None,
        *,
        ipcw: bool = False,
        tau: float | None = None,
    ) -> float: ...
    @overload
    def concordance(
        self,
        X: MatrixLike,
        y: VectorLike,
        sample_weight: VectorLike | None = None,
        strata: LabelsLike | None = None,
        offset: VectorLike | None = None,
        *,
        return_se: Literal[True],
        cluster: LabelsLike | None = None,
        ipcw: bool = False,
        tau: float | None = None,
    ) -> tuple[float, float]: ...
    def concordance(
        self,
        X: MatrixLike,
        y: VectorLike,
        sample_weight: VectorLike | None = None,
        strata: LabelsLike | None = None,
        offset: VectorLike | None = None,
        return_se: bool = False,
        cluster: LabelsLike | None = None,
        *,
        ipcw: bool = False,
        tau: float | None = None,
    ) -> float | tuple[float, float]:
        """Compute the share of comparable pairs that fail in the order of their risks (Harrell).

        Equal risks count one half. With entry times, two rows are compared at an event of one if
        the other is at risk at that time; with ``strata``, only within strata; with time-varying
        effects, by their risks at the time of the event. As R's ``survival::concordance``.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        y : structured array
            As in ``fit``.
        sample_weight : (n,) array, optional
            Nonnegative row weights. Default 1.
        strata : (n,) labels, optional
            Labels of strata. Default none.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.
        return_se : bool
            Whether to return the standard error too, from the infinitesimal jackknife with the
            weights of pairs as given, as in R's ``survival::concordance``.
        cluster : (n,) labels, optional
            With ``return_se``: rows that belong together, such as those of one person. Default
            those of ``cluster()`` in the formula, if X is a table of data.
        ipcw : bool
            Whether to compute Uno's concordance, which does not depend on the distribution of
            censoring: pairs are weighted by the inverse square of the probability of being
            uncensored just before the event, from the Kaplan–Meier curve of censoring in y (of
            each stratum). As R's ``survival::concordance(timewt="n/G2")``; not with entry times.
        tau : float, optional
            Only events before this time count; useful with ``ipcw`` if few have a long follow-up.

        Returns
        -------
        float, or a pair of floats with ``return_se``
            The concordance, 0.5 without discrimination and 1 at best, and its standard error.

        Raises
        ------
        DataError
            If y has no comparable pairs, or ``ipcw`` is combined with entry times.

        References
        ----------
        Harrell, Califf, Pryor, Lee and Rosati (1982), JAMA 247:2543–2546. Uno, Cai, Pencina,
        D'Agostino and Wei (2011), Statistics in Medicine 30:1105–1117.

        Examples
        --------
        >>> import steropes
        >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
        >>> X = [[0.0], [1.0], [0.0], [0.0], [1.0]]
        >>> steropes.CoxRegression().fit(X, y).concordance(X, y)
        0.5625
        """
        if return_se:
            cluster = self._formula_vector("cluster", X, cluster)
        refuse_other_order(X, sample_weight=sample_weight, strata=strata, cluster=cluster)
        eta = self._linear_predictors(X, offset)
        n = len(eta)
        outcome = check_survival(y, n)
        weight = check_weights(sample_weight, n)
        codes = check_strata(self._formula_vector("strata", X, strata), n)
        share = pair_weights(*outcome, codes, weight, ipcw, tau)
        if self._effects is None:
            time, event, entry = outcome
            rest = entry, codes, weight, return_se, cluster
            return concordance_with_se(eta[:, 0], time, event, *rest, share=share)
        row, interval, time, event, entry = cut_at(*outcome, self._cuts)
        code = interval if codes is None else interval + self._effects.Q * codes[row]
        pieces = entry, code, weight[row], return_se, cluster, row
        share = None if share is None else share[row]
        return concordance_with_se(eta[row, interval], time, event, *pieces, share)

    def time_dependent_auc(
        self,
        X: MatrixLike,
        y: VectorLike,
        times: ArrayLike | None = None,
        sample_weight: VectorLike | None = None,
        strata: LabelsLike | None = None,
        offset: VectorLike | None = None,
        level: float = 0.95,
    ) -> pd.DataFrame:
        """Compute the AUC for the event by each time against later events.

        To account for censoring, cases are weighted by the inverse probability of being
        uncensored, from the Kaplan–Meier curve of censoring in y.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        y : structured array
            As in ``fit``; without entry times.
        times : (T,) array, optional
            Times at which cases (events so far) are compared with later events. Default the
            distinct times of events in y, except the last time under observation and times after
            the last one of a stratum of the fit.
        sample_weight : (n,) array, optional
            Nonnegative row weights. Default 1.
        strata : (n,) labels, optional
            Required if the model was fitted with strata; risks include the baseline and are
            compared across strata.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.
        level : float
            Confidence level of the intervals, which are symmetric on the logit scale.

        Returns
        -------
        DataFrame
            Indexed by time; columns ``auc``, ``se``, ``lower``, ``upper``. Standard errors are
            from the infinitesimal jackknife, which accounts for the estimation of the censoring
            curve and not of the coefficients.

        Raises
        ------
        DataError
            If y has entry times, or a time precedes all events or follows all observation.

        See Also
        --------
        steropes.time_dependent_auc : The same for any score.

        References
        ----------
        Uno, Cai, Tian and Wei (2007), JASA 102:527–537. Hung and Chiang (2010), Can J Stat
        38:8–26.

        Examples
        --------
        >>> import steropes
        >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
        >>> X = [[0.2], [1.0], [0.1], [0.5], [0.9]]
        >>> table = steropes.CoxRegression().fit(X, y).time_dependent_auc(X, y, [3.5])
        >>> table["auc"].round(2).tolist()
        [0.83]
        """
        refuse_other_order(X, sample_weight=sample_weight, strata=strata)
        n = count_people(y)
        outcome, weight = check_survival(y, n), check_weights(sample_weight, n)
        if times is None:
            times = self._known_times(times_of_events(outcome, weight))
        plain = self._effects is None and self._strata_labels is None
        if plain and strata is None:
            eta = self._linear_predictors(X, offset)
            risk = np.broadcast_to(eta, (len(eta), np.size(times)))
        else:
            risk = self._log_cumulative(X, times, strata, offset)
        check_survival(y, len(risk))
        return auc_table(risk, outcome, weight, times, level)

    def test_proportionality(
        self, transform: str | Callable[[np.ndarray], np.ndarray] = "km"
    ) -> pd.DataFrame:
        """Test proportional hazards by score tests of effects β + θ g(t), singly and jointly.

        Parameters
        ----------
        transform : {"km", "identity", "log", "rank"} or callable
            g(t): one minus the Kaplan–Meier curve just before t (default), t, log t, the rank of
            t among all times, or a function of an array of times. The curve and the ranks count
            rows without their weights, as in R.

        Returns
        -------
        DataFrame
            One row for each coefficient and ``GLOBAL``; columns ``chisq``, ``df``, ``p``. A small
            p indicates that the hazard ratio changes with time. The numbers equal those of R's
            ``survival::cox.zph(fit, transform, terms=FALSE)``, version 3.0 or later. With a
            normal prior the effect of the shrinkage on the score is removed (Neyman's C(α)
            test), so that the numbers equal those of an unpenalised fit to first order.

        Raises
        ------
        DataError
            If the model has no covariates or a Laplace prior, or was unpickled without its data.

        See Also
        --------
        steropes.plots.schoenfeld_residuals : Draw an effect against time.

        References
        ----------
        Grambsch and Therneau (1994), Biometrika 81:515–526. Neyman (1959), Optimal asymptotic
        tests of composite statistical hypotheses, in Probability and Statistics (ed. Grenander).

        Examples
        --------
        >>> import numpy as np
        >>> import steropes
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((100, 2))
        >>> y = steropes.Surv(rng.exponential(np.exp(-X[:, 0])), np.ones(100, int))
        >>> table = steropes.CoxRegression().fit(X, y).test_proportionality()
        >>> table.index.tolist(), table.columns.tolist()
        (['x0', 'x1', 'GLOBAL'], ['chisq', 'df', 'p'])
        """
        problem = self._require_data("the test")
        if not problem.design.p:
            raise DataError("The model has no covariates, so there is no effect to test.")
        if self._has_sparse_prior():
            raise DataError(
                "Under a Laplace prior an estimate has no distribution that a test could go by, "
                "nor has it with limits; fit with prior=None or a Normal prior (on the columns "
                "that matter) to use it."
            )
        assert isinstance(problem.likelihood, CoxLikelihood)
        time, event, entry = problem.likelihood.outcome()
        names = self._coefficient_names()
        return proportionality_test(problem, self._beta, names, time, event, entry, transform)

    def check_assumptions(
        self, threshold: float = 0.05, transform: str | Callable[[np.ndarray], np.ndarray] = "km"
    ) -> AssumptionCheck:
        """Test proportional hazards and describe the result in words, with remedies.

        Parameters
        ----------
        threshold : float
            Coefficients with a smaller p-value are doubtful, default 0.05.
        transform : {"km", "identity", "log", "rank"} or callable
            As in `test_proportionality`.

        Returns
        -------
        AssumptionCheck
            ``table``, ``doubtful`` and ``advice``, which are printed.

        Raises
        ------
        DataError
            As `test_proportionality`, or if the threshold is not between 0 and 1.

        See Also
        --------
        CoxRegression.test_proportionality : The tests alone.

        References
        ----------
        Grambsch and Therneau (1994), Biometrika 81:515–526. Stensrud and Hernán (2020), JAMA
        323:1401–1402 (on what the tests mean).

        Examples
        --------
        >>> import numpy as np
        >>> import steropes
        >>> rng = np.random.default_rng(1)
        >>> x = rng.standard_normal(300)
        >>> time = np.where(x > 0, rng.exponential(1.0, 300), 0.5 + rng.exponential(0.5, 300))
        >>> model = steropes.CoxRegression().fit(x[:, None], steropes.Surv(time, [1] * 300))
        >>> model.check_assumptions().doubtful
        ['x0']
        """
        if not isinstance(threshold, Real) or not 0 < threshold < 1:
            raise DataError(f"threshold must be between 0 and 1, such as 0.05, not {threshold!r}.")
        tests = self.test_proportionality(transform)
        residuals = self.residuals("scaled_schoenfeld")
        return describe_changes(tests, residuals, float(threshold), self._remedy)

    def _remedy(self, name: str, middle: float) -> str:
        """Name the settings that let an effect change with time."""
        if self._effects is not None:
            return "Give time_varying more or other times for it."
        return (
            f"Estimate it in periods with time_varying={{{name!r}: [{middle:.3g}]}}, or, if it is "
            "a covariate of a few values and not the effect of interest, pass it as strata=."
        )
