"""Results of a grid for its page: the tables, names, and parts that may be shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from steropes.designs.effects.outcome_families import ratio_name
from steropes.studies.comparative.grid_questions_and_analyses import StudyAnalysis
from steropes.studies.diagnostics.result_blinding import redacted_tables
from steropes.studies.formatting.released_numbers import title_case
from steropes.studies.grids.comparative_grid_run import GridResults
from steropes.studies.report.svg_canvas import Picture

__all__ = ["KEY", "Comparison", "View"]

KEY = ["target_comparator_id", "outcome_id", "analysis_id"]


@dataclass(frozen=True)
class Comparison:
    """A target and a comparator.

    Attributes
    ----------
    names : dict of str
        Of the arms ``target`` and ``comparator``.
    """

    id: int
    target: int
    comparator: int
    names: dict[str, str]

    @property
    def anchor(self) -> str:
        """The id of its section on a page."""
        return f"c{self.id}"

    @property
    def title(self) -> str:
        """The names of both."""
        return f"{self.names['target']} against {self.names['comparator']}"


@dataclass(repr=False, eq=False)
class View:
    """Results for a page; collects the pictures of the page, which are also written as files.

    Attributes
    ----------
    unblind : bool, default False
        Also show estimates that fail a diagnostic.
    pictures : dict of str to Picture
        By name.
    tables : dict of str to DataFrame
        The tables to show, without estimates that may not be shown.
    """

    results: GridResults
    unblind: bool = False
    pictures: dict[str, Picture] = field(default_factory=dict)
    tables: dict[str, pd.DataFrame] = field(init=False)

    def __post_init__(self) -> None:
        """Redact results that fail a diagnostic, unless the view is unblinded."""
        tables = self.results.tables
        self.tables = dict(tables) if self.unblind else redacted_tables(tables)

    @property
    def analyses(self) -> tuple[StudyAnalysis, ...]:
        """All analyses, in their order."""
        return self.results.spec.analyses

    def analysis(self, number: int) -> StudyAnalysis:
        """Return an analysis by its id."""
        return next(a for a in self.analyses if a.id == number)

    def label(self, number: int) -> str:
        """Return the name of an analysis."""
        return self.analysis(number).description or f"analysis {number}"

    def unit(self, number: int) -> str:
        """Name the kind of ratio that an analysis estimates."""
        model = self.analysis(number).outcome_model
        return ratio_name(model.kind, weighted=model.weighted, interval=model.interval_used)

    def name(self, cohort: int) -> str:
        """Return the name of a cohort."""
        table = self.tables["cohort"]
        found = table.loc[table["cohort_id"] == cohort, "name"]
        return title_case(str(found.iloc[0])) if len(found) else f"cohort {cohort}"

    def comparisons(self) -> list[Comparison]:
        """List all pairs of cohorts."""
        return [
            Comparison(
                int(line["target_comparator_id"]),
                int(line["target_id"]),
                int(line["comparator_id"]),
                {"target": self.name(line["target_id"]),
                 "comparator": self.name(line["comparator_id"])},
            )
            for line in self.tables["cm_target_comparator"].to_dict("records")
        ]  # fmt: skip

    def outcomes(self, comparison: Comparison) -> list[int]:
        """List the outcomes of interest."""
        table = self.tables["cm_target_comparator_outcome"]
        of = table[table["target_comparator_id"] == comparison.id]
        return [int(o) for o in of.loc[of["outcome_of_interest"] == 1, "outcome_id"]]

    def rows(self, table: str, **key: int) -> pd.DataFrame:
        """Return the rows of a table with the given values of its key."""
        found = self.tables[table]
        for column, value in key.items():
            found = found[found[column] == value]
        return found

    def line(self, table: str, **key: int) -> dict[str, Any]:
        """Return the only row of a table with the given key; empty if there is none."""
        found = self.rows(table, **key).to_dict("records")
        return {str(k): v for k, v in found[0].items()} if found else {}

    def collect(self, picture: Picture | None) -> Picture | None:
        """Collect a picture of the page and return it."""
        if picture is not None:
            name = re.sub(r"[^a-z0-9]+", "-", picture.name.lower()).strip("-")
            self.pictures[name] = picture
        return picture
