"""Coverage of intervals of sequential trials and of marginal structural models.

    python -m benchmarks.interval_coverage.time_varying [--repeats 200 --people 400]

A confounder changes with time, treatment lowers it, and both change the outcome; some people are
lost. The truth is the estimate from 100,000 people, and errors are robust (weights as known),
stacked (with the models of the weights) or, with ``--draws 100``, of a bootstrap. Of each design
the coverage of 95 % intervals is shown for the log odds ratio and for the risk difference at the
end, with the spread of the estimates and the mean error. Repeat i has the seed i.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from steropes import DataError
from steropes.designs.target_trials import sequential_trials
from steropes.designs.time_varying import marginal_structural_model

PERIODS = 5
LARGE = 100_000
ROLES: dict[str, Any] = {
    "id": "id", "period": "period", "treatment": "treatment", "outcome": "outcome",
    "censored": "censored",
}  # fmt: skip
BOTH = (["age"], ["age", "x"])


def draw(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Draw the person-time of n people."""
    age, x, a = rng.normal(size=n), rng.normal(size=n), np.zeros(n)
    there, parts = np.ones(n, bool), []
    for t in range(PERIODS):
        x = 0.5 * x - 0.4 * a + rng.normal(size=n)
        a = (rng.random(n) < expit(-0.8 + 1.8 * a + 0.5 * x)) * 1.0
        y = rng.random(n) < expit(-2.6 + 0.5 * x + 0.3 * age - 0.4 * a)
        lost = ~y & (rng.random(n) < expit(-3.0 + 0.4 * x))
        columns = {"id": np.arange(n), "period": t, "treatment": a, "outcome": y * 1,
                   "censored": lost * 1, "age": age, "x": x}  # fmt: skip
        parts.append(pd.DataFrame(columns)[there])
        there &= ~(y | lost)
    return pd.concat(parts).sort_values(["id", "period"], ignore_index=True)


def designs(data: pd.DataFrame, **errors: Any) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the log odds ratio and the last risk difference of each design."""
    weights: dict[str, Any] = {"treatment_weights": BOTH, "censoring_weights": BOTH}
    for name, found in (
        ("per-protocol trials", sequential_trials(
            data, **ROLES, covariates=["age"], effect="per-protocol", **weights, **errors
        )),
        ("marginal structural model", marginal_structural_model(
            data, **ROLES, baseline=["age"], confounders=["x"], **errors
        )),
    ):  # fmt: skip
        row = found.effects.iloc[0]
        last = found.contrasts.query("measure == 'risk difference'").iloc[-1]
        logs = np.log(row[["estimate", "lower", "upper"]].to_numpy(float))
        rows = [
            ("log odds ratio", *logs, row["se"]),
            ("risk difference", last["estimate"], last["lower"], last["upper"], last["se"]),
        ]
        yield name, pd.DataFrame(rows, columns=["measure", "estimate", "lower", "upper", "se"])


def main() -> None:
    """Simulate, and print a row for each design, measure and kind of error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--people", type=int, default=400)
    parser.add_argument("--draws", type=int, default=0)
    settings = parser.parse_args()
    warnings.simplefilter("ignore")
    kinds: dict[str, dict[str, Any]] = {"robust": {}, "stacked": {"errors": "stacked"}}
    if settings.draws:
        kinds["bootstrap"] = {"bootstrap": settings.draws}
    truth = {
        (name, m): value
        for name, table in designs(draw(np.random.default_rng(2**32), LARGE))
        for m, value in zip(table["measure"], table["estimate"], strict=True)
    }
    rows = []
    for i in range(settings.repeats):
        data = draw(np.random.default_rng(i), settings.people)
        for kind, given in kinds.items():
            try:
                found = list(designs(data, **given))
            except DataError:  # A draw whose models have no finite maximum.
                continue
            for name, table in found:
                rows += [(name, kind, *row) for row in table.itertuples(index=False)]
    names = ["design", "errors", "measure", "estimate", "lower", "upper", "se"]
    found = pd.DataFrame(rows, columns=names)
    found["truth"] = [truth[key] for key in zip(found["design"], found["measure"], strict=True)]
    found["covers"] = (found["lower"] <= found["truth"]) & (found["truth"] <= found["upper"])
    by = found.groupby(["design", "measure", "errors"], sort=False)
    table = by.agg(
        repeats=("covers", "size"), truth=("truth", "first"), mean=("estimate", "mean"),
        spread=("estimate", "std"), error=("se", "mean"), coverage=("covers", "mean"),
    )  # fmt: skip
    print(table.round(4).to_string())


if __name__ == "__main__":
    main()
