"""Columns of an outcome model: the treatment, covariates, and products of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.covariates.covariates_by_column import Covariates
from steropes.designs.covariates.preprocessing import TidyRules, tidy
from steropes.designs.effects.outcome_model import OutcomeModel
from steropes.errors import DataError

__all__ = ["LEVELS", "TREATMENT", "outcome_columns", "product"]

TREATMENT = "treatment"
LEVELS = ("treatment, without", "treatment, with")  # The levels of a characteristic.


def product(covariate: int) -> str:
    """Name the product of the treatment with a covariate."""
    return f"{TREATMENT}:{covariate}"


def outcome_columns(
    people: pd.DataFrame,
    model: OutcomeModel,
    features: Covariates | None,
    within: int | None = None,
) -> tuple[Any, list[str]]:
    """Build X with the treatment first, and list the columns without a prior.

    Parameters
    ----------
    people : DataFrame
        With ``treated``.
    features : Covariates or None
        Covariates of the same people.
    within : int, optional
        A 0/1 covariate among the interactions, by whose levels the treatment is split (``LEVELS``).

    Raises
    ------
    DataError
        The covariate of an interaction does not vary.
    """
    from steropes.design_matrix import Design

    treated = (people["treated"].to_numpy() == 1).astype(float)
    made: dict[str, NDArray] = {TREATMENT: treated}
    if model.interactions and features is not None:
        values = {c: np.asarray(features.column(c), dtype=float) for c in model.interactions}
        if within is not None:
            has = values[within]
            made = {LEVELS[0]: treated * (1 - has), LEVELS[1]: treated * has}
        for covariate, own in values.items():
            made[str(covariate)] = own
            if within is None:
                made[product(covariate)] = treated * own
            elif covariate != within:
                made[product(covariate)] = treated * (own - own.mean())
    blocks = [_block(name, column) for name, column in made.items()]
    names = list(made)
    if model.covariates and features is not None:
        others = tidy(
            features,
            TidyRules(),
            include=model.include,
            exclude=(*model.exclude, *model.interactions),
        ).design
        blocks += others.blocks
        names += others.names
    return Design(blocks, names), list(made)


def _block(name: str, column: NDArray) -> Any:
    """Build a sparse column; raise if the column of an interaction does not vary."""
    from steropes.design_matrix.column_storage import SparseBlock

    n, rows = len(column), np.flatnonzero(column).astype(np.int32)
    ends = np.array([0, len(rows)])
    if name != TREATMENT and (len(rows) == 0 or np.ptp(column) == 0):
        covariate = name.removeprefix(f"{TREATMENT}:")
        raise DataError(f"interaction with covariate {covariate}: it does not vary")
    if (column[rows] == 1).all():
        return SparseBlock.indicator(n, ends, rows)
    return SparseBlock.valued(n, ends, rows, column[rows])
