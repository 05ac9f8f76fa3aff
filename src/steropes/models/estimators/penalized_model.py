"""Base class of the estimators: settings, ``fit``, display, copies and pickles."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Self

from numpy.typing import ArrayLike

from ...data.input_types import CoefficientsByColumn, TableLike, VectorLike
from ...errors import DataError
from ...priors import Prior
from ..effects.effect_accessors import Effects
from ..fitting.accessor_base_class import accessor, missing_attribute
from ..fitting.copying_and_pickling import DATA_ATTRIBUTES, deep_copy_sharing_data, shallow_copy
from ..fitting.default_standard_errors import has_fractional_weights
from ..fitting.fit_inputs_from_tables import ROWS, read_fit_table
from ..fitting.fit_steps import Estimator
from ..fitting.fitted_variables import values_of_columns
from ..fitting.model_display import fit_html, fit_mimebundle, fit_text
from ..fitting.row_arguments import FitInputs, refuses_other_rows
from ..fitting.setting_types import Chooser, Device, MatrixLike, Seed, Solver
from ..fitting.unavailable_attributes import computed_attribute
from ..inference.confidence_intervals import confint, summary
from ..inference.hypothesis_tests import null_fit
from ..inference.inference_accessors import Inference
from ..validation.validation_accessors import Validation

if TYPE_CHECKING:
    from sklearn.utils import Tags

__all__ = ["PenalizedModel"]

# All arguments of `fit` besides X and y.
FIT = (*ROWS, "start_at", "fixed")


class PenalizedModel(Estimator):
    """Base class of the estimators, with the arguments, attributes and methods that all have.

    A subclass reads y and returns its likelihood; users work with subclasses only.

    Parameters
    ----------
    prior : Prior, optional
        Prior on the coefficients, such as `Laplace`, `Normal` or `ElasticNet`. None (default) is
        maximum likelihood.
    cv : CrossValidation, InformationCriterion or int, optional
        Method that chooses the prior's variance. An integer is a number of folds, which are the
        same in every fit.
    solver : {"newton", "ccd"}
        Proximal Newton method (default), or the cyclic coordinate descent of Suchard and others
        (2013) as published.
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
        Coefficients in the units of X's columns.
    coef_names_ : list of str
        Names of ``coef_``. They differ from X's columns if these have labels (a column ``sex``
        with the coefficient ``sex[T.male]``) or effects that change with time.
    log_likelihood_ : float
        Log-likelihood at the coefficients, without the prior, with all its constants.
    prior_ : Prior or None
        Prior in use, with its variance.
    optimality_ : float
        The certificate: the largest violation of the optimality (KKT) conditions over all
        columns at ``coef_``, computed from X. The unit is the column's λ where it has a Laplace
        prior, otherwise the standard error of its score, √H_jj with the information H at
        ``coef_`` (dense columns centred): a number without a unit, about the distance to the
        optimum in the coefficient's standard errors. A linear model's score has the residual
        standard deviation in it: there the unit is √H_jj times √(Σ w (y − η)² / Σ w). Zero is
        an exact optimum.
    converged_ : bool
        Whether ``optimality_`` is at or below ``tol``.
    n_iter_ : int
        Number of Newton steps, or of sweeps with ``solver="ccd"``.
    trace_ : DataFrame
        Progress of the (final) fit, with a row for each step: ``objective``, ``violation`` (the
        largest KKT violation in the working set), ``working_set`` and ``nonzero`` (numbers of
        columns), ``hessians`` (computed so far) and ``penalty`` (the multiple of the prior's
        penalty under which the step was taken). The last row has the certificate over all columns.
    variance_ : float
        Variance of the prior that ``cv`` has chosen, one of those in ``cv_results_``; only with
        ``cv``.
    cv_results_ : DataFrame
        Scores of the variances; only with ``cv``. With a cross-validation: ``variance``, ``mean``
        (average over folds of the held-out log-likelihood), ``se``, ``nonzero``, ``slope``
        (derivative of the mean in log variance, if the search computed it) and one column for each
        fold. With an `InformationCriterion`: ``variance``, ``criterion``, ``log_likelihood``,
        ``df``, ``nonzero``.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array of str
        Names of the columns; only if X had names.

    See Also
    --------
    LogisticRegression : Model of an outcome with two classes.
    CoxRegression : Model of the time to an event.

    Notes
    -----
    The page on extending steropes shows how to write a subclass with another likelihood.

    References
    ----------
    Suchard, Simpson, Zorych, Ryan and Madigan (2013), ACM TOMACS 23:10 (models and priors).

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [1.0], [1.0]], [0.0, 2.0, 3.0, 5.0]
    >>> model = steropes.LinearRegression(prior=steropes.Normal(variance=4.0)).fit(X, y)
    >>> isinstance(model, steropes.PenalizedModel), model.converged_
    (True, True)
    >>> model.trace_.columns.tolist()
    ['objective', 'violation', 'working_set', 'nonzero', 'hessians', 'penalty']
    """

    inference = accessor(Inference)
    effects = accessor(Effects)
    validation = accessor(Validation)
    summary = summary
    confint = confint

    # Attributes that hold data, which pickles omit and deep copies share.
    _data: ClassVar[frozenset[str]] = DATA_ATTRIBUTES
    # Names of the attributes that the fit has set.
    _fitted: frozenset[str]
    # The settings of estimators that were pickled before these existed.
    formula: str | None = None
    trusted: bool = False

    def __init__(
        self,
        *,
        prior: Prior | None = None,
        cv: Chooser | int | None = None,
        solver: Solver = "newton",
        tol: float = 1e-8,
        max_iter: int = 200,
        n_jobs: int | None = None,
        device: Device = "cpu",
        random_state: Seed = None,
        verbose: int | bool = 0,
        formula: str | None = None,
        trusted: bool = False,
    ) -> None:
        self.prior = prior
        self.cv = cv
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.formula = formula
        self.trusted = trusted

    # -- fit -----------------------------------------------------------------------------------

    @refuses_other_rows
    def fit(
        self,
        X: MatrixLike,
        y: VectorLike | None = None,
        *,
        sample_weight: VectorLike | None = None,
        offset: VectorLike | None = None,
        start_at: ArrayLike | CoefficientsByColumn | None = None,
        fixed: CoefficientsByColumn | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or array, data frame, Design or ShardedDesign, (n, p)
            Covariates. Inputs are never modified. A column of a table with categories or text has
            a coefficient for each level but the first; see `as_design`. Predictions code new
            tables alike and refuse levels that the fit did not contain. An estimator with a
            ``formula`` takes the table of data that the formula describes.
        y : (n,) array
            Outcome; see the class. With a formula it is left out, unless the formula has no
            outcome (``"~ drug + age"``).
        sample_weight : (n,) array, optional
            Nonnegative row weights. A weight of 2 equals the row given twice; with Efron's ties it
            is one event, and not two tied ones, as in R's ``coxph``. Default 1.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.
        start_at : (p,) array, or mapping or series from names or positions to numbers, optional
            Initial coefficients; columns that a mapping omits start at zero. With a convex loss
            they affect the duration of the fit and not its result.
        fixed : mapping or series from names or positions to numbers, optional
            Coefficients that are held at given values, for example zero or the estimates of an
            earlier study. They are part of ``coef_`` and of all predictions, have no line in
            ``summary()`` and are not penalised. Positions count all columns of X, here and in
            every other argument.

        Returns
        -------
        self
            The fitted model.

        Raises
        ------
        DataError
            If the input cannot be used; the message names the column or row.
        SeparationError
            If the data do not determine the coefficients of some unpenalised columns, which the
            message names.

        See Also
        --------
        PenalizedModel.from_formula : Fit the model that a formula describes.
        fit_many : Fit the same model to many outcomes.

        Examples
        --------
        >>> import steropes
        >>> X, y = [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0], [1.0, 1.0]], [1.0, 0.0, 3.0, 4.0]
        >>> steropes.LinearRegression().fit(X, y).coef_.round(6).tolist()
        [3.0, 1.0]
        >>> steropes.LinearRegression().fit(X, y, fixed={1: 2.0}).coef_.round(6).tolist()
        [3.0, 2.0]
        """
        return self._fit_rows(X, FitInputs(y, sample_weight, offset), start_at, fixed)

    def _fit_rows(
        self,
        X: MatrixLike,
        inputs: FitInputs,
        start_at: ArrayLike | CoefficientsByColumn | None,
        fixed: CoefficientsByColumn | None,
    ) -> Self:
        """Fit a copy and publish it; ``fit`` of a class passes the arguments that it shows."""
        draft = self._unfitted_copy()
        unfitted = set(draft.__dict__)
        X, inputs = read_fit_table(draft, X, inputs)
        draft._fit(X, inputs, start_at, fixed)
        draft._fitted = frozenset(draft.__dict__) - unfitted
        self.__dict__ = draft.__dict__  # a single step, which an interrupt cannot split
        if not self.converged_:
            self._warn_not_converged()
        return self

    @classmethod
    def from_formula(
        cls, formula: str, data: TableLike, *, trusted: bool = False, **fit: object
    ) -> Self:
        """Fit the model that a formula describes.

        This is the short form of ``cls(formula=formula).fit(data)``. The formula is a setting of
        the estimator, so that copies of it, such as those of ``cross_val_score`` and
        `validate_by_group`, are fitted to tables. Each such fit determines knots, levels and
        scales from its own rows. Draws of `Inference.bootstrap` and `Validation.validate` and
        the folds of ``cv`` share the columns of the fit instead, as in R's rms. Rows of weight
        zero do not count for knots, levels and scales, and whole weights count as repeated rows;
        weights that are not all whole numbers, such as inverse probabilities, count once.

        Parameters
        ----------
        formula : str
            For example ``"y ~ x1 + bs(age, df=4) + drug:sex"``, in the language of formulaic
            (also of R and patsy): ``a*b``, ``C(x)`` for numeric labels, ``poly``, functions of
            NumPy as ``np.…``, and ``.`` for all columns not used elsewhere; ``y ~ 1`` is the model
            without covariates. Splines are ``rcs(x, 4)`` with Harrell's knots and the columns
            ``x``, ``x'`` and ``x''`` (or ``rcs(x, [30, 50, 70])``), ``ns(x, df=3)`` and
            ``bs(x, df=4)`` as in R, and mgcv's ``cr(x, df=3)`` and the cyclic ``cc(month, df=3)``,
            centred. ``step(x, [90, 180])`` has an effect of x in each period between these times,
            as R's ``x:strata(tgroup)`` after ``survSplit``, and ``tt(x, 'log')`` the effects ``x``
            and ``x:log(t)``; they add to ``time_varying`` and contain the constant effect of x. The
            outcome may be ``Surv(time, event)`` or ``Surv(stop, event, entry=start)``.
            ``strata(a, b)`` and ``offset(x)`` are passed to ``fit``. ``cluster(id)`` are the
            clusters of robust errors and of the bootstrap; unlike R, ``summary()`` has robust
            errors only with ``kind="robust"``.
        data : pandas, polars or pyarrow table
            Missing values are refused. Booleans count as 0 and 1.
        trusted : bool
            Whether to evaluate any Python in the formula, such as methods of columns. By default
            formulas may contain arithmetic, comparisons, elementwise functions of NumPy and the
            functions above, so that a formula from an untrusted source is harmless. Its products
            and functions have at most 10,000 columns, and a spline 1,000.
        **fit
            Arguments of ``fit``, those with an entry per row also as the name of a column
            (``sample_weight="w"``), and settings of the model (``prior=``, ``ties=``, …).

        Returns
        -------
        fitted estimator
            ``formula_`` is the formula. Methods that take X of new rows (predictions, curves,
            concordance) also accept a table of their data. The formula then computes X, and
            strata and offset if the formula or the fit named them and they are not passed;
            other columns are ignored. A table without the columns of strata or offset, such as
            ``design_matrix(data)`` alone, is refused; arrays have the offset 0 if none is passed.
            ``design_matrix(data)`` and ``design_vectors(data)`` return these, and ``score(data)``
            reads the outcome by the formula as well.

        Raises
        ------
        DataError
            If the formula cannot be read or evaluated, or needs ``trusted=True``.

        Examples
        --------
        >>> import pandas as pd, steropes
        >>> data = pd.DataFrame({"time": [5, 3, 4, 2, 6], "dead": [1, 1, 0, 1, 0],
        ...                      "dose": ["low", "high", "low", "low", "high"]})
        >>> m = steropes.CoxRegression.from_formula("Surv(time, dead) ~ dose", data)
        >>> m.summary().index.tolist()
        ['dose[T.low]']
        >>> m = steropes.CoxRegression.from_formula(
        ...     "Surv(time, dead) ~ step(dose, [3.5])", data, prior=steropes.Normal()
        ... )
        >>> m.coef_names_
        ['dose[T.low]@(0,3.5]', 'dose[T.low]@(3.5,inf)']
        """
        given = {name: fit[name] for name in FIT if fit.get(name) is not None}
        settings = {name: value for name, value in fit.items() if name not in FIT}
        estimator: Any = cls
        model = estimator(formula=formula, trusted=trusted, **settings)
        model.fit(data, **given)
        if settings.get("fit_intercept") and not model._formula.has_intercept:
            raise DataError("The formula leaves the intercept out, and fit_intercept=True.")
        return model

    def _unfitted_copy(self) -> Self:
        """Copy the settings into an estimator without a fit.

        `fit` works on this copy and publishes it at the end, so that an error or an interrupt
        leaves the previous fit intact.
        """
        draft = type(self).__new__(type(self))
        gone = {"_fitted", *self.__dict__.get("_fitted", ())}
        draft.__dict__ = {k: v for k, v in self.__dict__.items() if k not in gone}
        return draft

    @property
    def coef_names_(self) -> list[str]:
        """Names of ``coef_``, including fixed coefficients."""
        if self._fixed is not None:
            return list(self._fixed.names)
        names = self._coefficient_names()
        return names[len(names) - len(self.coef_) :]

    @property
    @computed_attribute
    def null_log_likelihood_(self) -> float:
        """Log-likelihood of the model without covariates."""
        problem, fit = null_fit(self)
        return float(self._objective_to_likelihood(problem)(fit.objective)[0])

    @property
    @computed_attribute
    def aic_(self) -> float:
        """Akaike's criterion, −2 log-likelihood + 2 df.

        The degrees of freedom are the number of nonzero or unpenalised coefficients (Zou, Hastie
        and Tibshirani 2007, Annals of Statistics 35:2173), and under a normal prior
        tr[(H + κ)⁻¹ H] over them. An estimated variance or dispersion counts as one parameter, and
        so does each threshold of a cumulative model.
        """
        return -2.0 * self.log_likelihood_ + 2.0 * self._degrees_of_freedom()

    @property
    @computed_attribute
    def bic_(self) -> float:
        """Schwarz's criterion, −2 log-likelihood + log(n) df; df as in ``aic_``.

        n is the total weight of the rows, or in Cox, Fine–Gray and conditional models of the rows
        with events (Volinsky and Raftery 2000, Biometrics 56:256). Without weights the criterion
        equals R's ``BIC(glm(…))`` and ``BIC(coxph(…))``, which ignore weights in n.
        """
        n = self._effective_sample_size(self._require_replicable("bic_"))
        return -2.0 * self.log_likelihood_ + math.log(n) * self._degrees_of_freedom()

    # -- display, copies and pickles -----------------------------------------------------------

    def __str__(self) -> str:
        """Format the settings, and after a fit also its results."""
        return fit_text(self) if self.__sklearn_is_fitted__() else repr(self)

    def _html_repr(self) -> str:
        """Format the model as HTML."""
        return fit_html(self)

    def _repr_html_inner(self) -> str:
        """Format the model as HTML; called by scikit-learn within pipelines."""
        return fit_html(self)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Return the representations for notebooks."""
        return fit_mimebundle(self)

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the data of the fit."""
        state: dict[str, object] = super().__getstate__()
        if self.__sklearn_is_fitted__():
            # These need the data.
            state = {**state, "_shrinks": self._has_sparse_prior()}
            state["_column_values"] = values_of_columns(self)
            state["_has_fractional_weights"] = has_fractional_weights(self)
        return {name: value for name, value in state.items() if name not in self._data}

    def __copy__(self) -> Self:
        return shallow_copy(self)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return deep_copy_sharing_data(self, self._data, memo)

    if not TYPE_CHECKING:  # type checkers would accept any name if they saw __getattr__

        def __getattr__(self, name: str) -> Any:
            if (message := missing_attribute(self, name)) is not None:
                raise AttributeError(message)
            return object.__getattribute__(self, name)  # raises the error of the attribute

    def __dir__(self) -> Iterable[str]:
        """List all attributes without computing them, unlike scikit-learn's method."""
        return object.__dir__(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
