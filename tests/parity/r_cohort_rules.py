"""Balance, densities and curves by the rules of CohortMethod 6.0, where they differ from ours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

__all__ = ["RPeople", "r_balance", "r_curve", "r_density", "r_smallest_p", "r_weights"]

ESTIMATORS = ("att", "ate", "ato")
FINE = 512  # Points of R's density() before it interpolates.
SHARE = 0.9  # R draws curves up to this quantile of the follow-up.


@dataclass(frozen=True)
class RPeople:
    """People whose covariates R describes.

    Attributes
    ----------
    X : ndarray, shape (n, p)
    treated : ndarray of bool, shape (n,)
    weights : ndarray, shape (n,), or None
        R's column ``iptw``, which counts unless there are sets.
    sets : ndarray of int, shape (n,), or None
    """

    X: NDArray
    treated: NDArray
    weights: NDArray | None = None
    sets: NDArray | None = None

    def moments(self) -> pd.DataFrame:
        """Compute means, standard deviations, differences and their variances as R does."""
        has = [(self.X[a] != 0).any(axis=0) for a in (self.treated, ~self.treated)]
        shares = self._shares()
        plain = shares is None
        n = len(self.treated)
        arm, whole = ([], np.full(n, 1 / n)) if shares is None else (shares[0], shares[1])
        found: dict[str, NDArray] = {}
        for k, (of, a) in enumerate((("target", self.treated), ("comparator", ~self.treated))):
            size, X = a.sum(), self.X[a]
            if plain:  # R divides sums, so that equal values have a deviation of zero.
                total = X.sum(axis=0)
                mean, sd = total / size, np.sqrt(((X**2).sum(axis=0) - total**2 / size) / size)
            else:
                mean, lost = arm[k] @ X, (arm[k] ** 2).sum()
                sd = np.sqrt(np.abs(arm[k] @ X**2 - mean**2) / (1 - lost))
            found |= {f"{of}_mean": mean, f"{of}_sd": np.where(has[k], sd, 0.0)}
        mean, square = whole @ self.X, whole @ self.X**2
        # R adds the sum of squared weights once for each arm that has the covariate, and without
        # weights that of the people who have it.
        lost = (self.X != 0).sum(axis=0) / n**2 if plain else (whole**2).sum() * sum(has)
        found |= {"mean": mean, "sd": np.sqrt(np.abs(square - mean**2) / (1 - lost))}
        spread = np.sqrt((found["target_sd"] ** 2 + found["comparator_sd"] ** 2) / 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            smd = (found["target_mean"] - found["comparator_mean"]) / spread
            smd = np.where(np.isinf(smd), np.nan, smd)
            if plain:
                n1, n0 = self.treated.sum(), (~self.treated).sum()
                variance = (n1 + n0) / (n1 * n0) + smd**2 / (2 * (n1 + n0 - 2))
            else:
                variance = self._squares(found, arm) / spread**2
        table = pd.DataFrame(found | {"std_diff": smd, "std_diff_var": variance})
        table[~(has[0] | has[1])] = np.nan  # Covariates that nobody has are in no table.
        return table

    def _shares(self) -> tuple[list[NDArray], NDArray] | None:
        """Return weights within arms and of everybody, each with a sum of one; None if equal."""
        if self.sets is not None:
            sizes = pd.DataFrame({"set": self.sets, "arm": self.treated}).assign(n=1)
            own = sizes.groupby(["set", "arm"])["n"].transform("size").to_numpy()
            every = sizes.groupby("set")["n"].transform("size").to_numpy()
            if own.max(initial=1) == 1:
                return None
            w, whole = 1 / own, 1 / every
        elif self.weights is not None:
            w = whole = self.weights
        else:
            return None
        arms = [w[a] / w[a].sum() for a in (self.treated, ~self.treated)]
        return arms, whole / whole.sum()

    def _squares(self, found: dict[str, NDArray], arm: list[NDArray]) -> NDArray:
        """Sum the variances of both means: within strata, or over those who have the covariate."""
        total = np.zeros(self.X.shape[1])
        for k, (of, a) in enumerate((("target", self.treated), ("comparator", ~self.treated))):
            X = self.X[a]
            if self.sets is None:
                total += arm[k] ** 2 @ np.where(X != 0, (X - found[f"{of}_mean"]) ** 2, 0.0)
                continue
            for s in np.unique(self.sets[a]):
                x = X[self.sets[a] == s]
                if len(x) > 1:
                    share = (self.sets == s).mean()
                    total += x.var(axis=0, ddof=1) / len(x) * share**2
        return total


def r_weights(score: NDArray, treated: NDArray, estimator: str) -> NDArray:
    """Return the weights of ``createPs``, with the arms' shares of everybody with a score."""
    share = treated.mean()
    if estimator == "att":
        return np.where(treated, share, (1 - share) * score / (1 - score))
    if estimator == "ate":
        return np.where(treated, share / score, (1 - share) / (1 - score))
    return np.where(treated, 1 - score, score)


