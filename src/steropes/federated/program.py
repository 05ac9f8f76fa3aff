"""The lead's computation as a program that pauses at each request and resumes with its answers.

Because the computation is deterministic, everyone who has the plan and the finished rounds can run
it and find out what an honest lead asks next. The lead does so to go on, a folder's `step` to take
up where the last one ended, and each site to check the request that it has been sent.
"""

from __future__ import annotations

import hashlib
import queue
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence

from ..errors import DataError
from .encoding import encode
from .exchange import Exchange, Round, SiteLeft, same_request
from .one_shot import fit_one_shot
from .plan import FederatedPlan
from .protocol import Message
from .result import FederatedResult
from .rounds import fit_in_rounds

__all__ = ["Found", "HonestRequests", "LeadProgram", "Profiles"]


class Profiles:
    """The sites' own profiles, which a plan of method "profiles" ends with.

    Attributes
    ----------
    answers : list of Message
    exchange : Exchange
    """

    def __init__(self, exchange: Exchange) -> None:
        self.answers, self.exchange = exchange.each("profile"), exchange


Found = FederatedResult | Profiles


def _run(exchange: Exchange) -> Found:
    """Run a plan's method, and again without the sites that leave."""
    method = exchange.plan.method
    fit: Callable[[Exchange], Found] = Profiles if method == "profiles" else fit_one_shot
    if method == "rounds":
        fit = fit_in_rounds
    left: list[str] = []
    while True:
        try:
            found = fit(exchange)
        except SiteLeft as gone:
            left.append(str(gone))
            continue
        if left and isinstance(found, FederatedResult):
            found.notes.append(
                f"{', '.join(left)} left before the end: the estimate is that of the other sites"
            )
        return found


class _Closed(BaseException):
    """The program is not needed any more."""


_Event = Message | Found | BaseException


def _work(
    plan: FederatedPlan,
    inbox: queue.SimpleQueue[Round | None],
    outbox: queue.SimpleQueue[_Event],
    measure: Callable[[Message], int],
) -> None:
    """The body of the program's thread. At any time only one side of the queues is running."""

    def converse(request: Message) -> Round:
        outbox.put(request)
        done = inbox.get()
        if done is None:
            raise _Closed
        return done

    try:
        outbox.put(_run(Exchange(plan, converse, measure)))
    except _Closed:
        return
    except BaseException as error:
        outbox.put(error)


def _close(inbox: queue.SimpleQueue[Round | None], thread: threading.Thread) -> None:
    """Let a program end that nobody resumes any more."""
    inbox.put(None)
    thread.join()


class LeadProgram:
    """A run of the lead's computation.

    Parameters
    ----------
    plan : FederatedPlan
    measure : callable
        The size of a message in bytes, for the record of the traffic.

    Attributes
    ----------
    request : Message or None
        The request to answer next; None at the end.
    found : FederatedResult or Profiles or None
        The result, at the end.
    """

    def __init__(
        self, plan: FederatedPlan, measure: Callable[[Message], int] = lambda m: len(encode(m))
    ) -> None:
        self.request: Message | None = None
        self.found: Found | None = None
        self._inbox: queue.SimpleQueue[Round | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        work = (plan, self._inbox, self._outbox, measure)
        thread = threading.Thread(target=_work, args=work, name="steropes-lead", daemon=True)
        thread.start()
        weakref.finalize(self, _close, self._inbox, thread)
        self._wait()

    def resume(self, done: Round) -> None:
        """Continue with a finished round, up to the next request or the result."""
        self._inbox.put(done)
        self._wait()

    def _wait(self) -> None:
        event = self._outbox.get()
        self.request = event if isinstance(event, Message) else None
        if isinstance(event, BaseException):
            raise event
        if not isinstance(event, Message):
            self.found = event


KEPT = 32  # rounds whose next request is remembered
WAITING = 2  # programs that wait for the next round


class HonestRequests:
    """The requests that an honest lead makes, by the rounds that determine them.

    What has been computed is remembered, so that a site that is asked round after round does not
    begin again each time, and sites of one process share the work.
    """

    def __init__(self) -> None:
        self._requests: OrderedDict[bytes, Message | None] = OrderedDict()
        self._programs: OrderedDict[bytes, LeadProgram] = OrderedDict()

    def after(self, plan: FederatedPlan, rounds: Sequence[Round]) -> Message:
        """The request that an honest lead makes after some rounds.

        Raises
        ------
        DataError
            There is none: the analysis is at its end, or cannot go on, or a round asked for
            something else.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are the lead's
            request = self._find(plan, rounds)
        if request is None:
            raise DataError("the analysis is at its end, and an honest lead asks nothing more")
        return request

    def _find(self, plan: FederatedPlan, rounds: Sequence[Round]) -> Message | None:
        keys = [hashlib.sha256(plan.study.encode()).digest()]
        for done in rounds:
            keys.append(hashlib.sha256(keys[-1] + _digest(done)).digest())
        if keys[-1] in self._requests:
            return self._requests[keys[-1]]
        at = len(rounds)
        while at > 0 and keys[at] not in self._programs:
            at -= 1
        program = self._programs.pop(keys[at], None) or LeadProgram(plan, lambda m: 0)
        for done in rounds[at:]:
            if program.request is None or not same_request(done.request, program.request):
                raise DataError(
                    f"round {done.request.round} asked for something else than the plan and the "
                    "answers before it lead to"
                )
            program.resume(done)
        self._programs[keys[-1]] = program
        self._requests[keys[-1]] = program.request
        while len(self._requests) > KEPT:
            self._requests.popitem(last=False)
        while len(self._programs) > WAITING:
            self._programs.popitem(last=False)
        return program.request


def _digest(done: Round) -> bytes:
    parts = [done.request.digest, *(a.digest for a in done.answers), "\n".join(done.left).encode()]
    return b"".join(parts)
