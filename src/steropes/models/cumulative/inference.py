"""Standard errors of a fitted cumulative model, for β and for every α."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ...errors import DataError
from ...infer.cumulative import CumulativeInformation, robust_covariance
from ...infer.cumulative_bootstrap import CumulativeBootstrap, bootstrap_coefficients
from ...infer.cumulative_combined import CombinedInformation
from ...infer.cumulative_divide import subset_positions
from ...infer.cumulative_profile import Profile, profile_interval
from ...infer.cumulative_robust import RobustInformation
from ...select.folds import random_generator
from ..annotations import Kind
from ..inference import Inference
from ..tables import cluster_codes, positions, quantile

__all__ = ["CumulativeInference"]


class CumulativeInference(Inference):
    """Covariances, intervals and the table of thresholds."""

    _names: list[str]
    _parts: list[Any]
    _problem: Any
    _subset: np.ndarray | None
    _information: Any
    _robust: dict[str, np.ndarray]
    prior_: Any
    coef_: np.ndarray
    log_likelihood_: float
    alpha_: np.ndarray
    levels_: np.ndarray
    thresholds_: np.ndarray

    def _covariances(self) -> Any:
        """The information at the fit, computed once; NaN is for the callers to give."""
        check_is_fitted(self, "coef_")
        if self._information is None:
            parts = getattr(self, "_parts", None)
            if parts is None:
                raise DataError(
                    "The fit was unpickled without its data, which standard errors need. Call "
                    "summary() or vcov() before pickling, or fit again."
                )
            design = self._problem.design
            kappa = self._problem.penalties(self.prior_)[1] / design.scale**2
            single = [CumulativeInformation(design, p, self._offset_of(p), kappa) for p in parts]
            if len(single) == 1 and self._subset is None:
                self._information = single[0]
            else:
                at = [subset_positions(self.levels_, p.values) for p in parts]
                self._information = CombinedInformation(single, at)
        return self._information

    def _joint(self, kind: Kind, cluster: Any) -> Any:
        """Covariances of α and β together, for functions of both, of a kind as in `vcov`."""
        if kind not in ("model", "robust"):
            raise DataError(f"kind must be 'model' or 'robust', not {kind!r}.")
        check_is_fitted(self, "coef_")
        if kind == "model" and cluster is None:
            return self._covariances()
        parts, information = self._needs_parts(), self._covariances()
        at = getattr(information, "positions", [np.arange(len(self.alpha_))])
        return RobustInformation(
            self._problem.design,
            parts,
            getattr(information, "parts", [information]),
            [self._offset_of(part) for part in parts],
            at,
            self._clusters(cluster),
        )

    def _needs_parts(self) -> list[Any]:
        parts = getattr(self, "_parts", None)
        if parts is None:
            raise DataError(
                "Robust standard errors need the data, which a pickle leaves out; fit again."
            )
        return parts

    def _clusters(self, cluster: Any) -> np.ndarray | None:
        """Codes of the rows' clusters, at least two among the rows that count."""
        return cluster_codes(cluster, self._problem.design.n, self._problem.weights)

    def _offset_of(self, part: Any) -> np.ndarray | None:
        offset = self._problem.offset
        return None if offset is None else offset[part.likelihood.levels.order]

    def _no_errors(self) -> bool:
        """Whether a Laplace prior acts, so that there are no standard errors."""
        check_is_fitted(self, "coef_")
        if self.prior_ is None:
            return False
        return bool((self.prior_.penalty(self._names).l1 > 0).any())

    def vcov(self, kind: Kind = "model", cluster: Any = None) -> pd.DataFrame:
        """Covariance matrix of the coefficients β, after α.

        Parameters
        ----------
        kind : {"model", "robust"}
            "model": the inverse of β's information with α profiled out. "robust": the
            sandwich with the rows' profiled scores, right also where the model or the
            independence of rows is not; weights multiply the scores.
        cluster : (n,) labels, optional
            Rows with the same label may depend on each other, also across the subsets of
            `DivideAndCombine`; implies ``kind="robust"``.

        Returns
        -------
        DataFrame, (p, p)
            NaN where a Laplace prior acts.
        """
        check_is_fitted(self, "coef_")
        p = len(self._names)
        if kind not in ("model", "robust"):
            raise DataError(f"kind must be 'model' or 'robust', not {kind!r}.")
        if self._no_errors():
            V = np.full((p, p), np.nan)
        elif kind == "model" and cluster is None:
            V = self._covariances().beta()
        else:
            V = self._robust_covariance(cluster)
        return pd.DataFrame(V.copy(), self._names, self._names)

    def _robust_covariance(self, cluster: Any) -> np.ndarray:
        check_is_fitted(self, "coef_")
        if cluster is None and "rows" in self._robust:
            return self._robust["rows"]
        parts, information = self._needs_parts(), self._covariances()
        code = self._clusters(cluster)
        single = getattr(information, "parts", [information])
        if code is not None and len(single) > 1:  # clusters that the subsets cut
            return self._joint("robust", cluster).beta()
        V = np.zeros_like(information.beta())
        for part, own in zip(parts, single, strict=True):
            offset = self._offset_of(part)
            V += robust_covariance(
                self._problem.design, part, offset, own, code
            ) / len(single) ** 2  # fmt: skip
        if code is None:
            self._robust["rows"] = V
        return V

    def confint(
        self,
        params: str | int | Sequence[str | int] | None = None,
        level: float = 0.95,
        method: Literal["wald", "robust", "profile"] = "wald",
        cluster: Any = None,
    ) -> pd.DataFrame:
        """Confidence intervals of the coefficients, columns ``lower`` and ``upper``.

        Parameters
        ----------
        params : name, position, sequence of them, or mask, optional
            Coefficients; default all.
        level : float
            Between 0 and 1.
        method : {"wald", "robust", "profile"}
            From standard errors (see `vcov`), or where the likelihood with α and all other
            coefficients refitted has fallen by the chi-squared quantile (without a prior).
        cluster : (n,) labels, optional
            Implies ``method="robust"``; see `vcov`.
        """
        if method not in ("wald", "robust", "profile"):
            raise DataError(f"method must be 'wald', 'robust' or 'profile', not {method!r}.")
        if method == "profile":
            if cluster is not None:
                raise DataError("cluster does not go with method='profile'; use 'robust'.")
            rows = [self._profile_interval(j, level) for j in self._positions(params)]
            return pd.DataFrame(rows, index=[self._names[j] for j in self._positions(params)])
        return super().confint(params, level, method, cluster)

    def _positions(self, params: Any) -> list[int]:
        """Places of coefficients given by name or position; None is all."""
        check_is_fitted(self, "coef_")
        return positions(params, list(self._names))

    def profile(self, param: str | int, points: Any) -> pd.DataFrame:
        """Profile log-likelihood of a coefficient, α and all others refitted at each point.

        Parameters
        ----------
        param : name or position
        points : (m,) array
            Values of the coefficient.

        Returns
        -------
        DataFrame
            Columns ``point``, ``log_likelihood``, ``gradient`` (its derivative).
        """
        at = self._profiler(self._positions(param)[0])
        values = np.atleast_1d(np.asarray(points, np.float64))
        height, slope = at(values)
        return pd.DataFrame({"point": values, "log_likelihood": height, "gradient": slope})

    def bootstrap(
        self, n: int = 200, random_state: Any = None, n_jobs: int | None = None
    ) -> CumulativeBootstrap:
        """Fit the model to rows drawn with replacement, with the prior in use.

        Parameters
        ----------
        n : int
            Draws.
        random_state : int, Generator or None
        n_jobs : ignored
            The draws are fitted one after another.

        Returns
        -------
        CumulativeBootstrap
            ``.coef`` (n, p), ``.confint(level)`` (percentiles), ``.nonzero``.
        """
        check_is_fitted(self, "coef_")
        problem = getattr(self, "_problem", None)
        if problem is None:
            raise DataError("A bootstrap needs the data, which a pickle leaves out; fit again.")
        if self._subset is not None:
            raise DataError("A bootstrap is not there for DivideAndCombine.")
        rng = random_generator(random_state)
        coef = bootstrap_coefficients(problem, self._parts[0].fit, self.prior_, n, rng)
        return CumulativeBootstrap(coef, list(self._names))

    def _profiler(self, j: int) -> Any:
        check_is_fitted(self, "coef_")
        problem = getattr(self, "_problem", None)
        if problem is None:
            raise DataError("A profile needs the data, which a pickle leaves out; fit again.")
        if self.prior_ is not None or self._subset is not None:
            raise DataError("A profile needs a fit without prior and without DivideAndCombine.")
        return Profile(problem, self._parts[0].fit, j)

    def _profile_interval(self, j: int, level: float) -> dict[str, float]:
        quantile(level)
        at = self._profiler(j)
        se = float(np.sqrt(self._covariances().beta()[j, j]))
        lower, upper = profile_interval(
            at, float(self.coef_[j]), se, self.log_likelihood_, level, self._names[j]
        )
        return {"lower": lower, "upper": upper}

    def alpha_summary(self, level: float = 0.95) -> pd.DataFrame:
        """Every threshold with its standard error.

        Parameters
        ----------
        level : float
            Of the pointwise Wald intervals.

        Returns
        -------
        DataFrame, (M − 1, 4)
            Indexed by ``thresholds_``; columns ``alpha``, ``se``, ``lower``, ``upper``.
        """
        q = quantile(level)
        if self._no_errors():
            se = np.full(len(self.alpha_), np.nan)
        else:
            se = np.sqrt(self._covariances().alpha())
        return pd.DataFrame(
            {
                "alpha": self.alpha_,
                "se": se,
                "lower": self.alpha_ - q * se,
                "upper": self.alpha_ + q * se,
            },
            index=pd.Index(self.thresholds_, name="y"),
        )
