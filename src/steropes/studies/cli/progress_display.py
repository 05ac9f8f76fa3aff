"""Progress of a command on standard error: completed steps, and the one in progress."""

from __future__ import annotations

import time
from contextlib import ExitStack
from threading import Event, Thread
from types import TracebackType
from typing import Any

from steropes.models.fitting.progress_messages import shares_to
from steropes.studies.formatting.released_numbers import title_case

__all__ = ["Progress", "duration"]

# Seconds between two lines on a step at work, in a log and in a terminal that rewrites its line.
INTERVAL, REWRITTEN = 30.0, 1.0


class Progress:
    """Shows each step with its duration, and the share and remaining time of the current one.

    A terminal has a line that is rewritten every second. Elsewhere, as in a log, a step that takes
    longer than ``interval`` adds a line at each interval.

    Parameters
    ----------
    quiet : bool
        Show nothing.
    interval : float, default 30
        Seconds between two lines on a step at work.
    """

    def __init__(self, quiet: bool = False, interval: float = INTERVAL) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, quiet=quiet, highlight=False)
        self._interval = REWRITTEN if self.console.is_terminal else interval
        self._status: Any = None
        self._step: tuple[str, float] | None = None
        # The last reported share and its time, and the time at which its series began.
        self._share: tuple[float, float] | None = None
        self._series = time.monotonic()
        self._ended, self._stack = Event(), ExitStack()

    def __call__(self, step: str) -> None:
        """Begin a step; the one before it is done."""
        self._done()
        self._share = None
        self._step = step, time.monotonic()
        self._rewrite()

    def __enter__(self) -> Progress:
        self._stack.enter_context(shares_to(self._reported))
        if not self.console.quiet:
            if self.console.is_terminal:
                self._status = self._stack.enter_context(self.console.status(""))
            Thread(target=self._follow, daemon=True).start()
            self._stack.callback(self._ended.set)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
        if error is None:
            self._done()

    def _reported(self, share: float) -> None:
        """Receive the share of the work that is done."""
        now = time.monotonic()
        if share == 0:
            self._series = now
        self._share = share, now

    def _follow(self) -> None:
        """Show the step at work at intervals, until the end."""
        while not self._ended.wait(self._interval):
            step = self._step
            if self._status is not None:
                self._rewrite()
            elif step is not None and time.monotonic() - step[1] >= self._interval:
                self.console.print(f"[dim]·[/] {self._at_work(*step)}")

    def _rewrite(self) -> None:
        """Rewrite the line of a terminal."""
        if self._status is not None and self._step is not None:
            self._status.update(self._at_work(*self._step))

    def _at_work(self, step: str, began: float) -> str:
        """Describe the step at work: its duration and, if known, its share and remaining time."""
        now, share = time.monotonic(), self._share
        text = f"{title_case(step)} [dim]{duration(now - began)}"
        if share is not None and 0 < share[0] < 1:
            done, at = share
            left = max((at - self._series) * (1 - done) / done - (now - at), 0.0)
            text += f", {done:.0%}, about {duration(left)} left"
        return f"{text}[/]"

    def _done(self) -> None:
        """Print the current step and its duration, and end it."""
        if self._step is not None:
            step, began = self._step
            seconds = time.monotonic() - began
            self.console.print(f"[green]✓[/] {title_case(step)} [dim]{duration(seconds)}[/]")
            self._step = None


def duration(seconds: float) -> str:
    """Format a duration in seconds, or in minutes if it is long."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"
