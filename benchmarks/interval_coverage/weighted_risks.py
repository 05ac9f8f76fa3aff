"""Coverage of risk differences by a time after weights, in thousands of quick repeats.

    python -m benchmarks.interval_coverage.weighted_risks [--n 5000 --repeats 1000]

draws the people of `benchmarks.comparison_coverage` from other seeds, fits the logistic score by
Newton's method in NumPy, and adds up the influences of people on weighted Kaplan–Meier curves,
also through the score. Estimate and error of the first draw are compared with `compare_groups`.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import expit

from steropes import compare_groups
from steropes.designs.effects.absolute_effects import risk_and_time_lost

from ..comparison_coverage import COVARIATES, HORIZON, table_of, truths

SEED = 77
ESTIMANDS = "ATE", "ATT"


def fitted_scores(X: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fit a logistic model; return the scores and the information."""
    coef = np.zeros(X.shape[1])
    for _ in range(12):
        p = expit(X @ coef)
        H = (X * (p * (1 - p))[:, None]).T @ X
        coef += np.linalg.solve(H, X.T @ (t - p))
    return p, H


def difference(table: object, estimand: str) -> tuple[float, float]:
    """Estimate the risk difference and its error by stacked equations."""
    site = table["site"].to_numpy()
    parts = [table[name].to_numpy(float) for name in ("age", "severe", "dose")]
    X = np.column_stack([np.ones(len(table)), *parts, site == "b", site == "c"])
    t, y = table["drug"].to_numpy(float), table["time"].to_numpy()
    event = table["time ended"].to_numpy()
    e, H = fitted_scores(X, t)
    if estimand == "ATE":
        w, slope = np.where(t == 1, 1 / e, 1 / (1 - e)), np.where(t == 1, e - 1, e)
    else:
        w, slope = np.where(t == 1, 1.0, e / (1 - e)), 1.0 - t
    risk, influence = [], np.zeros(len(t))
    for arm, sign in ((t == 1, 1), (t == 0, -1)):
        found, _, own = risk_and_time_lost(y[arm], event[arm], w[arm], HORIZON)
        risk.append(found)
        influence[arm] = sign * own[:, 0]
    influence += (X @ np.linalg.solve(H, (influence * slope) @ X)) * (t - e)
    return risk[0] - risk[1], float(np.sqrt((influence**2).sum()))


def main() -> None:
    """Print coverage, and the mean error against the spread."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=1000)
    given = parser.parse_args()
    found: dict[str, list] = {name: [] for name in ESTIMANDS}
    for repeat in range(given.repeats):
        table = table_of(given.n, np.random.default_rng([SEED, given.n, repeat]))[0]
        for name in ESTIMANDS:
            found[name].append(difference(table, name))
            if repeat == 0:
                theirs = compare_groups(
                    table, treatment="drug", covariates=COVARIATES, time="time",
                    event="time ended", estimand=name, horizon=HORIZON,
                ).effects.query("method == 'weights' and measure == 'risk difference'")  # fmt: skip
                np.testing.assert_allclose(found[name][0], theirs[["estimate", "se"]].iloc[0], 1e-6)
    known = truths()
    for name in ESTIMANDS:
        value, se = np.array(found[name]).T
        off = value - known[name, "time", "risk difference"]
        print(
            f"{name}, n = {given.n}: {given.repeats} repeats, coverage "
            f"{np.mean(np.abs(off) <= 1.96 * se):.3f}, bias {off.mean():.4f}, "
            f"mean error / spread {se.mean() / value.std(ddof=1):.3f}"
        )


if __name__ == "__main__":
    main()
