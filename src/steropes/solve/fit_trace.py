"""The record of a fit's steps, for those who want to see how it went."""

from __future__ import annotations

import pandas as pd

__all__ = ["COLUMNS", "FitTrace"]

COLUMNS = ("objective", "violation", "working_set", "nonzero", "hessians", "penalty")


class FitTrace:
    """Where the first replicate was before each step, and at the end.

    Rows are the steps in order, of all descents to weaker and weaker penalties.
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
        """Add a row; see `table`."""
        self.rows.append((objective, violation, working_set, nonzero, hessians, penalty))

    def table(self) -> pd.DataFrame:
        """The rows, by ``step``.

        ``objective`` is the loss and the penalty of the descent; ``violation`` the largest KKT
        violation among the columns in the working set (in the last row over all columns);
        ``working_set`` and ``nonzero`` count columns, ``hessians`` the Hessians computed so far;
        ``penalty`` is how many times stronger the penalty was than the one asked for.
        """
        index = pd.RangeIndex(len(self.rows), name="step")
        return pd.DataFrame(self.rows, index, list(COLUMNS))
