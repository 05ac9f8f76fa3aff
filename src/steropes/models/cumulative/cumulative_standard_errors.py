"""Standard errors of a fitted cumulative model, for β and for every α."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ...data.formatted_tables_for_papers import Interval
from ...data.input_types import LabelsLike
from ...data.plottable_result_tables import ResultTable, present
from ...errors import DataError
from ...infer.cumulative_probability_robust_variances import RobustInformation
from ...infer.cumulative_probability_variances import (
    CumulativeInformation,
    SubsetFit,
    robust_covariance,
    row_influences,
)
from ...infer.divide_and_combine_information import subset_positions
from ...infer.divide_and_combine_predictor_variances import FastSubsetInformation
from ...infer.errors_with_estimated_weights import WeightModel
from ..estimators.penalized_model import PenalizedModel
from ..fitting.coefficient_tables import critical_value
from ..fitting.covariances import why_no_covariance
from ..fitting.default_standard_errors import default_kind, name_errors, name_missing_errors
from ..fitting.setting_types import Kind

__all__ = ["CumulativeInference"]


class CumulativeInference(PenalizedModel):
    """Covariances of β and α, and the table of thresholds."""

    _parts: list[SubsetFit]
    _problem: Any
    _subset_of_row: np.ndarray | None
    _information: Any
    _robust: dict[str, np.ndarray]
    categories_: list | None
    alpha_: np.ndarray
    levels_: np.ndarray
    thresholds_: np.ndarray

    def _covariances(self) -> CumulativeInformation | FastSubsetInformation:
        """Return the information at the fit, computed at the first call."""
        check_is_fitted(self)
        if self._information is None:
            parts = getattr(self, "_parts", None)
            if parts is None:
                raise DataError(
                    "The fit was unpickled without its data, which standard errors need. Call "
                    "summary() or vcov() before pickling, or fit again."
                )
            single = [CumulativeInformation(self._problem, p, self._offset_of(p)) for p in parts]
            if len(single) == 1 and self._subset_of_row is None:
                self._information = single[0]
            else:
                at = [subset_positions(self.levels_, p.values) for p in parts]
                self._information = FastSubsetInformation(single, at)
        return self._information

    def _joint_covariances(
        self, kind: Kind | None, cluster: LabelsLike | None
    ) -> CumulativeInformation | FastSubsetInformation | RobustInformation:
        """Return joint covariances of α and β, of a kind as in `vcov`."""
        check_is_fitted(self)
        if self._joint_kind(kind, cluster) == "model":
            return self._covariances()
        parts, information = self._needs_parts(), self._covariances()
        return RobustInformation(
            self._problem.design,
            parts,
            information.parts,
            [self._offset_of(part) for part in parts],
            information.positions,
            self._codes_of_clusters(cluster),
        )

    def _joint_kind(self, kind: Kind | None, cluster: LabelsLike | None) -> str:
        """Return the kind of joint covariances that is meant; clusters imply robust ones."""
        kind = default_kind(self, kind)
        if not isinstance(kind, str) or kind not in ("model", "robust"):
            raise DataError(f"kind must be 'model' or 'robust', not {kind!r}.")
        return kind if cluster is None else "robust"

    def _needs_parts(self) -> list[SubsetFit]:
        """Return the parts of the fit; refuse if unpickling has lost them."""
        parts = getattr(self, "_parts", None)
        if parts is None:
            raise DataError(
                "Robust standard errors need the data, which a pickle leaves out; fit again."
            )
        return parts

    def _codes_of_clusters(self, cluster: LabelsLike | None) -> np.ndarray | None:
        """Convert cluster labels to codes; require two clusters among rows with weight."""
        return self._cluster_codes(cluster, self._problem)

    def _offset_of(self, part: SubsetFit) -> np.ndarray | None:
        """Return the offset in the order of a part's likelihood."""
        offset = self._problem.offset
        return None if offset is None else offset[part.likelihood.levels.order]

    def _lacks_standard_errors(self) -> bool:
        """Return whether a Laplace prior excludes standard errors."""
        return self._has_sparse_prior()

    def vcov(
        self,
        kind: Kind | None = None,
        cluster: LabelsLike | None = None,
        weight_model: WeightModel | None = None,
    ) -> pd.DataFrame:
        """Compute the covariance matrix of the coefficients β, with α profiled out.

        Parameters
        ----------
        kind : {"model", "robust", "jackknife"}, optional
            Default ``"robust"`` if any weight is not a whole number, and ``"model"`` otherwise.
            ``"model"``: the inverse of the profile information of β. ``"robust"``: the sandwich
            with the profile scores of rows, which remains valid if the model is wrong or, with
            ``cluster``, rows are dependent; weights multiply the scores. ``"jackknife"``: from fits
            that leave out one row or cluster each, for small data.
        cluster : (n,) labels, optional
            Rows with the same label may be dependent, also across the subsets of
            `DivideAndCombine`; implies ``kind="robust"`` by default.
        weight_model : steropes.designs.propensity.EstimatedWeights, optional
            The propensity model that the weights of the fit come from, whose estimation robust
            errors then include (M-estimation).

        Returns
        -------
        DataFrame, (p, p)
            Rows and columns are named by coefficient.

        Raises
        ------
        DataError
            Under a Laplace prior; use profiles or the bootstrap.
        """
        check_is_fitted(self)
        asked, kind = kind, default_kind(self, kind)
        if not isinstance(kind, str) or kind not in ("model", "robust", "jackknife"):
            raise DataError(f"kind must be 'model', 'robust' or 'jackknife', not {kind!r}.")
        if weight_model is not None and asked not in (None, "robust"):
            raise DataError("weight_model goes with kind='robust' only.")
        if self._lacks_standard_errors():
            raise DataError(why_no_covariance(self.prior_))
        if weight_model is not None:
            V = self._matrix_with_weight_model(weight_model, cluster)
            return name_errors(pd.DataFrame(V, self._names, self._names), "M-estimation")
        if kind == "jackknife":
            V = self._corrected_matrix(kind, cluster)
        elif kind == "model" and cluster is None:
            V = self._covariances().beta_covariance()
        else:
            V, kind = self._robust_covariance(cluster), "robust"
        return name_errors(pd.DataFrame(V.copy(), self._names, self._names), kind, self)

    def _robust_covariance(self, cluster: LabelsLike | None) -> np.ndarray:
        """Compute the robust covariance matrix of β."""
        check_is_fitted(self)
        if cluster is None and "rows" in self._robust:
            return self._robust["rows"]
        parts, information = self._needs_parts(), self._covariances()
        code = self._codes_of_clusters(cluster)
        single = information.parts
        if code is not None and len(single) > 1:  # clusters may have rows in several subsets
            return self._joint_covariances("robust", cluster).beta_covariance()
        V = np.zeros_like(information.beta_covariance())
        for part, own in zip(parts, single, strict=True):
            offset = self._offset_of(part)
            V += robust_covariance(
                self._problem.design, part, offset, own, code
            ) / len(single) ** 2  # fmt: skip
        if code is None:
            self._robust["rows"] = V
        return V

    def _row_influences(self) -> np.ndarray:
        """Compute the derivative of β in the logarithm of each row's weight, (n, p)."""
        parts, single = self._needs_parts(), self._covariances().parts
        out = np.zeros((self._problem.design.n, len(self._names)))
        for part, own in zip(parts, single, strict=True):
            rows, change = row_influences(self._problem.design, part, self._offset_of(part), own)
            out[rows] += change / len(single)
        return out

    def _n_extra_parameters(self) -> int:
        """Return the number of thresholds."""
        return len(self.alpha_)

    def alpha_summary(
        self, level: float = 0.95, kind: Kind | None = None, cluster: LabelsLike | None = None
    ) -> ResultTable:
        """Tabulate all thresholds with their standard errors.

        Parameters
        ----------
        level : float
            Confidence level of the pointwise Wald intervals.
        kind : {"model", "robust"}, optional
            Covariances of α: those of the model, or the joint sandwich estimate; see `vcov`.
        cluster : (n,) labels, optional
            Clusters of the rows of the fit, which imply robust covariances; see `vcov`.

        Returns
        -------
        DataFrame, (M − 1, 4)
            Indexed by ``thresholds_``, or by the labels of ordered categories; columns ``alpha``,
            ``se``, ``lower``, ``upper``. The table names its kind of errors as ``summary()`` does.

        Examples
        --------
        >>> import numpy as np
        >>> import steropes
        >>> X = np.linspace(-1.0, 1.0, 40)[:, None]
        >>> y = np.round(2.0 * X[:, 0] + np.sin(7.0 * np.arange(40)))
        >>> model = steropes.CumulativeProbabilityModel().fit(X, y)
        >>> model.alpha_summary()["alpha"].round(1).tolist()
        [-4.0, -1.0, 1.4, 2.9, 5.3]
        """
        q = critical_value(level)
        if self._lacks_standard_errors():
            se = np.full(len(self.alpha_), np.nan)
        else:
            at, zero = np.arange(len(self.alpha_)), np.zeros((1, len(self._names)))
            information = self._joint_covariances(kind, cluster)
            se = np.sqrt(
                information.predictor_variance(at, zero)[0]
                if isinstance(information, RobustInformation)
                else information.alpha_variance()
            )
        table = pd.DataFrame(
            {
                "alpha": self.alpha_,
                "se": se,
                "lower": self.alpha_ - q * se,
                "upper": self.alpha_ + q * se,
            },
            index=pd.Index(self._labels_of(self.thresholds_), name="y", tupleize_cols=False),
        )
        shown = [Interval("α", "alpha", level=level)]
        drawn: dict[str, Any] = {"column": "alpha", "x": "y", "step": True, "label": "α(y)"}
        found = present(table, "interval_curves", intervals=shown, **drawn)
        if self._lacks_standard_errors():
            return name_missing_errors(found, self.prior_)
        return name_errors(found, self._joint_kind(kind, cluster), self)

    def _labels_of(self, levels: np.ndarray) -> np.ndarray | list:
        """Return the labels of levels that are positions of categories, otherwise the levels."""
        categories = self.categories_
        return levels if categories is None else [categories[int(k)] for k in levels]
