"""What is asked of rows that are elsewhere, and what they answer: sums, and nothing of a row.

A *shard* is some rows of a model: a block of a large X, on disk or in another process, or a site
that may not share its rows. It is asked by `Request`s and answers with sums over its rows, as
arrays by name. A request says all that an answer depends on: where the replicates are (the columns
that may be nonzero, and their coefficients) and which row weights they have. What a shard keeps
between requests only saves work, so one that was lost can be made again and asked again.

Coefficients are those of the columns divided by a common scale and moved by a common centre; what
the shards hold agrees on both before anything is asked. Lanes are as in `DataTerm`.

Where a likelihood has risk sets with rows of several shards, a point takes two rounds: `RiskSums`,
whose totals make the loss and the hazard's steps, and what is asked with these at the point
(`At.hazards`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ....likelihoods.level_exchange import LevelPoint
from ....likelihoods.risk_part import Hazards

__all__ = [
    "Answer",
    "Ask",
    "At",
    "ContextShards",
    "Gradients",
    "Hessian",
    "LeftOut",
    "LevelMean",
    "LevelSums",
    "Relative",
    "Request",
    "RiskSums",
    "Shard",
    "ShardContext",
    "Shards",
    "Slope",
    "Span",
    "Tops",
    "Totals",
    "Value",
    "added",
]

Answer = Mapping[str, np.ndarray]
ShardContext = Mapping[str, np.ndarray]


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
    hazards : Hazards or None
        Where risk sets have rows of several shards: what came of their sums here.
    levels : LevelPoint or None
        Where shards have few thresholds in common: what these are here.
    """

    replicates: str
    columns: np.ndarray
    beta: np.ndarray
    hazards: Hazards | None = None
    levels: LevelPoint | None = None


@dataclass(frozen=True)
class Totals:
    """``weight`` (lanes,), the sum of the row weights, and ``rows`` ()."""


@dataclass(frozen=True)
class Value:
    """``loss`` (lanes,), ``gradient`` (k, lanes) over the columns, ``entries`` () of these."""


@dataclass(frozen=True)
class RiskSums:
    """Sums over risk sets by event time, of all shards.

    ``at_risk`` (m, lanes) and, where tied events are apart, ``tied`` (m, lanes); ``linear``
    (lanes,), the events' part of the loss; ``largest`` (), the largest |η|. Where that is beyond
    `WIDEST` and no shift is given, there are no sums, and `Tops` should be asked for first.

    Attributes
    ----------
    lane : int or None
        The replicate, where `At.beta` has its coefficients alone, (k, 1); None is all.
    shift : (S, lanes) array or None
        What is taken from η of each stratum.
    squares : bool
        Whether there should be ``squares`` (m, lanes) too, sums of r².
    """

    lane: int | None = None
    shift: np.ndarray | None = None
    squares: bool = False


@dataclass(frozen=True)
class Tops:
    """``tops`` (S, lanes): the largest η of the rows of each stratum that matter."""

    lane: int | None = None


@dataclass(frozen=True)
class Slope:
    """``gradient`` (k, lanes) over the columns, ``entries`` () of these; at `At.hazards`."""


@dataclass(frozen=True)
class LevelMean:
    """``eta`` and ``weight`` (B,): Σ w η and Σ w."""


@dataclass(frozen=True)
class LevelSums:
    """Sums at the thresholds of `At.levels`, for K of them and B replicates.

    ``loss`` (lanes,); ``slope`` (k, lanes), the gradient with the thresholds as they are;
    ``chains`` (3, K, B), g, and T as the u and W of a `Chain`; ``cross`` (B, K, k), −∂²L/∂α∂β;
    ``entries`` () of the columns.

    Attributes
    ----------
    lane : int or None
        The replicate, where `At.beta` has its coefficients alone, (k, 1); None is all.
    """

    lane: int | None = None


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
    groups : (F,) int array or None
        Where risk sets have rows of several shards: event times at which sums of r x over the risk
        sets are wanted, ``at_risk`` (F, k). ``matrix`` and ``diagonal`` are without their term.
    apart : bool
        Whether those of the tied events should be apart, as ``tied`` (F, k).

    With `At.levels` there is ``cross`` (K, k) too, and the rest is without the thresholds' part.
    """

    lane: int
    matrix: bool = True
    first: int = 0
    rough: bool = False
    exact: bool = False
    groups: np.ndarray | None = None
    apart: bool = False


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


Ask = (
    Totals | Value | RiskSums | Tops | Slope | LevelMean | LevelSums | Gradients | Hessian
    | Relative | LeftOut | Span
)  # fmt: skip

WIDEST = 100.0  # |η| within which exp(η) is summed as it is


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


class ContextShards(Shards, Protocol):
    """Shards that are told what of all rows' weights matters to each."""

    def bind(
        self,
        weights: np.ndarray,
        offset: np.ndarray | None,
        B: int,
        contexts: Sequence[ShardContext] | None = None,
    ) -> str:
        """See `Shards.bind`, and `RiskExchange.contexts`; the weights can be (n, 1) for all."""


def added(answers: Sequence[Answer], name: str) -> np.ndarray:
    """The sum of what shards answered, in their order, whoever was first."""
    total = np.array(answers[0][name], np.float64)
    for answer in answers[1:]:
        total += answer[name]
    return total