def r_balance(before: RPeople, after: RPeople) -> pd.DataFrame:
    """Compute the columns of R's ``cm_covariate_balance``, before they are rounded."""
    first, second = before.moments(), after.moments()
    found = {}
    for when, table in (("before", first), ("after", second)):
        for name in ("target_mean", "comparator_mean", "std_diff", "std_diff_var"):
            found[f"{name}_{when}"] = table[name].fillna(0.0)
        found[f"mean_{when}"] = table["mean"] if when == "after" else table["mean"].fillna(0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        for of in ("target", "comparator"):
            spread = np.sqrt((first[f"{of}_sd"] ** 2 + second[f"{of}_sd"] ** 2) / 2)
            found[f"{of}_std_diff"] = (first[f"{of}_mean"] - second[f"{of}_mean"]) / spread
        found["target_comparator_std_diff"] = (first["mean"] - second["mean"]) / first["sd"]
    out = pd.DataFrame(found)
    shifts = [name for name in out if name.endswith("_std_diff")]
    out[shifts] = out[shifts].replace([np.inf, -np.inf], np.nan).fillna(0.0)
    return out


def r_smallest_p(after: RPeople, threshold: float = 0.1) -> NDArray:
    """Return R's smallest p-value times the number of variances, which may exceed one.

    The variance of a covariate that all people have in common is 0 / 0, or the ratio of two errors
    of rounding, which R counts. The numbers returned count none, one, two, and so on, of these.
    """
    table = after.moments()
    common = np.ptp(after.X, axis=0) == 0
    size, root = table["std_diff"].abs(), np.sqrt(table["std_diff_var"])
    p = norm.sf((size - threshold) / root) + norm.cdf((-size - threshold) / root)
    counted = (table["std_diff_var"].notna() & ~common).sum()
    return np.nanmin(p[~common]) * (counted + np.arange(common.sum() + 1))


def r_density(values: NDArray, points: int = 100) -> NDArray:
    """Return R's ``density(values, from = 0, to = 1)`` by its binned Fourier transform."""
    n, quarter = len(values), np.subtract(*np.quantile(values, [0.75, 0.25]))
    high = values.std(ddof=1)
    width = 0.9 * (min(high, quarter / 1.34) or high or abs(values[0]) or 1.0) * n**-0.2
    low, top = -4 * width, 1 + 4 * width
    step = (top - low) / (FINE - 1)
    at = (values - low) / step
    left = np.floor(at).astype(int)
    mass = np.bincount(left, 1 - (at - left), 2 * FINE) + np.bincount(left + 1, at - left, 2 * FINE)
    distance = np.linspace(0, 2 * (top - low), 2 * FINE)
    distance[FINE + 1 :] = -distance[FINE - 1 : 0 : -1]
    kernel = norm.pdf(distance, scale=width)
    found = np.fft.ifft(np.fft.fft(mass / n) * np.conj(np.fft.fft(kernel))).real[:FINE]
    grid = np.linspace(low, top, FINE)
    return np.interp(np.linspace(0, 1, points), grid, np.maximum(found, 0.0))


def r_curve(
    time: NDArray, event: NDArray, treated: NDArray, sets: NDArray | None, arm: bool, at: NDArray
) -> pd.DataFrame:
    """Return R's Kaplan–Meier curve of an arm with its limits, and people at risk, at some days.

    Comparators in sets count by the number of targets for each in their set, unless all sets are
    pairs; the limits are those of Xie and Liu's variance then.
    """
    of = treated == arm
    days = np.unique(time[of & (time <= np.quantile(time, SHARE))])
    weights = np.ones(len(time))
    weighted = sets is not None and len(np.unique(sets)) != len(time) / 2
    if weighted:
        sizes = pd.DataFrame({"set": sets, "t": treated, "c": ~treated}).groupby("set")
        targets, comparators = (sizes[k].transform("sum").to_numpy(float) for k in ("t", "c"))
        with np.errstate(divide="ignore"):
            weights = np.where(treated, 1.0, targets / comparators)
    s, lower, upper = [1.0], [1.0], [1.0]
    summed = greenwood = 0.0
    for day in days:
        here, at_risk = of & (time == day) & (event > 0), of & (time >= day)
        ended, total = weights[here].sum(), weights[at_risk].sum()
        s.append(s[-1] * (1 - ended / total))
        greenwood += ended / (total * (total - ended)) if total > ended else np.inf
        summed += ended / total * (weights[at_risk] ** 2).sum() / total**2
        root = np.sqrt(summed) if weighted else np.sqrt(greenwood)
        low, high = (_bound(s[-1], root, side, weighted) for side in (-1, 1))
        lower.append(low)
        upper.append(high)
    place = np.searchsorted(days, at, side="right")
    return pd.DataFrame(
        {
            "survival": np.array(s)[place],
            "survival_lb": np.array(lower)[place],
            "survival_ub": np.array(upper)[place],
            "at_risk": [(of & (time >= day)).sum() for day in at],
        }
    )


def _bound(s: float, root: float, side: int, weighted: bool) -> float:
    """Return a limit of 95 %: on the log scale, or with weights on the scale of log(-log)."""
    z = float(norm.ppf(0.975))
    if not weighted:
        return min(1.0, s * float(np.exp(side * z * root))) if s > 0 else float("nan")
    if s > 0.9999 and side < 0:
        return s
    with np.errstate(divide="ignore", invalid="ignore"):
        found = s ** np.exp(side * z / np.log(s) * root) if s < 1 else 1.0
    return float(found)
