"""Coverage, size and power of every interval of a treatment's effect, by simulation.

    python -m benchmarks.interval_coverage [--repeats 1000 --draws 0 --only Cox --minutes 60]
    python -m benchmarks.interval_coverage --repeats 0 --posteriors 200 --nuisances ridge lasso

fits data of known truth (`worlds.py`), once with an effect of log 2 and once with none, and
counts how often each interval at 95% holds the truth, and how often it leaves zero out. The
treatment has no prior; beside it are one covariate without a prior ("none"), thirty under a
normal ("ridge") or a Laplace prior ("lasso"), or three hundred under a Laplace prior ("wide").
"debiased, penalised" has the treatment under this prior, too. "posterior" is the treatment's
credible interval, "posterior, confounder" and "posterior, other" those of a penalised confounder
and of a penalised covariate without an effect, in the same draws. Repeat i of a scenario is drawn
from the seed (scenario, i). All scenarios take turns, some repeats at a time, and what is done is
kept in a file, so that a run goes on where the last one ended; ``--table`` only prints.
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

from .table import show
from .worlds import EFFECT, WORLDS, World

VARIANCE = 0.1  # of the priors of the thirty covariates
DRAWN = 200  # draws of a bootstrap
CHAIN = 400  # draws of each of four chains of a posterior, after as many to adapt the sampler
# Columns whose credible intervals are counted.
SAMPLED = {"x0": "posterior", "x1": "posterior, confounder", "x10": "posterior, other"}
TURN = 50  # repeats of a scenario before the next one's
COVARIATES = {"none": 1, "ridge": 30, "lasso": 30, "wide": 300}
EFFECTS = {"log 2": EFFECT, "null": 0.0}
# The method that marks a repeat of intervals with draws as done, and the name of its refusals.
MARKS = {"drawn": "percentile", "sampled": "posterior"}
REFUSALS = {"drawn": "bootstrap", "sampled": "sampler"}
KEY = ["family", "size", "nuisance", "effect"]
COLUMNS = [*KEY, "repeat", "method", "lower", "upper", "seconds"]

Scenario = tuple[str, str, str, str]  # family, "small" or "large", nuisance, effect
Found = tuple[str, float, float, float]  # method, limits, processor seconds


class Data:
    """One data set with its fit, and the intervals of its treatment."""

    def __init__(self, world: World, size: int, nuisance: str, effect: float, seed: list[int]):
        self.world, self.nuisance = world, nuisance
        self.rng = np.random.default_rng(seed)
        self.X, self.y, self.given = world.draw(self.rng, size, COVARIATES[nuisance], effect)
        kind = {"none": None, "ridge": Normal}.get(nuisance, Laplace)
        prior = None if kind is None else kind(VARIANCE, exclude=[0])
        self.since = time.process_time()
        self.model = world.estimator(prior=prior, n_jobs=1).fit(self.X, self.y, **self.given)

    def limits(self, method: str, found: pd.DataFrame, column: str = "x0") -> Found:
        """Of the treatment, with the time since the last call; the fit is in the first one's."""
        lower, upper = found.loc[column, ["lower", "upper"]]
        before, self.since = self.since, time.process_time()
        return method, float(lower), float(upper), self.since - before

    def computed(self) -> Iterator[Found]:
        """Intervals without draws."""
        sparse = self.nuisance in ("lasso", "wide")
        for method in ("profile",) if sparse else ("wald", "robust", "profile"):
            yield self.limits(method, self.model.confint("x0", method=method))
        if sparse:
            yield self.limits("debiased", self.model.inference.debiased_lasso("x0").confint())
            whole = self.world.estimator(prior=Laplace(VARIANCE), n_jobs=1)
            whole.fit(self.X, self.y, **self.given)
            found = whole.inference.debiased_lasso("x0").confint()
            yield self.limits("debiased, penalised", found)
        if self.nuisance == "none":
            firth = self.world.estimator(prior=Jeffreys(), n_jobs=1)
            firth.fit(self.X, self.y, **self.given)
            yield self.limits("Jeffreys profile", firth.confint("x0", method="profile"))

    def drawn(self) -> Iterator[Found]:
        """Intervals of a bootstrap."""
        draws = self.model.inference.bootstrap(
            DRAWN, random_state=int(self.rng.integers(2**31)), n_jobs=1
        )
        for method in ("percentile", "basic", "bca"):
            yield self.limits(method, draws.confint(0.95, method))

    def sampled(self) -> Iterator[Found]:
        """Credible intervals, of the treatment and of two penalised covariates."""
        seed = int(self.rng.integers(2**31))
        draws = self.model.inference.posterior(
            list(SAMPLED), n=CHAIN, warmup=CHAIN, random_state=seed
        )
        for column, method in SAMPLED.items():
            yield self.limits(method, draws.confint(), column)


