"""The lead's requests for totals or for numbers of single sites, one round after another.

The lead's computation is deterministic and performs no input or output. Each request is passed to a
function `converse`, which returns the finished `Round`. A transport provides this function, or a
site that recomputes the lead's steps from earlier rounds (`resumable_lead_program`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..data.html_representations import FieldsInHtml
from ..errors import DataError
from .answer_layout import Totals, refuse_contents, total_of
from .federated_constants import ADMISSION
from .federated_plan import PER_SITE, FederatedPlan
from .messages import Ask, Message, Value

__all__ = [
    "Exchange",
    "Round",
    "RoundRecord",
    "SiteLeft",
    "WaitingError",
    "check_answer",
    "same_request",
]


class WaitingError(Exception):
    """Some sites have not answered yet.

    Parameters
    ----------
    round_ : int
        The round in progress.
    sites : sequence of str
        The sites that have not answered.

    Attributes
    ----------
    round : int
        The round in progress.
    sites : tuple of str
        The sites that have not answered.

    Examples
    --------
    >>> from steropes.federated import WaitingError
    >>> print(WaitingError(3, ["north", "south"]))
    round 3 waits for north, south
    """

    def __init__(self, round_: int, sites: Sequence[str]) -> None:
        super().__init__(f"round {round_} waits for {', '.join(sites)}")
        self.round, self.sites = round_, tuple(sites)


class SiteLeft(Exception):
    """Raised if a site left, so that the round has no total and is repeated without the site."""


@dataclass(frozen=True)
class Round(FieldsInHtml):
    """A request with its answers.

    Attributes
    ----------
    request : Message
        The request of the lead.
    answers : tuple of Message
        Answers in the order of the request's sites; if sites left, only withdrawals.
    left : tuple of str
        Sites that take no further part, in which case the round has no total.

    Examples
    --------
    >>> from steropes.federated import Message, Round
    >>> request = Message("request", study="abc", round=0, ask="describe")
    >>> Round(request, answers=(), left=("south",)).left
    ('south',)
    """

    request: Message
    answers: tuple[Message, ...]
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class RoundRecord(FieldsInHtml):
    """The traffic of a round.

    Attributes
    ----------
    round : int
        Counted from 0.
    ask : str
        The kind of request.
    sent : int
        Bytes of the request, which each site reads.
    received : dict of str to int
        Bytes of each site's answer.
    numbers : int
        Number of numbers disclosed: totals, or those of all single sites together.
    told : tuple of str
        Names of the disclosed fields.
    left : tuple of str
        Sites that left in this round.

    Examples
    --------
    The records of an analysis are in `FederatedResult.records`.

    >>> from steropes.federated import RoundRecord
    >>> record = RoundRecord(0, "describe", 512, {"north": 900, "south": 880}, 12, ("n",))
    >>> sum(record.received.values())
    1780
    """

    round: int
    ask: Ask
    sent: int
    received: dict[str, int]
    numbers: int
    told: tuple[str, ...]
    left: tuple[str, ...] = ()


@dataclass
class Exchange:
    """The lead's side of an analysis, which sends requests one after another.

    Attributes
    ----------
    converse : callable
        Sends a request and returns the finished round.
    measure : callable
        Returns the size of a message in bytes.
    sites : list of str
        The sites that still take part.
    records : list of RoundRecord
        The traffic of all rounds so far.
    reached : array or None
        The last coefficients that were requested.
    """

    plan: FederatedPlan
    converse: Callable[[Message], Round]
    measure: Callable[[Message], int]
    sites: list[str] = field(init=False)
    records: list[RoundRecord] = field(init=False, default_factory=list)
    reached: np.ndarray | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Start with all sites of the plan."""
        self.sites = list(self.plan.sites)

    def total(self, ask: Ask, arrays: Mapping[str, np.ndarray] | None = None) -> Totals:
        """Request sums from all sites and return the totals.

        Raises
        ------
        DataError
            A site refused, or an answer has the wrong size.
        SiteLeft
            A site left.
        """
        done = self._round(ask, arrays or {}, {}, self.sites)
        found = total_of(self.plan, done.request, done.answers)
        self._record(done, int(sum(x.size for x in found.arrays.values())), tuple(found.arrays))
        return found

    def each(
        self,
        ask: Ask,
        arrays: Mapping[str, np.ndarray] | None = None,
        values: Mapping[str, Value] | None = None,
        sites: Sequence[str] | None = None,
    ) -> list[Message]:
        """Request numbers of single sites, by default of all, in clear."""
        assert ask in PER_SITE
        asked = self.sites if sites is None else [s for s in sites if s in self.sites]
        done = self._round(ask, arrays or {}, values or {}, asked)
        for answer in done.answers:
            refuse_contents(self.plan, done.request, answer)
        numbers = sum(int(x.size) for a in done.answers for x in a.arrays.values())
        self._record(done, numbers, tuple(done.answers[0].arrays))
        return list(done.answers)

    def _round(
        self, ask: Ask, arrays: Mapping[str, np.ndarray], values: Mapping[str, Value],
        sites: Sequence[str],
    ) -> Round:  # fmt: skip
        """Send a request and return the finished round."""
        n = len(self.records)
        if n >= self.plan.max_rounds:
            raise DataError(
                f"{n} rounds were not enough (max_rounds). Nearly collinear columns, or an outcome "
                "that they separate, need many: give them a prior, or raise max_rounds."
            )
        known = {**values, "sites": list(sites)}
        request = Message("request", self.plan.study, n, ask, values=known, arrays=arrays)
        done = self.converse(request)
        if done.left:
            self._leave(done)
        _refuse_refusals(done.answers)
        return done

    def _leave(self, done: Round) -> None:
        """Continue without sites, unless their own sums would follow from totals with them.

        A withdrawal after the first total implies the consent of the site's owner; see
        `Admission.withdraw`.
        """
        silent = {*done.left} - {a.site for a in done.answers if a.kind == "withdrawal"}
        if silent and any(r.ask not in PER_SITE and not r.left for r in self.records):
            raise DataError(
                f"{', '.join(map(repr, sorted(silent)))} left in round {done.request.round}, and "
                "totals with its sums are known: its own sums would follow from those without "
                "them. The plan ends here, unless the site withdraws with its owner's consent"
            )
        self._record(done, 0, ())
        self.sites = [s for s in self.sites if s not in done.left]
        gone = ", ".join(map(repr, done.left))
        if len(self.sites) < self.plan.min_sites:
            raise DataError(
                f"{gone} left in round {done.request.round}, and fewer than {self.plan.min_sites} "
                "sites remain, whose total could disclose single sites"
            )
        raise SiteLeft(gone)

    def _record(self, done: Round, numbers: int, told: tuple[str, ...]) -> None:
        """Record the traffic of a round."""
        sizes = {a.site: self.measure(a) for a in done.answers}
        request = done.request
        self.records.append(
            RoundRecord(request.round, request.ask, self.measure(request), sizes, numbers, told,
                        done.left)
        )  # fmt: skip


