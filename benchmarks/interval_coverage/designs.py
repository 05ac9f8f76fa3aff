"""Coverage of 95 % intervals of case-only designs, calibration, synthesis and bias analysis.

`python -m benchmarks.interval_coverage.designs [--repeats 1000]` prints how often each interval
contains the truth, with 95 % Monte Carlo limits (Wilson), for ratios of 1 and of 2.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.null_sequences import limits
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import beta

from steropes.designs.bias_analysis import Misclassification, bias_analysis
from steropes.designs.case_only import (
    case_crossover,
    case_time_control,
    nested_case_control,
    self_controlled_cohort,
    self_controlled_risk_interval,
)
from steropes.designs.controls import calibrate_interval, fit_error_model, fit_systematic_error
from steropes.designs.evidence import combine_normal, hierarchical_synthesis, random_effects
from steropes.designs.surveillance import correct_bias, fit_bias

SEED = 70
BLOCK, BLOCKS = 30, 10  # days of a period in which exposure does not change, and their number
Interval = tuple[str, float, float, float]  # name, limits and truth, on the log scale


def _likelihood(y: float, se: float) -> Callable[[Any], NDArray]:
    """Return a normal log-likelihood."""
    return lambda b: -(((b - y) / se) ** 2) / 2


def _population(
    rng: Generator, people: int, daily: float, effect: float, trend: float = 0.0
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Draw events, exposures and observation; exposure differs between people and with time."""
    own = rng.normal(-1.5 if trend else -0.5, 1, (people, 1))
    exposed = rng.random((people, BLOCKS)) < expit(own + trend * np.arange(BLOCKS))
    hazard = BLOCK * daily * np.exp(effect * exposed)
    before = np.cumsum(hazard, axis=1)
    need = rng.exponential(size=(people, 1))
    block = (before < need).sum(axis=1)
    had = np.flatnonzero(block < BLOCKS)
    share = 1 - (before - need)[had, block[had]] / hazard[had, block[had]]
    day = BLOCK * block[had] + np.minimum((BLOCK * share).astype(int), BLOCK - 1)
    who, when = np.nonzero(exposed)
    drugs = pd.DataFrame({"id": who, "start": BLOCK * when, "end": BLOCK * when + BLOCK - 1})
    seen = pd.DataFrame({"id": np.arange(people), "start": 0, "end": BLOCK * BLOCKS - 1})
    return pd.DataFrame({"id": had, "day": day}), drugs, seen


def case_only(rng: Generator, effect: float) -> Iterator[Interval]:
    """Yield the intervals of all designs that compare moments of people or of risk sets."""
    same_day = {"window": (0, 0), "washout": 0}
    events, drugs, seen = _population(rng, 2000, 0.0003, effect)
    for name, references in (("1", -30), ("3", [-30, -60, -90])):
        found = case_crossover(events, drugs, seen, references=references, **same_day)
        yield _ratio(f"case–crossover, references: {name}", found, effect)
    for m in (1, 4):
        found = nested_case_control(events, drugs, seen, controls_per_case=m, **same_day)
        yield _ratio(f"nested case–control, controls: {m}", found, effect)
    events, drugs, seen = _population(rng, 3000, 0.0003, effect, trend=0.2)
    others = np.setdiff1d(seen["id"], events["id"])
    index = pd.DataFrame({"id": rng.choice(others, len(events), replace=False)})
    index["day"] = rng.permutation(events["day"].to_numpy())
    for name, controls in (
        ("case–time–control", index),
        ("case–case–time–control", "future cases"),
    ):
        found = case_time_control(events, controls, drugs, seen, references=-30, **same_day)
        yield _ratio(name, found, effect)
    # Without a gap the days of future cases before their own events are among the compared ones.
    found = case_time_control(
        events, "future cases", drugs, seen, references=-30, future_gap=BLOCK, **same_day
    )
    yield _ratio("case–case–time–control, gap of 30 days", found, effect)
    found = case_crossover(events, drugs, seen, references=-30, **same_day)
    yield _ratio("case–crossover with a trend of exposure (biased)", found, effect)


def around_exposure(rng: Generator, effect: float) -> Iterator[Interval]:
    """Yield the intervals of designs that compare days around one exposure."""
    seen = pd.DataFrame({"id": np.arange(1500), "start": 0, "end": 400})
    drugs = pd.DataFrame({"id": seen["id"], "start": rng.integers(100, 300, 1500)})
    # An event in days 1 to 30 is more frequent; the days -30 to 60 are needed.
    days = np.arange(-30, 61)
    rate = 0.001 * np.exp(effect * ((days >= 1) & (days <= 30)))
    who, at = np.nonzero(rng.random((1500, len(days))) < rate)
    events = pd.DataFrame({"id": who, "day": drugs["start"].to_numpy()[who] + days[at]})
    periods = {"risk_periods": (1, 30), "control_periods": [(-30, -15), (31, 60)]}
    found = self_controlled_risk_interval(events, drugs, seen, **periods).estimates
    yield "self-controlled risk interval", *np.log(found[["lower", "upper"]].iloc[0]), effect
    found = self_controlled_cohort(events, drugs, seen, first_event_only=False)
    yield _ratio("self-controlled cohort (exact)", found, effect)
    found = self_controlled_cohort(events, drugs, seen)
    yield _ratio("self-controlled cohort (exact), first events", found, effect)


