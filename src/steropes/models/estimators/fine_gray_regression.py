"""Fine–Gray regression for subdistribution hazard ratios with competing risks."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ...backends.backend_interface import Backend
from ...data import check_survival
from ...data.input_types import LabelsLike, VectorLike
from ...design_matrix import Design
from ...errors import DataError
from ...likelihoods import FineGrayLikelihood, Likelihood
from ...priors import Prior
from ..checks.check_accessors import FineGrayChecks
from ..curves.curve_accessors import FineGrayCurves
from ..families.survival_families import FINE_GRAY
from ..fitting.accessor_base_class import accessor
from ..fitting.proportional_hazards import ProportionalHazardsModel
from ..fitting.row_arguments import FitInputs, OutcomeRows
from ..fitting.setting_types import Chooser, Device, MatrixLike, Seed
from ..validation.validation_accessors import FineGrayValidation
from .fits_with_row_arguments import fit_with_strata
from .penalized_model import PenalizedModel

__all__ = ["FineGrayRegression"]


class FineGrayRegression(ProportionalHazardsModel, PenalizedModel):
    """Proportional subdistribution hazards of one cause, with a prior on the effects.

    exp(β) is the ratio of subdistribution hazards. It gives the direction and, on the
    complementary log-log scale, the size of a covariate's effect on the cumulative incidence of
    the cause, including effects through the competing causes. There is no intercept.

    Parameters
    ----------
    cause : int
        Code of the event of interest in ``y = Surv(time, event)``, default 1; 0 is censored and
        all other codes are competing events.
    prior : Prior, optional
        Prior on the coefficients, such as `Laplace`, `Normal` or `ElasticNet`. None (default) is
        maximum likelihood.
    cv : CrossValidation, InformationCriterion or int, optional
        Method that chooses the prior's variance. An integer is a number of folds, which are the
        same in every fit.
    solver : {"newton"}
        Proximal Newton method.
    tol : float
        Largest ``optimality_`` of a converged fit, default 1e-8.
    max_iter : int
        Maximum number of Newton steps, default 200.
    n_jobs : int, optional
        Number of threads, default all cores. Results do not depend on it.
    device : {"cpu", "cuda", "auto"}
        Where to compute; "auto" uses a GPU for large fits if there is one. Default "cpu".
    random_state : int, Generator or None
        Seed of the folds if ``cv`` has none. Without either, an integer ``cv`` uses the same folds
        in every fit and a `CrossValidation` draws new ones.
    verbose : int
        Whether to show progress on standard error (1) or not (0, default).
    formula : str, optional
        Outcome and covariates, such as ``"y ~ drug + age"``, with which ``fit`` takes a table of
        data in place of X and y; see `from_formula`.
    trusted : bool
        Whether to evaluate any Python in the formula, default no; see `from_formula`.

    Attributes
    ----------
    coef_ : (p,) array
        Log subdistribution hazard ratios.
    unique_times_ : (T,) array
        Distinct times of the event of interest in the fit.
    log_likelihood_ : float
        Log pseudo-likelihood at the coefficients, without the prior.
    prior_ : Prior or None
        Prior in use, with its variance.
    optimality_ : float
        Certificate: the largest violation of the optimality conditions over all columns, computed
        from X at the final coefficients; see `PenalizedModel`.
    converged_ : bool
        Whether ``optimality_`` is at or below ``tol``.
    n_iter_ : int
        Number of Newton steps.
    trace_ : DataFrame
        Progress of the fit, with a row for each step; see `PenalizedModel`.
    variance_ : float
        Variance of the prior that ``cv`` has chosen; only with ``cv``.
    cv_results_ : DataFrame
        Scores of the variances; only with ``cv``, see `PenalizedModel`.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : (p,) array of str
        Names of the columns; only if X had names.

    Raises
    ------
    SeparationError
        If the pseudo-likelihood is monotone in some unpenalised columns.

    See Also
    --------
    CoxRegression : Model of cause-specific hazards.
    aalen_johansen : Cumulative incidence without a model.
    PenalizedModel : Methods and attributes of all models.

    Notes
    -----
    In ``fit(X, y, strata=…)`` people with a competing event remain at risk with the weight
    G(t−) / G(T−), where G is the Kaplan–Meier estimate of the censoring distribution. It is
    estimated with the row weights, within each stratum, and in a cross-validation for each fold
    from the fold's own rows. At equal times events come before censorings, as in R's
    ``survival::finegray``; without such ties ``cmprsk::crr`` gives the same results. Tied events
    are handled by Breslow's method.

    With entry times, ``y = Surv(time, event, entry)``, people are at risk on (entry, time] and
    after a competing event with the weight G(t−)H(t−) / (G(T−)H(T−)), where H is the
    product-limit estimate of the distribution of entry in reversed time, as in R's
    ``survival::finegray``: at equal times events come first, then censorings, then entries. If
    no one is under observation at some time between a competing event and a later event of
    interest, the weight is infinite and the fit is refused; in folds and bootstrap draws the
    competing event leaves the risk sets instead.

    ``vcov(kind="robust")`` and ``summary(kind="robust")`` are the estimates of Fine and Gray
    (1999), which account for the estimation of G (and H), as printed by ``cmprsk::crr``.
    ``kind="model"`` (the default, as in all families) treats the weights as known and the
    pseudo-likelihood as a likelihood.

    References
    ----------
    Fine and Gray (1999), JASA 94:496–509. Kawaguchi, Shen, Suchard and Li (2020), JCGS
    30:685–693 (the two scans). Late entry: Geskus (2011), Biometrics 67:39–49, eq. 5, 6 and 11;
    Zhang, Zhang and Fine (2011), Statistics in Medicine 30:1933–1951.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([1, 2, 3, 4, 5, 6], [1, 2, 1, 0, 1, 2])
    >>> X = [[0.0], [1.0], [1.0], [0.0], [0.0], [1.0]]
    >>> m = steropes.FineGrayRegression().fit(X, y)
    >>> m.predict_cumulative_incidence(X, [2, 4]).shape
    (6, 2)
    """

    _cumulative_name = "cumulative_subdistribution_hazard"
    _survival_is_conditional = False
    curves = accessor(FineGrayCurves)
    checks = accessor(FineGrayChecks)
    validation = accessor(FineGrayValidation)

    fit = fit_with_strata
    _family = FINE_GRAY
    _residual_kinds = (
        "martingale", "score", "dfbeta", "dfbetas", "schoenfeld", "scaled_schoenfeld",
    )  # fmt: skip

    def __init__(
        self,
        *,
        cause: int = 1,
        prior: Prior | None = None,
        cv: Chooser | int | None = None,
        solver: Literal["newton"] = "newton",
        tol: float = 1e-8,
        max_iter: int = 200,
        n_jobs: int | None = None,
        device: Device = "cpu",
        random_state: Seed = None,
        verbose: int | bool = 0,
        formula: str | None = None,
        trusted: bool = False,
    ) -> None:
        super().__init__(
            prior=prior, cv=cv, solver=solver, tol=tol, max_iter=max_iter, n_jobs=n_jobs,
            device=device, random_state=random_state, verbose=verbose, formula=formula,
            trusted=trusted,
        )  # fmt: skip
        self.cause = cause

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, OutcomeRows]:
        """Read the outcome with competing events; see `PenalizedModel`."""
        inputs.refuse_extras(self, "exposure")
        if not (isinstance(self.cause, int | np.integer) and self.cause >= 1):
            raise DataError(f"cause must be a code from 1, not {self.cause!r}.")
        outcome = check_survival(inputs.y, design.n, competing=True)
        if not (outcome.event == self.cause).any():
            codes = np.unique(outcome.event).tolist()
            raise DataError(f"y has no events of cause {self.cause}; its codes are {codes}.")
        codes = self._read_strata(inputs.strata, design.n)
        self._cause = int(self.cause)
        likelihood = FineGrayLikelihood(
            outcome.time, outcome.event, backend, self._cause, codes, outcome.entry
        )
        # Folds are stratified by cause, and every row is in one fold.
        return likelihood, {"fold_label": outcome.event}

    def _refuse_without_events(self, label: np.ndarray) -> None:
        """Refuse an outcome without events of the cause of interest."""
        super()._refuse_without_events(label == self.cause)

    def predict(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Predict the log subdistribution hazard ratio relative to X = 0.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.

        Returns
        -------
        (n,) array
            The linear predictor X β + offset.
        """
        return self.linear_predictor(X, offset)

    def predict_cumulative_incidence(
        self,
        X: MatrixLike,
        times: ArrayLike | None = None,
        strata: LabelsLike | None = None,
        offset: VectorLike | None = None,
    ) -> np.ndarray:
        """Predict the cumulative incidence of the event of interest at each time.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        times : (T,) array, optional
            Times in any order. Default ``unique_times_``.
        strata : (n,) labels, optional
            Required if the model was fitted with strata.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.

        Returns
        -------
        (n, T) array
            Equal to 1 − exp(−Λ₀(t) exp η) with Breslow's estimate of the cumulative subdistribution
            hazard (Fine and Gray 1999, §4). Constant after the last event, and NaN after the last
            time at which anyone (of the row's stratum) was under observation.

        Raises
        ------
        DataError
            If a time is missing, or strata are missing or unknown.

        References
        ----------
        Fine and Gray (1999), JASA 94:496–509.

        Examples
        --------
        >>> import steropes
        >>> y = steropes.Surv([1, 2, 3, 4, 5, 6], [1, 2, 1, 0, 1, 2])
        >>> model = steropes.FineGrayRegression().fit([[0.0], [1.0], [1.0], [0.0], [0.0], [1.0]], y)
        >>> model.predict_cumulative_incidence([[0.0], [1.0]], [1, 3]).round(2).tolist()
        [[0.22, 0.43], [0.09, 0.19]]
        """
        times = self.unique_times_ if times is None else times
        with np.errstate(over="ignore"):
            return -np.expm1(-np.exp(self._log_cumulative(X, times, strata, offset)))
