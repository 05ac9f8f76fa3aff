"""Running a grid: every question by every analysis for every outcome, once each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from steropes.studies.database.omop import OmopDatabase, opened
from steropes.studies.diagnostics.comparative_blinding import blinded
from steropes.studies.disclosure import DisclosureRules, site_rules
from steropes.studies.disclosure.grid import release_grid
from steropes.studies.disclosure.release_folder import write_release
from steropes.studies.execution.grid_steps import work_through
from steropes.studies.execution.specification import GridSpec
from steropes.studies.execution.store import ResultStore, archive_of
from steropes.studies.execution.validation import whole
from steropes.studies.results.calibrated_results import calibrate_grid
from steropes.studies.results.table_layouts import EXACT, EXACT_KEYS

__all__ = ["GridResults", "run_grid"]

RESULTS, ARCHIVE = "results.duckdb", "results.zip"
KEY = ["target_comparator_id", "outcome_id", "analysis_id"]


@dataclass(frozen=True, repr=False, eq=False)
class GridResults:
    """The results of a grid.

    Attributes
    ----------
    path : Path
        The DuckDB file, which holds exact numbers and is not to be released.
    tables : dict of str to DataFrame
        The released tables, sorted by their keys.
    spec : GridSpec
    rules : DisclosureRules
        What has been applied to the tables.
    """

    path: Path
    tables: dict[str, pd.DataFrame]
    spec: GridSpec
    rules: DisclosureRules = field(default_factory=DisclosureRules)

    def __repr__(self) -> str:
        found = self.tables["cm_result"]
        with_estimate = int(found["log_rr"].notna().sum())
        shown = int(self.tables["cm_diagnostics_summary"]["unblind"].sum())
        return (
            f"GridResults({len(found):,} results, {with_estimate:,} with an estimate, "
            f"{shown:,} that pass all diagnostics)"
        )

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
    say = progress or (lambda line: None)
    whole("jobs", jobs, 1)
    rules = site_rules(disclosure, spec.min_cell)
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    with (
        opened(database, spec.schema, spec.time_zone) as db,
        ResultStore(folder / RESULTS, _signature(db, spec), EXACT, EXACT_KEYS) as store,
    ):
        if "all" not in store.done:
            work_through(db, spec, store, say, jobs)
            say("calibrating")
            calibrate_grid(store, spec.thresholds)
            store.finish()
        exact = {name: store.table(name) for name in EXACT}
    say("disclosure control")
    tables = release_grid(exact, spec.thresholds, precedence(spec), rules)
    write_release(folder, {ARCHIVE: archive_of(tables)}, rules, exact=True)
    return GridResults(folder / RESULTS, tables, spec, rules)


def precedence(spec: GridSpec) -> list[int]:
    """Analyses in the order in which their counts are released: those that adjust come first."""
    return [a.id for a in sorted(spec.analyses, key=lambda a: not a.adjusts)]


def _signature(db: OmopDatabase, spec: GridSpec) -> str:
    """What results depend on: the specification, the database, and the software's version."""
    from steropes.version import __version__

    settings = {k: v for k, v in asdict(spec).items() if k != "min_cell"}
    parts = [__version__, db.identity, db.time_zone, settings]
    text = json.dumps(parts, default=str, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
