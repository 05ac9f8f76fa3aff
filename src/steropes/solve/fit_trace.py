"""The record of a fit's steps: objective, violation and time of each."""

from __future__ import annotations

import pandas as pd

__all__ = ["COLUMNS", "FitTrace"]

COLUMNS = ("objective", "violation", "working_set", "nonzero", "hessians", "penalty")


class FitTrace:
    """The state of the first replicate before each step and at the end.

    Rows are the steps in order, including descents to the stronger penalties of a continuation.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[float, float, int, int, int, float]] = []

    def record(
        self,
        objective: float,
        violation: float,
        working_set: int,
        nonzero: int,
        hessians: int,
        penalty: float = 1.0,
    ) -> None:
        """Append a row; see `table`."""
        self.rows.append((objective, violation, working_set, nonzero, hessians, penalty))

    def table(self) -> pd.DataFrame:
        """Return the rows as a data frame, indexed by ``step``.

        ``objective`` is the loss plus the penalty of the current descent. ``violation`` is the
        largest KKT violation among the columns of the working set, and in the last row among all
        columns. ``working_set`` and ``nonzero`` count columns, and ``hessians`` counts the Hessians
        computed so far. ``penalty`` is the ratio of the current penalty to the requested one.
        """
        index = pd.RangeIndex(len(self.rows), name="step")
        return pd.DataFrame(self.rows, index, list(COLUMNS))
