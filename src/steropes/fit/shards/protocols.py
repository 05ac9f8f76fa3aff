"""What is asked of blocks of rows, wherever they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

__all__ = ["Blocks"]


class Blocks(Protocol):
    """Blocks of rows in an order that does not change.

    Attributes
    ----------
    rows : list of int
        How many rows each has.
    """

    rows: list[int]

    def keep(self, key: str, values: Sequence[Any]) -> None:
        """Give each block something to keep; a block that is made again is given it again."""

    def drop(self, key: str) -> None:
        """Let it go."""

    def limit(self, threads: int) -> None:
        """Let blocks of this process take so many threads; workers elsewhere have their own."""

    def call(self, method: str, common: tuple[Any, ...], own: Sequence[tuple[Any, ...]]) -> list:
        """Call a method of each `RowBlock`, with what is common to all and with each one's own."""
