"""Broken adaptive ridge: reweighted ridge regressions that approximate an ℓ0 penalty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from .column_settings import Columns, Variance
from .penalty import INFINITE_PENALTY, Penalty
from .prior_base_class import Prior

__all__ = ["BrokenAdaptiveRidge"]

# A coefficient is set to zero once it shrinks below this multiple of its previous value.
COLLAPSE_RATIO = 1e-4


@dataclass(frozen=True)
class BrokenAdaptiveRidge(Prior):
    """Broken adaptive ridge, a sparse prior with little shrinkage of large coefficients.

    The fit is the limit of a sequence of normal priors, in which the variance of each coefficient
    is proportional to the square of its previous estimate (Kawaguchi and others 2020):

        β⁽⁰⁾ = argmin −ℓ(β) + ½ Σ β_j² / start_variance,
        β⁽ᵏ⁾ = argmin −ℓ(β) + ½ Σ β_j² / (variance · β_j⁽ᵏ⁻¹⁾²).

    Small coefficients converge to zero at a quadratic rate and are exactly zero in the end. The
    others satisfy ∂ℓ/∂β_j = 1 / (variance · β_j), and each then costs ½ / variance of
    log-likelihood, as under an ℓ0 penalty. A single column is kept if the square of its z statistic
    is above 4 / variance. So ``variance=4 / log(n)`` keeps what the Bayesian information criterion
    would, where n is the number of rows, or of events in a survival model (Volinsky and Raftery
    2000); smaller variances are stricter.

    Parameters
    ----------
    variance : float, (p,) array, or mapping of names to numbers, default=0.5
        The variance relative to the square of each coefficient. A cross-validation chooses among
        the values listed in ``search``; there is no path of variances, because each of them has a
        separate fixed point.
    start_variance : float, (p,) array, or mapping of names to numbers, default=1.0
        Variance of the ridge regression that gives the first coefficients. It is in the units of
        the coefficients, so that columns should be of similar size. The fixed point depends on it.
    exclude : sequence of str or int, or (p,) bool array, default=()
        Columns left unpenalised, by name or position, or as a mask. An intercept is never
        penalised.

    Notes
    -----
    ``optimality_`` is the largest violation of the ridge's optimality conditions with the weights
    that the final coefficients imply. It therefore certifies a fixed point, not merely one step.
    The objective has many fixed points, and the certificate does not compare them.

    References
    ----------
    Kawaguchi, Suchard, Liu and Li (2020), Statistics in Medicine 39:675–686.
    Volinsky and Raftery (2000), Biometrics 56:256–262.
    Dai, Chen, Sun, Liu and Li (2018), Journal of Multivariate Analysis 168:334–351.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 4))
    >>> y = X @ [2.0, 0.0, 0.0, 0.0] + rng.standard_normal(200)
    >>> prior = steropes.BrokenAdaptiveRidge(variance=4 / np.log(200))
    >>> (steropes.LinearRegression(prior=prior).fit(X, y).coef_ != 0).tolist()
    [True, False, False, False]
    """

    adaptive: ClassVar[bool] = True
    by_column: ClassVar[frozenset[str]] = frozenset({"variance", "start_variance"})

    variance: Variance = 0.5
    start_variance: Variance = 1.0
    exclude: Columns = ()

    def separable(self, names: Sequence[str]) -> Penalty:
        """Compute λ = 0 and κ of each column for the initial ridge regression.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        Penalty
            The κ = 1 / ``start_variance``, and zero for excluded columns.
        """
        price = 1.0 / self._variance_vector("variance", self.variance, names)
        l2 = 1.0 / self._variance_vector("start_variance", self.start_variance, names)
        free = self.excluded(names) | (price == 0)
        return Penalty(np.zeros(len(names)), np.where(free, 0.0, l2))

    def next_penalty(
        self, names: Sequence[str], beta: np.ndarray, before: np.ndarray | None
    ) -> Penalty:
        """Compute κ_j = 1 / (variance · β_j²) at the optimum of the last ridge regression.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.
        beta : (p,) array
            The optimum of the last ridge regression.
        before : (p,) array or None
            The optimum before that; None at first.

        Returns
        -------
        Penalty
            The next penalty. Coefficients that have collapsed are held at zero from then on.
        """
        price = np.where(
            self.excluded(names), 0.0, 1.0 / self._variance_vector("variance", self.variance, names)
        )
        gone = beta == 0.0
        if before is not None:
            gone |= np.abs(beta) < COLLAPSE_RATIO * np.abs(before)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            l2 = price / (beta * beta)
        gone |= np.isinf(l2)  # the next coefficient would be zero for any data
        gone &= price > 0
        l2[price == 0] = 0.0
        return Penalty(np.where(gone, INFINITE_PENALTY, 0.0), np.where(gone, 0.0, l2))

    def with_variance(self, variance: float) -> Self:
        """Return the prior with another ``variance``, the same for all columns.

        Parameters
        ----------
        variance : float
            The new variance relative to the square of each coefficient.

        Returns
        -------
        BrokenAdaptiveRidge
            A changed copy.
        """
        return replace(self, variance=float(variance))
