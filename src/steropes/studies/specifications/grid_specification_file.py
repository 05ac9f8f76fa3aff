"""Reading of the specification of a grid from a file or a mapping, with checks of its cohorts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from steropes.designs.settings.value_checks import Place
from steropes.errors import DataError
from steropes.studies.cohorts.cohort_sources import with_texts
from steropes.studies.comparative.cohort_method_presets import cohort_method
from steropes.studies.settings.schema_generation import schema_of
from steropes.studies.settings.settings_reader import Source
from steropes.studies.specifications.grid_specification import GridSpec

__all__ = ["PRESET", "grid_schema", "read_spec", "require_database_id"]

# Description of the key that only files have.
PRESET = (
    "Defaults of R's CohortMethod instead of those listed: time at risk from the start to the end "
    "of the cohort, prior outcomes within the observation period, the profile interval, Breslow's "
    "ties, and years of 365.25 days."
)


def read_spec(source: str | Path | Mapping[str, object]) -> GridSpec:
    """Read a specification.

    Parameters
    ----------
    source : path or mapping
        A ``.toml`` or ``.json`` file, or its values. In an ``analysis`` table ``preset =
        "cohort_method"`` starts from the defaults of R's CohortMethod.

    Returns
    -------
    GridSpec
        The specification.

    Raises
    ------
    DataError
        A name is unknown, a value is invalid, or a cohort is not defined; the message has the line.

    Examples
    --------
    >>> from steropes.studies import read_spec
    >>> spec = read_spec({
    ...     "cohorts": {"table": "cohort"},
    ...     "question": [{"target": 1, "comparator": 2, "outcomes": [3]}],
    ...     "analysis": [{"id": 1}],
    ... })
    >>> spec.question[0].outcomes[0].id
    3
    """
    if isinstance(source, Mapping):
        read = Source(json.dumps(source, default=str), "the specification", "json")
    else:
        read = Source.read(source)
    values = dict(read.values)
    folder = Path() if isinstance(source, Mapping) else Path(source).parent
    if "cohorts" in values:
        values["cohorts"] = with_texts(values["cohorts"], folder, read)
    listed = values.get("analysis", [])
    if isinstance(listed, list):
        values["analysis"] = [_preset(a, read, ("analysis", i)) for i, a in enumerate(listed)]
    spec = GridSpec.read(values, read)
    _check_references(spec, read)
    return spec


def _preset(values: object, source: Source, place: Place) -> object:
    """Fill in the settings of the preset of an analysis."""
    if not isinstance(values, Mapping) or "preset" not in values:
        return values
    own = {k: v for k, v in values.items() if k != "preset"}
    if values["preset"] != "cohort_method":
        where = source.where((*place, "preset"))
        raise DataError(f"{where}: there is no preset {values['preset']!r}, only 'cohort_method'")
    preset = asdict(cohort_method())
    made = dict(own)
    for part, differs in (
        ("cohorts", ("age_rule",)),
        ("at_risk", ("start", "end", "end_anchor", "look_back")),
        ("outcome_model", ("interval", "ties")),
    ):
        if isinstance(own.get(part, {}), Mapping):  # another type is refused with its line
            made[part] = {n: preset[part][n] for n in differs} | dict(own.get(part, {}))
    return made


def grid_schema() -> dict[str, object]:
    """Return the JSON Schema of a specification."""
    schema: dict[str, Any] = schema_of(GridSpec)
    analysis = schema["$defs"]["StudyAnalysis"]["properties"]
    analysis["preset"] = {"const": "cohort_method", "description": PRESET}
    return schema


def require_database_id(path: str | Path) -> None:
    """Refuse a file without the name of the database.

    The name identifies the results when databases are combined. Objects created in Python have a
    default.
    """
    source = Source.read(path)
    if "database_id" not in source.values:
        raise DataError(
            f"{source.name}: database_id is missing; it identifies the results when databases "
            'are combined: write database_id = "a name for this database"'
        )


def _check_references(spec: GridSpec, source: Source) -> None:
    """Refuse ids of cohorts that are not defined.

    Parameters
    ----------
    spec : GridSpec
        With a cohort table nothing is refused, since the table may contain every id.
    source : Source
        The file of the specification.
    """
    cohorts = spec.cohorts
    if cohorts.table:
        return
    defined = {*cohorts.defined, *spec.controls.concepts}
    for what, cohort, place in _used(spec):
        if cohort not in defined:
            raise DataError(
                f"{source.where(place)}: {what} {cohort} is not defined; define cohort {cohort} in "
                "[cohorts.drugs], [cohorts.conditions] or [cohorts.definitions], or name a cohort "
                "table that has it (table in [cohorts])"
            )


def _used(spec: GridSpec) -> Iterator[tuple[str, int, Place]]:
    """Yield the use, the id and the place of every reference to a cohort."""
    for i, q in enumerate(spec.question):
        yield "target", q.target, ("question", i, "target")
        yield "comparator", q.comparator, ("question", i, "comparator")
        if q.nesting is not None:
            yield "nesting cohort", q.nesting, ("question", i, "nesting")
        for outcome in q.outcomes:
            yield "outcome", outcome.id, ("question", i, "outcomes")
    for control in spec.controls.cohorts:
        yield "negative control", control, ("controls", "cohorts")
    for i, a in enumerate(spec.analysis):
        if a.competing is not None:
            yield "competing outcome", a.competing, ("analysis", i, "competing")
        if a.nesting is not None:
            yield "nesting cohort", a.nesting, ("analysis", i, "nesting")
    for cohort in spec.cohorts.names:
        yield "the named cohort", cohort, ("cohorts", "names", str(cohort))
