"""Wald inference: coefficient tables, covariance matrices and confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ...data import check_level, refuse_other_order
from ...data.input_types import LabelsLike
from ...errors import DataError
from ...fit import Problem
from ...infer import Information
from ...infer.bootstrap_draws import sampling_units
from ...infer.heteroscedasticity import HC_KINDS, heteroscedasticity_covariance
from ...infer.robust_covariance import refuse_single_unit, robust_covariance
from ...likelihoods import IndependentRowsLikelihood
from ...priors import LimitedPenalty, LimitedPrior
from .coefficient_tables import cluster_codes, coefficient_positions, coefficient_table
from .default_errors import default_kind, name_errors, robust_by_default
from .fitted_model import FittedModel
from .fixed_and_initial_coefficients import FixedCoefficients
from .setting_types import Kind

__all__ = ["NO_COVARIANCE", "WaldInference"]

NO_COVARIANCE = (
    "Under a Laplace prior (or another that sets coefficients to zero) there are no standard "
    "errors: shrunken estimates are not normally distributed, and those of unpenalised "
    "coefficients depend on which others are selected. Use confint(method='profile') or "
    "summary(kind='profile') for coefficients without a prior, and inference.bootstrap() for all."
)

NO_COVARIANCE_WITHIN_LIMITS = (
    "With limits of coefficients there are no standard errors: at a limit an estimate has no "
    "normal distribution (Self and Liang 1987), and the others depend on the limits that bind. Use "
    "bootstrap(), or confint(method='profile') for columns without a prior and limits."
)


class WaldInference(FittedModel):
    """Summary, covariance and Wald intervals of an estimator."""

    _fixed: FixedCoefficients | None = None
    # Labels of the formula's cluster().
    _clusters: LabelsLike | None = None
    # The value of `_has_sparse_prior` in a fit that was unpickled without its data.
    _shrinks: bool | None = None
    _information: np.ndarray | None
    # The robust covariance matrix, where it is the default.
    _robust_by_default: np.ndarray | None = None
    # Whether a weight is not a whole number, in a fit that was unpickled without its data.
    _has_fractional_weights: bool = False

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

    # Whether tables show exp(coef), a ratio of hazards, odds or rates, with its limits.
    _has_ratio: bool = True

    def _residual_df(self) -> float | None:
        """Return the degrees of freedom of t tests; None for tests based on the normal."""
        return None

    def vcov(self, kind: Kind | None = None, cluster: LabelsLike | None = None) -> pd.DataFrame:
        """Compute the covariance matrix of the coefficients.

        Parameters
        ----------
        kind : {"model", "robust", "HC0", "HC1", "HC2", "HC3"}, optional
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
            ``"HC0"`` to ``"HC3"``, in generalised linear models without a prior: ``"HC0"`` is
            ``"robust"`` without clusters; ``"HC1"`` multiplies it by n / (n − k) for n rows and k
            coefficients; ``"HC2"`` and ``"HC3"`` divide each squared score by 1 − h and (1 − h)²
            with the row's leverage h, as R's ``sandwich::vcovHC``.
        cluster : (n,) labels, optional
            With ``"robust"``: clusters of rows, such as those of one person, within which scores
            are summed before they are squared; default those of ``cluster()`` in the formula. In
            models that condition on strata, a cluster may contain rows of several strata and
            parts of them (a person in several matched sets), as in R's ``clogit(…, cluster=)``,
            except with ``method="exact"``, in which single rows of a stratum have no influence.

        Returns
        -------
        DataFrame, (p, p)
            Rows and columns are named by coefficient, "intercept" first if there is one.

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
        if not isinstance(kind, str) or kind not in ("model", "robust", *HC_KINDS):
            raise DataError(f"kind must be 'model' or 'robust', or 'HC0' to 'HC3', not {kind!r}.")
        if cluster is not None and kind != "robust":
            raise DataError("cluster goes with kind='robust' only.")
        if self._has_sparse_prior():
            raise DataError(self._no_covariance())
        names = self._coefficient_names()
        if kind in HC_KINDS:
            V = self._heteroscedasticity_matrix(kind)
            return name_errors(pd.DataFrame(V, names, names), kind)
        if kind == "robust":
            found = self._robust_matrix(cluster) if asked else robust_by_default(self, cluster)
            if found is not None:
                return name_errors(pd.DataFrame(found, names, names), kind)
        if self._information is None:
            problem = getattr(self, "_problem", None)
            if problem is None:
                raise DataError(
                    "The fit was unpickled without its data, which standard errors need. Call "
                    "summary() or vcov() before pickling, or fit again."
                )
            l1, l2 = problem.penalties(self.prior_)
            self._information = Information(problem, self._beta, l1, l2).vcov()
        V = self._residual_variance() * self._information
        return name_errors(pd.DataFrame(V, names, names), "model")

    def _robust_matrix(self, cluster: LabelsLike | None) -> np.ndarray:
        """Compute the robust covariance matrix."""
        problem = self._require_data("a robust covariance")
        unit = self._cluster_codes(cluster, problem)
        if unit is None or problem.likelihood.whole_strata:
            unit, _ = sampling_units(problem, unit)
        if unit is not None:
            refuse_single_unit(unit, problem.weights, problem.likelihood.order)
        l1, l2 = problem.penalties(self.prior_)
        influence = Information(problem, self._beta, l1, l2).influence()
        return robust_covariance(problem, self._beta, influence, unit)

    def _heteroscedasticity_matrix(self, kind: str) -> np.ndarray:
        """Compute HC0 to HC3; refuse models and priors for which they are not defined."""
        problem = self._require_data("a robust covariance")
        likelihood = problem.likelihood
        if not isinstance(likelihood, IndependentRowsLikelihood) or not likelihood.additive:
            reason = (
                "give dispersion= to take it as known"
                if isinstance(likelihood, IndependentRowsLikelihood)
                else "rows contribute jointly, or have several linear predictors"
            )
            raise DataError(
                f"kind={kind!r} needs scores of single rows, which {type(self).__name__} does not "
                f"have here ({reason}). Use kind='robust'."
            )
        if self.prior_ is not None:
            raise DataError(
                f"kind={kind!r} is for maximum likelihood, because leverages under a prior are "
                "not those of the data. Use kind='robust', or fit with prior=None."
            )
        if self._clusters is not None:
            raise DataError(
                f"The formula has cluster(), for which {kind} is not defined; use kind='robust'."
            )
        return heteroscedasticity_covariance(problem, self._beta, kind)

    def _cluster_codes(self, cluster: LabelsLike | None, problem: Problem) -> np.ndarray | None:
        """Convert cluster labels of the rows, by default those of the formula, to codes."""
        cluster = self._clusters if cluster is None else cluster
        if self._row_labels is not None:  # X itself is not available any more
            refuse_other_order(pd.Series(np.nan, self._row_labels), cluster=cluster)
        return cluster_codes(cluster, problem.design.n, problem.weights)

    def _require_replicable(self, what: str) -> Problem:
        """Return the fit's problem if replicates of it can be fitted; refuse otherwise."""
        problem = self._require_data(what)
        if not isinstance(problem, Problem):
            raise DataError(f"{type(self).__name__} does not have {what}.")
        return problem

    def _refuse_joint_penalty(
        self, problem: Problem, columns: Sequence[int] | np.ndarray, what: str
    ) -> None:
        """Refuse to hold coefficients on which the prior of the others depends."""
        prior = self.prior_
        # Powers of the information account for offsets, and thus for held coefficients.
        if prior is None or prior.plain or prior.information_power:
            return
        at = np.asarray(columns, np.int64)
        # A Hessian of zero at the estimate would not show that a smooth term leaves a column out.
        if not prior.adaptive and (term := problem.smooth_term()) is not None:
            if (
                problem.excluded(prior)[at].all()
                and not term.gradient(self._beta[:, None])[at].any()
            ):
                return
            name, setting = type(prior).__name__, "exclude" in prior.get_params()
            remedy = "exclude=…" if setting else f"by a setting exclude of the class {name}"
            raise DataError(
                f"The smooth term of {name} may depend on a coefficient that is held: there is no "
                f"{what}. Leave it out of the prior ({remedy}), or use inference.bootstrap()."
            )
        joined = problem.group_penalty(prior)
        if isinstance(joined, LimitedPenalty):
            l1, l2 = problem.penalties(prior)
            if joined.joins(at) or l1[at].any() or l2[at].any():
                raise DataError(
                    f"With limits of coefficients, there is a {what} of columns without a prior "
                    "and limits only (exclude=…); use inference.bootstrap() for the others."
                )
            return
        if joined is not None and not joined.joins(at):
            return
        raise DataError(
            f"Under a {type(prior).__name__} prior a coefficient that is held has a part in the "
            f"prior of the others: there is no {what}. Leave it out of the prior (exclude=…), or "
            "use inference.bootstrap()."
        )

    def _has_sparse_prior(self) -> bool:
        """Return whether a Laplace or adaptive prior or limits exclude standard errors."""
        check_is_fitted(self)
        if self.prior_ is None:
            return False
        if self._has_limits():
            return True
        problem = getattr(self, "_problem", None)
        if isinstance(problem, Problem):
            l1, l2 = problem.penalties(self.prior_)
        elif self._shrinks is not None:
            return self._shrinks
        else:  # pickles of earlier versions
            names = self._coefficient_names()
            penalty = self.prior_.separable(names[len(names) - len(self._estimated) :])
            l1, l2 = penalty.l1, penalty.l2
        # The weights of an adaptive prior depend on the estimates, which invalidates the Hessian.
        acts = (l1 > 0) | ((l2 > 0) if self.prior_.adaptive else False)
        return bool(acts.any())

    def _has_limits(self) -> bool:
        """Return whether the prior has limits of coefficients."""
        return isinstance(self.prior_, LimitedPrior) and self.prior_.limited

    def _no_covariance(self) -> str:
        """Return the reason why there are no standard errors."""
        return NO_COVARIANCE_WITHIN_LIMITS if self._has_limits() else NO_COVARIANCE

    def _wald_intervals(
        self,
        params: str | int | Sequence[str | int] | None = None,
        level: float = 0.95,
        method: Literal["wald", "model", "robust", "HC0", "HC1", "HC2", "HC3"] = "wald",
        cluster: LabelsLike | None = None,
    ) -> pd.DataFrame:
        """Compute confidence intervals of the coefficients.

        Parameters
        ----------
        params : name, position, sequence of them, or mask, optional
            Coefficients; default all. Positions count the intercept or baseline, if any, and
            then the columns of X as they were given to ``fit``, including those with a fixed
            coefficient. A mask has one entry for each coefficient.
        level : float
            Between 0 and 1.
        method : {"wald", "model", "robust", "HC0", "HC1", "HC2", "HC3"}
            Coefficient ± normal quantile (in linear models, t) × standard error of a kind, with
            ``"wald"`` the default one (see `vcov`). Refused under a Laplace prior.
        cluster : (n,) labels, optional
            With ``method="robust"``; see `vcov`.

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``.
        """
        check_is_fitted(self)
        if not isinstance(method, str) or method not in ("wald", "model", "robust", *HC_KINDS):
            raise DataError(f"method must be 'wald', 'robust' or 'HC0' to 'HC3', not {method!r}.")
        chosen = coefficient_positions(params, self._coefficient_names(), self._fixed)
        if self._has_sparse_prior():
            raise DataError(self._no_covariance())
        kind: Kind | None = None if method == "wald" else method
        table = self._wald_summary(level, kind=kind, cluster=cluster)
        return table[["lower", "upper"]].iloc[chosen]

    def _wald_summary(
        self, level: float = 0.95, kind: Kind | None = None, cluster: LabelsLike | None = None
    ) -> pd.DataFrame:
        """Tabulate the coefficients with Wald standard errors, tests and intervals.

        Parameters
        ----------
        level : float
            Confidence level of the intervals.
        kind : {"model", "robust", "HC0", "HC1", "HC2", "HC3"}, optional
            Kind of the standard errors, as in `vcov`. The table names them, in print unless they
            are the model's and always in ``attrs["errors"]``.
        cluster : (n,) labels, optional
            As in `vcov`.

        Returns
        -------
        DataFrame
            Indexed by coefficient, with the columns ``coef``, ``lower``, ``upper``,
            ``exp(coef)``, ``exp(lower)``, ``exp(upper)``, ``se``, ``z`` and ``p``. The
            exponentials are the ratio (of hazards, odds or rates) and its limits, which only
            models with a ratio have. Linear models have ``t``, with the residual degrees of
            freedom, instead of ``z``. Under a Laplace prior the standard errors and all columns
            that depend on them are NaN, and ``attrs["note"]`` of the table names an alternative.
        """
        check_level(level)
        shrunken = self._has_sparse_prior()
        estimate = np.asarray(self._coefficients())
        if shrunken:
            se = np.full(len(estimate), np.nan)
        else:
            V = self.vcov(kind, cluster)
            se, kind = np.sqrt(np.diag(V.to_numpy())), V.attrs["errors"]
        table = self._table(estimate, se, level, self._residual_df())
        if shrunken:
            table.attrs["note"] = self._no_covariance()
            return table
        return name_errors(table, str(kind))

    def _table(
        self,
        estimate: np.ndarray,
        se: np.ndarray,
        level: float,
        df: float | None,
        known: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> pd.DataFrame:
        """Tabulate; ``known`` are statistics and limits that are not derived from ``se``."""
        return coefficient_table(
            estimate, se, self._coefficient_names(), level, df, self._has_ratio, known
        )
