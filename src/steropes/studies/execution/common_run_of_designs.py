"""The run that all study designs share: store, resumption, calibration, release and archive."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pandas as pd

from steropes.backends.blas_threads import single_threaded_blas
from steropes.data.html_representations import TextInHtml
from steropes.private_files import private_folder
from steropes.studies.database.omop import OmopDatabase, opened
from steropes.studies.disclosure import DisclosureRules, applied_rules, site_rules
from steropes.studies.disclosure.release_folder import write_release
from steropes.studies.execution.result_store import ResultStore, archive_of
from steropes.studies.execution.resumable_steps import Say, StepGroup, run_steps

__all__ = ["ARCHIVE", "DesignResults", "StudyDesign", "run_design"]

RESULTS, ARCHIVE = "results.duckdb", "results.zip"
Spec = TypeVar("Spec")


class StudyDesign(Protocol):
    """The parts of a run that depend on the study design."""

    @property
    def spec(self) -> Any:
        """The specification, a dataclass.

        It has ``schema``, ``time_zone``, ``observed_until`` and ``min_cell``.
        """

    @property
    def tables(self) -> Mapping[str, Mapping[str, str]]:
        """Columns and types of the exact tables."""

    @property
    def keys(self) -> Mapping[str, tuple[str, ...]]:
        """The columns that sort the rows of each table."""

    def prepare(self, db: OmopDatabase, say: Say) -> Sequence[Any]:
        """Return plain values that results depend on besides the specification."""

    def steps(self, db: OmopDatabase, store: ResultStore, say: Say) -> Sequence[StepGroup]:
        """Return the steps that are not stored yet."""

    def calibrate(self, store: ResultStore) -> None:
        """Replace results that depend on those of all control outcomes."""

    def release(
        self, exact: Mapping[str, pd.DataFrame], rules: DisclosureRules
    ) -> dict[str, pd.DataFrame]:
        """Return the tables for release."""


@dataclass(frozen=True, repr=False, eq=False)
class DesignResults(TextInHtml, Generic[Spec]):
    """The results of a grid of any study design.

    Attributes
    ----------
    path : Path
        The DuckDB file with exact numbers, which is not for release.
    tables : dict of str to DataFrame
        The tables for release, sorted by their keys.
    spec : dataclass
        The specification.
    rules : DisclosureRules
        Disclosure rules that were applied to the tables.
    """

    path: Path
    tables: dict[str, pd.DataFrame]
    spec: Spec
    rules: DisclosureRules = field(default_factory=DisclosureRules)
    prefix: ClassVar[str]  # The first part of the names of the design's result tables.

    def __repr__(self) -> str:
        """Count the results, without any number of people."""
        results, with_estimate, passing = self.counts
        return (
            f"{type(self).__name__}({results:,} results, {with_estimate:,} with an estimate, "
            f"{passing:,} that pass all diagnostics)"
        )

    @property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of results, of those with an estimate, and of those that pass all diagnostics."""
        found = self.tables[f"{self.prefix}_result"]
        passing = int(self.tables[f"{self.prefix}_diagnostics_summary"]["unblind"].sum())
        return len(found), int(found["log_rr"].notna().sum()), passing


@single_threaded_blas()
def run_design(
    design: StudyDesign,
    database: str | Path | object,
    output: str | Path,
    *,
    jobs: int = 1,
    disclosure: str | DisclosureRules | None = None,
    progress: Callable[[str], None] | None = None,
) -> tuple[Path, dict[str, pd.DataFrame], DisclosureRules]:
    """Run the steps that are not stored, release the tables and write their archive.

    Returns
    -------
    path : Path
        The file with exact numbers.
    tables : dict of str to DataFrame
        The tables for release.
    rules : DisclosureRules
        The rules that were applied.
    """
    say = progress or (lambda _: None)
    spec = design.spec
    rules = site_rules(disclosure, spec.min_cell)
    folder = private_folder(output, RESULTS)
    with (
        applied_rules(rules),
        opened(database, spec.schema, spec.time_zone, observed_until=spec.observed_until) as db,
    ):
        signature = _signature(db, spec, design.prepare(db, say))
        with ResultStore(folder / RESULTS, signature, design.tables, design.keys) as store:
            if "all" not in store.done:
                run_steps(design.steps(db, store, say), store, say, jobs)
                say("calibrating")
                design.calibrate(store)
                store.finish()
            exact = {name: store.table(name) for name in design.tables}
    say("disclosure control")
    tables = design.release(exact, rules)
    write_release(folder, {ARCHIVE: archive_of(tables)}, rules, exact=True)
    return folder / RESULTS, tables, rules


def _signature(db: OmopDatabase, spec: Any, more: Sequence[Any]) -> str:
    """Hash the version, database, specification without ``min_cell``, and ``more``."""
    from steropes.version import __version__

    settings = {k: v for k, v in asdict(spec).items() if k != "min_cell"}
    parts = [__version__, db.identity, db.time_zone, db.observed_until, settings, *more]
    text = json.dumps(parts, default=str, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
