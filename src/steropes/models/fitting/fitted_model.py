"""Parts that all fitted models have: coefficients, covariances, linear predictors and formulas."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ...backends import host_backend
from ...data import check_offset, refuse_other_order
from ...data.input_types import LabelsLike, TableLike, VectorLike
from ...design_matrix import Design, has_names
from ...design_matrix.category_coding import CategoryCoding
from ...design_matrix.design_from_arrays_and_tables import column_names
from ...errors import DataError
from ...fit import Problem
from ...fit.shards import ShardedDesign
from ...infer.errors_with_estimated_weights import WeightModel, check_weight_model, summed_products
from ...infer.survival_residuals import influences
from ...priors import Prior
from ...select.folds import Seed
from ..families.family import Family
from ..formulas.formula_data_types import RowVector, as_pandas_table
from ..formulas.formula_parsing import Formula
from .coefficient_tables import cluster_codes
from .covariances import (
    CLUSTERED_KINDS,
    corrected_covariance,
    has_limits,
    inverse_information,
    sandwich_covariance,
    shrinks_coefficients,
    why_no_covariance,
)
from .default_standard_errors import default_kind, name_errors, robust_by_default
from .designs_of_new_rows import check_names, check_number, is_labelled_table, read_new
from .fixed_and_initial_coefficients import FixedCoefficients
from .setting_types import WALD_KINDS, Chooser, Device, Kind, MatrixLike, Solver
from .single_threaded_methods import single_threaded_methods
from .sklearn_base_types import BaseEstimator

__all__ = ["FittedModel"]


@single_threaded_methods
class FittedModel(BaseEstimator):
    """Base class of the estimators: the results of a fit, and how it reads new rows."""

    # Settings.
    prior: Prior | None
    cv: Chooser | int | None
    solver: Solver
    tol: float
    max_iter: int
    n_jobs: int | None
    device: Device
    random_state: Seed
    verbose: int | bool
    formula: str | None
    # Fitted attributes.
    coef_: np.ndarray
    intercept_: float
    prior_: Prior | None
    log_likelihood_: float
    optimality_: float
    converged_: bool
    n_iter_: int
    n_features_in_: int
    feature_names_in_: np.ndarray
    formula_: str
    # Names of the columns with estimated coefficients, and coefficients that the user has fixed.
    _names: list[str]
    _fixed: FixedCoefficients | None = None
    # Levels of the columns of labels in X; None if there are none.
    _coding: CategoryCoding | None = None
    # Whether the family can have an intercept, and whether the fit has one.
    _intercept = False
    _has_intercept: bool
    # Whether an offset is added to a logarithm.
    _offset_on_log_scale = True
    # Declarations of the family: link, ratio, measures of performance, scores, outcomes and risks.
    _family: ClassVar[Family] = Family()
    # Coefficients in the solver's parametrisation.
    _beta: np.ndarray
    # Index of the rows of the fit, if X or y had one, and labels of the formula's cluster().
    _row_labels: pd.Index | None = None
    _clusters: LabelsLike | None = None
    _problem: Problem
    _formula: Formula
    # Inverse information, computed at the first request.
    _information: np.ndarray | None
    # The robust covariance matrix, where it is the default.
    _robust_by_default: np.ndarray | None = None
    # The value of `_has_sparse_prior`, and whether a weight is not a whole number, in a fit that
    # was unpickled without its data.
    _shrinks: bool | None = None
    _has_fractional_weights: bool = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Restrict BLAS to one thread in the public methods of a subclass."""
        single_threaded_methods(cls)
        super().__init_subclass__(**kwargs)

    @property
    def _ratio(self) -> str | None:
        """Name of exp(coef), which tables show with its limits; None if it is no ratio."""
        return self._family.ratio_of(self)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the model is fitted, for `sklearn.utils.validation.check_is_fitted`."""
        return hasattr(self, "coef_")

    def _require_data(self, what: str) -> Problem:
        """Return the problem of the fit; refuse if unpickling has lost the data."""
        check_is_fitted(self)
        problem = getattr(self, "_problem", None)
        if problem is None:
            raise DataError(
                f"The fit was unpickled without its data, which {what} needs; fit again."
            )
        return problem

    def _require_replicable(self, what: str) -> Problem:
        """Return the fit's problem if replicates of it can be fitted; refuse otherwise."""
        problem = self._require_data(what)
        if not isinstance(problem, Problem):
            raise DataError(f"{type(self).__name__} does not have {what}.")
        return problem

    # -- coefficients and their covariance -----------------------------------------------------

    @property
    def _all_names(self) -> list[str]:
        """Names of all columns of the design, including those with fixed coefficients."""
        return self._names if self._fixed is None else self._fixed.names

    @property
    def _estimated(self) -> np.ndarray:
        """Estimated coefficients, without fixed ones."""
        return self.coef_ if self._fixed is None else self.coef_[self._fixed.kept]

    def _coefficient_names(self) -> list[str]:
        """Return the names of the estimated coefficients, the intercept first."""
        return (["intercept"] if self._has_intercept else []) + list(self._names)

    def _coefficients(self) -> np.ndarray:
        """Return the estimated coefficients, the intercept first."""
        own = self._estimated
        return np.append(self.intercept_, own) if self._has_intercept else own

    def _residual_variance(self) -> float:
        """Return the residual variance of linear models, and 1 for other families."""
        return 1.0

    def _residual_df(self) -> float | None:
        """Return the degrees of freedom of t tests; None for tests based on the normal."""
        return None

    def _has_sparse_prior(self) -> bool:
        """Return whether a Laplace or adaptive prior or limits exclude standard errors."""
        check_is_fitted(self)
        prior = self.prior_
        if prior is None or has_limits(prior):
            return prior is not None
        problem = getattr(self, "_problem", None)
        if isinstance(problem, Problem):
            return shrinks_coefficients(prior, *problem.penalties(prior))
        if self._shrinks is not None:
            return self._shrinks
        names = self._coefficient_names()  # pickles of earlier versions
        penalty = prior.separable(names[len(names) - len(self._estimated) :])
        return shrinks_coefficients(prior, penalty.l1, penalty.l2)

    def vcov(
        self,
        kind: Kind | None = None,
        cluster: LabelsLike | None = None,
        weight_model: WeightModel | None = None,
    ) -> pd.DataFrame:
        """Compute the covariance matrix of the coefficients.

        Parameters
        ----------
        kind : {"model", "robust", "HC0", "HC1", "HC2", "HC3", "jackknife"}, optional
            Default ``"robust"`` if any weight is not a whole number, as in R's ``coxph``, because
            the model's errors take a weight as a number of rows; ``"model"`` otherwise.
            ``"model"``: the inverse Hessian of the negative log-likelihood (or
            pseudo-likelihood of Fine–Gray models), or with a normal prior of the negative log
            posterior (the normal approximation of the posterior).
            ``"robust"``: the sandwich of that inverse and the sum of squared scores, HC0,
            without a small-sample factor. The scores are those of rows in unconditional models,
            the influences on the partial likelihood in Cox and Fine–Gray models, as in R's
            ``coxph(robust=TRUE)`` and ``cmprsk::crr``, and those of strata in models that
            condition on strata. Weights multiply the scores.
            ``"HC1"``, without a prior: ``"robust"`` times n / (n − k) for n rows with weight and k
            coefficients, or by clusters times G / (G − 1) · (n − 1) / (n − k) for G of them, as
            R's ``sandwich::vcovHC`` and ``vcovCL``.
            ``"HC0"``, ``"HC2"``, ``"HC3"``, in generalised linear models without a prior: ``"HC0"``
            is ``"robust"`` without clusters; ``"HC2"`` and ``"HC3"`` divide each squared score by
            1 − h and (1 − h)² with the row's leverage h, as R's ``sandwich::vcovHC``.
            ``"jackknife"``: (G − 1) / G times the sum of squared changes of the coefficients in
            fits that leave out one of G rows, clusters (CV3) or strata. It is the correction of
            small samples for every family, costs a short fit for each of them, and is close to
            ``"robust"`` with many.
        cluster : (n,) labels, optional
            With ``"robust"``, ``"HC1"`` and ``"jackknife"``: clusters of rows, such as those of one
            person, within which scores are summed before they are squared; default those of
            ``cluster()`` in the formula. In models that condition on strata, a cluster may contain
            rows of several strata and parts of them (a person in several matched sets), as in R's
            ``clogit(…, cluster=)``, except with ``method="exact"``, in which single rows of a
            stratum have no influence; ``"jackknife"`` takes whole strata only.
        weight_model : steropes.designs.propensity.EstimatedWeights, optional
            The propensity model that the weights of the fit come from. Robust errors then add the
            influence of rows through this model (M-estimation); by default the weights are taken
            as known.

        Returns
        -------
        DataFrame, (p, p)
            Rows and columns are named by coefficient, "intercept" first if there is one.
            ``attrs["errors"]`` is the kind, or "M-estimation" with ``weight_model``.

        Raises
        ------
        DataError
            Under a Laplace prior, because penalised coefficients have no covariance matrix and
            the others none that accounts for the selection; use profiles or the bootstrap.

        References
        ----------
        Huber (1967), Proc. Fifth Berkeley Symp. 1:221–233. White (1980), Econometrica
        48:817–838. MacKinnon and White (1985), Journal of Econometrics 29:305–325. Liang and
        Zeger (1986), Biometrika 73:13–22. Lin and Wei (1989), JASA 84:1074–1078. Fine and
        Gray (1999), JASA 94:496–509.

        Examples
        --------
        >>> import steropes
        >>> X, y = [[0.0], [0.0], [1.0], [1.0]], [0.0, 2.0, 1.0, 5.0]
        >>> model = steropes.LinearRegression().fit(X, y)
        >>> model.vcov().round(2).to_numpy().tolist()
        [[2.5, -2.5], [-2.5, 5.0]]
        >>> model.vcov("robust", cluster=["a", "b", "a", "b"]).round(2).to_numpy().tolist()
        [[0.5, 0.5], [0.5, 0.5]]
        """
        check_is_fitted(self)
        asked, kind = kind is not None, default_kind(self, kind)
        if not isinstance(kind, str) or kind not in WALD_KINDS:
            kinds = "'model' or 'robust', 'HC0' to 'HC3' or 'jackknife'"
            raise DataError(f"kind must be {kinds}, not {kind!r}.")
        if cluster is not None and kind not in CLUSTERED_KINDS:
            raise DataError("cluster goes with kind='robust', 'HC1' and 'jackknife' only.")
        if weight_model is not None and asked and kind != "robust":
            raise DataError("weight_model goes with kind='robust' only.")
        if self._has_sparse_prior():
            raise DataError(why_no_covariance(self.prior_))
        names = self._coefficient_names()
        if weight_model is not None:
            V = self._matrix_with_weight_model(weight_model, cluster)
            return name_errors(pd.DataFrame(V, names, names), "M-estimation")
        if kind not in ("model", "robust"):
            V = self._corrected_matrix(kind, cluster)
            return name_errors(pd.DataFrame(V, names, names), kind)
        if kind == "robust":
            found = self._robust_matrix(cluster) if asked else robust_by_default(self, cluster)
            if found is not None:
                return name_errors(pd.DataFrame(found, names, names), kind)
        if self._information is None:
            known = getattr(self, "_problem", None)
            if known is None:
                raise DataError(
                    "The fit was unpickled without its data, which standard errors need. Call "
                    "summary() or vcov() before pickling, or fit again."
                )
            self._information = inverse_information(known, self._beta, self.prior_)
        V = self._residual_variance() * self._information
        return name_errors(pd.DataFrame(V, names, names), "model", self)

    def _robust_matrix(self, cluster: LabelsLike | None) -> np.ndarray:
        """Compute the robust covariance matrix."""
        problem = self._require_data("a robust covariance")
        unit = self._cluster_codes(cluster, problem)
        return sandwich_covariance(problem, self._beta, self.prior_, unit)

    def _corrected_matrix(self, kind: Kind, cluster: LabelsLike | None) -> np.ndarray:
        """Compute a robust covariance matrix with a correction for small samples."""
        problem, name = self._require_replicable(f"kind={kind!r}"), type(self).__name__
        unit = self._cluster_codes(cluster, problem)
        return corrected_covariance(problem, self._beta, self.prior_, kind, unit, self.tol, name)

    def _row_influences(self) -> np.ndarray:
        """Compute the derivative of the coefficients in the logarithm of each weight, (n, p)."""
        problem = self._require_data("M-estimation")
        return influences(problem, self._beta, np.arange(problem.design.p))

    def _matrix_with_weight_model(
        self, weight_model: WeightModel, cluster: LabelsLike | None
    ) -> np.ndarray:
        """Compute the robust covariance matrix with the estimation of the weights."""
        problem = self._require_data("M-estimation")
        weight_model = check_weight_model(weight_model, problem)
        unit, own = self._cluster_codes(cluster, problem), self._row_influences()
        return summed_products(own + weight_model.influences(own), unit)

    def _cluster_codes(self, cluster: LabelsLike | None, problem: Problem) -> np.ndarray | None:
        """Convert cluster labels of the rows, by default those of the formula, to codes."""
        cluster = self._clusters if cluster is None else cluster
        if self._row_labels is not None:  # X itself is not available any more
            refuse_other_order(pd.Series(np.nan, self._row_labels), cluster=cluster)
        return cluster_codes(cluster, problem.design.n, problem.weights)

    # -- new rows ------------------------------------------------------------------------------

    def linear_predictor(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Compute the linear predictor η = intercept + X β + offset.

        Parameters
        ----------
        X : array, sparse matrix, data frame, Design or ShardedDesign, (n, p)
            Covariates, with the columns of the fit.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0, also if the fit had an offset, unless X
            is a table and the fit was by a formula that names the offset (see `from_formula`).

        Returns
        -------
        (n,) array
            The linear predictor of each row. Baselines and stratum effects are no part of it.

        Raises
        ------
        DataError
            If columns differ from those of the fit.
        """
        refuse_other_order(X, offset=offset)
        design = self._check_new(X)
        backend = host_backend(self.n_jobs)
        beta = (self._estimated * design.scale)[:, None]
        eta = design.matmul(beta, backend)[:, 0] + getattr(self, "intercept_", 0.0)
        offset = self._new_offset(X, offset, design.n)
        return eta if offset is None else eta + offset

    def _new_offset(self, X: MatrixLike, offset: VectorLike | None, n: int) -> np.ndarray | None:
        """Validate the offset of new rows and add the part of fixed coefficients, (n,)."""
        own = check_offset(self._formula_vector("offset", X, offset), n, self._offset_on_log_scale)
        if self._fixed is None:
            return own
        part = self._fixed.part(self._read_new(X), host_backend(self.n_jobs))
        return part if own is None else own + part

    def _read_new(self, X: MatrixLike) -> Design:
        """Convert new X, or a table for the formula, to a design."""
        name = type(self).__name__
        return read_new(self._apply_formula(X), self._coding, self.n_features_in_, name)

    def _is_labelled_table(self, X: MatrixLike) -> bool:
        """Return whether X is a table like that of the fit, which had columns of labels."""
        return is_labelled_table(X, self._coding)

    def _check_new(self, X: MatrixLike) -> Any:
        """Read new X; return the columns with estimated coefficients."""
        design = self._check_columns(X)
        return design if self._fixed is None else design.only(self._fixed.kept)

    def _check_columns(self, X: MatrixLike) -> Any:
        """Read new X and check that its columns are those of the fit."""
        check_is_fitted(self)
        plain = self._fixed is not None or not isinstance(X, ShardedDesign)
        design: Any = self._read_new(X) if plain else X
        check_number(design.p, len(self._all_names), type(self).__name__)
        named = (isinstance(X, ShardedDesign) or has_names(X)) and not self._is_formula_table(X)
        if named and getattr(self, "feature_names_in_", None) is not None:
            check_names(design.names, self._all_names, type(self).__name__)
        return design

    # -- formulas ------------------------------------------------------------------------------

    def _changing_effects(self) -> Any:
        """Return the setting ``time_varying``, with the effects in the formula of the fit."""
        read = getattr(self, "_formula", None)
        own = getattr(self, "time_varying", None)
        return own if read is None or not read.effects else read.effects

    def _read_formula(self) -> Formula:
        """Return the formula of the fit; refuse if there is none."""
        read = getattr(self, "_formula", None)
        if read is None:
            raise DataError("The model was not fitted from a formula; pass X itself.")
        return read

    def _is_formula_table(self, X: MatrixLike) -> bool:
        """Return whether X is a table of data for the formula, rather than the matrix itself."""
        if getattr(self, "_formula", None) is None or isinstance(X, Design | ShardedDesign):
            return False
        return has_names(X) and column_names(X) != list(self.feature_names_in_)

    def _apply_formula(self, X: MatrixLike) -> MatrixLike:
        """Return X, computed by the formula if X is a table of data."""
        return self._formula.matrix(as_pandas_table(X)) if self._is_formula_table(X) else X

    def _formula_vector(
        self, name: RowVector, X: MatrixLike, given: LabelsLike | None
    ) -> LabelsLike | None:
        """Return strata or offset: those given, or computed by the formula from a table of data."""
        if given is not None or isinstance(X, Design | ShardedDesign) or not has_names(X):
            return given
        # A table that has exactly the columns of X may be the data or the result of design_matrix.
        # Without the columns of strata or offset either is refused, rather than taken for 0.
        read = getattr(self, "_formula", None)
        return None if read is None else read.vector(name, as_pandas_table(X))

    def design_matrix(self, data: TableLike) -> pd.DataFrame:
        """Compute X of new data by the formula of the fit.

        Parameters
        ----------
        data : pandas, polars or pyarrow table
            Data with the columns that the formula names.

        Returns
        -------
        DataFrame, (n, p)
            Splines and codings are those of the fit; labels that the fit did not contain are
            refused.

        Raises
        ------
        DataError
            If the model was not fitted by a formula, or the formula cannot be evaluated.

        Examples
        --------
        >>> import pandas as pd, steropes
        >>> data = pd.DataFrame({"y": [1.0, 2.0, 4.0, 5.0], "dose": ["low", "low", "high", "high"]})
        >>> model = steropes.LinearRegression.from_formula("y ~ dose", data)
        >>> model.design_matrix(pd.DataFrame({"dose": ["high", "low"]})).to_numpy().tolist()
        [[0], [1]]
        """
        return self._read_formula().matrix(as_pandas_table(data))

    def design_vectors(self, data: TableLike) -> dict[str, Any]:
        """Compute strata and offset of new data by the formula of the fit.

        Parameters
        ----------
        data : pandas, polars or pyarrow table
            Data with the columns that the formula names.

        Returns
        -------
        dict
            ``strata`` and ``offset``, if the formula or the fit named them, as arguments of
            predictions:
            ``predict_survival(m.design_matrix(new), times, **m.design_vectors(new))``.

        Raises
        ------
        DataError
            If the model was not fitted by a formula, or the formula cannot be evaluated.
        """
        return self._read_formula().vectors(as_pandas_table(data))
