"""Settings of designs from files and options, with cohorts or concepts as their roles."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from steropes.designs.settings.settings_base_class import Settings
from steropes.studies.cohorts.cohort_sources import CohortSources, with_texts
from steropes.studies.settings.settings_reader import Source

__all__ = ["read_design", "read_settings"]

Design = TypeVar("Design", bound=Settings)


def read_settings(
    kind: type[Design],
    source: str | Path | Mapping[str, Any],
    given: Mapping[str, Any] | None = None,
    concepts: Mapping[str, Iterable[str]] | None = None,
) -> Design:
    """Read settings that may have sources of cohorts.

    Parameters
    ----------
    kind : type
        The class of the settings.
    source : path or mapping
        A ``.toml`` or ``.json`` file, or its values.
    given : mapping, optional
        Values that take precedence; tables are merged.
    concepts : mapping of str to iterable of str, optional
        Settings whose ids are concepts unless they are cohorts, by the kind of cohort ("drugs",
        "conditions" or "indications").

    Raises
    ------
    DataError
        A name is unknown, or a value is missing or invalid; the message has the line.
    """
    if isinstance(source, Mapping):
        folder, read = Path(), Source(json.dumps(source, default=str), "the settings", "json")
    else:
        folder, read = Path(source).parent, Source.read(source)
    values = dict(read.values)
    if "cohorts" in values:
        values["cohorts"] = with_texts(values["cohorts"], folder, read)
    for name, value in (given or {}).items():
        stated = values.get(name)
        merges = isinstance(value, Mapping) and isinstance(stated, Mapping)
        values[name] = {**(stated or {}), **value} if merges else value
    if concepts is not None:
        values["cohorts"] = _with_concepts(values, concepts)
    return kind.read(values, read)


def read_design(
    kind: type[Design],
    source: Path | None,
    given: Mapping[str, Any],
    cohorts: CohortSources | None,
    concepts: Mapping[str, Iterable[str]],
) -> Design:
    """Read the settings of a command: a file, if there is one, and options.

    Parameters
    ----------
    kind : type
        The class of the settings.
    source : Path, optional
        The file.
    given : mapping
        Options, which take precedence.
    cohorts : CohortSources, optional
        Cohorts of options.
    concepts : mapping
        As of `read_settings`.
    """
    made = {} if cohorts is None else {"cohorts": {k: v for k, v in asdict(cohorts).items() if v}}
    stated: Path | dict[str, Any] = {} if source is None else source
    options = {name: list(v) if isinstance(v, tuple) else v for name, v in given.items()}
    return read_settings(kind, stated, options | made, concepts)


def _with_concepts(values: Mapping[str, Any], concepts: Mapping[str, Iterable[str]]) -> Any:
    """Add a cohort for each id of a role that is no cohort; ids of a cohort table all are."""
    cohorts = values.get("cohorts", {})
    if not isinstance(cohorts, Mapping) or cohorts.get("table"):
        return cohorts
    found = dict(cohorts)
    parts = [found.get(k, {}) for k in ("drugs", "conditions", "definitions", "indications")]
    defined = {str(i) for part in parts if isinstance(part, Mapping) for i in part}
    for kind, names in concepts.items():
        listed = [values.get(name) for name in names]
        ids = [i for v in listed for i in (v if isinstance(v, list) else [v])]
        added = {str(i): {"include": [i]} for i in ids if i is not None and str(i) not in defined}
        if added and isinstance(found.get(kind, {}), Mapping):
            found[kind] = {**found.get(kind, {}), **added}
    return found
