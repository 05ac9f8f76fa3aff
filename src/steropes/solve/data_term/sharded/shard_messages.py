"""Requests to rows held elsewhere, and their answers: sums that contain no single row.

A *shard* is a part of a model's rows: a block of a large X, on disk or in another process, or a
site that may not share its rows. It receives `Request`s and answers with sums over its rows, as
named arrays. A request contains everything that an answer depends on: the replicates' coefficients,
the columns that may be nonzero, and a key for the row weights. Shards keep state between requests
only to save work, so a shard that is lost can be recreated and asked again.

Coefficients are those of columns divided by a common scale and shifted by a common centre, on which
shards agree beforehand. Lanes are as in `DataTerm`.

If risk sets contain rows of several shards, a point takes two rounds: first `RiskSums`, whose
totals determine the loss and the steps of the hazard, then questions at the point with these
(`At.hazards`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ....errors import DataError
from ....likelihoods.shard_risk_sets import Hazards
from ....likelihoods.sharded_thresholds_interface import LevelPoint

__all__ = [
    "FAULTY",
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
    "checked_answer",
    "joined_rows",
    "sum_in_order",
]

Answer = Mapping[str, np.ndarray]
ShardContext = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class At:
    """The points of some replicates.

    Attributes
    ----------
    replicates : str
        The replicates, as a key that `Shards.bind` returned.
    columns : (k,) int array
        The working set; coefficients of other columns are zero.
    beta : (k, lanes) array
    hazards : Hazards or None
        The steps of the baseline hazard, where risk sets contain rows of several shards.
    levels : LevelPoint or None
        The thresholds, where shards share a few of them.
    """

    replicates: str
    columns: np.ndarray
    beta: np.ndarray
    hazards: Hazards | None = None
    levels: LevelPoint | None = None


@dataclass(frozen=True)
class Totals:
    """Ask for ``weight`` (lanes,), the sum of the row weights, and ``rows`` ()."""


@dataclass(frozen=True)
class Value:
    """Ask for ``loss`` (lanes,), ``gradient`` (k, lanes) and the number of ``entries`` ()."""


@dataclass(frozen=True)
class RiskSums:
    """Ask for sums over risk sets by event time, which all shards contribute to.

    ``at_risk`` (m, lanes) and, where tied events are separate, ``tied`` (m, lanes); ``linear``
    (lanes,), the events' part of the loss; ``largest`` (), the largest |η|. If that exceeds
    `MAX_UNSHIFTED_PREDICTOR` and no shift is given, no sums are returned and `Tops` must be asked
    for first.

    Attributes
    ----------
    lane : int or None
        The replicate, where `At.beta` holds its coefficients only, (k, 1); None for all.
    shift : (S, lanes) array or None
        Number to subtract from η in each stratum.
    squares : bool
        Whether to return ``squares`` (m, lanes), the sums of r², too.
    """

    lane: int | None = None
    shift: np.ndarray | None = None
    squares: bool = False


@dataclass(frozen=True)
class Tops:
    """Ask for ``tops`` (S, lanes): the largest η of the relevant rows of each stratum."""

    lane: int | None = None


@dataclass(frozen=True)
class Slope:
    """Ask for ``gradient`` (k, lanes) and ``entries`` (), at `At.hazards`."""


@dataclass(frozen=True)
class LevelMean:
    """Ask for ``eta`` and ``weight`` (B,): Σ w η and Σ w."""


@dataclass(frozen=True)
class LevelSums:
    """Ask for sums at the K thresholds of `At.levels` for B replicates.

    ``loss`` (lanes,); ``slope`` (k, lanes), the gradient at fixed thresholds; ``chains`` (3, K, B),
    g and T, the latter as the u and W of a `Chain`; ``cross`` (B, K, k), −∂²L/∂α∂β; ``entries`` ()
    of the columns.

    Attributes
    ----------
    lane : int or None
        The replicate, where `At.beta` holds its coefficients only, (k, 1); None for all.
    """

    lane: int | None = None


@dataclass(frozen=True)
class Gradients:
    """Ask for ``gradients`` (p, lanes), over all columns.

    Attributes
    ----------
    tol : float
        The violation of interest, in λ; see `DataTerm.gradients`.
    """

    tol: float


@dataclass(frozen=True)
class Hessian:
    """Ask for one replicate's ``matrix`` (k − first, k), or ``diagonal`` and ``uncentred`` (k,).

    Attributes
    ----------
    lane : int
        The replicate; `At.beta` holds its coefficients only, (k, 1).
    matrix : bool
        Whether to return the matrix or the diagonals.
    first : int
        The first row of the matrix to return.
    rough : bool
        Whether it may be rounded to single precision.
    exact : bool
        Whether it must be exact, or only accurate enough for a step.
    groups : (F,) int array or None
        Where risk sets contain rows of several shards: event times at which to return the sums of r
        x over the risk sets, ``at_risk`` (F, k). ``matrix`` and ``diagonal`` exclude their term.
    apart : bool
        Whether to return the sums over tied events separately, as ``tied`` (F, k).

    With `At.levels` the answer includes ``cross`` (K, k), and the rest excludes the thresholds'
    part.
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
    """Ask for diagonals with other weights: ``base`` (k, 1), ``own`` (k, lanes), ``usable`` ().

    At the point of one replicate, with its own weights and with those of each lane.

    Attributes
    ----------
    lane : int
        The replicate, of `At.replicates`.
    others : str
        The replicates that supply the other weights.
    """

    lane: int
    others: str


