"""Coverage of the 95 % intervals of `compare_groups`, by estimand, method and measure.

`python -m benchmarks.comparison_coverage [--n 500 --repeats 200 --minutes 60]`. Each repeat draws
people with four confounders, of whom a third to a half are treated, and effects that differ between
people, so that estimands differ. The truths are means over a million people of functions of both
potential outcomes, weighted by h(e) of the estimand. The Monte Carlo limits of a coverage are those
of Wilson.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict

import numpy as np
import pandas as pd
from scipy.special import expit, xlogy

from steropes import DataError, compare_groups
from steropes.designs import Matching
from steropes.designs.effects.two_group_cox import TwoGroupCox

SEED = 20
COVARIATES = ["age", "severe", "dose", "site"]
HORIZON = 3.0
METHODS = {
    "ATE": [
        "weights", "strata", "entropy", "standardization", "aipw", "tmle",
        Matching(method="full", estimand="ate", caliper=None),
        Matching(replace=True, estimand="ate"),
    ],
    "ATT": [
        "weights", "strata", "entropy", "standardization", "aipw", "tmle", "matching",
        Matching(method="full"), Matching(replace=True),
    ],
    "ATC": ["weights", "entropy", "standardization"],
    "ATO": ["weights"], "ATM": ["weights"], "entropy": ["weights"],
}  # fmt: skip
MEASURES = {
    "number": ["mean difference"],
    "event": ["risk difference", "risk ratio", "odds ratio"],
    "time": ["risk difference", "restricted mean difference", "rate ratio", "hazard ratio"],
}


def people(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw covariates, scores and outcomes under both treatments."""
    age, dose = rng.normal(size=(2, n))
    severe = (rng.random(n) < expit(0.5 * age - 0.5)).astype(float)
    site = rng.integers(0, 3, n)
    score = expit(-0.4 + 0.5 * age + 0.5 * severe - 0.3 * dose + 0.3 * (site == 2))
    drawn = {"age": age, "severe": severe, "dose": dose, "site": site, "score": score}
    noise, uniform, late = rng.normal(size=n), rng.random(n), rng.exponential(size=n)
    for t in (0, 1):
        mean = age + severe + 0.5 * dose + 0.5 * (site == 2) + t * (1 + 0.5 * age)
        risk = expit(-1 + 0.6 * age + 0.6 * severe + t * (0.5 + 0.3 * age))
        hazard = 0.15 * np.exp(0.5 * age + 0.5 * severe - t * (0.4 + 0.2 * dose))
        drawn |= {f"mean{t}": mean, f"number{t}": mean + noise, f"risk{t}": risk}
        drawn |= {f"event{t}": (uniform < risk) * 1.0, f"time{t}": late / hazard}
        drawn |= {f"hazard{t}": hazard}
    return drawn


def truths() -> dict[tuple[str, str, str], float]:
    """Compute the effects in the population of each estimand."""
    everybody = people(1_000_000, np.random.default_rng(SEED))
    e = everybody["score"]
    h = {
        "ATE": np.ones(len(e)), "ATT": e, "ATC": 1 - e, "ATO": e * (1 - e),
        "ATM": np.minimum(e, 1 - e), "entropy": -xlogy(e, e) - xlogy(1 - e, 1 - e),
    }  # fmt: skip
    found = {}
    for estimand, weight in h.items():
        w = weight / weight.sum()
        m, r = ([float(w @ everybody[f"{x}{t}"]) for t in (1, 0)] for x in ("mean", "risk"))
        later = [float(w @ np.exp(-HORIZON * everybody[f"hazard{t}"])) for t in (1, 0)]
        free = [
            float(w @ (-np.expm1(-HORIZON * everybody[f"hazard{t}"]) / everybody[f"hazard{t}"]))
            for t in (1, 0)
        ]
        odds = [x / (1 - x) for x in r]
        found |= {
            (estimand, "number", "mean difference"): m[0] - m[1],
            (estimand, "event", "risk difference"): r[0] - r[1],
            (estimand, "event", "risk ratio"): r[0] / r[1],
            (estimand, "event", "odds ratio"): odds[0] / odds[1],
            (estimand, "time", "risk difference"): later[1] - later[0],
            (estimand, "time", "restricted mean difference"): free[0] - free[1],
        } | _ratios(estimand, everybody, weight)
    return found


