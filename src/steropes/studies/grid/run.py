"""Running a grid: every question by every analysis for every outcome, once each."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from steropes.errors import DataError
from steropes.studies.controls.calibration import LEAST_CONTROLS, fit_systematic_error
from steropes.studies.controls.error_model import calibrate_interval, fit_error_model
from steropes.studies.grid.diagnostics import Diagnostics, DiagnosticThresholds
from steropes.studies.grid.positive import add_positive_controls
from steropes.studies.grid.results import (
    comparison_id,
    diagnostics_row,
    outcome_tables,
    positive_control_row,
    shared_tables,
    specification_tables,
)
from steropes.studies.grid.settings import Question, StudyAnalysis
from steropes.studies.grid.spec import GridSpec
from steropes.studies.grid.store import ResultStore
from steropes.studies.grid.tables import TABLES
from steropes.studies.grid.workbench import Workbench
from steropes.studies.omop import OmopDatabase, opened

__all__ = ["GridResults", "run_grid"]

RESULTS, ARCHIVE = "results.duckdb", "results.zip"
KEY = ["target_comparator_id", "outcome_id", "analysis_id"]


@dataclass(frozen=True, repr=False, eq=False)
class GridResults:
    """The results of a grid.

    Attributes
    ----------
    path : Path
        The DuckDB file.
    tables : dict of str to DataFrame
        Its tables, sorted by their keys, without small cells.
    spec : GridSpec
    """

    path: Path
    tables: dict[str, pd.DataFrame]
    spec: GridSpec

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
            Show those too that fail a diagnostic; otherwise their numbers are missing.

        Returns
        -------
        DataFrame
            Of ``cm_result``, with ``unblind`` and ``note``.
        """
        found = self.tables["cm_result"].merge(
            self.tables["cm_diagnostics_summary"][[*KEY, "unblind"]], on=KEY
        )
        found = found.merge(self.tables["note"][[*KEY, "note", "interval"]], on=KEY)
        asked = self.tables["cm_target_comparator_outcome"]
        asked = asked[asked["outcome_of_interest"] == 1]
        found = found.merge(asked[KEY[:2]], on=KEY[:2])
        if not unblind:
            hidden = [
                c for c in found if any(p in c for p in ("rr", "ci_95", "llr")) or c.endswith("p")
            ]
            found.loc[found["unblind"] == 0, hidden] = np.nan
        return found


