"""Attributes and methods of estimators on which the classes of single tasks rely."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ...data.input_types import LabelsLike, VectorLike
from ...design.category_coding import CategoryCoding
from ...fit import Problem
from ...infer.profile_fits import FromObjective
from ...priors import Prior
from ...select import CrossValidation, Measured
from ...select.folds import Seed
from ...select.variance_search import FoldScore
from ...solve import Fit
from ..formulas.formula_data_types import RowVector
from .fixed_and_initial_coefficients import FixedCoefficients
from .setting_types import Chooser, Device, Kind, MatrixLike, Solver
from .single_threaded_methods import SingleThreadedMethods

__all__ = ["FittedModel"]


class FittedModel(SingleThreadedMethods):
    """Base class of the mixins of `PenalizedModel`, which declares the names that they share.

    `PenalizedModel` and its bases define them; the declarations here serve type checkers only.
    """

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
    # Fitted attributes.
    coef_: np.ndarray
    intercept_: float
    prior_: Prior | None
    log_likelihood_: float
    optimality_: float
    converged_: bool
    n_iter_: int
    n_features_in_: int
    # Names of the columns with estimated coefficients, and coefficients that the user has fixed.
    _names: list[str]
    _fixed: FixedCoefficients | None
    # Levels of the columns of labels in X; None if there are none.
    _coding: CategoryCoding | None = None
    # Whether the fit has an intercept.
    _has_intercept: bool
    # Coefficients in the solver's parametrisation.
    _beta: np.ndarray
    # Index of the rows of the fit, if X or y had one.
    _row_labels: pd.Index | None
    _problem: Problem
    # Inverse information, computed at the first request.
    _information: object

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the model is fitted, for `sklearn.utils.validation.check_is_fitted`."""
        return hasattr(self, "coef_")

    @property
    def _all_names(self) -> list[str]:
        """Names of all columns of the design, including those with fixed coefficients."""
        return self._names if self._fixed is None else self._fixed.names

    if TYPE_CHECKING:

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the settings by name."""

        def vcov(self, kind: Kind | None = None) -> pd.DataFrame:
            """Compute the covariance matrix of the coefficients."""

        def summary(self) -> pd.DataFrame:
            """Tabulate the coefficients."""

        def _require_data(self, what: str) -> Problem: ...
        def _coefficient_names(self) -> list[str]: ...
        def _coefficients(self) -> np.ndarray: ...
        def _has_sparse_prior(self) -> bool: ...
        def _residual_variance(self) -> float: ...
        def _is_formula_table(self, X: MatrixLike) -> bool: ...
        def _apply_formula(self, X: MatrixLike) -> MatrixLike: ...
        def _formula_vector(
            self, name: RowVector, X: MatrixLike, given: LabelsLike | None
        ) -> LabelsLike | None: ...
        def _is_labelled_table(self, X: MatrixLike) -> bool: ...
        def _check_new(self, X: MatrixLike) -> Any: ...
        def _check_columns(self, X: MatrixLike) -> Any: ...
        def _new_offset(
            self, X: MatrixLike, offset: VectorLike | None, n: int
        ) -> np.ndarray | None: ...
        def _has_varying_effects(self) -> bool: ...
        def _chooser(self) -> Chooser: ...
        def _held_out_score(self, cv: CrossValidation) -> FoldScore | None: ...
        def _criterion_terms(self, problem: Problem, fit: Fit) -> Measured: ...
        def _objective_to_likelihood(self, problem: Problem) -> FromObjective: ...
        def _effective_sample_size(self, problem: Problem) -> float: ...
