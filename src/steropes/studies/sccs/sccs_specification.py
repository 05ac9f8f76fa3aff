"""A grid of case series from a file, and the JSON Schema of such files."""

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
        Or the ratios alone.
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
    """What an analysis of a file can say; what it leaves out is None."""
    words = [(name, hint, field(default=None)) for name, hint in analysis_setting_types().items()]
    own: list[Any] = [("id", int), ("description", str, field(default="case series"))]
    made = dataclasses.make_dataclass("SeriesAnalysis", [*own, *words], frozen=True)
    made.__doc__ = "How questions are answered; what is left out is as in `case_series_settings`."
    return made


def case_series_grid_schema() -> dict[str, Any]:
    """The JSON Schema of a specification."""
    schema = schema_of(CaseSeriesSpecification)
    kinds = schema["$defs"]
    schema["properties"]["analysis"] = {
        "type": "array",
        "items": schema_part(_analysis_class(), kinds),
    }
    schema["required"].append("analysis")
    # the first field alone will do: a number of knots, the ratios
    schema["properties"]["positive"]["anyOf"].append(
        kinds["SeriesPositives"]["properties"]["ratios"]
    )
    for name in SPLINES:
        kinds["SeriesAnalysis"]["properties"][name]["anyOf"].append(
            kinds["Spline"]["properties"]["knots"]
        )
    return schema


def read_case_series_grid(path: str | Path) -> CaseSeriesGrid:
    """Read a specification, a .toml or a .json file.

    Tables ``[[question]]`` (``exposure``, ``outcome``, ``true_ratio``) and ``[[analysis]]``
    (``id``, ``description`` and arguments of `case_series_settings`; of a spline its number of
    knots will do), a table ``[thresholds]``, and ``database_id``, ``schema``, ``min_cell``,
    ``time_zone``;
    ``controls`` is a list of outcomes that are negative controls of every exposure, and
    ``positive`` the ratios of the positive controls to make of them (or a table of the settings of
    `SeriesPositives`). A table ``[cohorts]`` says where cohorts come from, as in the specification
    of a comparative grid (`CohortSources`). `case_series_grid_schema` is all of it.

    Raises
    ------
    DataError
        A name that does not exist or a value that cannot be, with the line.
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
    """The questions with the negative controls of every exposure."""
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
                    f"exposure {exposure}; it can be one of the two"
                )
    if spec.positive is not None and not any(q.true_ratio == 1.0 for q in made):
        raise DataError(
            f"{source.where(('positive',))}: positive controls are made of negative ones, and no "
            "negative is listed"
        )
    return tuple(made)


def _analyses(asked: Any, source: Source) -> tuple[SeriesAnalysis, ...]:
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