def run_grid(
    database: str | Path | Any,
    spec: GridSpec,
    output: str | Path,
    *,
    progress: Callable[[str], None] | None = None,
) -> GridResults:
    """Run a grid of analyses; go on where an earlier run of the same was interrupted.

    Parameters
    ----------
    database : str, Path, connection or OmopDatabase
        An OMOP CDM: whatever `OmopDatabase` opens, or one that is open.
    spec : GridSpec
    output : str or Path
        Folder for ``results.duckdb`` and ``results.zip`` (the tables as CSV).
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
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    with (
        opened(database, spec.schema) as db,
        ResultStore(folder / RESULTS, _signature(db, spec)) as store,
    ):
        if "all" not in store.done:
            _work(db, spec, store, say)
            say("calibrating")
            _calibrate(store, spec)
            store.finish()
        store.export(folder / ARCHIVE)
        tables = {name: store.table(name) for name in TABLES}
    return GridResults(folder / RESULTS, tables, spec)


def _signature(db: OmopDatabase, spec: GridSpec) -> str:
    """What results depend on: the specification, the database, and the software's version."""
    from steropes import __version__

    settings = {k: v for k, v in asdict(spec).items() if k != "min_cell"} | {"least": spec.min_cell}
    text = json.dumps([__version__, db.identity, settings], default=str, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _steps(
    spec: GridSpec, questions: tuple[Question, ...]
) -> Iterator[tuple[str, Question, StudyAnalysis, int | None]]:
    """Every step with its name: first what outcomes share, then the outcomes."""
    for question in questions:
        for analysis in spec.analyses:
            name = f"{comparison_id(question)} {analysis.id}"
            yield name, question, analysis, None
            for outcome in question.outcomes:
                yield f"{name} {outcome.id}", question, analysis, outcome.id


def _work(db: OmopDatabase, spec: GridSpec, store: ResultStore, say: Callable[[str], None]) -> None:
    """Do what is not done yet."""
    done = store.done
    say("making cohorts")
    cohorts, questions = spec.make_cohorts(db), spec.questions
    made: list[dict[str, Any]] = []
    if spec.controls.positive is not None:
        bench = Workbench(spec.of_compared(db), cohorts)
        found = add_positive_controls(bench, questions, spec.analyses, spec.controls.positive, say)
        cohorts, questions, made = found.cohorts, found.questions, found.made
    if "specification" not in done:
        tables = specification_tables(questions, spec.analyses)
        tables["database"] = [{"database_id": spec.database_id, **db.provenance()}]
        tables["positive_control"] = [
            positive_control_row(row, spec.database_id, spec.min_cell) for row in made
        ]
        names = {o.id for q in questions for o in q.outcomes}
        names |= {c for q in questions for c in (q.target, q.comparator)}
        tables["cohort"] = [{"cohort_id": c, "name": cohorts.name(c)} for c in sorted(names)]
        store.add("specification", tables)
    steps = [s for s in _steps(spec, questions) if s[0] not in done]
    bench = Workbench(spec.of_compared(db), cohorts, spec.thresholds)
    began, last = time.monotonic(), None
    for i, (name, question, analysis, outcome) in enumerate(steps):
        if last is not question:
            bench.forget()
            last = question
        if i and outcome is None:
            left = (time.monotonic() - began) / i * (len(steps) - i)
            remaining = f"; about {left / 60:.0f} minutes left" if left > 90 else ""
            what = analysis.description or f"analysis {analysis.id}"
            say(f"{what} ({i} of {len(steps)}{remaining})")
        store.add(name, _step(bench, spec, question, analysis, outcome))


def _step(
    bench: Workbench,
    spec: GridSpec,
    question: Question,
    analysis: StudyAnalysis,
    outcome: int | None,
) -> dict[str, list[dict[str, Any]]]:
    """The rows of one step; those of a refusal say why."""
    where = (spec.database_id, spec.min_cell)
    if outcome is None:
        try:
            return shared_tables(question, analysis, bench.shared(question, analysis), *where)
        except DataError:
            return {}  # each outcome says it again
    of_interest = {o.id for o in question.outcomes if o.of_interest}
    try:
        result = bench.run(question, outcome, analysis)
    except DataError as error:
        key = {
            "target_comparator_id": comparison_id(question),
            "outcome_id": outcome,
            "analysis_id": analysis.id,
            "database_id": spec.database_id,
        }
        counts = ("subjects", "days", "outcomes")
        nobody = {f"{arm}_{c}": 0 for arm in ("target", "comparator") for c in counts}
        none = Diagnostics(detectable=math.inf, thresholds=spec.thresholds)
        return {
            "cm_result": [{**key, **nobody, "target_estimator": analysis.estimates()}],
            "cm_diagnostics_summary": [{**key, **diagnostics_row(none)}],
            "note": [{**key, "note": str(error)}],
        }
    return outcome_tables(result, *where, with_balance=outcome in of_interest)


def _calibrate(store: ResultStore, spec: GridSpec) -> None:
    """Fill in what needs all outcomes: calibrated estimates, and what may be shown."""
    results, checks = store.table("cm_result"), store.table("cm_diagnostics_summary")
    truth = store.table("cm_target_comparator_outcome")
    joined = results.merge(truth, on=KEY[:2], how="left")
    assert len(joined) == len(results)
    for _, rows in results.groupby(
        ["target_comparator_id", "analysis_id"], sort=True
    ).groups.items():
        of = joined.loc[rows]
        passed = checks.loc[rows].apply(lambda line: _usable(line, spec.thresholds), axis=1)
        negative = of[(of["true_effect_size"] == 1) & passed & of["se_log_rr"].gt(0)]
        if len(negative) < LEAST_CONTROLS:
            continue
        error = fit_systematic_error(negative["log_rr"], negative["se_log_rr"])
        known = of[of["true_effect_size"].notna() & passed & of["se_log_rr"].gt(0)]
        model = fit_error_model(
            known["log_rr"], known["se_log_rr"], np.log(known["true_effect_size"])
        )
        for row in rows:
            c = calibrate_interval(results.at[row, "log_rr"], results.at[row, "se_log_rr"], model)
            found = (c.log_rr, c.lower, c.upper)
            results.loc[row, ["calibrated_rr", "calibrated_ci_95_lb", "calibrated_ci_95_ub"]] = [
                math.exp(min(x, 700)) if math.isfinite(x) else math.nan for x in found
            ]
            results.loc[row, ["calibrated_p", "calibrated_one_sided_p"]] = [c.p, c.one_sided_p]
            results.loc[row, ["calibrated_log_rr", "calibrated_se_log_rr"]] = [c.log_rr, c.se]
            checks.loc[row, "ease"] = error.expected_absolute
    rows = [{**line, **_judged(line, spec.thresholds)} for line in checks.to_dict("records")]
    store.replace("cm_result", results)
    store.replace("cm_diagnostics_summary", pd.DataFrame(rows, columns=list(checks.columns)))


def _usable(line: pd.Series, thresholds: DiagnosticThresholds) -> bool:
    return _read(line.to_dict(), thresholds).unblind_for_calibration


def _judged(line: dict[str, Any], thresholds: DiagnosticThresholds) -> dict[str, Any]:
    """Verdicts that follow from the numbers of a row."""
    return diagnostics_row(_read(line, thresholds))


def _read(line: dict[str, Any], thresholds: DiagnosticThresholds) -> Diagnostics:
    """The diagnostics of a row of the table."""
    mdrr = line["mdrr"]
    return Diagnostics(
        largest_difference=float(line["max_sdm"]),
        difference_p=float(line["sdm_family_wise_min_p"]),
        shared_difference=float(line["shared_max_sdm"]),
        shared_p=float(line["shared_sdm_family_wise_min_p"]),
        equipoise=float(line["equipoise"]),
        generalizability=float(line["generalizability_max_sdm"]),
        attrition=float(line["attrition_fraction"]),
        systematic_error=float(line["ease"]),
        detectable=math.inf if pd.isna(mdrr) else float(mdrr),
        thresholds=thresholds,
    )
