"""Linear predictors of new rows, on which all predictions are based."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...backends import host_backend
from ...backends.protocols import Backend
from ...data import check_offset, refuse_other_order
from ...data.input_types import VectorLike
from ...design import Design, design_of_coded_table, design_of_numbers, has_names, null_design
from ...design.from_data import column_names
from ...errors import DataError
from ...fit.shards import ShardedDesign
from .setting_types import MatrixLike
from .wald_inference import WaldInference

__all__ = ["LinearPrediction", "dense_matrix"]


class LinearPrediction(WaldInference):
    """Linear predictors of new rows, with checks of their columns."""

    _offset_on_log_scale: bool

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
        """Convert X to a design; a null model accepts tables without columns (``table[[]]``)."""
        X = self._apply_formula(X)
        shape = getattr(X, "shape", None)
        if self.n_features_in_ == 0 and shape is not None and len(shape) == 2 and not shape[1]:
            return null_design(shape[0])
        if not self._is_labelled_table(X):
            if isinstance(X, Design) and X.coding is not None and self._coding is not None:
                self._coding.refuse_other_reference(X.coding)
            return design_of_numbers(X, copy=False)
        assert self._coding is not None
        self._check_names(column_names(X), self._coding.columns)
        return design_of_coded_table(X, self._coding)

    def _is_labelled_table(self, X: MatrixLike) -> bool:
        """Return whether X is a table like that of the fit, which had columns of labels."""
        if self._coding is None or isinstance(X, Design | ShardedDesign) or not has_names(X):
            return False
        return column_names(X) != self._coding.names

    def _check_names(self, names: list[str], fitted: list[str]) -> None:
        """Check that columns have the number and the names of those of the fit."""
        self._check_number(len(names), len(fitted))
        if names != fitted:
            j = next(j for j, (a, b) in enumerate(zip(fitted, names, strict=True)) if a != b)
            raise DataError(
                "The feature names should match those that were passed during fit: column "
                f"{j} was {fitted[j]!r} and is {names[j]!r}."
            )

    def _check_number(self, number: int, fitted: int) -> None:
        """Check the number of columns."""
        if number != fitted:
            raise DataError(
                f"X has {number} features, but {type(self).__name__} is expecting "
                f"{fitted} features as input."
            )

    def _check_new(self, X: MatrixLike) -> Any:
        """Read new X; return the columns with estimated coefficients."""
        design = self._check_columns(X)
        return design if self._fixed is None else design.only(self._fixed.kept)

    def _check_columns(self, X: MatrixLike) -> Any:
        """Read new X and check that its columns are those of the fit."""
        check_is_fitted(self)
        plain = self._fixed is not None or not isinstance(X, ShardedDesign)
        design: Any = self._read_new(X) if plain else X
        self._check_number(design.p, len(self._all_names))
        named = (isinstance(X, ShardedDesign) or has_names(X)) and not self._is_formula_table(X)
        if named and getattr(self, "feature_names_in_", None) is not None:
            self._check_names(design.names, self._all_names)
        return design


def dense_matrix(design: Design, backend: Backend) -> np.ndarray:
    """Return X as a dense array in the user's units, (n, p)."""
    D = np.zeros((design.p, backend.lanes(design.p)))
    np.fill_diagonal(D, design.scale)
    return backend.to_host(design.matmul(D, backend))[:, : design.p] + design.center
