"""Covariates made fit for a penalised regression: rare and redundant ones dropped, scaled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.errors import DataError
from steropes.studies.covariates.concept_covariates import NothingLeftError
from steropes.studies.covariates.feature_extraction import Features
from steropes.studies.execution.validation import share, yes_or_no

__all__ = ["Tidied", "TidyRules", "tidy"]


@dataclass(frozen=True)
class TidyRules:
    """What is done to covariates before a model is fitted to them.

    Attributes
    ----------
    min_share : float, default 0.001
        Covariates that fewer than floor(``min_share`` × people) people have are dropped.
    drop_redundant : bool, default True
        Drop 0/1 covariates that everybody has. Of an analysis whose other 0/1 covariates have as
        many ones as there are people (as the levels of age, sex and month do), drop the most
        frequent, of several the one with the smallest id; the rest of it is never too rare.
    normalize : bool, default True
        Divide by the largest value.
    """

    min_share: float = 0.001
    drop_redundant: bool = True
    normalize: bool = True

    def __post_init__(self) -> None:
        share("min_share", self.min_share)
        yes_or_no("drop_redundant", self.drop_redundant)
        yes_or_no("normalize", self.normalize)


@dataclass(frozen=True, repr=False, eq=False)
class Tidied:
    """Covariates ready for a model.

    Attributes
    ----------
    features : Features
        The columns that stayed, as recorded.
    scale : ndarray, shape (p,)
        What each was divided by.
    dropped : DataFrame
        ``covariate_id``, ``name`` and ``why`` ("rare" or "redundant") of the others that anybody
        has.
    """

    features: Features
    scale: NDArray
    dropped: pd.DataFrame

    def __repr__(self) -> str:
        return f"Tidied({len(self.scale):,} covariates kept, {len(self.dropped):,} dropped)"

    @property
    def design(self) -> Any:
        """A ``Design`` of the scaled columns, named by their ids: 0/1 ones by their rows alone."""
        from steropes.design import Design
        from steropes.design.blocks import SparseBlock

        f = self.features
        binary = f.columns["binary"].to_numpy()
        runs = np.flatnonzero(np.diff(binary.astype(np.int8), prepend=-1))
        blocks = []
        for first, last in zip(runs, [*runs[1:], len(binary)], strict=True):
            indptr = f.indptr[first : last + 1]
            at = slice(indptr[0], indptr[-1])
            if binary[first]:
                blocks.append(SparseBlock.indicator(f.n, indptr - indptr[0], f.rows[at]))
                continue
            scale = np.repeat(self.scale[first:last], np.diff(indptr))
            values = f.values[at].astype(float) / scale
            blocks.append(SparseBlock.valued(f.n, indptr - indptr[0], f.rows[at], values))
        return Design(blocks, [str(i) for i in f.columns["covariate_id"]])


def tidy(
    features: Features,
    rules: TidyRules | None = None,
    *,
    include: Iterable[int] = (),
    exclude: Iterable[int] = (),
) -> Tidied:
    """Drop covariates that a model should not have, and scale the others.

    Parameters
    ----------
    features : Features
        Of the people whom the model is fitted to.
    rules : TidyRules, optional
    include, exclude : iterable of int
        Covariate ids to use alone (if any are given), and to leave out.

    Raises
    ------
    DataError
        No covariate is left, or one to include or exclude does not exist.
    """
    rules = rules or TidyRules()
    table = features.columns
    ids = table["covariate_id"].to_numpy()
    chosen = np.ones(len(ids), dtype=bool)
    for listed, sign in ((list(include), True), (list(exclude), False)):
        gone = [int(c) for c in listed if int(c) not in ids]
        if gone:
            raise DataError(f"there is no covariate {gone[0]} among these people")
        if listed:
            chosen &= np.isin(ids, listed) == sign
    why = np.where((table["people"].to_numpy() > 0) & chosen, "", "absent").astype(object)
    exhaustive = np.zeros(len(ids), dtype=bool)
    if rules.drop_redundant:
        exhaustive = _mark_redundant(table, why, features.n)
    least = int(np.floor(rules.min_share * features.n))
    rare = (why == "") & (table["people"].to_numpy() < least) & ~exhaustive
    why[rare] = "rare"
    kept = np.flatnonzero(why == "")
    if len(kept) == 0:
        raise NothingLeftError(
            f"no covariate is left: none is shared by {max(least, 1)} people or more"
        )
    left = features.select(kept)
    scale = left.columns["largest"].to_numpy() if rules.normalize else np.ones(len(kept))
    scale = np.where(scale > 0, scale, 1.0)
    gone_rows = (why == "rare") | (why == "redundant")
    dropped = table.loc[gone_rows, ["covariate_id", "name"]].assign(why=why[gone_rows])
    return Tidied(left, scale, dropped.reset_index(drop=True))


def _mark_redundant(table: pd.DataFrame, why: NDArray, n: int) -> NDArray:
    """Mark redundant columns in ``why``; says which columns belong to analyses that cover all."""
    binary = table["binary"].to_numpy() & (why == "")
    people = table["people"].to_numpy()
    why[binary & (people == n)] = "redundant"
    others = np.flatnonzero(binary & (people < n))
    analysis = table["analysis_id"].to_numpy()
    exhaustive = np.zeros(len(why), dtype=bool)
    for number in np.unique(analysis[others]):
        of_it = others[analysis[others] == number]
        if people[of_it].sum() == n:
            exhaustive[of_it] = True
            order = np.lexsort((table["covariate_id"].to_numpy()[of_it], -people[of_it]))
            why[of_it[order[0]]] = "redundant"
    return exhaustive
