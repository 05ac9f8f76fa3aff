"""Specifications of grids of case series: parsing of files and their JSON Schema."""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import Count, Day, Listed, Name, TimeZone
from steropes.errors import DataError
from steropes.studies.cohorts.cohort_sources import CohortSources, with_texts
from steropes.studies.sccs.specification.case_series_grid_settings import (
    CaseSeriesGrid,
    SeriesAnalysis,
    SeriesPositives,
    SeriesQuestion,
)
from steropes.studies.sccs.specification.sccs_presets import analysis_fields
from steropes.studies.sccs.specification.sccs_thresholds import Thresholds
from steropes.studies.settings.concept_id_type import ConceptId
from steropes.studies.settings.schema_generation import schema_of
from steropes.studies.settings.settings_reader import Source

__all__ = ["case_series_grid_schema", "read_case_series_grid"]


def _analysis_table() -> type[Settings]:
    """Create the class of an analysis in a specification; omitted settings are None."""
    own = "id\n    Id of the analysis in result tables.\ndescription\n    Name in reports."
    known = analysis_fields()
    words = {name: f.hint | None for name, f in known.items()}
    listed = "\n".join(f"{name}\n    {f.description}" for name, f in known.items())
    body = {
        "__annotations__": {"id": Count, "description": Name, **words},
        "__doc__": f"Settings of an analysis.\n\nAttributes\n----------\n{own}\n{listed}",
        "__module__": __name__,
        "description": "case series",
        **dict.fromkeys(words),
    }
    return types.new_class(
        "SeriesAnalysis", (Settings,), exec_body=lambda names: names.update(body)
    )


AnalysisTable: Any = _analysis_table()


class CaseSeriesSpecification(Settings):
    """Questions and analyses of a grid of case series.

    Attributes
    ----------
    question : tuple of SeriesQuestion
        Exposures and outcomes.
    analysis : tuple of SeriesAnalysis
        Analyses, each of which answers all questions.
    controls : tuple of int
        Outcomes that are negative controls of every exposure.
    positive : SeriesPositives, optional
        Positive controls to create, or only their ratios.
    thresholds : Thresholds
        Thresholds of the diagnostics, which decide which results are shown.
    cohorts : CohortSources, optional
        Sources of cohorts. Outcomes and exposures with ids that it defines are cohorts; with a
        table, all are.
    database_id : str, default "database"
        Name of the database in result tables.
    schema : str, default "main"
        Schema of the CDM tables.
    min_cell : int, optional
        Smallest count to publish, if larger than that of the disclosure rules (5 by default).
    time_zone : str, default "UTC"
        Time zone that determines the dates of stored instants; see `OmopDatabase`.
    observed_until : date, optional
        End observation on this day at the latest, such as the day on which the data were extracted
        if observation periods end later, on placeholder dates. Default: with the observation
        periods.
    """

    question: Listed[SeriesQuestion]
    analysis: Listed[AnalysisTable]
    controls: Listed[ConceptId] = ()
    positive: SeriesPositives | None = None
    thresholds: Thresholds = field(default_factory=Thresholds)
    cohorts: CohortSources | None = None
    database_id: Name = "database"
    schema: Name = "main"
    min_cell: Count | None = None
    time_zone: TimeZone = "UTC"
    observed_until: Day | None = None


def case_series_grid_schema() -> dict[str, Any]:
    """Return the JSON Schema of a specification.

    Returns
    -------
    dict
        A JSON Schema, for editors and for validation outside of Python.

    Examples
    --------
    >>> from steropes.studies import case_series_grid_schema
    >>> "analysis" in case_series_grid_schema()["properties"]
    True
    """
    return schema_of(CaseSeriesSpecification)


def read_case_series_grid(path: str | Path) -> CaseSeriesGrid:
    """Read a specification from a .toml or .json file.

    It has tables ``[[question]]`` (``exposure``, ``outcome``, ``true_ratio``) and ``[[analysis]]``
    (``id``, ``description`` and arguments of `case_series_settings`; splines may be given by their
    number of knots), a table ``[thresholds]``, and ``database_id``, ``schema``,
    ``min_cell``, ``time_zone`` and ``observed_until``. ``controls`` is a list of outcomes that are
    negative controls of every exposure, and ``positive`` the ratios of the positive controls to
    create from them (or a table with the
    settings of `SeriesPositives`). A table ``[cohorts]`` defines the cohorts, as in the
    specification of a comparative grid (`CohortSources`). `case_series_grid_schema` describes all.

    Parameters
    ----------
    path : str or Path
        A .toml or .json file.

    Returns
    -------
    CaseSeriesGrid
        The grid.

    Raises
    ------
    DataError
        A name is unknown or a value is invalid; the message has the line.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from steropes.studies import read_case_series_grid
    >>> values = {"question": [{"exposure": 1118084, "outcome": 192671}],
    ...           "analysis": [{"id": 1, "description": "simple"}]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "grid.json"
    ...     _ = path.write_text(json.dumps(values))
    ...     grid = read_case_series_grid(path)
    >>> grid.questions[0].outcome
    192671
    """
    path = Path(path)
    source = Source.read(path)
    values = dict(source.values)
    if "cohorts" in values:
        values["cohorts"] = with_texts(values["cohorts"], path.parent, source)
    listed = values.get("analysis")
    for k, table in enumerate(listed if isinstance(listed, list) else ()):
        for name in ("outcome", "exposure"):
            if isinstance(table, Mapping) and name in table:
                where = source.where(("analysis", k, name))
                raise DataError(f"{where}: {name} belongs to the questions")
    spec = CaseSeriesSpecification.read(values, source)
    return CaseSeriesGrid(
        _questions(spec, source), tuple(_analysis(a) for a in spec.analysis), spec.thresholds,
        spec.database_id, spec.schema, spec.min_cell, spec.positive, spec.cohorts, spec.time_zone,
        observed_until=spec.observed_until,
    )  # fmt: skip


def _questions(spec: CaseSeriesSpecification, source: Source) -> tuple[SeriesQuestion, ...]:
    """Add the negative controls of every exposure to the questions."""
    place = source.where(("controls",))
    twice = next((c for c, n in Counter(spec.controls).items() if n > 1), None)
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


def _analysis(table: object) -> SeriesAnalysis:
    """Keep the settings of an analysis that are given."""
    given = {k: v for k, v in vars(table).items() if v is not None}
    return SeriesAnalysis(given.pop("id"), given.pop("description"), given)
