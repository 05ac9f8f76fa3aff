"""Checks of emulated trials: positivity, weights, who is censored when, optima."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.data.diagnostic_limits import FAILED_DRAWS
from steropes.designs.target_trials.sequential_trial_rows import TrialSequence

__all__ = ["LARGEST_WEIGHT", "Row", "censoring_table", "diagnostics_table", "of_draws",
           "of_optimum", "of_weights", "positivity_table"]  # fmt: skip

# Weights that are larger let one person-interval stand for a thousand.
LARGEST_WEIGHT = 1000.0
# Distance from one of the mean of stabilised weights (Cole and Hernán 2008).
MEAN_DISTANCE = 0.1
HALF = 0.5

Row = tuple[str, float, float, bool, str]


def diagnostics_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Make the table of diagnostics."""
    names = ["diagnostic", "value", "limit", "passed", "note"]
    return pd.DataFrame(list(rows), columns=names)


def of_weights(weights: pd.DataFrame, stabilized: bool) -> Iterator[Row]:
    """Yield the mean, the largest and the effective number of weights over all times."""
    n = weights["at_risk"].to_numpy()
    mean = float((weights["mean"] * n).sum() / n.sum())
    if stabilized:
        far = abs(mean - 1)
        note = (
            ""
            if far <= MEAN_DISTANCE
            else "The mean of stabilised weights should be near one: the models of the weights are "
            "misspecified, or some people could hardly have deviated. Simplify them, or truncate."
        )
        yield "distance of the mean weight from one", far, MEAN_DISTANCE, not note, note
    else:
        yield "mean weight", mean, np.nan, True, ""
    largest = float(weights["largest"].max())
    note = (
        ""
        if largest <= LARGEST_WEIGHT
        else "A few person-intervals have most of the weight. Truncate the weights (truncate=0.99) "
        "or leave out covariates that almost determine the treatment."
    )
    yield "largest weight", largest, LARGEST_WEIGHT, not note, note
    share = float((weights["effective_size"] / n).min())
    note = (
        ""
        if share >= 1 - HALF
        else "At some times the weights are as informative as fewer than half of the people."
    )
    yield "least effective share of those at risk", share, 1 - HALF, not note, note


def of_positivity(trials: TrialSequence) -> Iterator[Row]:
    """Yield numbers of people and trials, and the share of trials with one strategy only."""
    yield "people", float(trials.rows.people), np.nan, True, ""
    yield "person-trials", float(len(trials.start)), np.nan, True, ""
    yield "events in person-trials", float(trials.event.sum()), np.nan, True, ""
    if trials.rows.dropped:
        note = "They come before the first eligible period of their person."
        yield "rows left out", float(trials.rows.dropped), np.nan, True, note
    by = positivity_table(trials.trial, trials.assigned)
    alone = (by["treatment"] == 0) | (by["no_treatment"] == 0)
    total = by["treatment"] + by["no_treatment"]
    share = float(total[alone].sum() / total.sum())
    note = (
        ""
        if share <= HALF
        else "Most person-trials start in periods in which all eligible people follow the same "
        "strategy: the comparison rests on the model of the period alone."
    )
    yield "share in trials with one strategy only", share, HALF, not note, note


def positivity_table(when: NDArray, treated: NDArray) -> pd.DataFrame:
    """Count who has the treatment and who has not, by period.

    Parameters
    ----------
    when : ndarray of int, shape (m,)
        Period of each row.
    treated : ndarray, shape (m,)
        0 or 1.
    """
    period, at = np.unique(when, return_inverse=True)
    both = [np.bincount(at[treated == a], minlength=len(period)) for a in (1, 0)]
    return pd.DataFrame({"period": period, "treatment": both[0], "no_treatment": both[1]})


def censoring_table(
    names: Sequence[str],
    arm: NDArray,
    length: NDArray,
    reasons: dict[str, NDArray],
) -> pd.DataFrame:
    """Count how follow-ups end, by strategy and time.

    Parameters
    ----------
    names : sequence of str
        Names of the strategies.
    arm : ndarray of int, shape (m,)
        Number of the strategy of each follow-up.
    length : ndarray of int, shape (m,)
        The interval in which it ends, from 1 on.
    reasons : dict of str to ndarray of bool, shape (m,)
        Whether it ends for this reason.
    """
    K = int(length.max())
    parts = []
    for s, name in enumerate(names):
        own = arm == s
        at_risk = np.bincount(length[own], minlength=K + 1)[::-1].cumsum()[::-1][1:]
        table = {"strategy": name, "time": np.arange(1, K + 1), "at_risk": at_risk}
        for reason, of in reasons.items():
            table[reason] = np.bincount(length[own & of], minlength=K + 1)[1:]
        parts.append(pd.DataFrame(table))
    return pd.concat(parts, ignore_index=True)


def of_optimum(model: Any) -> Iterator[Row]:
    """Yield the certificate of a fitted model of this library."""
    value, limit = float(np.max(model.optimality_)), float(model.tol)
    note = "" if value <= limit else "The optimum is not certified; scale the covariates."
    yield "violation of the optimality conditions", value, limit, not note, note


def of_draws(failed: int, draws: int) -> Iterator[Row]:
    """Yield the share of bootstrap draws without an estimate, if there are draws."""
    if draws:
        share = failed / draws
        note = (
            "" if share <= FAILED_DRAWS else "The errors describe only the draws with an estimate."
        )
        yield "share of draws without an estimate", share, FAILED_DRAWS, not note, note
