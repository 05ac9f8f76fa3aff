"""What a grid of case series asks: questions × analyses, as objects or from a TOML file."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from steropes.errors import DataError
from steropes.studies.grid.cohorts import CohortSources, with_texts
from steropes.studies.grid.reading import Source, build
from steropes.studies.requirements import concept, real, text, whole
from steropes.studies.sccs.cohorts import cohort_settings
from steropes.studies.sccs.positive import SeriesPositives
from steropes.studies.sccs.presets import case_series_settings
from steropes.studies.sccs.settings import CaseSeriesSettings, Spline
from steropes.studies.sccs.thresholds import Thresholds

__all__ = ["CaseSeriesGrid", "SeriesAnalysis", "SeriesQuestion", "read_case_series_grid"]

SPLINES = ("age", "season", "calendar")


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

    def settings_for(
        self, question: SeriesQuestion, grid: CaseSeriesGrid, made: bool = False
    ) -> CaseSeriesSettings:
        """The settings of one case series; of an outcome that was ``made`` it is a cohort."""
        given = dict(self.settings)
        if made:
            given["outcomes_from"] = "cohort"
        for name in SPLINES:
            if isinstance(given.get(name), int) and not isinstance(given[name], bool):
                given[name] = Spline(given[name])
        given |= {"thresholds": grid.thresholds, "min_cell": grid.min_cell, "schema": grid.schema}
        given = cohort_settings(grid.cohorts, question.outcome, question.exposure) | given
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
    positive : SeriesPositives, optional
        Make positive controls of all negative ones, of the ratios that are listed.
    cohorts : CohortSources, optional
        Where cohorts come from. Outcomes and exposures whose ids it defines are cohorts; with a
        table, all are.
    """

    questions: tuple[SeriesQuestion, ...]
    analyses: tuple[SeriesAnalysis, ...]
    thresholds: Thresholds = field(default_factory=Thresholds)
    database_id: str = "database"
    schema: str = "main"
    min_cell: int = 5
    positive: SeriesPositives | None = None
    cohorts: CohortSources | None = None

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


def read_case_series_grid(path: str | Path) -> CaseSeriesGrid:
    """Read a specification, a TOML file.

    Tables ``[[question]]`` (``exposure``, ``outcome``, ``true_ratio``) and ``[[analysis]]``
    (``id``, ``description`` and arguments of `case_series_settings`), a table ``[thresholds]``,
    and ``database_id``, ``schema``, ``min_cell``; ``controls`` is a list of outcomes that are
    negative controls of every exposure, and ``positive`` the ratios of the positive controls to
    make of them (or a table of the settings of `SeriesPositives`). A table ``[cohorts]`` says
    where cohorts come from, as in the specification of a comparative grid (`CohortSources`).
    """
    path = Path(path)
    source = Source.read(path)
    given = dict(source.values)
    known = {"question", "analysis", "thresholds", "controls", "positive", "database_id", "schema",
             "min_cell", "cohorts"}  # fmt: skip
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
    if "positive" in given:
        asked = given["positive"]
        asked = asked if isinstance(asked, dict) else {"ratios": asked}
        given["positive"] = _made(SeriesPositives, asked, f"{path.name}: positive")
    if "cohorts" in given:
        values = with_texts(given["cohorts"], path.parent)
        given["cohorts"] = build(CohortSources, values, source, ("cohorts",))
    return CaseSeriesGrid(tuple(questions), tuple(analyses), limits, **given)


def _made(kind: Any, given: Mapping[str, Any], where: str) -> Any:
    unknown = sorted({*given} - {f.name for f in fields(kind)})
    if unknown:
        raise DataError(f"{where} has no setting {unknown[0]!r}")
    try:
        return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})
    except (TypeError, DataError) as error:
        raise DataError(f"{where}: {error}") from None
