"""Tables of a fitted model: coefficients, covariances, intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.utils.validation import check_is_fitted

from ..errors import DataError
from ..infer import Information
from .one_thread import OneBlasThread

__all__ = ["Inference"]


class Inference(OneBlasThread):
    """Summary, covariance and Wald intervals of an estimator."""

    # What `PenalizedModel` supplies.
    _names: list[str]
    _has_intercept: bool
    _information: Any
    _beta: Any
    coef_: Any
    intercept_: Any
    prior_: Any

    def _coefficient_names(self) -> list[str]:
        return (["intercept"] if self._has_intercept else []) + list(self._names)

    def _coefficients(self) -> np.ndarray:
        return np.append(self.intercept_, self.coef_) if self._has_intercept else self.coef_

    def _dispersion(self) -> float:
        return 1.0

    def vcov(self, kind: str = "model") -> pd.DataFrame:
        """Covariance matrix of the coefficients, the inverse of the information.

        Parameters
        ----------
        kind : {"model"}
            The inverse of the Hessian of the negative log-likelihood; with a normal prior of
            the negative log-posterior (the normal approximation of the posterior). With a
            Laplace prior there is no such matrix and every entry is NaN.

        Returns
        -------
        DataFrame, (p, p)
            Rows and columns named by coefficient, "intercept" first where there is one.
        """
        check_is_fitted(self, "coef_")
        if kind != "model":
            raise DataError(f"kind must be 'model', not {kind!r}.")
        if self._information is None:
            problem = getattr(self, "_problem", None)
            if problem is None:
                raise DataError(
                    "The fit was unpickled without its data, which standard errors need. Call "
                    "summary() or vcov() before pickling, or fit again."
                )
            l1, l2 = problem.penalties(self.prior_)
            self._information = Information(problem, self._beta, l1, l2).vcov()
        names = self._coefficient_names()
        return pd.DataFrame(self._dispersion() * self._information, names, names)

    def confint(
        self,
        params: str | int | Sequence[str | int] | None = None,
        level: float = 0.95,
        method: str = "wald",
    ) -> pd.DataFrame:
        """Confidence intervals of the coefficients.

        Parameters
        ----------
        params : name, position, or sequence of them, optional
            Coefficients; default all.
        level : float
            Between 0 and 1.
        method : {"wald", "robust"}
            Coefficient ± normal quantile × standard error, the model's or where there is one the
            robust (see `vcov`); NaN with a Laplace prior.

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``.
        """
        if method not in ("wald", "robust"):
            raise DataError(f"method must be 'wald' or 'robust', not {method!r}.")
        kind = "model" if method == "wald" else "robust"
        table = self.summary(level, kind)[["lower", "upper"]]
        if params is None:
            return table
        chosen = [params] if isinstance(params, str | int | np.integer) else list(params)
        labels = []
        for item in chosen:
            if isinstance(item, str):
                if item not in table.index:
                    raise DataError(f"There is no coefficient {item!r}.")
                labels.append(item)
            else:
                labels.append(table.index[int(item)])
        return table.loc[labels]

    def summary(self, level: float = 0.95, kind: str = "model") -> pd.DataFrame:
        """Table of the coefficients with Wald standard errors, tests and intervals.

        Parameters
        ----------
        level : float
            Of the intervals.
        kind : str
            Of the standard errors, as in `vcov`.

        Returns
        -------
        DataFrame
            Indexed by coefficient; columns ``coef``, ``exp(coef)``, ``se``, ``z``, ``p``,
            ``lower``, ``upper`` (of ``coef``). Where a Laplace prior acts the standard errors
            and what follows from them are NaN: shrunken coefficients have none.
        """
        check_is_fitted(self, "coef_")
        if not 0 < level < 1:
            raise DataError(f"level must be between 0 and 1, not {level!r}.")
        coef: Any = self._coefficients()
        se = np.sqrt(np.diag(self.vcov(kind).to_numpy()))
        z = coef / se
        q = stats.norm.ppf(0.5 + level / 2)
        with np.errstate(over="ignore"):
            ratio = np.exp(coef)
        return pd.DataFrame(
            {
                "coef": coef,
                "exp(coef)": ratio,
                "se": se,
                "z": z,
                "p": 2 * stats.norm.sf(np.abs(z)),
                "lower": coef - q * se,
                "upper": coef + q * se,
            },
            index=self._coefficient_names(),
        )
