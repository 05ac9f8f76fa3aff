"""Coverage and power of every interval of a treatment's effect, by simulation.

    python -m benchmarks.interval_coverage [--repeats 400 --draws 40 --only Cox --minutes 10]

fits data of known truth (`worlds.py`) and counts how often each interval at 95% holds log 2, the
treatment's effect, and how often it leaves zero out. The treatment has no prior; beside it are one
covariate without a prior ("none"), or thirty under a normal ("ridge") or a Laplace prior ("lasso").
Repeat i of a scenario is drawn from the seed (scenario, i), and what is done is kept in a file, so
that a run goes on where the last one ended; ``--table`` only prints.
"""

from __future__ import annotations

import argparse
import time
import warnings
import zlib
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from steropes import Jeffreys, Laplace, Normal

from .worlds import EFFECT, WORLDS, World

VARIANCE = 0.1  # of the priors of the thirty covariates
DRAWN = 200  # draws of a bootstrap
COVARIATES = {"none": 1, "ridge": 30, "lasso": 30}
METHODS = (
    "wald", "robust", "profile", "Jeffreys profile", "percentile", "basic", "bca",
)  # fmt: skip
COLUMNS = ["family", "size", "nuisance", "repeat", "method", "lower", "upper", "seconds"]


def intervals(
    world: World, size: int, nuisance: str, seed: list[int], resample: bool
) -> Iterator[tuple[str, float, float, float]]:
    """Method, limits and processor seconds of one data set; the fit is in the first one's time."""
    rng = np.random.default_rng(seed)
    k = COVARIATES[nuisance]
    X, y, given = world.draw(rng, size, k)
    kind = {"none": None, "ridge": Normal, "lasso": Laplace}[nuisance]
    prior = None if kind is None else kind(VARIANCE, exclude=[0])
    start = time.process_time()
    model = world.estimator(prior=prior, n_jobs=1).fit(X, y, **given)

    def since() -> float:
        nonlocal start
        took, start = time.process_time() - start, time.process_time()
        return took

    def limits(found: pd.DataFrame) -> tuple[float, float, float]:
        lower, upper = found.loc["x0", ["lower", "upper"]]
        return float(lower), float(upper), since()

    methods = ("profile",) if nuisance == "lasso" else ("wald", "robust", "profile")
    for method in methods:
        yield method, *limits(model.confint("x0", method=method))
    if nuisance == "none" and world.has_jeffreys:
        firth = world.estimator(prior=Jeffreys(), n_jobs=1).fit(X, y, **given)
        yield "Jeffreys profile", *limits(firth.confint("x0", method="profile"))
    if resample:
        drawn = model.bootstrap(DRAWN, random_state=int(rng.integers(2**31)), n_jobs=1)
        for method in ("percentile", "basic", "bca"):
            yield method, *limits(drawn.confint(0.95, method))


def run(family: str, which: str, nuisance: str, done: pd.DataFrame, a: argparse.Namespace) -> None:
    """Do what is missing of one scenario, and keep it."""
    world = WORLDS[family]
    size = getattr(world, which)
    scenario = f"{family} {size} {nuisance}"
    own = done[(done.family == family) & (done["size"] == size) & (done.nuisance == nuisance)]
    known = set(own["repeat"])
    until = time.process_time() + 60 * a.minutes
    rows = []
    for i in range(a.repeats):
        if i in known or time.process_time() > until:
            continue
        base = {"family": family, "size": size, "nuisance": nuisance, "repeat": i}
        seed = [zlib.crc32(scenario.encode()), a.seed, i]
        try:
            for method, lower, upper, took in intervals(world, size, nuisance, seed, i < a.draws):
                found = {"lower": lower, "upper": upper, "seconds": round(took, 4)}
                rows.append(base | {"method": method} | found)
        except ValueError as error:  # no finite maximum: an interval without end
            rows.append(base | {"method": f"refused: {type(error).__name__}"})
    if rows:
        table = pd.DataFrame(rows, columns=COLUMNS)
        table.to_csv(a.store, mode="a", header=not a.store.exists(), index=False)


def summary(done: pd.DataFrame) -> pd.DataFrame:
    """A row a scenario and method: coverage, power, too low and too high, and lengths."""
    done = done[~done.method.str.startswith("refused")].copy()
    done["covers"] = (done.lower <= EFFECT) & (done.upper >= EFFECT)
    done["finds"] = (done.lower > 0) | (done.upper < 0)
    done["below"], done["above"] = done.upper < EFFECT, done.lower > EFFECT
    done["length"] = done.upper - done.lower
    by = done.groupby(["family", "size", "nuisance", "method"], sort=False)
    out = by.agg(
        repeats=("repeat", "count"), coverage=("covers", "mean"), power=("finds", "mean"),
        below=("below", "mean"), above=("above", "mean"), length=("length", "median"),
        seconds=("seconds", "mean"),
    )  # fmt: skip
    return out.reset_index()


def pooled(done: pd.DataFrame) -> pd.DataFrame:
    """The same data with the families taken together, by which of their two sizes."""
    small = {(name, world.small) for name, world in WORLDS.items()}
    which = [
        ("small" if key in small else "large")
        for key in zip(done.family, done["size"], strict=True)
    ]
    return done.assign(family="all", size=which)


def printed(table: pd.DataFrame, value: str) -> None:
    """One measure as Markdown, in per cent: a row a scenario, a column an interval."""
    print(f"\n| {value}, % | covariates | " + " | ".join(METHODS) + " |")
    print("|---|---|" + "---:|" * len(METHODS))
    for (family, size, nuisance), part in table.groupby(["family", "size", "nuisance"], sort=False):
        by = part.set_index("method")
        cells = [_cell(by, method, value) for method in METHODS]
        print(f"| {family}, {size} | {nuisance} | " + " | ".join(cells) + " |")


def _cell(by: pd.DataFrame, method: str, value: str) -> str:
    if method not in by.index:
        return ""
    share, n = float(by.loc[method, value]), int(by.loc[method, "repeats"])
    error = np.sqrt(max(share * (1 - share), 0.95 * 0.05) / n)  # at least that of 95%
    return f"{100 * share:.1f} ± {100 * error:.1f}"


def main() -> None:
    """Simulate what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument(
        "--sizes", nargs="+", choices=("small", "large"), default=["small", "large"]
    )
    parser.add_argument(
        "--nuisances", nargs="+", choices=list(COVARIATES), default=list(COVARIATES)
    )
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--draws", type=int, default=40, help="repeats that are bootstrapped too")
    parser.add_argument("--minutes", type=float, default=5.0, help="processor time of a scenario")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", type=Path, default=Path("coverage.csv"))
    parser.add_argument("--table", action="store_true", help="print what is there and do no more")
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    for family, which, nuisance in product(a.only, a.sizes, a.nuisances):
        if a.table:
            break
        done = pd.read_csv(a.store) if a.store.exists() else pd.DataFrame(columns=COLUMNS)
        run(family, which, nuisance, done, a)
        print(f"{family}, {which}, {nuisance}: {time.process_time():.0f} s", flush=True)
    done = pd.read_csv(a.store)
    print(done.groupby(["family", "size", "nuisance", "method"], sort=False)["repeat"].count())
    for table in (summary(pooled(done)), summary(done)):
        for value in ("coverage", "below", "above", "power"):
            printed(table, value)


if __name__ == "__main__":
    main()
