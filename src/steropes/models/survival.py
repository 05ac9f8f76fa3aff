"""What Cox's and Fine and Gray's models share: strata by label, baseline, robust covariance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ..data import check_strata
from ..data.checks import label_strata, vector
from ..errors import DataError
from ..infer.baseline import Baseline
from ..infer.survival_sandwich import robust_covariance
from .base import PenalizedModel

__all__ = ["SurvivalModel"]


class SurvivalModel(PenalizedModel):
    """Base of the models with a baseline hazard in each stratum."""

    _cumulative_name = "cumulative_hazard"
    _strata_labels: list | None
    _kept_baseline: Baseline | None

    def _read_strata(self, strata: Any, n: int) -> np.ndarray | None:
        """Codes of the strata, whose labels are kept for prediction."""
        self._strata_labels = None
        if strata is None:
            return None
        codes, self._strata_labels = label_strata(strata, n)
        return codes

    def _fit_problem(self, problem, prior, start, progress) -> None:
        self._kept_baseline = None
        super()._fit_problem(problem, prior, start, progress)

    def _needs_data(self, what: str) -> Any:
        check_is_fitted(self, "coef_")
        problem = getattr(self, "_problem", None)
        if problem is None:
            raise DataError(
                f"The fit was unpickled without its data, which {what} needs; fit again."
            )
        return problem

    # -- baseline and curves -------------------------------------------------------------------

    def _baseline(self) -> Baseline:
        check_is_fitted(self, "coef_")
        if self._kept_baseline is None:
            self._kept_baseline = Baseline(self._needs_data("the baseline"), self._beta)
        return self._kept_baseline

    @property
    def baseline_hazard_(self) -> pd.DataFrame:
        """Steps of the baseline hazard at X = 0 and offset 0, and their running sum."""
        code, time, hazard, cumulative = self._baseline().steps()
        table: dict[str, Any] = {"time": time, "hazard": hazard, self._cumulative_name: cumulative}
        if self._strata_labels is not None:
            labels = np.empty(len(self._strata_labels), object)
            labels[:] = self._strata_labels
            table = {"stratum": labels[code], **table}
        return pd.DataFrame(table)

    def _linear_predictors(self, X: Any, offset: Any) -> np.ndarray:
        """η in each interval of time in which effects are constant, (n, Q)."""
        return self.linear_predictor(X, offset)[:, None]

    def _log_cumulative(self, X: Any, times: Any, strata: Any, offset: Any) -> np.ndarray:
        """Log cumulative hazard of each row at each time, (n, T)."""
        eta = self._linear_predictors(X, offset)
        times = vector(np.atleast_1d(times), None, "times")
        return self._baseline().log_cumulative_of(eta, self._known_strata(strata, len(eta)), times)

    def _known_strata(self, strata: Any, n: int) -> np.ndarray:
        """Codes of strata that the fit has seen."""
        if self._strata_labels is None:
            if strata is not None:
                raise DataError("The model was fitted without strata; leave strata out.")
            return np.zeros(n, np.int64)
        if strata is None:
            raise DataError("The model was fitted with strata: say with strata=… which is whose.")
        codes, labels = label_strata(strata, n)
        known = {label: code for code, label in enumerate(self._strata_labels)}
        for i, label in enumerate(labels):
            if label not in known:
                row = int((codes == i).argmax())
                raise DataError(f"Stratum {label!r} of row {row} was not there in the fit.")
        return np.array([known[label] for label in labels], np.int64)[codes]

    # -- covariance ----------------------------------------------------------------------------

    def _robust_vcov(self, cluster: Any) -> pd.DataFrame:
        model = self.vcov()
        if not np.isfinite(model.to_numpy()).all():
            return model
        problem = self._needs_data("a robust covariance")
        codes = check_strata(cluster, problem.design.n)
        V = robust_covariance(problem, self._beta, model.to_numpy(), codes)
        return pd.DataFrame(V, model.index, model.columns)

    # -- state ---------------------------------------------------------------------------------

    def __getstate__(self):
        if hasattr(self, "coef_"):
            self._baseline()  # what predictions need of the data goes into a pickle
        return super().__getstate__()
