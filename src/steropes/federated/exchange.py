"""How requests get to the sites and answers back, and what each round has sent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import DataError
from .consistent import SiteHistory
from .contents import refuse_contents
from .encoding import encode
from .plan import FederatedPlan
from .possible import refuse_impossible
from .protocol import Ask, Message, Value

__all__ = ["Answering", "Exchange", "InMemory", "RoundRecord", "WaitingError", "check_answer"]

Answering = Callable[[FederatedPlan, Message], Message]


class WaitingError(Exception):
    """Sites have yet to answer.

    Attributes
    ----------
    round : int
    sites : tuple of str
    """

    def __init__(self, round_: int, sites: Sequence[str]) -> None:
        super().__init__(f"round {round_} waits for {', '.join(sites)}")
        self.round, self.sites = round_, tuple(sites)


@dataclass(frozen=True)
class RoundRecord:
    """What a round sent.

    Attributes
    ----------
    round : int
    ask : str
    sent : int
        Bytes of the request, which each site reads.
    received : dict of str to int
        Bytes of each site's answer.
    arrays : dict of str to int
        Numbers in each array of an answer.
    """

    round: int
    ask: str
    sent: int
    received: dict[str, int]
    arrays: dict[str, int]


class Exchange(ABC):
    """Asks sites, one round after the other.

    Parameters
    ----------
    plan : FederatedPlan

    Attributes
    ----------
    records : list of RoundRecord
        Of the rounds so far.
    overflowed : dict of str to str
        Sites with sums that were not finite, and which these were last.
    """

    def __init__(self, plan: FederatedPlan) -> None:
        self.plan = plan
        self.records: list[RoundRecord] = []
        self.overflowed: dict[str, str] = {}
        self._said: dict[str, SiteHistory] = {}

    def ask(
        self,
        what: Ask,
        arrays: Mapping[str, np.ndarray] | None = None,
        values: Mapping[str, Value] | None = None,
        sites: Sequence[str] | None = None,
    ) -> list[Message]:
        """Ask sites, by default all, and return their answers in the order of the plan.

        Raises
        ------
        DataError
            A refusal, or an answer that is none to this request, by site and field.
        WaitingError
            Not all have answered.
        """
        n = len(self.records)
        if n >= self.plan.max_rounds:
            raise DataError(
                f"{n} rounds were not enough (max_rounds); columns that are nearly collinear, or "
                "an outcome that they separate, take many. Give them a prior, or raise max_rounds."
            )
        asked = list(self.plan.sites if sites is None else sites)
        said = dict(values or {})
        if sites is not None:
            said["sites"] = asked
        request = Message("request", self.plan.study, n, what, values=said, arrays=arrays or {})
        found, sent, sizes = self._exchange(request, asked)
        _refuse_refusals(found)
        for answer in found:
            self._check(request, answer)
        counts = {name: int(x.size) for name, x in found[0].arrays.items()}
        self.records.append(
            RoundRecord(n, what, sent, dict(zip(asked, sizes, strict=True)), counts)
        )
        return found

    def _check(self, request: Message, answer: Message) -> None:
        """Refuse an answer that is not what was asked, or that no rows have."""
        refuse_contents(self.plan, request, answer)
        said = self._said.setdefault(answer.site, SiteHistory(answer))
        refuse_impossible(self.plan, request, answer, said.first)
        said.add(self.plan, request, answer)
        odd = [name for name, x in answer.arrays.items() if not np.isfinite(x).all()]
        if odd:
            self.overflowed[answer.site] = f"{odd[0]!r} in round {request.round}"

    @abstractmethod
    def _exchange(self, request: Message, sites: list[str]) -> tuple[list[Message], int, list[int]]:
        """Answers and refusals of the sites, bytes of the request, and of each answer."""


class InMemory(Exchange):
    """Sites that are callables: each takes the plan and a request and returns a message.

    Parameters
    ----------
    plan : FederatedPlan
    sites : dict of str to callable
    """

    def __init__(self, plan: FederatedPlan, sites: Mapping[str, Answering]) -> None:
        super().__init__(plan)
        gone = [s for s in plan.sites if s not in sites]
        if gone:
            raise DataError(f"the plan's site {gone[0]!r} is missing")
        self.sites = dict(sites)

    def _exchange(self, request: Message, sites: list[str]) -> tuple[list[Message], int, list[int]]:
        found, sizes = [], []
        for name in sites:
            given = self.sites[name](self.plan, request)
            arrays = {k: np.asarray(x) for k, x in given.arrays.items()}
            message = replace(given, arrays=arrays)
            check_answer(message, request, name, f"the answer of site {name!r}")
            found.append(message)
            sizes.append(len(encode(message, self.plan.format)))
        return found, len(encode(request, self.plan.format)), sizes


def check_answer(message: Message, request: Message, site: str, where: str) -> None:
    """Refuse what is no answer of a site to a request, by name."""
    if message.kind == "request":
        raise DataError(f"{where} is a request, not an answer")
    if message.study != request.study:
        raise DataError(f"{where} belongs to another study: the site has another plan")
    if message.site != site:
        raise DataError(f"{where} is from site {message.site!r}")
    if message.round != request.round:
        raise DataError(
            f"{where} is to round {message.round}, but this is round {request.round}: the site "
            "answered an old request. Delete the file and let it answer again."
        )
    if message.ask != request.ask or message.request != request.id:
        raise DataError(
            f"{where} is to another request of round {request.round}: the site answered an old "
            "one. Delete the file and let it answer again."
        )


def _refuse_refusals(messages: list[Message]) -> None:
    refusals = [m for m in messages if m.kind == "refusal"]
    if refusals:
        said = " | ".join(f"site {m.site!r}: {'; '.join(m.reasons)}" for m in refusals)
        first = refusals[0]
        raise DataError(f"round {first.round} ({first.ask}) was refused. {said}")
