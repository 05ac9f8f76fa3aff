"""The lead's computation as a program that pauses at each request and resumes with its answers.

The computation is deterministic. Anyone with the plan and the finished rounds can therefore run it
to determine the next request of an honest lead. The lead runs it to continue, the `step` of a
folder to resume after the last one, and each site to check a request.
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
from .federated_constants import ADMISSION
from .federated_plan import FederatedPlan
from .federated_result import FederatedResult
from .fit_in_rounds import fit_in_rounds
from .message_exchange import Exchange, Round, SiteLeft, same_request
from .message_files import encode
from .messages import Message
from .surrogate_fits import fit_one_shot

__all__ = ["HonestRequests", "LeadProgram", "LeadResult", "Profiles"]


class Profiles:
    """The profile likelihoods of the sites, the result of method "profiles".

    Attributes
    ----------
    answers : list of Message
        The answers with the profiles.
    """

    def __init__(self, exchange: Exchange) -> None:
        self.answers, self.exchange = exchange.each("profile"), exchange


LeadResult = FederatedResult | Profiles


def _run(exchange: Exchange) -> LeadResult:
    """Run a plan's method, and repeat it without sites that leave."""
    method = exchange.plan.method
    fit: Callable[[Exchange], LeadResult] = Profiles if method == "profiles" else fit_one_shot
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
            found.notes.insert(
                0, f"{', '.join(left)} left before the end: the estimate is that of the other sites"
            )
        return found


class _Closed(BaseException):
    """Raised in the program's thread when the program is no longer needed."""


_Event = Message | LeadResult | BaseException


def _work(
    plan: FederatedPlan,
    inbox: queue.SimpleQueue[Round | None],
    outbox: queue.SimpleQueue[_Event],
    measure: Callable[[Message], int],
) -> None:
    """Run the computation in a thread of its own, which waits while its caller runs."""

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


def _close(inbox: queue.SimpleQueue[Round | None]) -> None:
    """Let the thread of a program that will not be resumed come to its end.

    The garbage collector calls this in any thread and at any place, also where a lock is held that
    the program's thread needs on its way out, so that it must not wait for the thread.
    """
    inbox.put(None)


class LeadProgram:
    """A run of the lead's computation.

    Parameters
    ----------
    measure : callable
        Returns the size of a message in bytes, for the record of the traffic.

    Attributes
    ----------
    request : Message or None
        The next request; None at the end.
    found : FederatedResult or Profiles or None
        The result; None before the end.
    """

    def __init__(
        self, plan: FederatedPlan, measure: Callable[[Message], int] = lambda m: len(encode(m))
    ) -> None:
        self.request: Message | None = None
        self.found: LeadResult | None = None
        self._inbox: queue.SimpleQueue[Round | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        work = (plan, self._inbox, self._outbox, measure)
        thread = threading.Thread(target=_work, args=work, name="steropes-lead", daemon=True)
        thread.start()
        weakref.finalize(self, _close, self._inbox)
        self._wait()

    def resume(self, done: Round) -> None:
        """Continue with a finished round, up to the next request or the result."""
        self._inbox.put(done)
        self._wait()

    def _wait(self) -> None:
        """Wait for the next request, the result or an error."""
        event = self._outbox.get()
        self.request = event if isinstance(event, Message) else None
        if isinstance(event, BaseException):
            raise event
        if not isinstance(event, Message):
            self.found = event


class HonestRequests:
    """The requests of an honest lead, as functions of the rounds before them.

    Results are cached, so that a site does not repeat the whole computation in each round, and
    sites in one process share the work.
    """

    def __init__(self) -> None:
        self._requests: OrderedDict[bytes, Message | None] = OrderedDict()
        self._programs: OrderedDict[bytes, LeadProgram] = OrderedDict()

    def after(self, plan: FederatedPlan, rounds: Sequence[Round]) -> Message:
        """Compute the request of an honest lead after some rounds.

        Raises
        ------
        DataError
            The analysis has ended or cannot continue, or a round had another request.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the lead sees these warnings itself
            request = self._find(plan, rounds)
        if request is None:
            raise DataError("the analysis has ended, and an honest lead makes no further request")
        return request

    def _find(self, plan: FederatedPlan, rounds: Sequence[Round]) -> Message | None:
        """Look up the next request, or resume a paused program to compute it."""
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
                    f"the request of round {done.request.round} does not follow from the plan and "
                    "the answers before it"
                )
            program.resume(done)
        self._programs[keys[-1]] = program
        self._requests[keys[-1]] = program.request
        while len(self._requests) > ADMISSION.max_requests:
            self._requests.popitem(last=False)
        while len(self._programs) > ADMISSION.max_programs:
            self._programs.popitem(last=False)
        return program.request


def _digest(done: Round) -> bytes:
    """Concatenate the digests of a round's messages."""
    parts = [done.request.digest, *(a.digest for a in done.answers), "\n".join(done.left).encode()]
    return b"".join(parts)
