"""Interface of blocks of rows, which may be in this process or elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

__all__ = ["Blocks"]


class Blocks(Protocol):
    """Blocks of rows in a fixed order.

    Attributes
    ----------
    rows : list of int
        Number of rows of each block.
    device : str
        The device of products with X; see `RowBlock.use_device`.
    """

    rows: list[int]
    device: str

    def keep(self, key: str, values: Sequence[object]) -> None:
        """Store data in each block; a block that is recreated receives them again."""

    def drop(self, key: str) -> None:
        """Delete stored data."""

    def limit(self, threads: int) -> None:
        """Set the number of threads of blocks in this process; other processes keep theirs."""

    def call(
        self, method: str, common: tuple[object, ...], own: Sequence[tuple[object, ...]]
    ) -> list:
        """Call a method of each `RowBlock` with common arguments followed by its own ones."""