def run(scenario: Scenario, repeats: list[int], kind: str, a: argparse.Namespace) -> None:
    """Do some repeats of a scenario, and keep them."""
    family, which, nuisance, effect = scenario
    world = WORLDS[family]
    size = getattr(world, which)
    name = f"{family} {size} {nuisance}" + ("" if effect == "log 2" else f" {effect}")
    rows = []
    for i in repeats:
        base = dict(zip(KEY, (family, size, nuisance, effect), strict=True)) | {"repeat": i}
        seed = [zlib.crc32(name.encode()), a.seed, i]
        try:
            data = Data(world, size, nuisance, EFFECTS[effect], seed)
            for method, lower, upper, took in getattr(data, kind)():
                found = {"lower": lower, "upper": upper, "seconds": round(took, 4)}
                rows.append(base | {"method": method} | found)
        except ValueError as error:  # no finite maximum: an interval without end
            reason = REFUSALS.get(kind, type(error).__name__)
            rows.append(base | {"method": f"refused: {reason}"})
    table = pd.DataFrame(rows, columns=COLUMNS)
    table.to_csv(a.store, mode="a", header=not a.store.exists(), index=False)


def stored(store: Path) -> pd.DataFrame:
    """What is done."""
    if not store.exists():
        return pd.DataFrame(columns=COLUMNS)
    return pd.read_csv(store, keep_default_na=False, na_values=[""])  # "null" is a name


def missing(scenario: Scenario, done: pd.DataFrame, wanted: int, kind: str) -> list[int]:
    """Repeats of a scenario that are to be done, of one kind of intervals."""
    family, which, nuisance, effect = scenario
    key = (family, getattr(WORLDS[family], which), nuisance, effect)
    others = {name: [mark, f"refused: {REFUSALS[name]}"] for name, mark in MARKS.items()}
    if kind in others:
        of_kind = done.method.isin(others[kind])
    else:
        drawn = ["basic", "bca", *SAMPLED.values(), *(x for pair in others.values() for x in pair)]
        of_kind = ~done.method.isin(drawn)
    own = done[(done[KEY] == list(key)).all(axis=1) & of_kind]
    return sorted(set(range(wanted)) - set(own["repeat"]))


def simulate(a: argparse.Namespace) -> None:
    """All scenarios in turns, until the repeats are done or the time is up."""
    scenarios = list(product(a.only, a.sizes, a.nuisances, a.effects))
    done = stored(a.store)
    wanted = {"computed": a.repeats, "drawn": a.draws, "sampled": a.posteriors}
    work = [
        (scenario, kind, missing(scenario, done, count, kind))
        for kind, count in wanted.items()
        for scenario in scenarios
    ]
    turn = TURN if a.repeats else 10
    for start in range(0, max(wanted.values()), turn):
        for scenario, kind, todo in work:
            some = [i for i in todo if start <= i < start + turn]
            size = TURN if kind == "computed" else 10
            for first in range(0, len(some), size):
                if time.process_time() > 60 * a.minutes:
                    return
                run(scenario, some[first : first + size], kind, a)
        print(f"{start + turn} repeats: {time.process_time():.0f} s", flush=True)


def main() -> None:
    """Simulate what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, choices in (
        ("only", list(WORLDS)),
        ("sizes", ["small", "large"]),
        ("nuisances", list(COVARIATES)),
        ("effects", list(EFFECTS)),
    ):
        parser.add_argument(f"--{name}", nargs="+", choices=choices, default=choices)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=0, help="repeats that are bootstrapped")
    parser.add_argument("--posteriors", type=int, default=0, help="repeats with a posterior")
    parser.add_argument("--minutes", type=float, default=60.0, help="processor time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", type=Path, default=Path("coverage.csv"))
    parser.add_argument("--table", action="store_true", help="print what is there and do no more")
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    if not a.table:
        simulate(a)
    show(stored(a.store))


if __name__ == "__main__":
    main()
