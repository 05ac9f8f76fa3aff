"""Runs of a specification: cohorts, the grids of its modules, and folders of results by module."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from steropes.data.html_representations import TextInHtml
from steropes.designs.values.dates_and_ages import calendar_date
from steropes.errors import DataError
from steropes.private_files import private_folder
from steropes.studies.cohorts.cohort_sources import MadeCohorts
from steropes.studies.database.omop import opened
from steropes.studies.disclosure import DisclosureRules, applied_rules, site_rules
from steropes.studies.disclosure.counts_in_text import released_text
from steropes.studies.disclosure.release_folder import RELEASE, write_release
from steropes.studies.disclosure.suppression_of_received_results import with_suppressed_counts
from steropes.studies.formatting.text_safety import csv_text
from steropes.studies.release.strategus_release import (
    released_statistics,
)
from steropes.studies.strategus.cohort_generation import generate_cohorts, write_cohort_table
from steropes.studies.strategus.cohort_generator_tables import cohort_tables
from steropes.studies.strategus.database_description import DATABASE, database_tables
from steropes.studies.strategus.missing_estimate_remarks import with_missing_estimates
from steropes.studies.strategus.module_runs import ModuleRuns
from steropes.studies.strategus.results_model import module_files
from steropes.studies.strategus.synthesis_run import synthesis_tables
from steropes.studies.strategus_plans.characterization_plan import CHARACTERIZATION
from steropes.studies.strategus_plans.cohort_diagnostics_plan import COHORT_DIAGNOSTICS
from steropes.studies.strategus_plans.comparative_plan import COHORT_METHOD
from steropes.studies.strategus_plans.incidence_plan import INCIDENCE
from steropes.studies.strategus_plans.pathway_plan import PATHWAYS
from steropes.studies.strategus_plans.prediction_plan import PREDICTION
from steropes.studies.strategus_plans.series_plan import CASE_SERIES
from steropes.studies.strategus_plans.specification_plan import COHORTS, SpecificationPlan
from steropes.studies.strategus_plans.supported_parts import PartVerdict, verdicts_after
from steropes.studies.strategus_plans.synthesis_plan import SYNTHESIS
from steropes.studies.strategus_plans.validation_plan import VALIDATION

__all__ = ["SpecificationResults", "run_specification", "run_synthesis"]

COHORT_FILE, VERDICTS = "cohorts.duckdb", "verdicts.csv"
CLAIM = "specification.sha256"  # The file that identifies the plan of a folder.
Tables = dict[str, pd.DataFrame]


@dataclass(frozen=True, repr=False, eq=False)
class SpecificationResults(TextInHtml):
    """The results of a specification.

    Attributes
    ----------
    folder : Path
        The folder with ``release``, which has a folder for each module, and with exact numbers.
    tables : dict of str to dict of str to DataFrame
        The tables for release of each module.
    failed : dict of str to str
        Modules and cohorts that could not be run, with the reason.
    plan : SpecificationPlan
        The plan.
    verdicts : tuple of PartVerdict
        Verdicts on all parts after the run, with cohorts without entries and missing estimates.

    See Also
    --------
    run_specification : Run a specification.

    Examples
    --------
    >>> import tempfile
    >>> from steropes.studies import read_specification_plan, run_specification, synthetic_database
    >>> text = '{"moduleSpecifications": [{"module": "CohortSurvivalModule"}]}'
    >>> with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
    ...     _ = file.write(text)
    ...     file.flush()
    ...     plan = read_specification_plan(file.name)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = run_specification(synthetic_database(100), plan, folder)
    >>> sorted(results.tables)
    ['CohortGeneratorModule', 'DatabaseMetaData']
    """

    folder: Path
    tables: dict[str, Tables]
    failed: dict[str, str]
    plan: SpecificationPlan
    verdicts: tuple[PartVerdict, ...] = ()

    def __repr__(self) -> str:
        return f"SpecificationResults({', '.join(self.tables)})"

    @property
    def complete(self) -> bool:
        """Whether every part of the specification has run."""
        return not any(v.reason for v in self.verdicts)


def run_specification(
    database: str | Path | object,
    plan: SpecificationPlan,
    output: str | Path,
    *,
    database_id: str | None = None,
    schema: str = "main",
    jobs: int = 1,
    observed_until: dt.date | None = None,
    disclosure: str | DisclosureRules | None = None,
    progress: Callable[[str], None] | None = None,
) -> SpecificationResults:
    """Generate the cohorts of a specification, and run those of its modules that run here.

    Parameters
    ----------
    database : str, Path, connection or OmopDatabase
        A database that `OmopDatabase` accepts, or an open one.
    plan : SpecificationPlan
        The plan of the specification.
    output : str or Path
        Folder for the results. Its folder ``release`` has a folder of CSV files for each module,
        in the layout of OHDSI's results model; ``cohorts.duckdb`` has the cohorts.
    database_id : str, optional
        Name of the database. Default: the identifier that Strategus computes.
    schema : str, default "main"
        Schema of the CDM tables.
    jobs : int, default 1
        Number of processes that estimate outcomes and fit case series.
    observed_until : date, optional
        The last day of observation, on which all observation ends that goes on. Default: the ends
        of the observation periods.
    disclosure : str, optional
        Disclosure rules; see `site_rules`.
    progress : callable, optional
        Called with the description of each step.

    Returns
    -------
    SpecificationResults
        The tables of each module.

    Raises
    ------
    DataError
        The database cannot be used, or the folder has results of another specification or of
        another last day of observation. A module
        that fails is in ``failed``, and the others run.
    ImportError
        A package that generates the cohorts is missing.

    See Also
    --------
    read_specification_plan : Plan the file of a specification.

    Examples
    --------
    >>> import tempfile
    >>> from steropes.studies import read_specification_plan, run_specification, synthetic_database
    >>> text = '{"moduleSpecifications": [{"module": "CohortSurvivalModule"}]}'
    >>> with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
    ...     _ = file.write(text)
    ...     file.flush()
    ...     plan = read_specification_plan(file.name)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = run_specification(synthetic_database(100), plan, folder)
    >>> results.complete
    False
    """
    say = progress or (lambda _: None)
    plan.cohorts.need_packages()
    folder = private_folder(output, CLAIM)
    if observed_until is not None:
        observed_until = calendar_date("observed_until", observed_until)
    rules = site_rules(disclosure, None)
    tables: dict[str, Tables] = {}
    failed: dict[str, str] = {}
    with applied_rules(rules), opened(database, schema, "UTC", observed_until=observed_until) as db:
        _claim(folder, plan, database_id, schema, db.observed_until)
        database_id, tables[DATABASE] = database_tables(db, database_id)
        examined = plan.diagnostics is not None and plan.diagnostics.inclusion
        made, counted = generate_cohorts(db, plan.cohorts, say, plan.statistics or examined)
        failed |= _new_faults(plan, made)
        if made.table is not None:
            write_cohort_table(folder / COHORT_FILE, made.table)
        tables[COHORTS] = cohort_tables(plan.cohorts, made, rules, database_id)
        if plan.statistics:
            tables[COHORTS] |= released_statistics(counted, rules, database_id)
        on = ModuleRuns(db, plan, made, folder, database_id, schema, jobs, rules, say)
        for module, run in (
            (COHORT_METHOD, on.comparative),
            (COHORT_DIAGNOSTICS, lambda: on.diagnostics(tables[DATABASE], counted, failed)),
            (CHARACTERIZATION, lambda: on.characterization(failed)),
            (INCIDENCE, on.incidence),
            (PATHWAYS, lambda: on.pathways(tables[DATABASE])),
            (CASE_SERIES, on.series),
            (PREDICTION, lambda: on.prediction(tables[DATABASE], failed)),
            (VALIDATION, lambda: on.validation(tables[DATABASE], failed)),
        ):
            try:
                found = run()
            except DataError as error:
                failed[module] = str(error)
                continue
            if found is not None:
                tables[module] = found
            elif _should_run(plan, module) and not any(k.startswith(module) for k in failed):
                why = next(iter(made.refused.values()), "")
                text = "none of its parts can run with the cohorts of this database"
                failed[module] = f"{text}; {why}" if why else text
    if plan.synthesis is not None:
        failed[SYNTHESIS] = "it combines the results of several databases: give --results"
    say("writing the results")
    return _write_results(plan, made, tables, failed, folder, rules)


def _write_results(
    plan: SpecificationPlan,
    made: MadeCohorts,
    tables: dict[str, Tables],
    failed: Mapping[str, str],
    folder: Path,
    rules: DisclosureRules,
) -> SpecificationResults:
    """Write the tables of all modules, and the verdict on each part of the specification."""
    reasons = {part: released_text(why, rules) for part, why in failed.items()}
    filled = {*made.table.ids} if made.table is not None else set()
    names = plan.cohorts.names.items()
    empty = {i: name for i, name in names if i not in filled and i not in made.refused}
    verdicts = with_missing_estimates(
        verdicts_after(plan.verdicts, reasons, COHORTS, empty), tables
    )
    texts = {VERDICTS: csv_text(_verdict_table(verdicts))}
    for module, of in tables.items():
        texts |= module_files(module, of)
    write_release(folder, texts, rules, exact=True)
    return SpecificationResults(folder / RELEASE, tables, reasons, plan, tuple(verdicts))


def run_synthesis(
    plan: SpecificationPlan,
    results: Sequence[str | Path],
    output: str | Path,
    *,
    disclosure: str | DisclosureRules | None = None,
) -> SpecificationResults:
    """Combine the results of databases by the meta-analyses of a specification.

    Parameters
    ----------
    plan : SpecificationPlan
        The plan of the specification.
    results : sequence of path
        For each database the folder with a folder of results for each module.
    output : str or Path
        Folder for the results.
    disclosure : str, optional
        Disclosure rules, by which counts that the databases released are suppressed again; see
        `site_rules`.

    Returns
    -------
    SpecificationResults
        The tables ``es_*``.

    Raises
    ------
    DataError
        The specification has no meta-analysis that runs, or a folder lacks results.

    See Also
    --------
    run_specification : Run the other modules of a specification on a database.
    combine_archives : Combine archives by all methods.

    Examples
    --------
    >>> import tempfile
    >>> from steropes.studies import read_specification_plan, run_synthesis
    >>> text = '{"moduleSpecifications": [{"module": "CohortSurvivalModule"}]}'
    >>> with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
    ...     _ = file.write(text)
    ...     file.flush()
    ...     plan = read_specification_plan(file.name)
    >>> run_synthesis(plan, [], ".")
    Traceback (most recent call last):
        ...
    steropes.errors.DataError: the specification has no meta-analysis of EvidenceSynthesisModule
    """
    if plan.synthesis is None or not plan.synthesis.analyses:
        raise DataError("the specification has no meta-analysis of EvidenceSynthesisModule")
    rules = site_rules(disclosure, None)
    combined = synthesis_tables(plan.synthesis, results)
    tables = {SYNTHESIS: with_suppressed_counts(combined, rules)}
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    texts = module_files(SYNTHESIS, tables[SYNTHESIS])
    write_release(folder, texts, rules)
    return SpecificationResults(folder / RELEASE, tables, {}, plan, plan.verdicts)


def _claim(
    folder: Path,
    plan: SpecificationPlan,
    database_id: str | None,
    schema: str,
    observed_until: dt.date | None,
) -> None:
    """Mark a folder as that of a plan.

    Raises
    ------
    DataError
        The folder has results of another plan.
    """
    text = (
        hashlib.sha256(repr((plan, database_id, schema, observed_until)).encode()).hexdigest()
        + "\n"
    )
    path = folder / CLAIM
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise DataError(
            f"{folder} holds results of another specification, database or last day of "
            "observation; choose another folder, or remove it"
        )
    path.write_text(text, encoding="utf-8")


def _new_faults(plan: SpecificationPlan, made: MadeCohorts) -> dict[str, str]:
    """Return the cohorts that the plan expected and the database does not allow."""
    return {f"cohort {i}": why for i, why in made.refused.items() if not plan.cohorts.fault(i)}


def _should_run(plan: SpecificationPlan, module: str) -> bool:
    """Check whether a part of a module runs according to the plan."""
    return any(v.module == module and not v.reason for v in plan.verdicts)


def _verdict_table(verdicts: Iterable[PartVerdict]) -> pd.DataFrame:
    """Return verdicts after a run as a table."""
    rows = [{"module": v.module, "part": v.part, "verdict": v.word, "text": v.text}
            for v in verdicts]  # fmt: skip
    return pd.DataFrame(rows, columns=["module", "part", "verdict", "text"])
