"""False signals of sequential tests and tree scans in sequences without an effect.

`python -m benchmarks.null_sequences [--sequences 10000]` prints the share of sequences with a
signal at any look, with its 95 % Monte Carlo limits (Wilson), beside the error of the design.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray

from steropes.designs.controls import SystematicError
from steropes.designs.surveillance import (
    SequentialBound,
    binomial_bound,
    conditional_poisson_bound,
    continuous_poisson_bound,
    estimate_bound,
    poisson_bound,
    sequential_tree_scan,
    tree_scan,
)
from steropes.designs.surveillance.sequential_tests_of_estimates import monitor_estimates

SEED = 70
ERROR = SystematicError(mean=0.2, sd=0.2, controls=50)
EXPECTED = [5, 6, 6, 5, 8]
ALPHA = 0.05
# A tree of 24 leaves, 6 groups and a root.
LEAVES = np.arange(24)
TREE = pd.DataFrame(
    {"node": [*LEAVES, *range(100, 106)], "parent": [*(100 + LEAVES // 4), *[999] * 6]}
)
MEANS = np.tile([0.5, 2.0, 5.0, 8.0], 6)

Result = tuple[float, float, int]  # share with a signal, error of the design, sequences


def _over(bound: SequentialBound, events: NDArray) -> float:
    """Return the share of sequences, the rows of cumulative events, that reach the bound."""
    least = bound.table["events"].fillna(np.inf).to_numpy()
    return float((events >= least).any(axis=1).mean())


def _tilts(rng: Generator, sequences: int, biased: bool) -> NDArray:
    """Draw the systematic error of each sequence."""
    return rng.normal(ERROR.mean, ERROR.sd, (sequences, 1)) if biased else np.zeros((sequences, 1))


def poisson(
    rng: Generator,
    sequences: int,
    *,
    error: bool = False,
    spend: bool = False,
    biased: bool = False,
) -> Result:
    """Test Poisson events at looks, perhaps at other ones than planned."""
    new = np.array([3.0, 9.0, 1.5, 14.0]) if spend else np.array(EXPECTED, dtype=float)
    share = np.minimum(np.cumsum(new) / 30, 1) ** 0.5 if spend else None
    bound = poisson_bound(new, spending=share, systematic_error=ERROR if error else None)
    rates = new * np.exp(_tilts(rng, sequences, biased))
    return _over(bound, rng.poisson(rates).cumsum(axis=1)), bound.alpha, sequences


def binomial(rng: Generator, sequences: int, *, error: bool = False) -> Result:
    """Test events in time at risk, with four times as much control time."""
    bound = binomial_bound([10] * 10, 4, systematic_error=ERROR if error else None)
    odds = np.exp(_tilts(rng, sequences, error)) / 4
    events = rng.binomial(10, odds / (1 + odds), (sequences, 10)).cumsum(axis=1)
    return _over(bound, events), bound.alpha, sequences


def continuous(rng: Generator, sequences: int, *, error: bool = False) -> Result:
    """Test at every event until ten are expected."""
    bound = continuous_poisson_bound(10, systematic_error=ERROR if error else None)
    times = rng.exponential(size=(sequences, 90)).cumsum(axis=1)
    times /= np.exp(_tilts(rng, sequences, error))
    c = np.arange(1, 91)
    with np.errstate(divide="ignore"):
        ratio = np.where(times < c, times - c + c * np.log(c / times), 0)
    return float(((ratio >= bound.bound) & (times <= 10)).any(axis=1).mean()), ALPHA, sequences


def conditional(rng: Generator, sequences: int, *, error: bool = False) -> Result:
    """Test at each of 20 events against 20 historical ones."""
    bound = conditional_poisson_bound(20, 20, systematic_error=ERROR if error else None)
    gaps = rng.exponential(size=(sequences, 20))
    # The historical period ends at a uniform moment between its last event and the next.
    history = gaps.sum(axis=1) + rng.random(sequences) * rng.exponential(size=sequences)
    times, k, v = rng.exponential(size=(sequences, 20)).cumsum(axis=1), np.arange(1, 21), 20
    times = times / np.exp(_tilts(rng, sequences, error))
    own = history[:, None]
    total = (own + times) / (v + k)
    ratio = v * np.log(v * total / own) + k * np.log(k * total / times)
    ratio = np.where(k / times > v / own, ratio, 0)
    return float((ratio >= bound.bound).any(axis=1).mean()), ALPHA, sequences


def estimates(rng: Generator, sequences: int) -> Result:
    """Test normal estimates whose controls share their systematic error, with known bounds."""
    information = np.array([10.0, 25.0, 40.0])
    bound = estimate_bound(information, spending=[1 / 3, 2 / 3, 1], systematic_error=ERROR)[
        "z"
    ].to_numpy()
    step = np.diff(information, prepend=0)
    score = _tilts(rng, sequences, True) * step + rng.normal(size=(sequences, 3)) * np.sqrt(step)
    z = score.cumsum(axis=1) / np.sqrt(information)
    return float((z >= bound).any(axis=1).mean()), ALPHA, sequences


def fitted_errors(rng: Generator, sequences: int, *, controls: int) -> Result:
    """Test normal estimates with the systematic error that is fitted to controls at each look."""
    information = np.array([10.0, 25.0, 40.0])
    step = np.diff(information, prepend=0)
    size = (sequences, 1 + controls, 3)
    tilt = rng.normal(ERROR.mean, ERROR.sd, (*size[:2], 1))
    score = (tilt * step + rng.normal(size=size) * np.sqrt(step)).cumsum(axis=2)
    sequence, estimate, look = np.indices(size)
    rows = pd.DataFrame(
        {"sequence": sequence.ravel(), "estimate": estimate.ravel(), "look": 1 + look.ravel(),
         "log_rr": (score / information).ravel(),
         "se": np.broadcast_to(1 / np.sqrt(information), size).ravel(),
         "control": estimate.ravel() > 0}
    )  # fmt: skip
    found = monitor_estimates(rows, looks=3, by=["sequence", "estimate"], controls_by=["sequence"])
    return float(found.groupby("sequence")["signal"].any().mean()), ALPHA, sequences


def few_events(rng: Generator, sequences: int, *, events: float) -> Result:
    """Test log rate ratios of two arms with few events, whose distribution is not normal."""
    a, b = rng.poisson(events, (2, sequences, 3)).cumsum(axis=2)
    known = (a > 0) & (b > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = pd.DataFrame(
            {"look": np.tile([1, 2, 3], sequences), "outcome": np.repeat(np.arange(sequences), 3),
             "log_rr": np.where(known, np.log(a / b), np.nan).ravel(),
             "se": np.where(known, np.sqrt(1 / a + 1 / b), np.nan).ravel()}
        )  # fmt: skip
        half = (a + b) / 2
        deviance = 2 * (a * np.log(np.maximum(a, 1) / half) + b * np.log(np.maximum(b, 1) / half))
    rows["z"] = (np.sign(a - b) * np.sqrt(np.maximum(deviance, 0))).ravel()
    found = monitor_estimates(rows, looks=3, by=["outcome"])
    return float(found.groupby("outcome")["signal"].any().mean()), ALPHA, sequences


def scans(rng: Generator, sequences: int, *, bernoulli: bool = False) -> Result:
    """Scan a tree at one look."""
    options: dict[str, object] = {"conditional": False}
    if bernoulli:
        options |= {"model": "bernoulli", "probability": 0.5}
    sizes = np.round(2 * MEANS).astype(int)

    def counts() -> pd.DataFrame:
        if bernoulli:
            cases = rng.binomial(sizes, 0.5)
            return pd.DataFrame({"node": LEAVES, "cases": cases, "controls": sizes - cases})
        return pd.DataFrame({"node": LEAVES, "cases": rng.poisson(MEANS), "expected": MEANS})

    planned = tree_scan(counts(), TREE, **options, replicates=49_999)
    bound = planned.bound()
    largest = [
        tree_scan(counts(), TREE, **options, replicates=1).table["statistic"].max()
        for _ in range(sequences)
    ]
    # Several data sets have the statistic of the bound, so that fewer exceed it than planned.
    error = float((planned._largest > bound + 1e-9).mean())
    return float((np.array(largest) > bound + 1e-9).mean()), error, sequences


def scans_over_looks(rng: Generator, sequences: int) -> Result:
    """Scan a tree at three looks."""

    def counts() -> pd.DataFrame:
        return pd.DataFrame(
            {"look": np.repeat([1, 2, 3], 24), "node": np.tile(LEAVES, 3),
             "cases": rng.poisson(np.tile(MEANS, 3)), "expected": np.tile(MEANS, 3)}
        )  # fmt: skip

    options = {"looks": 3, "conditional": False}
    bounds = sequential_tree_scan(counts(), TREE, **options, replicates=49_999).bounds["bound"]
    signals = 0
    for _ in range(sequences):
        table = sequential_tree_scan(counts(), TREE, **options, replicates=1).table
        signals += bool((table["statistic"] > table["look"].map(bounds) + 1e-9).any())
    return signals / sequences, ALPHA, sequences


DESIGNS: dict[str, Callable[[Generator, int], Result]] = {
    "Poisson, flat bound": poisson,
    "Poisson, unplanned looks": lambda rng, n: poisson(rng, n, spend=True),
    "Poisson with systematic error, calibrated": lambda rng, n: poisson(
        rng, n, error=True, biased=True
    ),
    "Poisson with systematic error, not calibrated": lambda rng, n: poisson(rng, n, biased=True),
    "binomial, flat bound": binomial,
    "binomial with systematic error, calibrated": lambda rng, n: binomial(rng, n, error=True),
    "Poisson at every event": continuous,
    "conditional Poisson at every event": conditional,
    "Poisson at every event, calibrated": lambda rng, n: continuous(rng, n, error=True),
    "conditional Poisson, calibrated": lambda rng, n: conditional(rng, n, error=True),
    "estimates with systematic error, calibrated": estimates,
    "estimates with an error fitted to 50 controls": lambda rng, n: fitted_errors(
        rng, n, controls=50
    ),
    "estimates with an error fitted to 10 controls": lambda rng, n: fitted_errors(
        rng, n, controls=10
    ),
    "estimates, 20 events in each arm between looks": lambda rng, n: few_events(rng, n, events=20),
    "estimates, 3 events in each arm between looks": lambda rng, n: few_events(rng, n, events=3),
    "tree scan, Poisson": scans,
    "tree scan, Bernoulli": lambda rng, n: scans(rng, n, bernoulli=True),
    "tree scan at three looks": scans_over_looks,
}


def limits(share: float, sequences: int) -> tuple[float, float]:
    """Return Wilson's 95 % limits of a share."""
    z = 1.959964
    centre = (share + z**2 / (2 * sequences)) / (1 + z**2 / sequences)
    half = np.sqrt(share * (1 - share) / sequences + z**2 / (4 * sequences**2))
    half *= z / (1 + z**2 / sequences)
    return centre - half, centre + half


def main() -> None:
    """Print a table of all designs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=10_000)
    sequences = parser.parse_args().sequences
    print("| design | sequences | error | with a signal (95 % limits) |\n|---|---:|---:|---|")
    for name, design in DESIGNS.items():
        share, alpha, n = design(np.random.default_rng(SEED), sequences)
        low, high = limits(share, n)
        print(
            f"| {name} | {n:,} | {alpha:.4f} | {share:.4f} ({low:.4f} to {high:.4f}) |", flush=True
        )


if __name__ == "__main__":
    main()
