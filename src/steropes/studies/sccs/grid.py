"""Many case series from one specification into one file: exposures × outcomes × analyses.

Negative controls, questions whose true ratio is known to be one, tell of systematic error: their
estimates calibrate the others of the same exposure and analysis, and give the EASE.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from steropes.errors import DataError
from steropes.studies.cohorts.entries import CohortTable
from steropes.studies.controls import calibrate, fit_systematic_error
from steropes.studies.controls.calibration import LEAST_CONTROLS
from steropes.studies.grid.store import ResultStore
from steropes.studies.omop import OmopDatabase, opened
from steropes.studies.requirements import concept, real, text, whole
from steropes.studies.sccs.diagnostics import FAIL, NOT_EVALUATED, PASS
from steropes.studies.sccs.layout import KEYS, TABLES
from steropes.studies.sccs.presets import case_series_settings
from steropes.studies.sccs.settings import CaseSeriesSettings, Spline
from steropes.studies.sccs.study import case_series
from steropes.studies.sccs.thresholds import Thresholds

__all__ = [
    "CaseSeriesGrid",
    "CaseSeriesGridResults",
    "SeriesAnalysis",
    "SeriesQuestion",
    "read_case_series_grid",
    "run_case_series_grid",
]

RESULTS, ARCHIVE = "results.duckdb", "results.zip"
SPLINES = ("age", "season", "calendar")
COUNTED = ("subjects", "events", "periods", "days", "eras", "outcomes")
CHECKS = ("time_stability", "event_exposure", "event_observation", "rare_outcome")


@dataclass(frozen=True)
class SeriesQuestion:
    """An exposure and an outcome.

    Attributes
    ----------
    exposure, outcome : int
    true_ratio : float, optional
        The effect that is known: 1 for a negative control. Without it the question is of interest.
    """

    exposure: int
    outcome: int
    true_ratio: float | None = None

    def __post_init__(self) -> None:
        concept("exposure", self.exposure)
        concept("outcome", self.outcome)
        if self.true_ratio is not None:
            real("true_ratio", self.true_ratio, 1e-6, 1e6)

    @property
    def number(self) -> int:
        """A number for the pair: a checksum."""
        return zlib.crc32(repr((self.exposure, self.outcome)).encode())


@dataclass(frozen=True)
class SeriesAnalysis:
    """How a question is answered.

    Attributes
    ----------
    id : int
    description : str
    settings : dict
        Arguments of `case_series_settings`; a spline may be its number of knots.
    """

    id: int
    description: str
    settings: Mapping[str, Any]

    def __post_init__(self) -> None:
        whole("id", self.id, 0)
        text("description", self.description)
        known = {k: tuple(v) if isinstance(v, list) else v for k, v in self.settings.items()}
        for name in ("outcome", "exposure"):
            if name in known:
                raise DataError(f"analysis {self.id}: {name} belongs to the questions")
        object.__setattr__(self, "settings", known)

    def settings_for(self, question: SeriesQuestion, grid: CaseSeriesGrid) -> CaseSeriesSettings:
        """The settings of one case series."""
        given = dict(self.settings)
        for name in SPLINES:
            if isinstance(given.get(name), int) and not isinstance(given[name], bool):
                given[name] = Spline(given[name])
        given |= {"thresholds": grid.thresholds, "min_cell": grid.min_cell, "schema": grid.schema}
        try:
            return case_series_settings(question.outcome, question.exposure, **given)
        except (TypeError, ValueError) as error:
            raise DataError(f"analysis {self.id}: {error}") from None


@dataclass(frozen=True)
class CaseSeriesGrid:
    """Questions × analyses.

    Attributes
    ----------
    questions : tuple of SeriesQuestion
    analyses : tuple of SeriesAnalysis
    thresholds : Thresholds
    database_id : str, default "database"
    schema : str, default "main"
    min_cell : int, default 5
    """

    questions: tuple[SeriesQuestion, ...]
    analyses: tuple[SeriesAnalysis, ...]
    thresholds: Thresholds = field(default_factory=Thresholds)
    database_id: str = "database"
    schema: str = "main"
    min_cell: int = 5

    def __post_init__(self) -> None:
        object.__setattr__(self, "questions", tuple(self.questions))
        object.__setattr__(self, "analyses", tuple(self.analyses))
        for name in ("questions", "analyses"):
            if not getattr(self, name):
                raise DataError(f"a grid of case series needs {name}")
        keys: dict[str, list[Any]] = {
            "question": [(q.exposure, q.outcome) for q in self.questions],
            "analysis": [a.id for a in self.analyses],
        }
        for what, ids in keys.items():
            if len({*ids}) < len(ids):
                raise DataError(f"{what} {next(i for i in ids if ids.count(i) > 1)} is there twice")
        text("database_id", self.database_id)
        text("schema", self.schema)
        whole("min_cell", self.min_cell, 0)


@dataclass(frozen=True, repr=False, eq=False)
class CaseSeriesGridResults:
    """The results of a grid.

    Attributes
    ----------
    path : Path
        The DuckDB file.
    tables : dict of str to DataFrame
        Its tables, sorted by their keys, without small cells.
    """

    path: Path
    tables: dict[str, pd.DataFrame]

    def __repr__(self) -> str:
        found = self.tables["sccs_result"]
        shown = int(self.tables["sccs_diagnostics_summary"]["unblind"].sum())
        return (
            f"CaseSeriesGridResults({len(found):,} results, "
            f"{int(found['log_rr'].notna().sum()):,} with an estimate, "
            f"{shown:,} that pass all diagnostics)"
        )

    def estimates(self, unblind: bool = False) -> pd.DataFrame:
        """Estimates of the questions of interest; blinded where a diagnostic fails.

        Parameters
        ----------
        unblind : bool, default False
            Show those too that fail a diagnostic.
        """
        key = ["analysis_id", "exposures_outcome_set_id"]
        t = self.tables
        found = t["sccs_result"].merge(
            t["sccs_diagnostics_summary"][[*key, "covariate_id", "unblind"]],
            on=[*key, "covariate_id"],
        )
        found = found.merge(t["sccs_exposures_outcome_set"], on="exposures_outcome_set_id")
        found = found.merge(t["sccs_exposure"], on="exposures_outcome_set_id")
        found = found.merge(t["note"][[*key, "note"]], on=key, how="left")
        found = found[found["true_effect_size"].isna()].reset_index(drop=True)
        if not unblind:
            hidden = [
                c for c in found if any(p in c for p in ("rr", "ci_95", "llr")) or c.endswith("p")
            ]
            found.loc[found["unblind"] == 0, hidden] = np.nan
        return found


def read_case_series_grid(path: str | Path) -> CaseSeriesGrid:
    """Read a specification, a TOML file.

    Tables ``[[question]]`` (``exposure``, ``outcome``, ``true_ratio``) and ``[[analysis]]``
    (``id``, ``description`` and arguments of `case_series_settings`), a table ``[thresholds]``,
    and ``database_id``, ``schema``, ``min_cell``; ``controls`` is a list of outcomes that are
    negative controls of every exposure.
    """
    path = Path(path)
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path.name}: {error}") from None
    known = {"question", "analysis", "thresholds", "controls", "database_id", "schema", "min_cell"}
    unknown = sorted({*given} - known)
    if unknown:
        raise DataError(f"{path.name}: there is no setting {unknown[0]!r}")
    questions = [
        _made(SeriesQuestion, q, f"{path.name}: question") for q in given.pop("question", [])
    ]
    pairs = {(q.exposure, q.outcome) for q in questions}
    for outcome in given.pop("controls", []):
        for exposure in dict.fromkeys(q.exposure for q in questions):
            if (exposure, outcome) not in pairs:
                questions.append(SeriesQuestion(exposure, outcome, 1.0))
    analyses = []
    for a in given.pop("analysis", []):
        own = {k: v for k, v in a.items() if k not in ("id", "description")}
        parts = {"id": a.get("id"), "description": a.get("description", "case series")}
        analyses.append(SeriesAnalysis(**parts, settings=own))
    limits = _made(Thresholds, given.pop("thresholds", {}), f"{path.name}: thresholds")
    return CaseSeriesGrid(tuple(questions), tuple(analyses), limits, **given)


def _made(kind: Any, given: Mapping[str, Any], where: str) -> Any:
    unknown = sorted({*given} - {f.name for f in fields(kind)})
    if unknown:
        raise DataError(f"{where} has no setting {unknown[0]!r}")
    try:
        return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})
    except TypeError as error:
        raise DataError(f"{where}: {error}") from None


def run_case_series_grid(
    database: str | Path | Any,
    grid: CaseSeriesGrid,
    output: str | Path,
    *,
    cohorts: CohortTable | None = None,
    progress: Callable[[str], None] | None = None,
) -> CaseSeriesGridResults:
    """Run a grid; go on where an earlier run of the same was interrupted.

    Parameters
    ----------
    database : str, Path, connection or OmopDatabase
        Whatever `OmopDatabase` opens, or one that is open.
    grid : CaseSeriesGrid
    output : str or Path
        Folder for ``results.duckdb`` and ``results.zip``, the tables as CSV.
    cohorts : CohortTable, optional
        Where outcomes or exposures are cohorts.
    progress : callable, optional
        Told each step.

    Raises
    ------
    DataError
        A setting that cannot be used, or a folder that holds results of something else. What goes
        wrong with one question is told in the table ``note``, and the rest goes on.
    """
    say = progress or (lambda _: None)
    steps = [(q, a, a.settings_for(q, grid)) for q in grid.questions for a in grid.analyses]
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    with (
        opened(database, grid.schema) as db,
        ResultStore(folder / RESULTS, _signature(db, grid, cohorts), TABLES, KEYS) as store,
    ):
        if "all" not in store.done:
            _work(db, grid, steps, cohorts, store, say)
            say("calibrating")
            _calibrate(store, grid)
            store.finish()
        store.export(folder / ARCHIVE)
        tables = {name: store.table(name) for name in TABLES}
    return CaseSeriesGridResults(folder / RESULTS, tables)


def _signature(db: OmopDatabase, grid: CaseSeriesGrid, cohorts: CohortTable | None) -> str:
    """What results depend on: the specification, the database, cohorts, the software's version."""
    from steropes import __version__

    parts: list[Any] = [__version__, db.identity, asdict(grid)]
    if cohorts is not None:
        entries = (cohorts.definition, cohorts.subject, cohorts.start, cohorts.end)
        parts.append([hashlib.sha256(v.tobytes()).hexdigest() for v in entries])
    return hashlib.sha256(json.dumps(parts, default=str, sort_keys=True).encode()).hexdigest()


