"""Counts of a tree scan at the nodes of the hierarchy, with checks."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.surveillance.group_sequential_bounds import check_count
from steropes.designs.surveillance.outcome_hierarchies import Hierarchy, chosen_cuts
from steropes.designs.surveillance.tree_scan_null_models import (
    BernoulliScan,
    PoissonScan,
    ScanModel,
)
from steropes.designs.values.argument_checks import check_flag, check_real
from steropes.designs.values.input_checks import require_numbers
from steropes.errors import DataError, listed

__all__ = ["Model", "check_probability", "counts_model", "whole_counts"]

Model = Literal["poisson", "bernoulli"]


def counts_model(
    counts: pd.DataFrame,
    hierarchy: Hierarchy,
    model: Model,
    conditional: bool,
    probability: float | None,
    min_cases: int,
    cuts: Sequence[Hashable] | None,
) -> ScanModel:
    """Return the model of counts by node, after checks."""
    check_count("min_cases", min_cases)
    check_flag("conditional", conditional)
    if model not in get_args(Model):
        raise DataError(f"model must be one of {listed(get_args(Model))}, not {model!r}.")
    second = "expected" if model == "poisson" else "controls"
    needed = ["node", "cases", second]
    missing = [name for name in needed if name not in counts]
    if missing:
        raise DataError(f"counts lacks the columns {listed(missing)} of the {model} model.")
    at = hierarchy.positions("counts", counts["node"])
    order = np.argsort(at)  # Random numbers must not depend on the order of rows.
    if (again := counts["node"].duplicated()).any():
        raise DataError(f"counts has two rows for {counts.loc[again, 'node'].iloc[0]!r}; sum them.")
    cases = whole_counts("cases", counts["cases"])
    reach = hierarchy.below[chosen_cuts(hierarchy, cuts)][:, at[order]]
    if model == "poisson":
        if probability is not None:
            raise DataError("probability belongs to the bernoulli model, not to poisson.")
        means = require_numbers("expected", counts["expected"])
        _check_means(means, cases, counts["node"])
        if conditional and not (cases.sum() > 0):
            raise DataError(
                "counts has no cases; a conditional scan needs some. Merge a look without any with "
                "the next one."
            )
        return PoissonScan(cases[order], reach, min_cases, means[order], conditional)
    sizes = cases + whole_counts("controls", counts["controls"])
    own = None if conditional else _probabilities(counts, probability)
    if conditional and (probability is not None or "probability" in counts):
        raise DataError(
            "A conditional scan has no probability; leave it out, or set conditional=False."
        )
    if conditional and not (0 < cases.sum() < sizes.sum()):
        raise DataError("A conditional scan needs cases and controls; counts has one kind only.")
    if own is not None:
        own = own[order]
    return BernoulliScan(cases[order], reach, min_cases, sizes[order], own)


def check_probability(probability: float) -> float:
    """Return the probability of a case, and refuse others."""
    return check_real(
        "probability", probability, lambda x: 0 < x < 1, "between 0 and 1, such as 0.5"
    )


def whole_counts(name: str, values: pd.Series) -> NDArray:
    """Return counts as whole numbers, and refuse others."""
    found = require_numbers(name, values)
    wrong = (found < 0) | (found != np.round(found))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{name}: row {row} (counted from 0) is negative or no whole number of events; for "
            "weighted people give their propensity scores to tree_scan_people."
        )
    return found.astype(np.int64)


def _check_means(means: NDArray, cases: NDArray, nodes: pd.Series) -> None:
    """Refuse negative expected numbers, and cases where none are expected."""
    if (means < 0).any():
        raise DataError(f"expected: row {int(np.argmax(means < 0))} (counted from 0) is negative.")
    alone = (means == 0) & (cases > 0)
    if alone.any():
        raise DataError(
            f"counts: node {nodes.to_numpy()[alone][0]!r} has cases, but none are expected; merge "
            "it with a node that has expected cases."
        )
    if not means.sum() > 0:
        raise DataError("expected is zero for all nodes.")


def _probabilities(counts: pd.DataFrame, probability: float | None) -> NDArray:
    """Return the probability of a case of each node."""
    if "probability" in counts:
        if probability is not None:
            raise DataError("probability is given twice: as an argument and as a column of counts.")
        found = require_numbers("probability", counts["probability"])
    elif probability is None:
        raise DataError(
            "An unconditional Bernoulli scan needs the probability of a case: 0.5 for pairs, or "
            "risk days divided by all days."
        )
    else:
        found = np.full(len(counts), check_probability(probability))
    if not ((found > 0) & (found < 1)).all():
        raise DataError("probability must be between 0 and 1, such as 0.5.")
    return found
