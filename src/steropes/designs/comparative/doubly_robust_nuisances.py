"""Predictions of an outcome, and of whether it is observed, in each repeat of a cross-fitting."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steropes.designs.comparative.doubly_robust_effect_table import Repeats
from steropes.designs.comparative.doubly_robust_inputs import (
    Given,
    Outcome,
    default_model,
    of_outcome,
    read_means,
    read_probabilities,
)
from steropes.designs.doubly_robust.counterfactual_means import Nuisances, People
from steropes.designs.doubly_robust.nuisance_models import CrossFitting
from steropes.errors import DataError

__all__ = ["nuisances_of_outcome"]


def nuisances_of_outcome(
    models: Any, name: str, outcome: Outcome, weights: NDArray, scores: NDArray,
    fits: CrossFitting, given: Given,
) -> Repeats:  # fmt: skip
    """Return people with the predictions of each repeat.

    Parameters
    ----------
    models : DoublyRobust
        Has the unfitted models of the outcome and of whether it is observed.
    name : str
        Name of the outcome; empty if there is one only.
    weights : ndarray, shape (n,)
    scores : ndarray, shape (n, repeats)
    fits : CrossFitting
    given : Given
        Predictions from elsewhere, which replace models.
    """
    n, label = len(fits.target), f"outcome {name!r}" if len(name) else "outcome"
    seen, chance = outcome.observed, None
    if not seen.all():
        if given.observed_probability is not None:
            own = of_outcome("observed_probability", given.observed_probability, name)
            chance = read_probabilities("observed_probability", own, (n, 2))[:, :, None]
        elif models.missingness_model is not None:
            chance = fits.by_group(
                models.missingness_model, seen.astype(float), np.ones(n, dtype=bool),
                f"missingness model of {label}",
            )  # fmt: skip
        else:
            raise DataError(
                f"The {label} is missing in {int((~seen).sum()):,} rows, first in row "
                f"{int((~seen).argmax())} (counted from 0). Leave them out, or give "
                "missingness_model=, such as LogisticRegression()."
            )
    if given.means is None:
        model = default_model(models.outcome_model, binary=outcome.binary)
        means = fits.by_group(model, outcome.filled, seen, f"model of the {label}")
    else:
        means = read_means(given.means, name, n)[:, :, None]
    count = max(scores.shape[1], means.shape[2], 1 if chance is None else chance.shape[2])

    def of_repeat(x: NDArray, r: int) -> NDArray:
        return np.asarray(x[..., min(r, x.shape[-1] - 1)])

    people = People(fits.target, outcome.filled, seen, weights)
    return Repeats(people, [
        Nuisances(of_repeat(scores, r), of_repeat(means, r),
                  None if chance is None else of_repeat(chance, r))
        for r in range(count)
    ])  # fmt: skip