def check_answer(message: Message, request: Message, site: str, where: str) -> None:
    """Raise `DataError` if a message is not a reply of a site to a request."""
    if message.kind == "request":
        raise DataError(f"{where} is a request, not an answer")
    if message.study != request.study:
        raise DataError(f"{where} belongs to another study: the site has another plan")
    if message.site != site:
        raise DataError(f"{where} is from site {message.site!r}")
    if message.round != request.round:
        raise DataError(
            f"{where} answers round {message.round}, but this is round {request.round}: the site "
            "answered an old request. Delete the file and let it answer again."
        )
    if message.ask != request.ask or message.request != request.id:
        raise DataError(
            f"{where} answers another request of round {request.round}: the site answered an old "
            "one. Delete the file and let it answer again."
        )


def _refuse_refusals(messages: Sequence[Message]) -> None:
    """Raise `DataError` with the reasons if a site refused."""
    refusals = [m for m in messages if m.kind == "refusal"]
    if refusals:
        said = " | ".join(f"site {m.site!r}: {'; '.join(m.reasons)}" for m in refusals)
        first = refusals[0]
        raise DataError(f"round {first.round} ({first.ask}) was refused. {said}")


def same_request(given: Message, expected: Message) -> bool:
    """Return whether two requests are the same up to the rounding errors of two machines."""
    return (
        (given.kind, given.study, given.round, given.ask)
        == (expected.kind, expected.study, expected.round, expected.ask)
        and given.values.keys() == expected.values.keys()
        and all(_same_value(given.values[k], expected.values[k]) for k in expected.values)
        and given.arrays.keys() == expected.arrays.keys()
        and all(_close(given.arrays[k], expected.arrays[k]) for k in expected.arrays)
    )


def _same_value(a: Value, b: Value) -> bool:
    """Compare two plain values, numbers up to rounding."""
    if isinstance(a, float | int) and isinstance(b, float | int):
        return _close(np.asarray(a), np.asarray(b))
    return a == b


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    """Compare two arrays, real numbers up to rounding."""
    if a.shape != b.shape:
        return False
    if b.dtype.kind in "iu":
        return bool((a == b).all())
    size = max(float(np.max(np.abs(b), initial=0.0)), 1e-300)
    off = np.abs(a - b) <= ADMISSION.same_request * np.maximum(np.abs(b), 1e-3 * size)
    return bool(np.all(off | (a == b)))