def _work(
    db: OmopDatabase,
    grid: CaseSeriesGrid,
    steps: Sequence[tuple[SeriesQuestion, SeriesAnalysis, CaseSeriesSettings]],
    cohorts: CohortTable | None,
    store: ResultStore,
    say: Callable[[str], None],
) -> None:
    if "specification" not in store.done:
        store.add("specification", _specification(grid))
    done = store.done
    left = [s for s in steps if _name(s[0], s[1]) not in done]
    for k, (question, analysis, settings) in enumerate(left):
        say(f"{analysis.description} ({k + 1} of {len(left)})")
        store.add(_name(question, analysis), _step(db, grid, question, analysis, settings, cohorts))


def _name(question: SeriesQuestion, analysis: SeriesAnalysis) -> str:
    return f"{question.exposure} {question.outcome} {analysis.id}"


SPECIFIED = ("sccs_analysis", "sccs_exposure", "sccs_exposures_outcome_set")


def _specification(grid: CaseSeriesGrid) -> dict[str, list[dict[str, Any]]]:
    return {
        "sccs_analysis": [
            {"analysis_id": a.id, "description": a.description,
             "definition": json.dumps(a.settings, default=str, sort_keys=True)}
            for a in grid.analyses
        ],
        "sccs_exposure": [
            {"exposures_outcome_set_id": q.number, "era_id": q.exposure,
             "true_effect_size": q.true_ratio} for q in grid.questions
        ],
        "sccs_exposures_outcome_set": [
            {"exposures_outcome_set_id": q.number, "outcome_id": q.outcome}
            for q in grid.questions
        ],
    }  # fmt: skip


