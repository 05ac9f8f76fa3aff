"""Risks under each strategy, averaged over people, from a pooled logistic model.

With hazards p_ik of interval k under a strategy, the survival of row i is
S_i(t) = Π_{k≤t} (1 − p_ik), and its derivative in a coefficient of the column z_ik is
−S_i(t) Σ_{k≤t} p_ik z_ik. The rows that the risks are standardised to are taken as given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm

from steropes.design_matrix.time_basis import baseline_basis, channels

__all__ = ["HazardModel", "IndexGrid", "StrategyRisks", "contrast_table", "risk_table"]

# Hazards that are in memory at a time, which fit into the processor's cache.
AT_ONCE = 100_000
# Rows from which averages are taken over a grid, and the distance of its nodes.
MANY = 4096
STEP = 1 / 64
# Coefficients of Lagrange's polynomials in the nodes 0 … 5, by power.
LAGRANGE = np.linalg.inv(np.vander(np.arange(6.0), increasing=True)).T


@dataclass(frozen=True)
class HazardModel:
    """Columns of a pooled logistic model, in the order of its coefficients.

    Attributes
    ----------
    baseline : int
        Degree of the polynomial of time.
    changing : dict of str to int
        Degrees of effects that change with time.
    intervals : int
        Number of intervals K.
    """

    baseline: int
    changing: dict[str, int]
    intervals: int

    def risks(
        self, X: pd.DataFrame, coef: NDArray, weights: NDArray | None = None, slopes: bool = True
    ) -> tuple[NDArray, NDArray]:
        """Compute average risks by the end of each interval, and their derivatives.

        Parameters
        ----------
        X : DataFrame, shape (n, p)
        coef : ndarray, shape (q,)
        weights : ndarray, shape (n,), optional
            Weights of rows in the average.
        slopes : bool, default True
            Whether to compute derivatives.

        Returns
        -------
        risk : ndarray, shape (K,)
        slope : ndarray, shape (K, q)
            Zero without ``slopes``.
        """
        K = self.intervals
        B = baseline_basis(self.baseline, K)[0]
        functions, pairs = channels(self.changing or None, list(X.columns), K)
        M, p = B.shape[1], X.shape[1]
        b, beta, gamma = coef[:M], coef[M : M + p], coef[M + p :]
        w = np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)
        constant = [X.iloc[:, j].nunique() == 1 for j, _ in pairs]
        if len(X) > MANY and all(constant):
            values = [float(X.iloc[0, j]) for j, _ in pairs]
            moving = [v * functions[q].values for v, (_, q) in zip(values, pairs, strict=True)]
            columns = np.column_stack([B, *moving])
            return _along_index(X, w, beta, columns, np.concatenate([b, gamma]), M, slopes)
        survival, slope = np.zeros(K), np.zeros((K, len(coef)))
        step = max(1, AT_ONCE // K)
        for a in range(0, len(X), step):
            x, own = X.iloc[a : a + step].to_numpy(np.float64), w[a : a + step]
            eta = (x @ beta)[:, None] + B @ b
            for (j, q), g in zip(pairs, gamma, strict=True):
                eta += g * x[:, j, None] * functions[q].values
            hazard = expit(eta)
            S = np.cumprod(1 - hazard, axis=1)
            survival += own @ S
            if not slopes:
                continue
            S *= own[:, None]
            for m in range(M):
                slope[:, m] += (S * np.cumsum(hazard * B[:, m], axis=1)).sum(axis=0)
            slope[:, M : M + p] += (S * np.cumsum(hazard, axis=1)).T @ x
            for i, (j, q) in enumerate(pairs):
                moved = S * np.cumsum(hazard * functions[q].values, axis=1)
                slope[:, M + p + i] += moved.T @ x[:, j]
        return 1 - survival / w.sum(), slope / w.sum()


def _along_index(
    X: pd.DataFrame, w: NDArray, beta: NDArray, columns: NDArray, time: NDArray, M: int,
    slopes: bool,
) -> tuple[NDArray, NDArray]:  # fmt: skip
    """Compute the risks of rows whose hazards differ by one number h = x β alone.

    The survival of a row is a smooth function of h, so that its sum over rows is a sum over a grid;
    see `IndexGrid`.

    Parameters
    ----------
    columns : ndarray, shape (K, M + G)
        Functions of time: those of the baseline, and those of effects that change.
    time : ndarray, shape (M + G,)
        Their coefficients.
    """
    values = [X.iloc[:, j].to_numpy() for j in range(X.shape[1])]
    grid = IndexGrid(1 + len(beta) * slopes)
    for a in range(0, len(X), AT_ONCE):
        own = [x[a : a + AT_ONCE] for x in values]
        h = np.zeros(len(own[0]))
        for x, one in zip(own, beta, strict=True):
            h += one * x
        grid.add(h, w[a : a + AT_ONCE], own if slopes else ())
    hazard = expit(grid.nodes[:, None] + columns @ time)
    S = np.cumprod(1 - hazard, axis=1)
    survival = grid.totals[:, 0] @ S
    slope = np.zeros((len(columns), len(time) + len(beta)))
    if slopes:
        each = np.stack(
            [grid.totals[:, 0] @ (S * np.cumsum(hazard * c, axis=1)) for c in columns.T], axis=1
        )
        slope[:, :M], slope[:, M + len(beta) :] = each[:, :M], each[:, M:]
        slope[:, M : M + len(beta)] = (S * np.cumsum(hazard, axis=1)).T @ grid.totals[:, 1:]
    return 1 - survival / w.sum(), slope / w.sum()


class IndexGrid:
    """Sums over rows of smooth functions of one number h, as weighted sums over a grid.

    The weights are those of Lagrange's interpolation in six nodes (error below 1e-10).

    Parameters
    ----------
    width : int
        Number of sums: that of the weights, and those of the products with further columns.

    Attributes
    ----------
    totals : ndarray, shape (nodes, width)
    """

    def __init__(self, width: int) -> None:
        self.first, self.totals = 0, np.zeros((0, width))

    @property
    def nodes(self) -> NDArray[np.float64]:
        """The grid of h."""
        return np.asarray(STEP * (self.first + np.arange(len(self.totals))), np.float64)

    def add(self, h: NDArray, w: NDArray, columns: Sequence[NDArray] = ()) -> None:
        """Add rows with weights, and their products with columns."""
        scaled = h / STEP
        at = np.floor(scaled).astype(np.int64) - 2
        place = scaled - at  # between 2 and 3
        self._cover(int(at.min()), int(at.max()) + 6)
        at -= self.first
        powers = np.stack([place**d for d in range(6)])
        for k in range(6):
            part = w * (LAGRANGE[k] @ powers)
            self.totals[:, 0] += np.bincount(at + k, part, len(self.totals))
            for j, x in enumerate(columns):
                self.totals[:, 1 + j] += np.bincount(at + k, part * x, len(self.totals))

    def _cover(self, low: int, high: int) -> None:
        """Extend the grid to the nodes from ``low`` to ``high`` − 1."""
        if not len(self.totals):
            self.first = low
        before = max(0, self.first - low)
        after = max(0, high - self.first - len(self.totals))
        self.totals = np.pad(self.totals, ((before, after), (0, 0)))
        self.first -= before


@dataclass(frozen=True, repr=False)
class StrategyRisks:
    """Risks of strategies by time, with their joint covariance or with bootstrap draws.

    Attributes
    ----------
    names : tuple of str
        Names of the strategies; contrasts are of each against the last.
    times : ndarray, shape (T,)
    risk : ndarray, shape (S, T)
    covariance : ndarray, shape (T, S, S), or None
        Of the risks at each time.
    draws : ndarray, shape (B, S, T), or None
        Risks in bootstrap draws. If they are given, limits are their percentiles.
    """

    names: Sequence[str]
    times: NDArray
    risk: NDArray
    covariance: NDArray | None = None
    draws: NDArray | None = None

    def limits(
        self, value: NDArray, slope: NDArray, drawn: NDArray | None, level: float, log: bool
    ) -> tuple[NDArray, NDArray, NDArray]:
        """Compute errors and limits of a function of the risks at each time, (T,) each.

        Parameters
        ----------
        value : ndarray, shape (T,)
            The function, a logarithm if ``log``.
        slope : ndarray, shape (T, S)
            Its derivatives in the risks.
        drawn : ndarray, shape (B, T), or None
            The function in bootstrap draws.
        """
        if drawn is not None:
            se = np.std(drawn, axis=0, ddof=1)
            lower, upper = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
        elif self.covariance is None:
            se = np.full(len(value), np.nan)
            lower = upper = se
        else:
            variance = np.einsum("ts,tsr,tr->t", slope, self.covariance, slope)
            se = np.sqrt(np.maximum(variance, 0))
            q = norm.ppf(0.5 + level / 2)
            lower, upper = value - q * se, value + q * se
        return se, *((np.exp(lower), np.exp(upper)) if log else (lower, upper))


def risk_table(found: StrategyRisks, level: float) -> pd.DataFrame:
    """List the risk under each strategy by the end of each interval."""
    parts = []
    for s, name in enumerate(found.names):
        slope = np.zeros((len(found.times), len(found.names)))
        slope[:, s] = 1.0
        drawn = None if found.draws is None else found.draws[:, s]
        se, lower, upper = found.limits(found.risk[s], slope, drawn, level, log=False)
        parts.append(
            pd.DataFrame(
                {"strategy": name, "time": found.times, "risk": found.risk[s],
                 "lower": np.maximum(lower, 0), "upper": np.minimum(upper, 1), "se": se}
            )
        )  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def contrast_table(found: StrategyRisks, level: float) -> pd.DataFrame:
    """List differences and ratios of risks by time.

    Ratios begin when both risks are positive, and have limits if those of all draws are.
    """
    parts = []
    last = len(found.names) - 1
    for s, name in enumerate(found.names[:-1]):
        label = f"{name} against {found.names[last]}"
        one, other = found.risk[s], found.risk[last]
        slope = np.zeros((len(found.times), len(found.names)))
        slope[:, s], slope[:, last] = 1.0, -1.0
        drawn = None if found.draws is None else found.draws[:, s] - found.draws[:, last]
        own = found.limits(one - other, slope, drawn, level, log=False)
        rows = {"risk difference": (found.times, one - other, *own)}
        at = (one > 0) & (other > 0)
        if at.any():
            rows["risk ratio"] = (found.times[at], one[at] / other[at], *_ratio_limits(
                found, s, last, at, level
            ))  # fmt: skip
        for measure, (times, estimate, se, lower, upper) in rows.items():
            parts.append(
                pd.DataFrame(
                    {"contrast": label, "measure": measure, "time": times,
                     "estimate": estimate, "lower": lower, "upper": upper, "se": se}
                )
            )  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def _ratio_limits(
    found: StrategyRisks, s: int, last: int, at: NDArray, level: float
) -> tuple[NDArray, NDArray, NDArray]:
    """Compute errors and limits of the ratio of two risks at some times, both positive."""
    one, other = found.risk[s], found.risk[last]
    slope = np.zeros((len(found.times), len(found.names)))
    slope[at, s], slope[at, last] = 1 / one[at], -1 / other[at]
    logs = np.log(np.divide(one, other, out=np.ones(len(at)), where=at))
    if found.draws is None:
        se, lower, upper = found.limits(logs, slope, None, level, True)
        return se[at], lower[at], upper[at]
    known = at & (found.draws[:, [s, last]] > 0).all(axis=(0, 1))
    pair = found.draws[:, :, known]
    own = found.limits(logs[known], slope[known], np.log(pair[:, s] / pair[:, last]), level, True)
    out = np.full((3, len(at)), np.nan)
    out[:, known] = own
    return out[0, at], out[1, at], out[2, at]
