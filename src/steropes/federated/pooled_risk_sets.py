"""The partial likelihood of risk sets over all sites, computed from sums at each time of a grid.

With r_i = w_i exp η_i, the sums at time t are S(t) = Σ_{at risk} r_i and E(t) = Σ_{events at t}
r_i, their first moments S₁, E₁ = Σ r_i (x_i − c), and the number d(t) and weight D(t) of the
events. The lead adds these over sites, and the partial likelihood of all rows is a function of the
totals (Breslow's or Efron's, with weights as in R's ``survival::coxph``). Its Hessian is

    Σ_i r_i z_i z_i' [Σ_{t: i at risk} a(t) − 1{event of i at t} b(t)] − Σ_t w̄ Σ_l m m' / φ_l²

with φ_l = S − (l/d) E, m = S₁ − (l/d) E₁, a = w̄ Σ_l 1/φ_l and b = w̄ Σ_l (l/d)/φ_l. The lead
computes a and b from the totals, so that a site sends a single matrix rather than one per time.

In the Fine–Gray model, rows with a competing event remain at risk, with weights from the censoring
distribution of all sites (`pooled_censoring`); otherwise the formulas are Breslow's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["HeldOut", "HessianWeights", "PooledRiskSets", "RiskSums"]


@dataclass(frozen=True)
class HessianWeights:
    """The weights a(t) and b(t) of the Hessian, (T,) each; see the module's docstring."""

    a: np.ndarray
    b: np.ndarray


@dataclass(frozen=True)
class HeldOut:
    """Sums over only the rows that a fold leaves out, at the first of several points.

    Attributes
    ----------
    S, E : (T,) arrays
    linear : () array
        Σ w δ η.
    count, weight : (T,) arrays
        Number and weight of the events.
    """

    S: np.ndarray
    E: np.ndarray
    linear: np.ndarray
    count: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True)
class RiskSums:
    """Sums over the rows of one site or of all sites, with or without those of a fold.

    Attributes
    ----------
    S, E : (m, T) arrays
        Sums at each of m points.
    linear : (m,) array
        Σ w δ η.
    S1, E1 : (T, p) arrays
        First moments at the first point.
    covariates : (p,) array
        Σ w δ (x − c).
    count, weight : (T,) arrays
        Number and weight of the events.
    second : (k, k) array or None
        The Hessian's first sum, over the chosen columns.
    held_out : HeldOut or None
        Sums over the fold that is left out, if any.
    """

    S: np.ndarray
    E: np.ndarray
    linear: np.ndarray
    S1: np.ndarray
    E1: np.ndarray
    covariates: np.ndarray
    count: np.ndarray
    weight: np.ndarray
    second: np.ndarray | None = None
    held_out: HeldOut | None = None


_Share = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # times, l/d, weight, φ


class PooledRiskSets:
    """The partial likelihood of all sites, computed from totals.

    Parameters
    ----------
    sums : RiskSums
        Totals over all sites.
    ties : {"efron", "breslow"}
    """

    def __init__(self, sums: RiskSums, ties: str) -> None:
        self.sums, self.ties = sums, ties

    def losses(self) -> np.ndarray:
        """Compute the negative log partial likelihoods at the points, (m,)."""
        s = self.sums
        each = zip(s.S, s.E, s.linear, strict=True)
        return np.array([_loss(S, E, s.count, s.weight, x, self.ties) for S, E, x in each])

    def held_out(self) -> float:
        """Compute the log partial likelihood of the rows left out, at the first point."""
        held = self.sums.held_out
        assert held is not None
        return -_loss(held.S, held.E, held.count, held.weight, held.linear, self.ties)

    def _each(self, S: np.ndarray, E: np.ndarray) -> list[_Share]:
        """See the function `_each`."""
        return _each(S, E, self.sums.count, self.sums.weight, self.ties)

    def shares(self, S: np.ndarray, E: np.ndarray) -> HessianWeights:
        """Compute a(t) and b(t) for given S(t) and E(t)."""
        a, b = np.zeros(len(S)), np.zeros(len(S))
        with np.errstate(all="ignore"):
            for at, f, w, phi in self._each(S, E):
                a[at] += w / phi
                b[at] += f * w / phi
        return HessianWeights(a, b)

    def gradient(self) -> np.ndarray:
        """Compute the gradient at the first point, (p,); not finite if the loss is not."""
        s = self.sums
        shares, at = self.shares(s.S[0], s.E[0]), s.count > 0
        with np.errstate(all="ignore"):
            return shares.a[at] @ s.S1[at] - shares.b[at] @ s.E1[at] - s.covariates

    def hessian(self, columns: np.ndarray) -> np.ndarray:
        """Compute the Hessian at the first point over the columns of ``second``, (k, k)."""
        s = self.sums
        assert s.second is not None
        H = s.second.copy()
        for at, f, w, phi in self._each(s.S[0], s.E[0]):
            with np.errstate(all="ignore"):
                m = s.S1[np.ix_(at, columns)] - f[:, None] * s.E1[np.ix_(at, columns)]
                H -= m.T @ ((w / phi**2)[:, None] * m)
        return H

    def predicted(self, step: np.ndarray) -> HessianWeights:
        """Predict a(t) and b(t) after a step (p,) from the first point, by the moments there."""
        s = self.sums
        with np.errstate(all="ignore"):
            S = s.S[0] * np.exp(np.clip(np.nan_to_num((s.S1 @ step) / s.S[0]), -50, 50))
            E = s.E[0] * np.exp(np.clip(np.nan_to_num((s.E1 @ step) / s.E[0]), -50, 50))
        return self.shares(S, np.minimum(E, S))


def _each(
    S: np.ndarray, E: np.ndarray, count: np.ndarray, weight: np.ndarray, ties: str
) -> list[_Share]:
    """Return for each l the times with more than l events, the fractions l/d, weights and φ_l."""
    if ties == "breslow":
        at = np.flatnonzero(count > 0)
        return [(at, np.zeros(len(at)), weight[at], S[at])]
    out: list[_Share] = []
    for tie in range(int(count.max(initial=0))):
        at = np.flatnonzero(count > tie)
        f = tie / count[at]
        with np.errstate(invalid="ignore"):  # S and E may have overflowed
            phi = S[at] - f * E[at]
        out.append((at, f, weight[at] / count[at], phi))
    return out


def _loss(
    S: np.ndarray, E: np.ndarray, count: np.ndarray, weight: np.ndarray, linear: np.ndarray,
    ties: str,
) -> float:  # fmt: skip
    """Compute the negative log partial likelihood from sums at one point."""
    with np.errstate(all="ignore"):
        total = sum(float(w @ np.log(phi)) for _, _, w, phi in _each(S, E, count, weight, ties))
    return total - float(linear) if np.isfinite(total) else np.inf