def _step(
    db: OmopDatabase,
    grid: CaseSeriesGrid,
    question: SeriesQuestion,
    analysis: SeriesAnalysis,
    settings: CaseSeriesSettings,
    cohorts: CohortTable | None,
) -> dict[str, list[dict[str, Any]]]:
    """The rows of one case series; those of a refusal say why."""
    key = {"analysis_id": analysis.id, "exposures_outcome_set_id": question.number}
    note = ""
    try:
        study = case_series(db, settings, cohorts=cohorts)
        tables = {
            name: table.to_dict("records")
            for name, table in study.tables(analysis.id, question.number, grid.database_id).items()
            if name not in (*SPECIFIED, "sccs_covariate_analysis")
        }
        said = study.estimates.loc[study.of_interest[0], "note"]
        note = study.model.status if study.model.status != "OK" else str(said)
    except DataError as error:
        note = str(error)
        line = {**key, "covariate_id": 1000, "database_id": grid.database_id}
        nobody = {c: 0 for c in TABLES["sccs_result"] if c.endswith(COUNTED)}
        unknown = {f"{c}_diagnostic": NOT_EVALUATED for c in (*CHECKS, "ease", "mdrr")}
        tables = {
            "sccs_result": [{**line, **nobody}],
            "sccs_diagnostics_summary": [{**line, **unknown, "mdrr": math.inf, "unblind": 0,
                                          "unblind_for_evidence_synthesis": 0}],
        }  # fmt: skip
    return {**tables, "note": [{**key, "note": note, "database_id": grid.database_id}]}