@dataclass(frozen=True)
class LeftOut:
    """Ask for ``score`` (m, B), sums that make up the log-likelihood of left-out rows.

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
    """Ask for ``low`` and ``high`` (lanes,), the range of η at `At.beta` without offsets."""


Ask = (
    Totals | Value | RiskSums | Tops | Slope | LevelMean | LevelSums | Gradients | Hessian
    | Relative | LeftOut | Span
)  # fmt: skip


@dataclass(frozen=True)
class Request:
    """Questions about one point.

    Attributes
    ----------
    aside : bool
        Whether the columns are not the working set and will not be requested again soon.
    """

    at: At
    asks: tuple[Ask, ...]
    aside: bool = False

    def replicates(self) -> list[str]:
        """Return the keys of all replicates that the request refers to."""
        names = [self.at.replicates]
        for ask in self.asks:
            if isinstance(ask, Relative):
                names.append(ask.others)
            elif isinstance(ask, LeftOut):
                names.append(ask.whole)
        return names


class Shard(Protocol):
    """A part of the rows that answers requests."""

    def bind(self, key: str, weights: np.ndarray, offset: np.ndarray | None) -> None:
        """Store row weights (n, B) and offsets (n, B) or (n, 1) under ``key``."""

    def release(self, key: str) -> None:
        """Forget the weights and offsets of ``key``."""

    def answer(self, request: Request) -> Answer:
        """Return the requested sums over the rows, by name."""


class Shards(Protocol):
    """Shards in a fixed order, wherever they are.

    Attributes
    ----------
    rows : int
        Total number of rows.
    """

    rows: int

    def bind(self, weights: np.ndarray, offset: np.ndarray | None, B: int) -> str:
        """Send replicates' weights and offsets (n, B) or (n, 1) to the shards; return their key.

        Rows are those of the first shard, the second, and so on. Equal weights and offsets have
        equal keys.
        """

    def release(self, key: str) -> None:
        """Release a key, once for each call of `bind` that returned it."""

    def ask(self, request: Request) -> Sequence[Answer]:
        """Return the answers of all shards, in their order."""


class ContextShards(Shards, Protocol):
    """Shards that also receive context which depends on the weights of all rows."""

    def bind(
        self,
        weights: np.ndarray,
        offset: np.ndarray | None,
        B: int,
        contexts: Sequence[ShardContext] | None = None,
    ) -> str:
        """See `Shards.bind` and `ShardedPartialLikelihood.shard_contexts`.

        Weights may be (n, 1) for all replicates.
        """


FAULTY = "its worker runs another version of steropes, or is faulty. Restart the cluster"


def checked_answer(answer: Answer) -> Answer:
    """Return the answer of a block, or raise `DataError` if its arrays are of another kind.

    The worker of a block can send anything. Real numbers of the right shape are taken as they are.
    """
    for name, x in answer.items():
        if not isinstance(x, np.ndarray | np.generic) or x.dtype.kind not in "biuf":
            raise DataError(f"a block of rows answered no real numbers as {name!r}: {FAULTY}")
    entries = np.asarray(answer.get("entries", 0.0))
    if entries.size != 1 or not (entries >= 0).all() or (entries % 1 != 0).any():
        raise DataError(f"a block of rows answered no number of entries: {FAULTY}")
    return answer


def added(answers: Sequence[Answer], name: str) -> np.ndarray:
    """Sum the shards' answers in the order of the shards, whichever arrived first."""
    return sum_in_order([answer[name] for answer in answers])


def sum_in_order(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Add arrays in their order, so that the result does not depend on where they come from.

    Raises
    ------
    DataError
        The arrays have different shapes: numbers of a worker would be spread over others.
    """
    total = np.array(parts[0], np.float64)
    for part in parts[1:]:
        if np.shape(part) != total.shape:
            raise DataError(
                f"a block of rows answered an array of shape {np.shape(part)} instead of "
                f"{total.shape}: {FAULTY}"
            )
        total += part
    return total


def joined_rows(parts: Sequence[np.ndarray], rows: Sequence[int]) -> np.ndarray:
    """Join the rows that blocks answered; raise `DataError` if a block has others than its own."""
    for part, n in zip(parts, rows, strict=True):
        if len(part) != n:
            raise DataError(f"a block of {n} rows answered {len(part)} rows: {FAULTY}")
    return np.concatenate(parts)
