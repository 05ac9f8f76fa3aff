"""Tables of a fitted model: coefficients, covariances, intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ..errors import DataError
from ..infer import Information
from ..priors import Prior
from .annotations import Kind
from .one_thread import OneBlasThread
from .tables import check_level, coefficient_table, positions

__all__ = ["Inference"]


class Inference(OneBlasThread):
    """Summary, covariance and Wald intervals of an estimator."""

    # What `PenalizedModel` supplies.
    _names: list[str]
    _has_intercept: bool
    _information: Any
    _beta: np.ndarray
    coef_: np.ndarray
    intercept_: float
    prior_: Prior | None

    def _coefficient_names(self) -> list[str]:
        return (["intercept"] if self._has_intercept else []) + list(self._names)

    def _coefficients(self) -> np.ndarray:
        return np.append(self.intercept_, self.coef_) if self._has_intercept else self.coef_

    def _dispersion(self) -> float:
        return 1.0

    # What exp(coef) is called; None where it has no meaning.
    _ratio: str | None = "exp(coef)"

    def _degrees(self) -> float | None:
        """Degrees of freedom of t tests; None where tests are normal ones."""
        return None

    def vcov(self, kind: Kind = "model", cluster: Any = None) -> pd.DataFrame:
        """Covariance matrix of the coefficients, the inverse of the information.

        Parameters
        ----------
        kind : {"model"}
            The inverse of the Hessian of the negative log-likelihood; with a normal prior of
            the negative log-posterior (the normal approximation of the posterior). With a
            Laplace prior there is no such matrix and every entry is NaN.
        cluster : None
            Of robust covariances, where the family has them.

        Returns
        -------
        DataFrame, (p, p)
            Rows and columns named by coefficient, "intercept" first where there is one.
        """
        check_is_fitted(self, "coef_")
        if kind != "model":
            raise DataError(f"kind must be 'model', not {kind!r}.")
        if cluster is not None:
            raise DataError("cluster goes with robust errors, which this family does not have.")
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
        method: Literal["wald", "robust"] = "wald",
        cluster: Any = None,
    ) -> pd.DataFrame:
        """Confidence intervals of the coefficients.

        Parameters
        ----------
        params : name, position, sequence of them, or mask, optional
            Coefficients; default all. A mask has one entry for each coefficient.
        level : float
            Between 0 and 1.
        method : {"wald", "robust"}
            Coefficient ± normal quantile (of linear models, t) × standard error, the model's or
            where there is one the robust (see `vcov`); NaN with a Laplace prior.
        cluster : (n,) labels, optional
            With ``method="robust"``; see `vcov`.

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``.
        """
        check_is_fitted(self, "coef_")
        if method not in ("wald", "robust"):
            raise DataError(f"method must be 'wald' or 'robust', not {method!r}.")
        chosen = positions(params, self._coefficient_names())
        kind: Kind = "model" if method == "wald" else "robust"
        table = self.summary(level, kind=kind, cluster=cluster)
        return table[["lower", "upper"]].iloc[chosen]

    def summary(
        self,
        level: float = 0.95,
        exponentiate: bool = False,
        kind: Kind = "model",
        cluster: Any = None,
    ) -> pd.DataFrame:
        """Table of the coefficients with Wald standard errors, tests and intervals.

        Parameters
        ----------
        level : float
            Of the intervals.
        exponentiate : bool
            Whether the ratio exp(coef) has columns of its own, with its limits: ``hr``,
            ``hr_lower``, ``hr_upper`` (hazard ratio), or ``or`` (odds ratio), ``rr`` (rate
            ratio).
        kind : str
            Of the standard errors, as in `vcov`.
        cluster : (n,) labels, optional
            As in `vcov`, where the family has robust errors.

        Returns
        -------
        DataFrame
            Indexed by coefficient; columns ``coef``, ``exp(coef)`` (without ``exponentiate``),
            ``se``, ``z``, ``p``, ``lower``, ``upper`` (of ``coef``), and the ratio's. Of linear
            models ``t`` instead of ``z``, with the residual degrees of freedom, and no
            exponentials. Where a Laplace prior acts the standard errors and what follows from
            them are NaN: shrunken coefficients have none.
        """
        check_is_fitted(self, "coef_")
        check_level(level)
        if not isinstance(exponentiate, bool | np.bool_):
            raise DataError(f"exponentiate must be True or False, not {exponentiate!r}.")
        if exponentiate and self._ratio in (None, "exp(coef)"):
            raise DataError(
                f"The exponentials of the coefficients of this {type(self).__name__} are no "
                "ratios; leave exponentiate=False."
            )
        se = np.sqrt(np.diag(self.vcov(kind, cluster).to_numpy()))
        return coefficient_table(
            np.asarray(self._coefficients()), se, self._coefficient_names(), level,
            self._degrees(), self._ratio, bool(exponentiate),
        )  # fmt: skip