def _calibrate(store: ResultStore, grid: CaseSeriesGrid) -> None:
    """Fill in what needs all questions of an exposure: calibrated estimates, EASE, verdicts."""
    results, checks = store.table("sccs_result"), store.table("sccs_diagnostics_summary")
    exposure = store.table("sccs_exposure").set_index("exposures_outcome_set_id")
    eras = results["exposures_outcome_set_id"].map(exposure["era_id"])
    truth = results["exposures_outcome_set_id"].map(exposure["true_effect_size"])
    usable = ~checks[[f"{c}_diagnostic" for c in CHECKS]].eq(FAIL).any(axis=1)
    groups = results.groupby([eras, results["analysis_id"], results["covariate_id"]]).groups
    for rows in groups.values():
        of = results.loc[rows]
        se, log_rr = of["se_log_rr"].astype(float), of["log_rr"].astype(float)
        good = (truth.loc[rows] == 1) & usable.loc[rows] & (se > 0) & np.isfinite(log_rr)
        if good.sum() < LEAST_CONTROLS:
            continue
        error = fit_systematic_error(log_rr[good], se[good])
        for row in rows:
            c = calibrate(float(log_rr[row]), float(se[row]), error)
            for name, x in (("rr", c.log_rr), ("ci_95_lb", c.lower), ("ci_95_ub", c.upper)):
                results.loc[row, f"calibrated_{name}"] = (
                    math.exp(x) if math.isfinite(x) else math.nan
                )
            results.loc[row, ["calibrated_p", "calibrated_one_sided_p"]] = [c.p, c.one_sided_p]
            results.loc[row, ["calibrated_log_rr", "calibrated_se_log_rr"]] = [c.log_rr, c.se]
        checks.loc[rows, "ease"] = error.expected_absolute
        passed = error.expected_absolute < grid.thresholds.ease
        checks.loc[rows, "ease_diagnostic"] = PASS if passed else FAIL
    evaluated = results["log_rr"].notna()
    fit = usable & checks["ease_diagnostic"].ne(FAIL) & evaluated
    checks["unblind_for_evidence_synthesis"] = fit.astype(int)
    checks["unblind"] = (fit & checks["mdrr_diagnostic"].ne(FAIL)).astype(int)
    store.replace("sccs_result", results)
    store.replace("sccs_diagnostics_summary", checks)
