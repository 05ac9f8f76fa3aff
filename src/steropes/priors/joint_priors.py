"""Priors that couple the coefficients of a column over outcomes, or over classes of an outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import ClassVar, Self

import numpy as np

from .column_settings import Columns
from .group_and_fused_laplace import GroupLaplace, positive_number
from .hierarchical import Hierarchical
from .penalty import Penalty
from .prior_base_class import Prior

__all__ = ["JointLaplace", "JointNormal", "JointPrior"]


@dataclass(frozen=True)
class JointPrior(Prior):
    """Base class of priors on all coefficients of a column together.

    A model in which each column has one coefficient has the prior of that coefficient alone. Where
    a column has several, `Prior.of_copies` returns a prior whose groups are the columns.
    """


@dataclass(frozen=True)
class JointLaplace(JointPrior):
    """Laplace prior on the coefficients of a column over outcomes: the multi-task group lasso.

    The coefficients β_j1, …, β_jK of a column in the models of K outcomes, or of the classes of a
    multinomial model, have the density ∝ exp(−λ ‖β_j‖), so that a column is in all models or in
    none. Rare outcomes take the selection of columns from frequent ones. Each coefficient has the
    variance s², with λ = √((K + 1) / s²); see `GroupLaplace`.

    Parameters
    ----------
    variance : float, default=1.0
        Variance s² of each coefficient.
    exclude : sequence of str or int, or (p,) bool array, default=()
        Columns left unpenalised, by name or position, or as a mask. An intercept is never
        penalised.

    See Also
    --------
    steropes.fit_many : Fit many outcomes of one X, together under such a prior.
    MultinomialLogisticRegression : With this prior, glmnet's grouped multinomial model.

    Notes
    -----
    A model of one outcome has `Laplace` with the same variance. scikit-learn's ``MultiTaskLasso``
    with the penalty α has λ = n α for n rows. The norm combines outcomes, so that linear outcomes
    should have similar units.

    References
    ----------
    Obozinski, Taskar and Jordan (2010), Statistics and Computing 20:231–252. Simon, Friedman and
    Hastie (2013), arXiv:1311.6529 (grouped multinomial).

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> outcomes = {k: X[:, 0] * b + rng.standard_normal(200) for k, b in (("a", 1), ("b", -2))}
    >>> model = steropes.LinearRegression(prior=steropes.JointLaplace(variance=0.001))
    >>> table = steropes.fit_many(model, X, outcomes)
    >>> table.loc[table["coef"] != 0, "coefficient"].tolist()
    ['intercept', 'x0', 'intercept', 'x0']
    """

    by_column: ClassVar[frozenset[str]] = frozenset()

    variance: float = 1.0
    exclude: Columns = ()

    def separable(self, names: Sequence[str]) -> Penalty:
        """Compute λ of a single coefficient of each column, and κ = 0.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        Penalty
            The λ = √(2 / s²).
        """
        s2 = positive_number("JointLaplace", "variance", self.variance)
        l1 = np.where(self.excluded(names), 0.0, np.sqrt(2.0 / s2))
        return Penalty(l1, np.zeros(len(names)))

    def with_variance(self, variance: float) -> Self:
        """Return the prior with another variance.

        Parameters
        ----------
        variance : float
            The new variance of each coefficient.

        Returns
        -------
        JointLaplace
            A changed copy.
        """
        return replace(self, variance=float(variance))

    def of_copies(
        self,
        source: np.ndarray,
        names: Sequence[str],
        exclude: Sequence[str | int],
        copies: Sequence[str],
    ) -> GroupLaplace:
        """Return the group lasso in which the coefficients of each column are a group.

        Parameters
        ----------
        source : (q,) int array
            The column of each coefficient.
        names : sequence of str
            Names of the columns of X.
        exclude : sequence of str or int
            The new setting ``exclude``.
        copies : sequence of str
            Names of the coefficients.

        Returns
        -------
        GroupLaplace
            The prior of the coefficients.
        """
        variance = positive_number("JointLaplace", "variance", self.variance)
        return GroupLaplace([int(j) for j in source], variance, exclude)


@dataclass(frozen=True)
class JointNormal(JointPrior):
    """Normal prior around a mean that the coefficients of a column over outcomes share.

    The coefficients β_j1, …, β_jK of a column in the models of K outcomes, or of the classes of a
    multinomial model, are N(μ_j, s²) with μ_j ~ N(0, t²). Those of rare outcomes shrink towards
    the mean that frequent outcomes determine, and not to zero.

    Parameters
    ----------
    variance : float, default=1.0
        Variance s² of a coefficient around the mean of its column.
    mean_variance : float, or sequence of float, default=1.0
        Variance t² of the means around zero. With ``cv`` several values can be given, each of which
        is compared along a path of ``variance``.
    exclude : sequence of str or int, or (p,) bool array, default=()
        Columns left unpenalised, by name or position, or as a mask. An intercept is never
        penalised.

    See Also
    --------
    steropes.fit_many : Fit many outcomes of one X, together under such a prior.
    Hierarchical : The same prior of groups of columns of one outcome.

    Notes
    -----
    A model of one outcome has a normal prior with the variance s² + t². Linear outcomes should have
    similar units, because their coefficients share a mean.

    References
    ----------
    Lindley and Smith (1972), JRSS B 34:1–41. Suchard, Simpson, Zorych, Ryan and Madigan (2013), ACM
    TOMACS 23:10, who name priors across outcomes as future work.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 2))
    >>> p = 1 / (1 + np.exp(np.array([1.0, 4.0]) - X[:, :1]))  # a frequent and a rare outcome
    >>> outcomes = dict(zip(("often", "rare"), rng.binomial(1, p).T))
    >>> prior = steropes.JointNormal(variance=0.01, mean_variance=1)
    >>> table = steropes.fit_many(steropes.LogisticRegression(prior=prior), X, outcomes)
    >>> table.loc[table["coefficient"] == "x0", "coef"].round(2).tolist()
    [1.0, 1.0]
    """

    by_column: ClassVar[frozenset[str]] = frozenset()
    multi_valued: ClassVar[str | None] = "mean_variance"

    variance: float = 1.0
    mean_variance: float | Sequence[float] = 1.0
    exclude: Columns = ()

    def separable(self, names: Sequence[str]) -> Penalty:
        """Compute λ = 0 and κ of a single coefficient of each column.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        Penalty
            The κ = 1 / (s² + t²).
        """
        s2 = positive_number("JointNormal", "variance", self.variance)
        t2 = positive_number("JointNormal", "mean_variance", self.mean_variance)
        l2 = np.where(self.excluded(names), 0.0, 1.0 / (s2 + t2))
        return Penalty(np.zeros(len(names)), l2)

    def with_variance(self, variance: float) -> Self:
        """Return the prior with another variance around the means; that of the means is kept.

        Parameters
        ----------
        variance : float
            The new variance s².

        Returns
        -------
        JointNormal
            A changed copy.
        """
        return replace(self, variance=float(variance))

    def of_copies(
        self,
        source: np.ndarray,
        names: Sequence[str],
        exclude: Sequence[str | int],
        copies: Sequence[str],
    ) -> Hierarchical:
        """Return the hierarchical prior in which the coefficients of each column are a group.

        Parameters
        ----------
        source : (q,) int array
            The column of each coefficient.
        names : sequence of str
            Names of the columns of X.
        exclude : sequence of str or int
            The new setting ``exclude``.
        copies : sequence of str
            Names of the coefficients.

        Returns
        -------
        Hierarchical
            The prior of the coefficients.
        """
        positive_number("JointNormal", "variance", self.variance)
        if isinstance(self.mean_variance, Real):  # Several values are tried by cross-validation.
            positive_number("JointNormal", "mean_variance", self.mean_variance)
        return Hierarchical([int(j) for j in source], self.variance, self.mean_variance, exclude)
