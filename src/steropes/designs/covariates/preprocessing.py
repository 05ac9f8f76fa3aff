"""Preprocessing of covariates for a penalised regression: filtering and scaling."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.data.html_representations import TextInHtml
from steropes.designs.covariates.covariates_by_column import Covariates, IntoCovariates
from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import Count, Share, YesNo
from steropes.errors import DataError

__all__ = ["Tidied", "TidyRules", "tidy"]


class NothingLeftError(DataError):
    """Raised when no covariate is common enough."""


class TidyRules(Settings):
    """Rules for filtering and scaling covariates before a model is fitted.

    Parameters
    ----------
    min_share : float, default 0.001
        Covariates of fewer than floor(``min_share`` × people) people are dropped.
    drop_redundant : bool, default True
        Drop 0/1 covariates that everybody has. If the other 0/1 covariates of an analysis have as
        many ones as there are people (as the levels of age, sex and month do), drop the most
        frequent of them (in a tie, the one with the smallest id); the remaining ones are exempt
        from ``min_share``. Columns of analysis 0 belong to none.
    normalize : bool, default True
        Divide by the largest value.
    min_people : int, default 0
        Covariates that fewer people have are dropped too, whatever analysis they are of.

    Examples
    --------
    >>> from steropes.designs.covariates import TidyRules
    >>> TidyRules(min_share=0.01).drop_redundant
    True
    """

    min_share: Share = 0.001
    drop_redundant: YesNo = True
    normalize: YesNo = True
    min_people: Count = 0


@dataclass(frozen=True, repr=False, eq=False)
class Tidied(TextInHtml):
    """Filtered covariates with their scales.

    Attributes
    ----------
    features : Covariates
        The remaining columns, as recorded.
    scale : ndarray, shape (p,)
        The divisor of each column.
    dropped : DataFrame
        ``covariate_id``, ``name`` and ``why`` ("rare" or "redundant") of the dropped columns.
        Columns that no one has are not listed.

    See Also
    --------
    tidy : Filter and scale covariates.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.covariates import tidy
    >>> tidied = tidy(pd.DataFrame({"male": [1, 0, 1], "age": [70, 64, 51]}))
    >>> tidied.scale, tidied.design.shape
    (array([ 1., 70.]), (3, 2))
    """

    features: Covariates
    scale: NDArray
    dropped: pd.DataFrame

    def __repr__(self) -> str:
        return f"Tidied({len(self.scale):,} covariates kept, {len(self.dropped):,} dropped)"

    @property
    def design(self) -> Any:
        """A ``Design`` of the scaled columns, named by their ids, with indicator columns if 0/1."""
        from steropes.design_matrix import Design
        from steropes.design_matrix.column_storage import SparseBlock

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
    features: IntoCovariates,
    rules: TidyRules | None = None,
    *,
    include: Iterable[int] = (),
    exclude: Iterable[int] = (),
) -> Tidied:
    """Select covariates, drop rare and redundant ones, and choose scales of the others.

    Parameters
    ----------
    features : Covariates, data frame, sparse matrix or array_like, shape (n, p)
        Covariates of the people to whom the model is fitted.
    rules : TidyRules, optional
        The rules. Default: those of ``TidyRules()``.
    include, exclude : iterable of int
        The only covariate ids to use (if any are given), and those to leave out. Ids that no one
        among these people has are ignored.

    Returns
    -------
    Tidied
        The remaining covariates, with their scales.

    Raises
    ------
    DataError
        No covariate is left, or no one has any of those to include.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.covariates import tidy
    >>> people = pd.DataFrame({"adult": [1, 1, 1], "male": [1, 0, 1], "age": [70, 64, 51]})
    >>> tidy(people).dropped
       covariate_id   name        why
    0             0  adult  redundant
    """
    features, rules = Covariates.of(features), rules or TidyRules()
    table = features.columns
    ids = table["covariate_id"].to_numpy()
    chosen = np.ones(len(ids), dtype=bool)
    for listed, sign in ((list(include), True), (list(exclude), False)):
        if listed:
            chosen &= np.isin(ids, listed) == sign
    if not (chosen & (table["people"].to_numpy() > 0)).any():
        raise NothingLeftError(
            "no covariate is left: nobody among these people has any of those to use; check the "
            "covariate ids to include and to exclude"
        )
    why = np.where((table["people"].to_numpy() > 0) & chosen, "", "absent").astype(object)
    exhaustive = np.zeros(len(ids), dtype=bool)
    if rules.drop_redundant:
        exhaustive = _mark_redundant(table, why, features.n)
    people = table["people"].to_numpy()
    least = int(np.floor(rules.min_share * features.n))
    few = ((people < least) & ~exhaustive) | (people < rules.min_people)
    rare = (why == "") & few
    why[rare] = "rare"
    kept = np.flatnonzero(why == "")
    if len(kept) == 0:
        raise NothingLeftError(
            "no covariate is left: none is shared by "
            f"{max(least, rules.min_people, 1)} people or more"
        )
    left = features.select(kept)
    scale = left.columns["largest"].to_numpy() if rules.normalize else np.ones(len(kept))
    scale = np.where(scale > 0, scale, 1.0)
    gone_rows = (why == "rare") | (why == "redundant")
    dropped = table.loc[gone_rows, ["covariate_id", "name"]].assign(why=why[gone_rows])
    return Tidied(left, scale, dropped.reset_index(drop=True))


def _mark_redundant(table: pd.DataFrame, why: NDArray, n: int) -> NDArray:
    """Mark redundant columns in ``why``; return a mask of the analyses that cover everybody."""
    binary = table["binary"].to_numpy() & (why == "")
    people = table["people"].to_numpy()
    why[binary & (people == n)] = "redundant"
    others = np.flatnonzero(binary & (people < n))
    analysis = table["analysis_id"].to_numpy()
    exhaustive = np.zeros(len(why), dtype=bool)
    for number in np.unique(analysis[others][analysis[others] > 0]):
        of_it = others[analysis[others] == number]
        if people[of_it].sum() == n:
            exhaustive[of_it] = True
            order = np.lexsort((table["covariate_id"].to_numpy()[of_it], -people[of_it]))
            why[of_it[order[0]]] = "redundant"
    return exhaustive
