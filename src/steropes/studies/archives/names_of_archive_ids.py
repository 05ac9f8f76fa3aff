"""Names of cohorts and analyses by their ids in the archives of several databases."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from steropes.studies.formatting.released_numbers import title_case

__all__ = ["ArchiveNames"]


class ArchiveNames:
    """Names of cohorts and analyses in the tables of archives.

    Parameters
    ----------
    archives : sequence of dict of str to DataFrame
        Tables ``cm_target_comparator``, ``cohort`` and ``cm_analysis``, as far as present.
    """

    def __init__(self, archives: Sequence[dict[str, pd.DataFrame]]) -> None:
        self._pairs: dict[int, tuple[int, int]] = {}
        self._names: dict[tuple[str, int], list[str]] = {}
        for tables in archives:
            pairs = tables.get("cm_target_comparator", pd.DataFrame())
            for line in pairs.itertuples(index=False):
                pair = (int(line.target_id), int(line.comparator_id))
                self._pairs.setdefault(int(line.target_comparator_id), pair)
            for kind, table, number, name in (
                ("cohort", "cohort", "cohort_id", "name"),
                ("analysis", "cm_analysis", "analysis_id", "description"),
            ):
                found = tables.get(table, pd.DataFrame())
                if name in found:
                    for i, text in found[[number, name]].dropna().itertuples(index=False):
                        self._enter(kind, int(i), str(text).strip())

    def of(self, comparison: int, outcome: int, analysis: int) -> dict[str, str]:
        """Name the parts of a question; unnamed parts are called by their ids."""
        target, comparator = self._pairs.get(comparison, (None, None))
        return {
            "target": "" if target is None else self._name("cohort", target),
            "comparator": "" if comparator is None else self._name("cohort", comparator),
            "outcome": self._name("cohort", outcome),
            "analysis": self._name("analysis", analysis),
        }

    def cohort(self, number: int) -> str:
        """Name a cohort; without a name it is called by its id."""
        return self._name("cohort", number)

    def differing(self, comparison: int, outcome: int, analysis: int) -> str:
        """Describe the ids of a question that have several names and may differ in meaning."""
        ids = [("cohort", i) for i in (*self._pairs.get(comparison, ()), outcome)]
        differences = []
        for kind, number in (*ids, ("analysis", analysis)):
            names = self._names.get((kind, number), [])
            if len(names) > 1:
                called = " and ".join(f"“{n}”" for n in names)
                differences.append(f"{kind} {number} has different names in the archives: {called}")
        return "; ".join(differences)

    def _enter(self, kind: str, number: int, name: str) -> None:
        """Record a name of an id."""
        names = self._names.setdefault((kind, number), [])
        # Vocabularies differ in capitals, which do not make a different name.
        if name and name.casefold() not in (n.casefold() for n in names):
            names.append(title_case(name))

    def _name(self, kind: str, number: int) -> str:
        """Return the first name of an id, or the id itself."""
        return next(iter(self._names.get((kind, number), [])), f"{kind} {number}")
