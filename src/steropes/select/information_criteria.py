"""Selection of the prior's variance by an information criterion of the full data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import gammaln

from ..data.html_representations import FieldsInHtml
from ..errors import DataError
from ..fit import Problem, solve_under_prior
from ..priors import Penalty
from ..solve import Fit
from .crossvalidation import check_search
from .cyclops_search import CyclopsSearch
from .first_variance_of_problem import beginning
from .fold_score_comparison import best_of, readable
from .prior_comparison import check_compared, choose_among
from .variance_search import Progress, Selection, VariancePath

__all__ = ["InformationCriterion", "Measure", "Measured"]

KINDS = ("aic", "bic", "ebic")


@dataclass(frozen=True)
class Measured:
    """The parts of a criterion at a fit.

    Attributes
    ----------
    log_likelihood : float
        Without the prior.
    df : float
        Effective number of parameters.
    chosen : float
        Number of these that belong to penalised columns.
    n : float
        Number of observations.
    """

    log_likelihood: float
    df: float
    chosen: float
    n: float


Measure = Callable[[Problem, Fit], Measured]


@dataclass(frozen=True)
class InformationCriterion(FieldsInHtml):
    """Choose the variance of a prior by an information criterion, in place of cross-validation.

    Passed to an estimator as ``cv``. It costs one path of fits of the full data. Along the path

        AIC = −2 ℓ + 2 df,   BIC = −2 ℓ + log(n) df,
        EBIC = BIC + 2 γ log (p choose k),

    with the degrees of freedom of the lasso, the number of nonzero coefficients (Zou, Hastie and
    Tibshirani 2007), or of a ridge, tr[(H + κ)⁻¹ H]; n as in ``bic_``; and k nonzero coefficients
    of the p columns under the prior. The variance with the smallest criterion is chosen.

    Parameters
    ----------
    kind : {"aic", "bic", "ebic"}
        AIC is meant for prediction and keeps too many of many columns. BIC finds the few relevant
        ones among some columns, EBIC among very many.
    gamma : float
        Parameter of EBIC, from 0 (BIC) to 1. With the default of 0.5, irrelevant columns are
        excluded asymptotically if p grows more slowly than n (Chen and Chen 2008, Theorem 1).
    search : "auto" or sequence of float
        Variances to try. ``"auto"`` starts at the variance at which the first coefficient leaves
        zero, continues until the criterion has risen for five steps, and then refines around the
        smallest.
    compare : mapping of names to sequences, optional
        As in `CrossValidation`.

    See Also
    --------
    CrossValidation : Choice by the log-likelihood of held-out rows.

    References
    ----------
    Akaike (1974), IEEE Transactions on Automatic Control 19:716–723. Schwarz (1978), Annals of
    Statistics 6:461–464. Chen and Chen (2008), Biometrika 95:759–771; (2012), Statistica Sinica
    22:555–574. Zou, Hastie and Tibshirani (2007), Annals of Statistics 35:2173–2192.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 4))
    >>> y = X @ [1.0, 0.0, 0.0, 0.0] + rng.standard_normal(200)
    >>> bic = steropes.InformationCriterion("bic")
    >>> model = steropes.LinearRegression(prior=steropes.Laplace(), cv=bic).fit(X, y)
    >>> (model.coef_ != 0).tolist()
    [True, False, False, False]
    >>> model.cv_results_.columns.tolist()
    ['variance', 'criterion', 'log_likelihood', 'df', 'nonzero']
    """

    kind: Literal["aic", "bic", "ebic"] = "bic"
    gamma: float = 0.5
    search: Literal["auto"] | Sequence[float] | np.ndarray = "auto"
    compare: Mapping[str, Sequence[Any]] | None = None

    def check(self) -> None:
        """Reject invalid settings.

        Raises
        ------
        DataError
            The message names the setting.
        """
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise DataError(f"kind must be 'aic', 'bic' or 'ebic', not {self.kind!r}.")
        number = isinstance(self.gamma, Real) and not isinstance(self.gamma, bool)
        if not (number and 0 <= self.gamma <= 1):
            raise DataError(f"gamma must be a number from 0 to 1, not {self.gamma!r}.")
        if isinstance(self.search, CyclopsSearch):
            raise DataError("CyclopsSearch is a search for cross-validation.")
        check_search(self.search)
        check_compared(self.compare)

    @property
    def _figure_options(self) -> dict[str, str]:
        """How the criterion is named in a plot of the results."""
        return {"score": self.kind.upper()}

    def of(self, found: Measured, p: int) -> float:
        """Compute the criterion of a fit.

        Parameters
        ----------
        found : Measured
            Log-likelihood, degrees of freedom and number of observations of the fit.
        p : int
            Number of columns under the prior.

        Returns
        -------
        float
            AIC, BIC or EBIC; smaller is better.
        """
        price = 2.0 if self.kind == "aic" else float(np.log(found.n))
        value = -2.0 * found.log_likelihood + price * found.df
        if self.kind == "ebic":
            k = min(found.chosen, float(p))
            value += 2 * self.gamma * (gammaln(p + 1) - gammaln(k + 1) - gammaln(p - k + 1))
        return float(value)

    def run(
        self, problem: Problem, measure: Measure, progress: Progress | None = None
    ) -> Selection:
        """Evaluate variances; estimators call this method.

        Parameters
        ----------
        problem : Problem
            A model with its data and prior, a `steropes.fit.Problem`.
        measure : callable
            Function of a problem and a fit that returns its `Measured`.
        progress : callable, optional
            Function that reports progress.

        Returns
        -------
        Selection
            The chosen variance with its prior, the table of results and a start for the final fit.

        Raises
        ------
        DataError
            If a setting is invalid.
        """
        self.check()

        def each(part: Problem, _: bool) -> Selection:
            return CriterionPath(self, part, measure, progress).chosen()

        return choose_among(self, problem, each)


class CriterionPath(VariancePath):
    """A path of fits of the full data; the score is −½ the criterion."""

    def __init__(
        self,
        criterion: InformationCriterion,
        problem: Problem,
        measure: Measure,
        progress: Progress | None,
    ) -> None:
        super().__init__(criterion, problem.prior, progress)
        self.criterion, self.problem, self.measure = criterion, problem, measure
        self.full = problem.batch()
        self.measured: dict[float, Measured] = {}
        l1, l2 = problem.penalties(problem.prior)
        self.penalised = (l1 > 0) | (l2 > 0)

    def chosen(self) -> Selection:
        """Find the variance with the smallest criterion."""
        selection = self.search()
        self.full.start_at(selection.beta[:, None])
        selection.batch = self.full
        selection.results = selection.results.drop(columns="mean")
        return selection

    def first(self) -> float:
        """See `VariancePath.first`."""
        return beginning(self.problem, self.prior, self.full)[0]

    def evaluate(self, variance: float) -> tuple[np.ndarray, int, np.ndarray]:
        """See `VariancePath.evaluate`."""
        problem, prior = self.problem, self.prior.with_variance(variance)
        solved = solve_under_prior(problem, self.full, prior, self.policy.criterion_tolerance)
        at = replace(problem, prior=prior, final_penalty=None)
        if prior.adaptive:
            l1, l2 = (x if x.ndim == 1 else x[:, 0] for x in (solved.l1, solved.l2))
            at = replace(at, final_penalty=Penalty(l1[problem.n_free :], l2[problem.n_free :]))
        found = self.measured[variance] = self.measure(at, solved.fits[0])
        beta = self.full.beta[:, 0]
        self.tell(variance, 1.0)
        score = -0.5 * self.criterion.of(found, int(self.penalised.sum()))
        return beta, int(np.count_nonzero(beta[self.penalised])), np.array([score])

    def walk(self) -> None:
        """Evaluate variances from the first one until the criterion has risen for some steps."""
        v = self.first()
        for _ in range(self.policy.criterion_max_variances):
            self.score(readable(v))
            table = self.table()
            mean = table["mean"].to_numpy()
            beyond = len(mean) - 1 - best_of(mean)
            if beyond >= self.policy.criterion_past or (
                len(mean) > self.policy.criterion_flat_steps
                and np.ptp(mean[-self.policy.criterion_past :]) < self.policy.criterion_flat
            ):
                return  # The criterion rises, or the prior no longer matters.
            v *= self.policy.step_ratio

    def refine(self) -> None:
        """Divide the steps on both sides of the smallest criterion."""
        table = self.table()
        x = np.log(table["variance"].to_numpy())
        best = best_of(table["mean"].to_numpy())
        for other in (best - 1, best + 1):
            if 0 <= other < len(x):
                for share in (
                    np.arange(1, self.policy.criterion_refinement)
                    / self.policy.criterion_refinement
                ):
                    self.score(readable(float(np.exp((1 - share) * x[best] + share * x[other]))))

    def table(self) -> pd.DataFrame:
        """Return one row for each variance, in increasing order."""
        table = super().table()[["variance", "mean", "nonzero"]]
        found = [self.measured[v] for v in table["variance"]]
        table.insert(1, "criterion", -2.0 * table["mean"])
        table.insert(2, "log_likelihood", [m.log_likelihood for m in found])
        table.insert(3, "df", [m.df for m in found])
        return table