def _ratio(name: str, found: Any, effect: float) -> Interval:
    """Return the limits of the first row of a result."""
    return name, *np.log(found.estimates[["lower", "upper"]].iloc[0].to_numpy(float)), effect


def calibrated(rng: Generator, effect: float) -> Iterator[Interval]:
    """Yield intervals that include a systematic error from N(0.2, 0.2²) of 50 controls."""
    se = rng.uniform(0.1, 0.4, 51)
    y = rng.normal(0.2, 0.2, 51) + rng.normal(0, se)
    y[50] += effect
    error = fit_systematic_error(y[:50], se[:50])
    half = 1.959964 * np.hypot(se[50], error.sd)
    yield (
        "calibrated by a normal error",
        y[50] - error.mean - half,
        y[50] - error.mean + half,
        effect,
    )
    line = calibrate_interval(y[50], se[50], fit_error_model(y[:50], se[:50], np.zeros(50)))
    yield "calibrated by an error model", line.lower, line.upper, effect


def corrected(rng: Generator, effect: float) -> Iterator[Interval]:
    """Yield the posterior limits of monitoring, with the error of 20 controls."""
    se = rng.uniform(0.1, 0.4, 21)
    y = rng.normal(0.2, 0.2, 21) + rng.normal(0, se)
    known = [_likelihood(*pair) for pair in zip(y, se, strict=True)]
    found = correct_bias(_likelihood(y[20] + effect, se[20]), fit_bias(known[:20]))
    yield "posterior of monitoring, corrected", found.lower, found.upper, effect


def synthesis(rng: Generator, effect: float) -> Iterator[Interval]:
    """Yield intervals of means and predictions of effects that differ by 0.2 between databases."""
    for k in (5, 10):
        se = rng.uniform(0.1, 0.3, k)
        own = rng.normal(effect, 0.2, k + 1)  # The last is that of a further database.
        y = rng.normal(own[:k], se)
        normal = combine_normal(y, se, random=True)
        bayes = random_effects([_likelihood(*pair) for pair in zip(y, se, strict=True)])
        for name, found in (("DerSimonian and Laird", normal), ("Bayesian", bayes)):
            yield f"{name}, mean of {k} databases", found.lower, found.upper, effect
            further = found.predicted_lower, found.predicted_upper
            yield f"{name}, prediction from {k} databases", *further, own[k]
    rows = pd.DataFrame(
        [(s, o) for o in range(31) for s in "abcd"], columns=["database", "outcome"]
    )
    rows["control"], rows["se"] = rows["outcome"] < 30, 0.15
    shared, bases = rng.normal(0.1, 0.15, 31), dict(zip("abcd", rng.normal(0, 0.1, 4), strict=True))
    error = shared[rows["outcome"]] + rows["database"].map(bases) + rng.normal(0, 0.1, len(rows))
    rows["log_rr"] = error + effect * ~rows["control"] + rng.normal(0, rows["se"])
    found = hierarchical_synthesis(rows).effects.iloc[0]
    yield "hierarchical synthesis, 30 controls, 4 databases", found["lower"], found["upper"], effect


def misclassified(rng: Generator, effect: float) -> Iterator[Interval]:
    """Yield intervals of an odds ratio whose sensitivity and specificity come from their priors."""
    sensitivity, specificity = beta(40, 10), beta(95, 5)
    true_se, true_sp = sensitivity.rvs(random_state=rng), specificity.rvs(random_state=rng)
    share = expit(np.array([-0.5 + effect, -0.5]))  # of cases and of others who were exposed
    seen = rng.binomial(800, share * true_se + (1 - share) * (1 - true_sp))
    bias = Misclassification("exposure", sensitivity, specificity)
    table = bias_analysis([[seen[0], 800 - seen[0]], [seen[1], 800 - seen[1]]], bias, draws=4000,
                          random_state=int(rng.integers(2**31))).summary  # fmt: skip
    for row, name in (
        (-1, "bias analysis, systematic and random error"),
        (0, "without correction"),
    ):
        yield name, *np.log(table[["lower", "upper"]].iloc[row].to_numpy(float)), effect


# Share of the repeats, because some take long.
DRAWN = {misclassified: 1, around_exposure: 1, calibrated: 1, case_only: 1, corrected: 0.4,
         synthesis: 0.8}  # fmt: skip


def main() -> None:
    """Print a table of all intervals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1000)
    given = parser.parse_args().repeats
    print(
        "| interval | repeats | ratio 1: coverage, % | ratio 2: coverage, % |\n|---|---:|---|---|"
    )
    for draw, share_of in DRAWN.items():
        repeats = round(share_of * given)
        held: dict[str, list[str]] = {}
        for k, effect in enumerate((0.0, np.log(2))):
            found = [
                (name, low <= truth <= high)
                for i in range(repeats)
                for name, low, high, truth in draw(np.random.default_rng([SEED, k, i]), effect)
            ]
            for name, share in pd.DataFrame(found).groupby(0, sort=False)[1].mean().items():
                low, high = limits(share, repeats)
                text = f"{100 * share:.1f} ({100 * low:.1f} to {100 * high:.1f})"
                held.setdefault(str(name), []).append(text)
        for name, cells in held.items():
            print(f"| {name} | {repeats:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
