"""Specifications of grids of case series: parsing of files and their JSON Schema."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steropes.errors import DataError
from steropes.studies.execution.cohort_sources import CohortSources, with_texts
from steropes.studies.execution.settings_parser import (
    Source,
    build,
    must_be_list,
    schema_of,
    schema_part,
)
from steropes.studies.sccs.grid_settings import (
    SPLINES,
    CaseSeriesGrid,
    SeriesAnalysis,
    SeriesQuestion,
)
from steropes.studies.sccs.sccs_positive_controls import SeriesPositives
from steropes.studies.sccs.sccs_presets import analysis_setting_types
from steropes.studies.sccs.sccs_thresholds import Thresholds

__all__ = ["case_series_grid_schema", "read_case_series_grid"]


@dataclass(frozen=True)
class CaseSeriesSpecification:
    """Questions and analyses of a grid of case series.

    Attributes
    ----------
    question : tuple of SeriesQuestion
    controls : tuple of int
        Outcomes that are negative controls of every exposure.
    positive : SeriesPositives, optional
        Positive controls to create, or only their ratios.
    thresholds, cohorts, database_id, schema, min_cell, time_zone
        As in `CaseSeriesGrid`.
    """

    question: tuple[SeriesQuestion, ...]
    controls: tuple[int, ...] = ()
    positive: SeriesPositives | None = None
    thresholds: Thresholds = field(default_factory=Thresholds)
    cohorts: CohortSources | None = None
    database_id: str = "database"
    schema: str = "main"
    min_cell: int | None = None
    time_zone: str = "UTC"


def _analysis_class() -> type:
    """Create the class of an analysis in a specification; omitted settings are None."""
    words = [(name, hint, field(default=None)) for name, hint in analysis_setting_types().items()]
    own: list[Any] = [("id", int), ("description", str, field(default="case series"))]
    made = dataclasses.make_dataclass("SeriesAnalysis", [*own, *words], frozen=True)
    made.__doc__ = "How questions are answered; defaults are those of `case_series_settings`."
    return made


def case_series_grid_schema() -> dict[str, Any]:
    """Return the JSON Schema of a specification."""
    schema = schema_of(CaseSeriesSpecification)
    kinds = schema["$defs"]
    schema["properties"]["analysis"] = {
        "type": "array",
        "items": schema_part(_analysis_class(), kinds),
    }
    schema["required"].append("analysis")
    # The first field alone is accepted too: a number of knots, or the ratios.
    schema["properties"]["positive"]["anyOf"].append(
        kinds["SeriesPositives"]["properties"]["ratios"]
    )
    for name in SPLINES:
        kinds["SeriesAnalysis"]["properties"][name]["anyOf"].append(
            kinds["Spline"]["properties"]["knots"]
        )
    return schema


def read_case_series_grid(path: str | Path) -> CaseSeriesGrid:
    """Read a specification from a .toml or .json file.

    It has tables ``[[question]]`` (``exposure``, ``outcome``, ``true_ratio``) and ``[[analysis]]``
    (``id``, ``description`` and arguments of `case_series_settings`; splines may be given by their
    number of knots), a table ``[thresholds]``, and ``database_id``, ``schema``, ``min_cell`` and
    ``time_zone``. ``controls`` is a list of outcomes that are negative controls of every exposure,
    and ``positive`` the ratios of the positive controls to create from them (or a table with the
    settings of `SeriesPositives`). A table ``[cohorts]`` defines the cohorts, as in the
    specification of a comparative grid (`CohortSources`). `case_series_grid_schema` describes all.

    Raises
    ------
    DataError
        A name is unknown or a value is invalid; the message has the line.
    """
    path = Path(path)
    source = Source.read(path)
    values = dict(source.values)
    asked = values.pop("analysis", [])
    if "cohorts" in values:
        values["cohorts"] = with_texts(values["cohorts"], path.parent, source)
    spec = build(CaseSeriesSpecification, values, source)
    return CaseSeriesGrid(
        _questions(spec, source), _analyses(asked, source), spec.thresholds, spec.database_id,
        spec.schema, spec.min_cell, spec.positive, spec.cohorts, spec.time_zone,
    )  # fmt: skip


def _questions(spec: CaseSeriesSpecification, source: Source) -> tuple[SeriesQuestion, ...]:
    """Add the negative controls of every exposure to the questions."""
    place = source.where(("controls",))
    twice = next((c for c in spec.controls if spec.controls.count(c) > 1), None)
    if twice is not None:
        raise DataError(f"{place}: negative control {twice} is listed twice")
    listed = {(q.exposure, q.outcome): q.true_ratio for q in spec.question}
    made = list(spec.question)
    for control in spec.controls:
        for exposure in dict.fromkeys(q.exposure for q in spec.question):
            if (exposure, control) not in listed:
                made.append(SeriesQuestion(exposure, control, 1.0))
            elif listed[exposure, control] != 1.0:
                raise DataError(
                    f"{place}: negative control {control} is also an outcome of interest of "
                    f"exposure {exposure}; it can be only one of the two"
                )
    if spec.positive is not None and not any(q.true_ratio == 1.0 for q in made):
        raise DataError(
            f"{source.where(('positive',))}: positive controls are made from negative ones, and "
            "none are listed"
        )
    return tuple(made)


def _analyses(asked: Any, source: Source) -> tuple[SeriesAnalysis, ...]:
    """Parse the analyses of a specification."""
    if not isinstance(asked, list):
        raise DataError(f"{source.where(('analysis',))}: {must_be_list('analysis')}")
    cls, found = _analysis_class(), []
    for k, values in enumerate(asked):
        place = ("analysis", k)
        for name in ("outcome", "exposure"):
            if isinstance(values, Mapping) and name in values:
                raise DataError(f"{source.where((*place, name))}: {name} belongs to the questions")
        made = build(cls, values, source, place)
        given = {f.name: getattr(made, f.name) for f in dataclasses.fields(cls)}
        number, description = given.pop("id"), given.pop("description")
        settings = {k: v for k, v in given.items() if v is not None}
        try:
            found.append(SeriesAnalysis(number, description, settings))
        except DataError as error:
            raise DataError(f"{source.where(place)}: {error}") from None
    return tuple(found)
