"""The cumulative probability model, an ordinal regression for continuous outcomes."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import r2_score

from ...backends import get_backend, host_backend
from ...data import refuse_other_order
from ...data.input_types import CoefficientsByColumn, VectorLike
from ...data.ordered_categories import ordered_categories
from ...data.vector_checks import MAX_OFFSET_RANGE
from ...design_matrix import Design
from ...design_matrix.device_design import on_device
from ...errors import DataError, listed
from ...fit import Problem
from ...fit.shards import ShardedDesign
from ...infer.inference_constants import IDENTIFICATION
from ...infer.negligible_information_errors import has_tiny_weights, weak_information_error
from ...likelihoods.cumulative import CODES, CumulativeLikelihood, Interval, Link, fold_label
from ...priors import Prior
from ...select.folds import random_generator
from ...solve import Batch
from ...solve.fit_trace import FitTrace
from ...solve.separation.separation_with_nuisance import refuse_unidentifiable_columns
from ..estimators.logistic_regression import LogisticRegression
from ..estimators.penalized_model import PenalizedModel
from ..fitting.accessor_base_class import accessor
from ..fitting.fit_inputs_from_tables import outcome_of_table
from ..fitting.ordinal_outcomes import read_new_outcome, read_outcome
from ..fitting.progress_messages import Progress
from ..fitting.row_arguments import FitInputs
from ..fitting.setting_types import Chooser, Device, MatrixLike, Seed
from ..fitting.solver_runs import Start
from .cumulative_family import CUMULATIVE
from .cumulative_fits_of_row_subsets import fit_part, fit_subsets
from .cumulative_probability_check_accessors import CumulativeChecks
from .large_data_approximations import Coarsening, DivideAndCombine, Reduction, suggest
from .predictions import CumulativePredictions

if TYPE_CHECKING:
    from sklearn.utils import Tags

__all__ = ["CumulativeProbabilityModel"]


class CumulativeProbabilityModel(CumulativePredictions):
    """Cumulative probability model P(Y ≤ y | x) = F(α(y) − β'x) with a free function α.

    The outcome may be continuous, ordinal or a mixture. α has a value for every distinct outcome
    but the last, so that no scale of Y is assumed: an increasing transformation of y changes
    only ``thresholds_``. A positive β corresponds to larger outcomes. The fit is exact for any
    number M of distinct outcomes, at a cost of O((n + M) p²) per Newton step.

    Parameters
    ----------
    link : {"logit", "probit", "loglog", "cloglog", "cauchit"}
        The distribution F: logistic, normal, exp(−exp(−u)), 1 − exp(−exp(u)), Cauchy. The
        likelihood with the Cauchy link is not concave, and its fit is a certified local maximum
        that need not be the global one.
    reduce : None, Reduction or "auto"
        `EqualQuantileBins`, `RoundDecimals`, `RoundSignificant` or `DivideAndCombine` fit an
        approximation; "auto" uses the result of `suggest`. Default: exact.
    prior : Prior, optional
        Prior on the coefficients, such as `Laplace`, `Normal` or `ElasticNet`. None (default) is
        maximum likelihood.
        It applies to β and never to α.
    cv : CrossValidation, InformationCriterion or int, optional
        Method that chooses the prior's variance. An integer is a number of folds, which are the
        same in every fit.
        A held-out outcome is scored by the probability of the interval between two adjacent
        outcomes of the training rows that contains it (`steropes.likelihoods.cumulative`).
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
        β, the increase of the linear predictor for an increase of a column by one.
    thresholds_ : (M − 1,) array
        The distinct outcomes but the last, in increasing order.
    alpha_ : (M − 1,) array
        α at ``thresholds_``. α(y) is a step function, constant up to the next threshold.
    levels_ : (M,) array
        All distinct outcomes. The last is ∞ if right-censored outcomes exceed all others,
        because the data do not determine how far.
    log_likelihood_ : float
        Log-likelihood at the coefficients, without the prior, with all its constants.
    categories_ : list or None
        Labels from the lowest to the highest if y had ordered categories that are represented by
        their positions. Outcomes, levels and predictions are then these positions, from 0, and
        ``predict_proba`` has the probability of each category.
    reduction_ : Reduction or None
        The reduction in use.
    prior_ : Prior or None
        Prior in use, with its variance.
    optimality_ : float
        Certificate: the largest violation of the optimality conditions over all columns and
        thresholds, computed from X at the final coefficients; see `PenalizedModel`.
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
    reduction_reason_ : str
        Why ``reduce="auto"`` has chosen it.
    reduction_summary_ : str
        The chosen precision and the number of outcomes that remain, such as "3 digits, t = 5.2:
        10,068 of 106,799 distinct outcomes" (s and t of the paper); "exact" without a reduction.

    Raises
    ------
    SeparationError
        If some linear combination of unpenalised columns orders all outcomes, so that no finite
        maximum exists.

    See Also
    --------
    compare_links : Fit the model with several distributions F.
    Censored : Outcomes with detection limits.
    PenalizedModel : Methods and attributes of all models.

    Notes
    -----
    ``y`` may be a `Censored` array with detection limits and intervals, or ordered categories (a
    pandas ``Categorical`` with ``ordered=True``, a polars ``Enum``, an ordered Arrow dictionary).
    The order is that of the categories regardless of their labels; if the labels are numbers in
    ascending order, these numbers are the outcome.

    References
    ----------
    Liu, Shepherd, Li and Harrell (2017), Statistics in Medicine 36:4316–4335. Li, Chen and
    Shepherd (2022), arXiv:2207.06562.

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.models.cumulative import CumulativeProbabilityModel
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = np.exp(X @ [1.0, 0.0] + rng.logistic(size=500))
    >>> model = CumulativeProbabilityModel(link="logit").fit(X, y)
    >>> model.coef_.round(1).tolist()
    [1.0, 0.0]
    >>> bool(np.allclose(model.fit(X, np.log(y)).coef_, model.coef_))
    True
    """

    _max_offset_range = MAX_OFFSET_RANGE
    checks = accessor(CumulativeChecks)

    _family = CUMULATIVE

    # The parts of a fit contain data in the order of the likelihood.
    _data = PenalizedModel._data | {"_parts", "_subset_of_row"}

    categories_: list | None
    reduction_: Reduction | None
    reduction_reason_: str
    reduction_summary_: str

    def __init__(
        self,
        *,
        link: Link = "logit",
        reduce: Reduction | Literal["auto"] | None = None,
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
        self.link = link
        self.reduce = reduce

    # -- fit -----------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        """Refuse invalid settings."""
        super()._check_settings()
        if self.link not in tuple(CODES):
            raise DataError(
                f"link must be one of {', '.join(map(repr, CODES))}, not {self.link!r}."
            )
        if self.solver != "newton":
            raise DataError(f"{type(self).__name__} has solver='newton' only.")
        if not (self.reduce in (None, "auto") or isinstance(self.reduce, Reduction)):
            raise DataError(
                f"reduce must be None, 'auto' or a reduction such as EqualQuantileBins(1000), not "
                f"{self.reduce!r}."
            )

    def _binary_model(self) -> LogisticRegression:
        """Return the model of whether the outcome exceeds a value, for calibration curves."""
        return LogisticRegression(n_jobs=self.n_jobs)

    def _code_of_value(self, value: object) -> float:
        """Convert a value, or the label or position of an ordered category, to the outcome's code.

        A number that is a label is taken for the label.
        """
        if self.categories_ is None:
            return super()._code_of_value(value)
        if value in self.categories_:
            return float(self.categories_.index(value))
        if isinstance(value, Real) and not isinstance(value, bool):
            return super()._code_of_value(value)
        raise DataError(
            f"value must be one of the ordered categories {listed(self.categories_)}, not "
            f"{value!r}."
        )

    def _make_problem(
        self, design: Design, inputs: FitInputs, like: Problem | None = None
    ) -> Problem:
        """Validate the inputs, reduce the outcome and assemble the problem."""
        inputs.refuse_extras(self, "exposure", "strata")
        n = design.n
        if n < 2:
            raise DataError("One row (n_samples=1) has one outcome; the model needs two or more.")
        weights, offset = self._check_weights_and_offset(inputs.sample_weight, inputs.offset, n)
        self._link, self._has_intercept = self.link, False
        outcome, self.categories_ = read_outcome(inputs.y, n)
        outcome = _copied(outcome)
        self._largest_bound = _finite_top(outcome)
        self._not_ordinal = _why_not_ordinal(inputs.y, outcome)
        outcome, self._subset_of_row = self._apply_reduction(outcome, weights, design)
        if isinstance(self.reduction_, Coarsening):
            self._not_ordinal = "reduce= has merged outcomes"
        backend = host_backend(self.n_jobs)
        likelihood = CumulativeLikelihood(outcome, self.link, weights > 0, backend)
        prior, columns = self._prior_of_columns()
        return Problem(
            design=self._on_device(design.centered(None if weights.all() else weights > 0)),
            likelihood=likelihood,
            weights=weights,
            offset=offset,
            prior=prior,
            columns=columns,
            names=design.names,
            fold_label=fold_label(likelihood.levels, n),
        )

    def _on_device(self, design: Design) -> Design:
        """Return the design with products on the model's device; blocks of rows have their own."""
        if isinstance(design, ShardedDesign):
            return design
        return on_device(design, get_backend(self.device, self.n_jobs, self._work(design)))

    def _apply_reduction(
        self, y: Interval, weights: np.ndarray, design: Design
    ) -> tuple[Interval, np.ndarray | None]:
        """Coarsen the outcome, or assign rows to subsets, (n,); None without subsets."""
        reduction, reason = self.reduce, "asked for"
        if reduction == "auto":
            if y.upper is not None:
                reduction, reason = None, "censored outcomes are fitted exactly"
            else:
                reduction, reason = suggest(design.n, len(np.unique(y.lower)), design.p)
        self.reduction_, self.reduction_reason_ = reduction, reason
        self.reduction_summary_ = "exact"
        if reduction is None:
            return y, None
        if y.upper is not None:
            raise DataError("A reduction needs uncensored outcomes; leave reduce=None.")
        used = weights > 0
        if isinstance(reduction, Coarsening):
            coarse = y.lower.copy()
            coarse[used], self.reduction_summary_ = reduction.apply_and_describe(
                y.lower[used], weights[used]
            )
            return Interval(coarse, None), None
        assert isinstance(reduction, DivideAndCombine)
        subset = np.full(len(used), -1)
        subset[used] = reduction.deal(y.lower[used], random_generator(self.random_state))
        sizes = np.bincount(subset[used])
        rows = " or ".join(f"{size:,}" for size in np.unique(sizes))
        self.reduction_summary_ = f"{reduction.K} subsets of {rows} rows"
        return y, subset

    def _fit(
        self,
        X: MatrixLike,
        inputs: FitInputs,
        start_at: ArrayLike | CoefficientsByColumn | None,
        fixed: CoefficientsByColumn | None,
    ) -> None:
        """Fit; report overflow of the thresholds' curvature as a `DataError`."""
        try:
            super()._fit(X, inputs, start_at, fixed)
        except FloatingPointError:
            raise DataError(
                "The linear predictor reaches so far that the thresholds' curvature has no number. "
                "Check the unit of the offsets, which is that of the linear predictor and not of "
                "y, and of columns with large numbers, or give the columns a prior."
            ) from None

    def _refuse_undetermined(
        self, problem: Problem, batch: Batch, l1: np.ndarray, l2: np.ndarray
    ) -> None:
        """Refuse unpenalised columns that the data do not determine."""
        free = problem.unbounded(problem.prior)
        if len(free):
            refuse_unidentifiable_columns(problem, batch, free)

    def _fit_problem(
        self, problem: Problem, prior: Prior | None, start: Start | None, progress: Progress
    ) -> None:
        """Fit the whole data or every subset, and store the fit."""
        settings = (self.tol, self.max_iter, progress.step)
        trace = FitTrace()
        if self._subset_of_row is None:
            part, problem = fit_part(problem, prior, start, trace, *settings)
            self._parts = [part]
            values, alpha, beta = part.values, part.alpha, part.beta
            loss = part.fit.loss
        else:
            self._parts, values, alpha, beta, loss = fit_subsets(
                problem,
                self._subset_of_row,
                prior,
                *settings,
                None if self.cv is not None or isinstance(start, Batch) else start,
            )
        self._problem, self._information, self._robust = problem, None, {}
        self.prior_, self.trace_ = prior, trace.table()
        self._beta = beta / problem.design.scale
        self.coef_ = self._beta.copy()
        self.levels_, self.thresholds_, self.alpha_ = values, values[:-1].copy(), alpha
        self.log_likelihood_ = -loss
        self.optimality_ = max(p.fit.optimality for p in self._parts)
        self.converged_ = all(p.fit.converged for p in self._parts)
        self.n_iter_ = max(p.fit.n_iter for p in self._parts)

    def _require_data(self, what: str) -> Problem:
        """Return the problem of the fit; refuse after `DivideAndCombine`."""
        problem = super()._require_data(what)
        if self._subset_of_row is not None:
            raise DataError(f"DivideAndCombine has fits of subsets only, and {what} needs one.")
        return problem

    def _refuse_weak_information(self, problem: Problem) -> None:
        """Refuse unpenalised columns with almost no information."""
        if self.prior_ is not None or not has_tiny_weights(problem.weights):
            return
        h = 1.0 / (np.diag(self._covariances().beta_covariance()) * problem.design.scale**2)
        if not (h > IDENTIFICATION.weak_information).all():
            raise weak_information_error(
                [problem.names[j] for j in np.flatnonzero(~(h > IDENTIFICATION.weak_information))]
            )

    def score(
        self,
        X: MatrixLike,
        y: VectorLike | None = None,
        sample_weight: VectorLike | None = None,
        *,
        offset: VectorLike | None = None,
    ) -> float:
        """Compute R² of the conditional mean, as scikit-learn's regressors do.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        y : (n,) array
            Outcomes without censoring.
            Default the outcome of the formula, of an estimator fitted by one.
        sample_weight : (n,) array, optional
            Nonnegative row weights. Default 1.
        offset : (n,) array, optional
            Known term of the linear predictor. The metadata routing of scikit-learn passes it after
            ``set_score_request(offset=True)``.

        Returns
        -------
        float
            R², 1 at best, and 0 for a prediction by the mean.

        Raises
        ------
        DataError
            If y has censored outcomes.
        """
        y = outcome_of_table(self, X, y)
        refuse_other_order(X, y=y, sample_weight=sample_weight)
        mean = self.predict(X, offset)
        outcome = read_new_outcome(y, len(mean), self.categories_)
        if outcome.upper is not None:
            raise DataError("score is the R² of the mean and needs outcomes without censoring.")
        return float(r2_score(outcome.lower, mean, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # R² of a rank-based model may be low
        return tags


def _copied(y: Interval) -> Interval:
    """Copy the outcome, from which standard errors and profiles are computed later."""
    return Interval(y.lower.copy(), None if y.upper is None else y.upper.copy())


def _why_not_ordinal(y: VectorLike, outcome: Interval) -> str | None:
    """Return why an outcome has no categories.

    Whole numbers are not taken for categories: scikit-learn's checks refuse regressors that have
    probabilities of them.
    """
    if outcome.upper is not None:
        return "y is censored"
    return "y is numbers" if ordered_categories(y) is None else None


def _finite_top(y: Interval) -> float:
    """Return the largest right-censored bound, at which means place the mass above all levels."""
    beyond = y.upper is not None and y.upper == np.inf
    return float(y.lower[beyond].max()) if np.any(beyond) else np.nan
