"""Grids of comparative studies: all questions, outcomes and analyses of one specification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from steropes.studies.diagnostics.result_blinding import blinded
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.execution.grid_steps import ComparativeDesign
from steropes.studies.execution.setting_types import Whole
from steropes.studies.execution.specification import GridSpec
from steropes.studies.execution.study_design import DesignResults, run_design

__all__ = ["GridResults", "run_grid"]

KEY = ["target_comparator_id", "outcome_id", "analysis_id"]


@dataclass(frozen=True, repr=False, eq=False)
class GridResults(DesignResults[GridSpec]):
    """The results of a grid of comparative studies.

    Attributes
    ----------
    path : Path
        The DuckDB file with exact numbers, which is not for release.
    tables : dict of str to DataFrame
        The tables for release, sorted by their keys.
    spec : GridSpec
    rules : DisclosureRules
        Disclosure rules that were applied to the tables.
    """

    prefix = "cm"

    def estimates(self, unblind: bool = False) -> pd.DataFrame:
        """The estimates of outcomes of interest, one row each.

        Parameters
        ----------
        unblind : bool, default False
            Show those too that fail a diagnostic. Otherwise their effects and the outcomes of
            their arms are missing; ``tables`` have them, as the results model does, beside the
            flags ``unblind`` and ``unblind_for_evidence_synthesis``.

        Returns
        -------
        DataFrame
            Of ``cm_result``, with ``unblind``, ``note``, ``interval`` and ``unconverged``, the
            names of fits that did not converge.
        """
        found = self.tables["cm_result"].merge(
            self.tables["cm_diagnostics_summary"][[*KEY, "unblind"]], on=KEY
        )
        found = found.merge(self.tables["note"][[*KEY, "note", "interval", "unconverged"]], on=KEY)
        asked = self.tables["cm_target_comparator_outcome"]
        asked = asked[asked["outcome_of_interest"] == 1]
        found = found.merge(asked[KEY[:2]], on=KEY[:2])
        return found if unblind else blinded(found)


def run_grid(
    database: str | Path | Any,
    spec: GridSpec,
    output: str | Path,
    *,
    jobs: int = 1,
    disclosure: str | DisclosureRules | None = None,
    progress: Callable[[str], None] | None = None,
) -> GridResults:
    """Run a grid of analyses; go on where an earlier run of the same was interrupted.

    Parameters
    ----------
    database : str, Path, connection or OmopDatabase
        An OMOP CDM: whatever `OmopDatabase` opens, or one that is open.
    spec : GridSpec
    output : str or Path
        Folder for ``results.duckdb``, which holds exact numbers, and for ``release/results.zip``,
        the tables that may be released as CSV files.
    jobs : int, default 1
        Outcomes that are answered at once, each by a process of its own. Cohorts, covariates and
        scores are made by this one. Within ``joblib.parallel_config(backend="dask")`` they are
        answered by a Dask cluster. Results do not depend on it.
    disclosure : str, optional
        The rules of disclosure that the owner of the data asks for: "ohdsi" (the default),
        "opensafely" or "none"; see `site_rules`.
    progress : callable, optional
        Called with a line of text before each step.

    Raises
    ------
    DataError
        A database, a cohort or a setting that cannot be used, or a folder that holds the results
        of something else. What goes wrong with one result is told in the table ``note``, and the
        rest goes on.
    """
    Whole(1).require("jobs", jobs)
    design = ComparativeDesign(spec, jobs)
    path, tables, rules = run_design(
        design, database, output, jobs=jobs, disclosure=disclosure, progress=progress
    )
    return GridResults(path, tables, spec, rules)
