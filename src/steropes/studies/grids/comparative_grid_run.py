"""Grids of comparative studies: all questions, outcomes and analyses of one specification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from steropes.data.formatted_tables_for_papers import Interval
from steropes.data.plottable_result_tables import ResultTable, present
from steropes.designs.settings.validated_types import Whole
from steropes.studies.cohorts.cohort_sources import MadeCohorts
from steropes.studies.diagnostics.failing_diagnostics import (
    FAILED,
    comparative_names,
    with_failing,
    with_names,
)
from steropes.studies.diagnostics.result_blinding import NOT_SHOWN, blinded
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.execution.common_run_of_designs import DesignResults, run_design
from steropes.studies.grids.grid_steps import ComparativeDesign
from steropes.studies.settings.frozen_protocol import ProtocolStatement, open_protocol
from steropes.studies.specifications.grid_specification import GridSpec

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
        The specification.
    rules : DisclosureRules
        Disclosure rules that were applied to the tables.
    protocol : ProtocolStatement or None
        Whether the run follows its protocol, if it has one.

    See Also
    --------
    run_grid : Run a grid.
    analysis_performance : Evaluate the analyses on the controls.

    Examples
    --------
    >>> import tempfile
    >>> from steropes.studies import GridSpec
    >>> from steropes.studies.cohorts import CohortSources, ConceptSet
    >>> from steropes.studies.comparative import Question, StudyAnalysis
    >>> from steropes.studies import run_grid, synthetic_database
    >>> sources = CohortSources(table="cohort", conditions={3: ConceptSet((192671,))})
    >>> crude = StudyAnalysis(1, features=None, propensity=None, unadjusted=True)
    >>> spec = GridSpec(sources, (Question(1, 2, (3,)),), (crude,))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = run_grid(synthetic_database(400), spec, folder)
    >>> len(results.tables["cm_result"])
    1
    """

    prefix = "cm"
    protocol: ProtocolStatement | None = None

    def estimates(self, unblind: bool = False) -> ResultTable:
        """Return the estimates of outcomes of interest, one row each.

        Parameters
        ----------
        unblind : bool, default False
            Include estimates that fail a diagnostic. Otherwise their effects and the outcomes of
            their arms are missing; ``tables`` contain them, as the results model does, with the
            flags ``unblind`` and ``unblind_for_evidence_synthesis``.

        Returns
        -------
        DataFrame
            The columns of ``cm_result``, with ``unblind``, ``note``, ``interval`` and
            ``unconverged``, the names of fits that did not converge.
        """
        found = self.tables["cm_result"].merge(
            self.tables["cm_diagnostics_summary"][[*KEY, "unblind"]], on=KEY
        )
        found = found.merge(self.tables["note"][[*KEY, "note", "interval", "unconverged"]], on=KEY)
        asked = self.tables["cm_target_comparator_outcome"]
        asked = asked[asked["outcome_of_interest"] == 1]
        found = found.merge(asked[KEY[:2]], on=KEY[:2])
        if unblind:
            return _drawn(found)
        names = comparative_names(self.spec.thresholds)
        found = with_failing(blinded(found), self.tables, "cm", names)
        bare = (found["unblind"] == 0) & found["note"].eq("")
        pairs = zip(found["note"].mask(bare, NOT_SHOWN), found[FAILED], strict=True)
        found["note"] = [with_names(note, failed) for note, failed in pairs]
        return _drawn(found.drop(columns=FAILED))


def _drawn(estimates: pd.DataFrame) -> ResultTable:
    """Make estimates a result; a forest plot names each by its ids."""
    shown = Interval("Ratio", "rr", "ci_95_lb", "ci_95_ub", level=0.95)
    return present(estimates, "ratio_forest", intervals=[shown], labels=KEY)


def run_grid(
    database: str | Path | object,
    spec: GridSpec,
    output: str | Path,
    *,
    jobs: int = 1,
    cohorts: MadeCohorts | None = None,
    disclosure: str | DisclosureRules | None = None,
    progress: Callable[[str], None] | None = None,
    protocol: str | Path | None = None,
    by: str | None = None,
) -> GridResults:
    """Run a grid of analyses; an interrupted run is resumed.

    Parameters
    ----------
    database : str, Path, connection or OmopDatabase
        An OMOP CDM that `OmopDatabase` can open, or an open one.
    spec : GridSpec
        Cohorts, questions, analyses and controls.
    output : str or Path
        Folder for ``results.duckdb``, which holds exact numbers, and for ``release/results.zip``,
        the tables that may be released as CSV files.
    jobs : int, default 1
        Number of processes that estimate outcomes. Cohorts, covariates and scores are computed by
        the calling process. Within ``joblib.parallel_config(backend="dask")`` a Dask cluster is
        used. Results do not depend on it.
    cohorts : MadeCohorts, optional
        Cohorts that are used instead of those that ``spec.cohorts`` describes.
    disclosure : str, optional
        Disclosure rules of the data owner: "ohdsi" (the default), "opensafely" or "none"; see
        `site_rules`.
    progress : callable, optional
        Called with a line of text before each step.
    protocol : str or Path, optional
        A protocol (`freeze_protocol`). The results state whether they follow it, and the file
        records the run. A file that does not exist is written before the database is opened.
    by : str, optional
        Who runs the grid, for the protocol. Default: the name of the user.

    Returns
    -------
    GridResults
        The results, which are also in ``output``.

    Raises
    ------
    DataError
        A database, cohort or setting cannot be used, or the folder contains results of another
        specification. Errors that concern a single result are recorded in the table
        ``note``.

    Examples
    --------
    >>> import tempfile
    >>> from steropes.studies import GridSpec
    >>> from steropes.studies.cohorts import CohortSources, ConceptSet
    >>> from steropes.studies.comparative import Question, StudyAnalysis
    >>> from steropes.studies import run_grid, synthetic_database
    >>> sources = CohortSources(table="cohort", conditions={3: ConceptSet((192671,))})
    >>> crude = StudyAnalysis(1, features=None, propensity=None, unadjusted=True)
    >>> spec = GridSpec(sources, (Question(1, 2, (3,)),), (crude,))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = run_grid(synthetic_database(400), spec, folder)
    >>> results.estimates(unblind=True)[["analysis_id", "outcome_id"]].to_numpy().tolist()
    [[1, 3]]
    """
    Whole(1).require("jobs", jobs)
    frozen = None if protocol is None else open_protocol(protocol, spec, by)
    design = ComparativeDesign(spec, cohorts)
    path, tables, rules = run_design(
        design, database, output, jobs=jobs, disclosure=disclosure, progress=progress
    )
    results = GridResults(path, tables, spec, rules)
    if frozen is None or protocol is None:
        return results
    passing = bool(results.estimates()["rr"].notna().any())
    why = "all diagnostics of an estimate passed" if passing else ""
    return replace(results, protocol=frozen.record(protocol, spec, by, why))
