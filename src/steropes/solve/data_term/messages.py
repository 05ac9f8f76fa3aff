"""What is asked of rows that are elsewhere, and what they answer: sums, and nothing of a row.

A *shard* is some rows of a model: a block of a large X, on disk or in another process, or a site
that may not share its rows. It is asked by `Request`s and answers with sums over its rows, as
arrays by name. A request says all that an answer depends on: where the replicates are (the columns
that may be nonzero, and their coefficients) and which row weights they have. What a shard keeps
between requests only saves work, so one that was lost can be made again and asked again.

Coefficients are those of the columns divided by a common scale and moved by a common centre; what
the shards hold agrees on both before anything is asked. Lanes are as in `DataTerm`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

__all__ = [
    "Answer",
    "Ask",
    "At",
    "Gradients",
    "Hessian",
    "LeftOut",
    "Relative",
    "Request",
    "Shard",
    "Shards",
    "Span",
    "Totals",
    "Value",
    "added",
]

Answer = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class At:
    """Where replicates are.

    Attributes
    ----------
    replicates : str
        Which replicates: what `Shards.bind` returned.
    columns : (k,) int array
        The working set; coefficients of other columns are zero.
    beta : (k, lanes) array
    """

    replicates: str
    columns: np.ndarray
    beta: np.ndarray


@dataclass(frozen=True)
class Totals:
    """``weight`` (lanes,), the sum of the row weights, and ``rows`` ()."""


@dataclass(frozen=True)
class Value:
    """``loss`` (lanes,), ``gradient`` (k, lanes) over the columns, ``entries`` () of these."""


@dataclass(frozen=True)
class Gradients:
    """``gradients`` (p, lanes), over all columns.

    Attributes
    ----------
    tol : float
        The violation of interest, in λ; see `DataTerm.gradients`.
    """

    tol: float


@dataclass(frozen=True)
class Hessian:
    """Of one replicate: ``matrix`` (k − first, k), or ``diagonal`` and ``uncentred``, (k,) each.

    Attributes
    ----------
    lane : int
        The replicate; `At.beta` has its coefficients alone, (k, 1).
    matrix : bool
        Whether it is the matrix that is wanted.
    first : int
        The matrix's first row that is wanted.
    rough : bool
        Whether it may be rounded to single precision.
    exact : bool
        Whether it has to be exact, or only good enough for a step.
    """

    lane: int
    matrix: bool = True
    first: int = 0
    rough: bool = False
    exact: bool = False


@dataclass(frozen=True)
class Relative:
    """Diagonals with other row weights: ``base`` (k, 1), ``own`` (k, lanes), ``usable`` ().

    At a point of one replicate: with its own weights, and with those of each lane.

    Attributes
    ----------
    lane : int
        The replicate, of `At.replicates`.
    others : str
        The replicates whose weights are the others.
    """

    lane: int
    others: str


@dataclass(frozen=True)
class LeftOut:
    """``score`` (m, B): sums that make the log-likelihood of rows that replicates leave out.

    See `Likelihood.score_parts`.

    Attributes
    ----------
    whole : str
        A replicate with the weights of all rows.
    difference : bool
        As in `DataTerm.left_out_score`.
    """

    whole: str
    difference: bool


@dataclass(frozen=True)
class Span:
    """``low`` and ``high`` (lanes,): the ends of what `At.beta`, without offsets, makes of η."""


Ask = Totals | Value | Gradients | Hessian | Relative | LeftOut | Span


@dataclass(frozen=True)
class Request:
    """Questions about one point.

    Attributes
    ----------
    at : At
    asks : tuple
    aside : bool
        Whether the columns are no working set, and will not be asked of soon again.
    """

    at: At
    asks: tuple[Ask, ...]
    aside: bool = False

    def replicates(self) -> list[str]:
        """All that it speaks of."""
        names = [self.at.replicates]
        for ask in self.asks:
            if isinstance(ask, Relative):
                names.append(ask.others)
            elif isinstance(ask, LeftOut):
                names.append(ask.whole)
        return names


class Shard(Protocol):
    """Rows that answer."""

    def bind(self, key: str, weights: np.ndarray, offset: np.ndarray | None) -> None:
        """Take row weights (n, B) and offsets (n, B) or (n, 1) as those of ``key``."""

    def release(self, key: str) -> None:
        """Forget them."""

    def answer(self, request: Request) -> Answer:
        """Return sums over the rows, all of a request's by name."""


class Shards(Protocol):
    """Shards in an order that does not change, wherever they are.

    Attributes
    ----------
    rows : int
        Of all shards.
    """

    rows: int

    def bind(self, weights: np.ndarray, offset: np.ndarray | None, B: int) -> str:
        """Give replicates' weights and offsets (n, B) or (n, 1) to the shards; returns their key.

        Rows are those of the first shard, the second, and so on. The same weights and offsets have
        the same key.
        """

    def release(self, key: str) -> None:
        """Let a key go that `bind` returned, as often as it did."""

    def ask(self, request: Request) -> Sequence[Answer]:
        """The answers of all shards, in their order."""


def added(answers: Sequence[Answer], name: str) -> np.ndarray:
    """The sum of what shards answered, in their order, whoever was first."""
    total = np.array(answers[0][name], np.float64)
    for answer in answers[1:]:
        total += answer[name]
    return total