def _ratios(estimand: str, drawn: dict[str, np.ndarray], w: np.ndarray) -> dict:
    """Compute hazard and rate ratios of people who are given both treatments."""
    some = slice(0, 200_000)
    end = np.random.default_rng(SEED).uniform(2, 8, 200_000)
    until = np.concatenate([np.minimum(drawn[f"time{t}"][some], end) for t in (1, 0)])
    had = np.concatenate([drawn[f"time{t}"][some] <= end for t in (1, 0)])
    target, weight = np.repeat([1, 0], 200_000), np.tile(w[some], 2)
    log_ratio = TwoGroupCox.of(until, had, target, weight, ties="breslow").maximum()
    rates = [weight[target == t] @ had[target == t] / (weight[target == t] @ until[target == t])
             for t in (1, 0)]  # fmt: skip
    return {
        (estimand, "time", "hazard ratio"): float(np.exp(log_ratio)),
        (estimand, "time", "rate ratio"): float(rates[0] / rates[1]),
    }


def table_of(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw people with the outcomes of their treatment."""
    drawn = people(n, rng)
    treated = rng.random(n) < drawn["score"]
    censored = rng.uniform(2, 8, n)
    own = {k: np.where(treated, drawn[f"{k}1"], drawn[f"{k}0"]) for k in MEASURES}
    table = pd.DataFrame({name: drawn[name] for name in ("age", "severe", "dose")})
    table["site"] = np.array(["a", "b", "c"])[drawn["site"]]
    table["drug"] = treated * 1
    table["number"], table["event"] = own["number"], own["event"]
    table["time"] = np.minimum(own["time"], censored)
    table["ended"] = (own["time"] <= censored) * 1
    return table


def methods_of(estimand: str, kind: str) -> list:
    """Return the methods that an outcome allows."""
    return [x for x in METHODS[estimand] if kind != "time" or x not in ("aipw", "tmle")]


def main() -> None:
    """Print a row per estimand, outcome, measure and method."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--outcomes", default=",".join(MEASURES))
    parser.add_argument("--estimands", default=",".join(METHODS))
    parser.add_argument("--minutes", type=float, default=60.0, help="stop earlier after these")
    given = parser.parse_args()
    start = time.monotonic()
    known = truths()
    hits: dict[tuple, list[bool]] = defaultdict(list)
    values: dict[tuple, list[tuple[float, float]]] = defaultdict(list)
    refused: dict[tuple, int] = defaultdict(int)
    for repeat in range(given.repeats):
        if time.monotonic() - start > 60 * given.minutes:
            break
        table = table_of(given.n, np.random.default_rng([SEED, given.n, repeat]))
        for estimand in given.estimands.split(","):
            for kind in given.outcomes.split(","):
                _one(table, estimand, kind, known, hits, values, refused)
    report(given.n, hits, values, refused)


def _one(table, estimand, kind, known, hits, values, refused) -> None:
    """Compare the groups of one draw by all methods."""
    methods = methods_of(estimand, kind)
    try:
        found = [_compared(table, estimand, kind, methods)]
    except DataError:
        found = []
        for method in methods:
            try:
                found.append(_compared(table, estimand, kind, [method]))
            except DataError:
                refused[estimand, kind, str(method)] += 1
    for row in (row for each in found for row in each.itertuples()):
        truth = known.get((estimand, kind, row.measure))
        if truth is None or not np.isfinite(row.se):
            continue
        key = estimand, kind, row.measure, row.method
        hits[key].append(row.lower <= truth <= row.upper)
        log = row.measure.endswith("ratio")
        values[key].append((np.log(row.estimate / truth) if log else row.estimate - truth, row.se))


def _compared(table: pd.DataFrame, estimand: str, kind: str, methods: list) -> pd.DataFrame:
    """Return the adjusted marginal effects."""
    outcome = {"outcome": kind}
    if kind == "time":
        outcome = {"time": "time", "event": "ended", "horizon": HORIZON}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compare_groups(
            table, treatment="drug", covariates=COVARIATES, estimand=estimand, adjust=methods,
            **outcome,
        ).effects  # fmt: skip
    return found[(found["method"] != "unadjusted") & (found["scale"] == "marginal")]


def report(n: int, hits: dict, values: dict, refused: dict) -> None:
    """Print the coverage with limits, bias, and the mean error against the spread."""
    print(f"n = {n}")
    print("| estimand | outcome, measure | method | repeats | coverage (95 % limits) "
          "| bias | mean error / spread |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    for key, inside in hits.items():
        estimand, kind, measure, method = key
        m, share = len(inside), float(np.mean(inside))
        z2 = 1.96**2
        middle = (share + z2 / (2 * m)) / (1 + z2 / m)
        half = 1.96 / (1 + z2 / m) * np.sqrt(share * (1 - share) / m + z2 / (4 * m * m))
        error, se = np.array(values[key]).T
        print(
            f"| {estimand} | {kind}, {measure} | {method} | {m} "
            f"| {share:.3f} ({middle - half:.3f}–{middle + half:.3f}) | {error.mean():.3f} "
            f"| {se.mean() / error.std(ddof=1):.2f} |"
        )
    for key, count in refused.items():
        print(f"refused {count} times: {key}")


if __name__ == "__main__":
    main()
