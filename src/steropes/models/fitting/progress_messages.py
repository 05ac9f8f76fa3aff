"""Progress messages of long fits, on standard error or to a function given by the caller."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Progress", "counted_steps", "shares_to", "shown_shares"]

Listener = Callable[[float], None]
# A context variable, because a study reports the progress of fits that are many calls below it.
_listener: ContextVar[Listener | None] = ContextVar("progress listener", default=None)


@contextmanager
def shares_to(listener: Listener) -> Iterator[None]:
    """Send the shares of work that fits and steps report in this context to a function.

    A share of zero begins a series of shares, which rise to one.
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def counted_steps(total: int) -> Iterator[Callable[[int], None]]:
    """Return a function that reports how many steps are done; fits within them report nothing."""
    outer = _listener.get()

    def report(done: int) -> None:
        """Report the share of the steps that are done."""
        if outer is not None and total > 0:
            outer(done / total)

    report(0)
    with shares_to(lambda share: None):
        yield report


@contextmanager
def shown_shares(what: str) -> Iterator[None]:
    """Show the progress of the fits in this context on standard error, of silent models too.

    Parameters
    ----------
    what : str
        Name of the task.
    """
    outer = _listener.get()
    with Progress(1) as line:

        def show(share: float) -> None:
            """Write the share, and pass it on."""
            if outer is not None:
                outer(share)
            line.write(f"{what}: {share:4.0%}", final=share >= 1)

        with shares_to(show):
            yield


class Progress:
    """Report the progress of a fit: nothing if verbose is 0, else one line that is rewritten."""

    def __init__(self, verbose: int | bool) -> None:
        self.verbose = int(verbose)
        self.start = self.last = time.monotonic()
        self.wrote = False

    def __enter__(self) -> Progress:
        _report_share(0.0)
        return self

    def __exit__(self, *exc: object) -> None:
        if self.wrote:
            print(file=sys.stderr)

    def report(self, what: str, share: float) -> None:
        """Report a share of the work on one item."""
        _report_share(share)
        self.write(f"{what}: {share:4.0%}", final=share >= 1)

    def step(self, iteration: int, violation: float) -> None:
        """Report a Newton step."""
        self.write(f"step {iteration}: largest KKT violation {violation:.2e}", final=False)

    def write(self, text: str, final: bool) -> None:
        """Rewrite the line, at most ten times a second unless it is final."""
        now = time.monotonic()
        if not self.verbose or (now - self.last < 0.1 and not final):
            return
        self.last = now
        self.wrote = True
        print(f"\r\x1b[K{now - self.start:6.1f} s  {text}", end="", file=sys.stderr, flush=True)


def _report_share(share: float) -> None:
    """Report a share of the work in this context, if a function follows it."""
    listener = _listener.get()
    if listener is not None:
        listener(share)
