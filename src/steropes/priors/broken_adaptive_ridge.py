"""Broken adaptive ridge: reweighted ridge regressions on their way to the ℓ0 penalty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from .base import INFINITE_PENALTY, Columns, Penalty, Prior, Variance

__all__ = ["BrokenAdaptiveRidge"]

COLLAPSING = 1e-4  # ratio of a coefficient to its last value from which on it goes to zero


@dataclass(frozen=True)
class BrokenAdaptiveRidge(Prior):
    """Broken adaptive ridge: a prior that leaves large coefficients nearly alone.

    A row of normal priors, each with the variance of a coefficient proportional to the square of
    the coefficient that the one before gave (Kawaguchi and others 2020):

        β⁽⁰⁾ = argmin −ℓ(β) + ½ Σ β_j² / start_variance,
        β⁽ᵏ⁾ = argmin −ℓ(β) + ½ Σ β_j² / (variance · β_j⁽ᵏ⁻¹⁾²).

    Coefficients that are small collapse to zero at a quadratic rate and are exactly zero in the
    end. The others end where ∂ℓ/∂β_j = 1 / (variance · β_j); each has cost ½ / variance of
    log-likelihood then, as under an ℓ0 penalty. A column by itself stays where the square of its
    z statistic is above 4 / variance; so ``variance=4 / log(n)`` keeps what the Bayesian
    information criterion would, with n the rows, or the events of a survival model (Volinsky and
    Raftery 2000), and smaller ones are stricter.

    Parameters
    ----------
    variance : float, (p,) array, or mapping of names to numbers
        In units of the square of each coefficient. A cross-validation chooses it among those
        listed in ``search``; there is no path of them to walk, for each is a fixed point of its
        own.
    start_variance : float, (p,) array, or mapping of names to numbers
        Of the ridge that the first coefficients come from; in the units of the coefficients, so
        that columns should be of similar size. Fixed points depend on where the row began.
    exclude : sequence of str or int, or (p,) bool array
        Columns left unpenalised, by name or position, or as a mask. An intercept never is
        penalised.

    Notes
    -----
    ``optimality_`` is the largest violation of the last ridge's optimality conditions with the
    weights of the coefficients that it gave: of a fixed point, then, not of one step to it. The
    objective has many of them; which one is found says nothing of the others.

    References
    ----------
    Kawaguchi, Suchard, Liu and Li (2020), Statistics in Medicine 39:675–686.
    Volinsky and Raftery (2000), Biometrics 56:256–262.
    Dai, Chen, Sun, Liu and Li (2018), Journal of Multivariate Analysis 168:334–351.
    """

    adaptive: ClassVar[bool] = True
    by_column: ClassVar[frozenset[str]] = frozenset({"variance", "start_variance"})

    variance: Variance = 0.5
    start_variance: Variance = 1.0
    exclude: Columns = ()

    def separable(self, names: Sequence[str]) -> Penalty:
        """See `Prior.separable`: the ridge that the row begins with."""
        price = 1.0 / self._vector("variance", self.variance, names)
        l2 = 1.0 / self._vector("start_variance", self.start_variance, names)
        free = self.excluded(names) | (price == 0)
        return Penalty(np.zeros(len(names)), np.where(free, 0.0, l2))

    def next_penalty(
        self, names: Sequence[str], beta: np.ndarray, before: np.ndarray | None
    ) -> Penalty:
        """See `Prior.next_penalty`."""
        price = np.where(
            self.excluded(names), 0.0, 1.0 / self._vector("variance", self.variance, names)
        )
        gone = beta == 0.0
        if before is not None:
            gone |= np.abs(beta) < COLLAPSING * np.abs(before)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            l2 = price / (beta * beta)
        gone |= np.isinf(l2)  # no data outweigh it: the next coefficient would be zero too
        gone &= price > 0
        l2[price == 0] = 0.0
        return Penalty(np.where(gone, INFINITE_PENALTY, 0.0), np.where(gone, 0.0, l2))

    def with_variance(self, variance: float) -> Self:
        """See `Prior.with_variance`."""
        return replace(self, variance=float(variance))
