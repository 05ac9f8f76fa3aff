"""Attrition: the people and entries of each arm that remain after each rule."""

from __future__ import annotations

import pandas as pd
from numpy.typing import NDArray

from steropes.designs.values.arm_names import TREATED_ARMS

__all__ = ["Attrition"]


class Attrition:
    """Counts of people and of cohort entries in each arm after each rule.

    Parameters
    ----------
    lines : list of dict, optional
        Counts of earlier rules to continue from.
    """

    def __init__(self, lines: list[dict[str, object]] | None = None) -> None:
        self._lines = [dict(line) for line in lines or ()]

    def count(self, rule: str, person: NDArray, treated: NDArray) -> None:
        """Append a line with the entries that remain after a rule."""
        line: dict[str, object] = {"rule": rule}
        for value, arm in TREATED_ARMS:
            of_arm = person[treated == value]
            line |= {f"{arm}_people": len(pd.unique(of_arm)), f"{arm}_entries": len(of_arm)}
        self._lines.append(line)

    def frame(self) -> pd.DataFrame:
        """Return one row per rule: ``rule`` and, for each arm, people and entries left."""
        columns = ["rule"] + [
            f"{arm}_{unit}" for _, arm in TREATED_ARMS for unit in ("people", "entries")
        ]
        return pd.DataFrame(self._lines, columns=columns)
