"""Coverage of the 95 % intervals of `compare_groups`, by estimand, method and measure.

`python -m benchmarks.comparison_coverage [--n 500 --repeats 200 --minutes 60 --store FILE]`. Each
repeat draws people with four confounders, of whom a third to a half are treated, and effects that
differ between people, so that estimands differ. The truths are means over 400,000 people of
functions of both potential outcomes, weighted by h(e) of the estimand; hazard and rate ratios are
those of a trial in these people with the same censoring, by integrals over time. Pairs with a
calliper leave out target people, and "matching, of the matched" counts the same intervals against
the effect in those who are left, given their covariates. "proportional" are times whose hazards
have no product of treatment and covariates, as the Cox model of standardisation has none. The
Monte Carlo limits of a coverage are those of Wilson. With a file, whose lines are repeats, a run
continues where the last one ended.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit, xlogy
from sklearn.base import clone

from steropes import DataError
from steropes.designs import DoublyRobust, Matching
from steropes.designs.comparative.adjustments import adjust_groups, steps_of
from steropes.designs.comparative.compared_people import ComparisonTable
from steropes.designs.comparative.comparison_input_table import people_to_compare
from steropes.designs.comparative.effect_table_rows import EffectRow
from steropes.designs.comparative.marginal_effects import marginal_effects
from steropes.designs.comparative.standardization import standardized_effects
from steropes.designs.values.estimands import check_estimand

SEED = 20
COVARIATES = ["age", "severe", "dose", "site"]
HORIZON = 3.0
CENSORED = 2.0, 8.0  # times to censoring are uniform between these
LOG_HAZARD_RATIO = -0.4
GRID = 100  # midpoints of the integrals over time
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
    "proportional": ["risk difference", "restricted mean difference"],
}
TIMES = "time", "proportional"


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
        base = 0.15 * np.exp(0.5 * age + 0.5 * severe + t * LOG_HAZARD_RATIO)
        hazard = base * np.exp(-t * 0.2 * dose)
        drawn |= {f"mean{t}": mean, f"number{t}": mean + noise, f"risk{t}": risk}
        drawn |= {f"event{t}": (uniform < risk) * 1.0, f"time{t}": late / hazard}
        drawn |= {f"hazard{t}": hazard, f"base{t}": base, f"proportional{t}": late / base}
    return drawn


def truths() -> dict[tuple[str, str, str], float]:
    """Compute the effects in the population of each estimand."""
    everybody = people(400_000, np.random.default_rng(SEED))
    found = {}
    for estimand, weight in populations(everybody["score"]).items():
        found |= effects_in(estimand, everybody, weight)
    return found


def populations(e: np.ndarray) -> dict[str, np.ndarray]:
    """Return the weights of people in the populations of the estimands."""
    return {
        "ATE": np.ones(len(e)), "ATT": e, "ATC": 1 - e, "ATO": e * (1 - e),
        "ATM": np.minimum(e, 1 - e), "entropy": -xlogy(e, e) - xlogy(1 - e, 1 - e),
    }  # fmt: skip


def effects_in(estimand: str, drawn: dict[str, np.ndarray], weight: np.ndarray) -> dict:
    """Compute the effects in people given their covariates."""
    w = weight / weight.sum()
    m, r = ([float(w @ drawn[f"{x}{t}"]) for t in (1, 0)] for x in ("mean", "risk"))
    odds = [x / (1 - x) for x in r]
    found = {
        (estimand, "number", "mean difference"): m[0] - m[1],
        (estimand, "event", "risk difference"): r[0] - r[1],
        (estimand, "event", "risk ratio"): r[0] / r[1],
        (estimand, "event", "odds ratio"): odds[0] / odds[1],
        (estimand, "proportional", "conditional hazard ratio"): float(np.exp(LOG_HAZARD_RATIO)),
    }
    for kind, name in zip(TIMES, ("hazard", "base"), strict=True):
        both = [drawn[f"{name}{t}"] for t in (1, 0)]
        later = [float(w @ np.exp(-HORIZON * h)) for h in both]
        free = [float(w @ (-np.expm1(-HORIZON * h) / h)) for h in both]
        found[estimand, kind, "risk difference"] = later[1] - later[0]
        found[estimand, kind, "restricted mean difference"] = free[0] - free[1]
        if kind == "time":
            found |= {(estimand, kind, measure): ratio for measure, ratio in _ratios(both, w)}
    return found


def _ratios(hazards: list[np.ndarray], w: np.ndarray) -> list[tuple[str, float]]:
    """Compute marginal hazard and rate ratios of people who are given both treatments.

    The hazard ratio is the limit of Cox's estimate, the root of the expected score under the
    censoring of the draws.
    """
    start, end = CENSORED
    at = (np.arange(GRID) + 0.5) * end / GRID
    observed = np.clip((end - at) / (end - start), 0, 1)
    risk, events = np.empty((2, 2, GRID))
    for g, time_of in enumerate(at):
        for t, h in enumerate(hazards):
            there = w * np.exp(-h * time_of)
            risk[t, g], events[t, g] = observed[g] * there.sum(), observed[g] * (there @ h)

    def score(b: float) -> float:
        share = np.exp(b) * risk[0] / (np.exp(b) * risk[0] + risk[1])
        return float((events[0] - events.sum(axis=0) * share).sum())

    rates = events.sum(axis=1) / risk.sum(axis=1)
    return [
        ("hazard ratio", float(np.exp(brentq(score, -5, 5)))),
        ("rate ratio", float(rates[0] / rates[1])),
    ]


def table_of(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """Draw people with the outcomes of their treatment; return also what they were drawn with."""
    drawn = people(n, rng)
    treated = rng.random(n) < drawn["score"]
    censored = rng.uniform(*CENSORED, n)
    own = {k: np.where(treated, drawn[f"{k}1"], drawn[f"{k}0"]) for k in MEASURES}
    table = pd.DataFrame({name: drawn[name] for name in ("age", "severe", "dose")})
    table["site"] = np.array(["a", "b", "c"])[drawn["site"]]
    table["drug"] = treated * 1
    table["number"], table["event"] = own["number"], own["event"]
    for kind in TIMES:
        table[kind] = np.minimum(own[kind], censored)
        table[f"{kind} ended"] = (own[kind] <= censored) * 1
    return table, drawn


def compared(
    tables: dict[str, ComparisonTable], drawn: dict[str, np.ndarray], estimand: str, methods: str
) -> tuple[list, list]:
    """Return the effects of each outcome, for which weights are estimated once, and refusals.

    An effect is [estimand, outcome, measure, method, estimate, error, lower, upper, truth], where
    the truth is None if it is that of the estimand.
    """
    first = next(iter(tables.values()))
    rows, refused, code = [], [], check_estimand(estimand)
    for name, step in steps_of(METHODS[estimand], code, None, False).items():
        if methods and name not in methods.split(","):
            continue
        shared = None
        for kind, own in tables.items():
            at = HORIZON if kind in TIMES else None
            if (at and isinstance(step, DoublyRobust)) or (kind == "proportional" and step):
                continue
            try:
                if step is None:
                    found = standardized_effects(own, code, None, at, "efron", 0.95)
                elif isinstance(step, DoublyRobust):
                    made = adjust_groups(own, name, clone(step))
                    found = marginal_effects(own, made, at, "efron", 0.95)
                else:
                    shared = shared or adjust_groups(first, name, clone(step))
                    found = marginal_effects(own, shared, at, "efron", 0.95)
            except DataError:
                refused.append((estimand, kind, name))
                continue
            every = [
                [estimand, kind, _measure(row), name, row.estimate, row.se, row.lower, row.upper]
                for row in found
            ]
            rows += [[*row, None] for row in every]
            if name == "matching":
                left = (shared.weights > 0) & (own.target == 1)
                truths_left = effects_in(estimand, drawn, left.astype(float))
                rows += [
                    [*row[:3], f"{name}, of the matched", *row[4:], truths_left[tuple(row[:3])]]
                    for row in every if tuple(row[:3]) in truths_left
                ]  # fmt: skip
    return rows, refused


def _measure(row: EffectRow) -> str:
    """Return the name of a measure, with its scale if that is conditional."""
    return row.measure if row.scale == "marginal" else f"{row.scale} {row.measure}"


def _people(table: pd.DataFrame, kind: str) -> ComparisonTable:
    """Return the people with one of the outcomes."""
    nothing = dict.fromkeys(["entry", "target", "id", "cluster"])
    time = kind in TIMES
    return people_to_compare(
        table, treatment="drug", covariates=COVARIATES, missing="error",
        outcome=None if time else kind, time=kind if time else None,
        event=f"{kind} ended" if time else None, **nothing,
    )  # fmt: skip


def main() -> None:
    """Print a row per estimand, outcome, measure and method."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--outcomes", default=",".join(MEASURES))
    parser.add_argument("--estimands", default=",".join(METHODS))
    parser.add_argument("--methods", default="", help="names of methods, separated by commas")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop earlier after these")
    parser.add_argument("--store", type=Path, help="file of the repeats, which is continued")
    given = parser.parse_args()
    start = time.monotonic()
    lines = []
    if given.store and given.store.exists():
        lines = [json.loads(line) for line in given.store.read_text().splitlines()]
    for repeat in range(len(lines), given.repeats):
        if time.monotonic() - start > 60 * given.minutes:
            break
        table, drawn = table_of(given.n, np.random.default_rng([SEED, given.n, repeat]))
        tables = {kind: _people(table, kind) for kind in given.outcomes.split(",")}
        line: dict[str, list] = {"rows": [], "refused": []}
        for estimand in given.estimands.split(","):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows, failed = compared(tables, drawn, estimand, given.methods)
            line["rows"] += rows
            line["refused"] += failed
        lines.append(line)
        if given.store:
            with given.store.open("a") as file:
                file.write(json.dumps(line) + "\n")
    report(given.n, lines)


def report(n: int, lines: list[dict]) -> None:
    """Print the coverage with limits, bias, and the mean error against the spread."""
    known = truths()
    hits: dict[tuple, list[bool]] = defaultdict(list)
    values: dict[tuple, list[tuple[float, float]]] = defaultdict(list)
    refused: dict[tuple, int] = defaultdict(int)
    for line in lines:
        for key in line["refused"]:
            refused[tuple(key)] += 1
        for estimand, kind, measure, method, estimate, se, lower, upper, own in line["rows"]:
            truth = known.get((estimand, kind, measure)) if own is None else own
            if truth is None or not np.isfinite(se):
                continue
            key = estimand, kind, measure, method
            hits[key].append(lower <= truth <= upper)
            ratio = np.log(estimate / truth) if measure.endswith("ratio") else None
            values[key].append((estimate - truth if ratio is None else ratio, se))
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
