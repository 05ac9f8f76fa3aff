"""Steps that the translations of CohortMethodModule and SelfControlledCaseSeriesModule share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from steropes.errors import DataError
from steropes.studies.comparative.grid_questions_and_analyses import StudyAnalysis
from steropes.studies.sccs.specification.case_series_grid_settings import (
    SeriesAnalysis,
    SeriesExclusion,
)
from steropes.studies.specifications.grid_specification import Exclusion
from steropes.studies.strategus_plans.r_json_values import JsonPath, json_path, table_rows, within

__all__ = ["analysis_part", "inner_settings", "read_exclusions", "repeated"]

AnyAnalysis = TypeVar("AnyAnalysis", StudyAnalysis, SeriesAnalysis)
AnyExclusion = TypeVar("AnyExclusion", Exclusion, SeriesExclusion)


def inner_settings(settings: object, path: JsonPath, name: str) -> tuple[object, JsonPath]:
    """Return the settings of a module and their path, which newer versions wrap in a field."""
    if not isinstance(settings, Mapping) or name not in settings:
        return settings, path
    others = [n for n in settings if n != name and n[:5] != "attr_"]
    if others:
        raise DataError(f"{json_path((*path, others[0]))} is not known")
    return settings[name], (*path, name)


def analysis_part(values: object, number: int) -> str:
    """Name an analysis by id and description, as far as they can be read."""
    if not isinstance(values, Mapping):
        return f"analysis at position {number}"
    described = values.get("description")
    text = f"analysis {values.get('analysisId', f'at position {number}')}"
    return f"{text} ({described})" if isinstance(described, str) and described else text


def repeated(made: AnyAnalysis, before: Sequence[AnyAnalysis]) -> list[str]:
    """Note that an analysis has the settings of an earlier one."""
    for other in before:
        if replace(other, id=made.id, description=made.description) == made:
            return [f"it has the same settings as analysis {other.id}"]
    return []


def read_exclusions(
    frame: object, path: JsonPath, kind: type[AnyExclusion], names: Mapping[str, str]
) -> tuple[AnyExclusion, ...]:
    """Translate the results that are not computed.

    Parameters
    ----------
    frame : object
        A data frame of R as parsed JSON.
    kind : type
        The class of the exclusions.
    names : mapping of str to str
        R's names of their ids.
    """
    found = []
    for i, row in enumerate(table_rows(frame, path)):
        unknown = [name for name in row if name not in names]
        if unknown:
            raise DataError(f"{json_path((*path, unknown[0]))} is not known")
        try:
            ids = {names[name]: int(str(value)) for name, value in row.items()}
        except ValueError:
            raise DataError(f"{json_path((*path, i))} must have ids") from None
        with within((*path, i)):
            found.append(kind(**ids))
    return tuple(found)
