"""Progress of long fits on standard error."""

from __future__ import annotations

import sys
import time

__all__ = ["Progress"]


class Progress:
    """Report the progress of a fit: nothing if verbose is 0, else one line that is rewritten."""

    def __init__(self, verbose: int | bool) -> None:
        self.verbose = int(verbose)
        self.start = self.last = time.monotonic()
        self.wrote = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.wrote:
            print(file=sys.stderr)

    def report(self, what: str, share: float) -> None:
        """Report a share of the work on one item."""
        self._write(f"{what}: {share:4.0%}", final=share >= 1)

    def step(self, iteration: int, violation: float) -> None:
        """Report a Newton step."""
        self._write(f"step {iteration}: largest KKT violation {violation:.2e}", final=False)

    def _write(self, text: str, final: bool) -> None:
        """Rewrite the line, at most ten times a second unless it is final."""
        now = time.monotonic()
        if not self.verbose or (now - self.last < 0.1 and not final):
            return
        self.last = now
        self.wrote = True
        print(f"\r\x1b[K{now - self.start:6.1f} s  {text}", end="", file=sys.stderr, flush=True)
