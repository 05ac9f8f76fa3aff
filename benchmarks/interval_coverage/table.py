"""The tables of what was simulated, as Markdown."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .worlds import CONFOUND, EFFECT, WORLDS

__all__ = ["show", "summary"]

METHODS = (
    "wald", "robust", "profile", "Jeffreys profile", "debiased", "debiased, penalised",
    "percentile", "basic", "bca", "posterior", "posterior, confounder", "posterior, other",
)  # fmt: skip
KEY = ["family", "size", "nuisance", "effect"]


def summary(done: pd.DataFrame) -> pd.DataFrame:
    """A row a scenario and method: coverage, zero excluded, truth above or below, lengths."""
    done = done[~done.method.str.startswith("refused")].copy()
    truth = np.where(done.effect == "null", 0.0, EFFECT)
    truth = np.where(done.method == "posterior, confounder", CONFOUND, truth)
    truth = np.where(done.method == "posterior, other", 0.0, truth)
    done["covers"] = (done.lower <= truth) & (done.upper >= truth)
    done["finds"] = (done.lower > 0) | (done.upper < 0)
    done["below"], done["above"] = done.upper < truth, done.lower > truth
    done["length"] = done.upper - done.lower
    out = done.groupby([*KEY, "method"], sort=False).agg(
        repeats=("repeat", "count"), covers=("covers", "mean"), finds=("finds", "mean"),
        below=("below", "mean"), above=("above", "mean"), length=("length", "median"),
        seconds=("seconds", "mean"),
    )  # fmt: skip
    return out.reset_index()


def pooled(done: pd.DataFrame) -> pd.DataFrame:
    """The same data with the families taken together, by which of their two sizes."""
    small = {(name, world.small) for name, world in WORLDS.items()}
    pairs = zip(done.family, done["size"], strict=True)
    return done.assign(family="all", size=["small" if x in small else "large" for x in pairs])


def printed(table: pd.DataFrame, value: str, title: str, least: float) -> None:
    """One measure in per cent: a row a scenario, a column an interval.

    The Monte-Carlo error is at least that of a share of ``least``.
    """
    print(f"\n| {title}, % | covariates | " + " | ".join(METHODS) + " |")
    print("|---|---|" + "---:|" * len(METHODS))
    order = {name: i for i, name in enumerate(["all", *WORLDS])}
    table = table.sort_values("family", key=lambda x: x.map(order), kind="stable")
    for (family, size, nuisance), part in table.groupby(["family", "size", "nuisance"], sort=False):
        by = part.set_index("method")
        cells = [_cell(by, method, value, least) for method in METHODS]
        print(f"| {family}, {size} | {nuisance} | " + " | ".join(cells) + " |")


def _cell(by: pd.DataFrame, method: str, value: str, least: float) -> str:
    if method not in by.index:
        return ""
    share, n = float(by.loc[method, value]), int(by.loc[method, "repeats"])
    error = np.sqrt(max(share * (1 - share), least * (1 - least)) / n)
    return f"{100 * share:.1f} ± {100 * error:.1f}"


def show(done: pd.DataFrame) -> None:
    """Print repeats, refusals, and all measures, of all families together and of each."""
    counts = done.groupby([*KEY, "method"], sort=False)["repeat"].count()
    print("repeats:", counts.groupby("method").agg(["min", "max"]).to_string())
    refused = counts[counts.index.get_level_values("method").str.startswith("refused")]
    print("refused:", refused.to_string() if len(refused) else "none")
    for table in (summary(pooled(done)), summary(done)):
        some, null = table[table.effect == "log 2"], table[table.effect == "null"]
        printed(some, "covers", "coverage", 0.05)
        printed(some, "above", "wholly above the truth", 0.025)
        printed(some, "below", "wholly below the truth", 0.025)
        printed(some, "finds", "power", 0.05)
        printed(null, "finds", "size: zero excluded without an effect", 0.05)
