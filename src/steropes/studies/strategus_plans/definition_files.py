"""Files of cohort definitions as a specification of the diagnostics of their cohorts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from steropes.errors import DataError
from steropes.studies.strategus_plans.cohort_diagnostics_plan import COHORT_DIAGNOSTICS
from steropes.studies.strategus_plans.specification_text import specification_values

__all__ = ["specification_of_definitions"]

NUMBERED = re.compile(r"(\d{1,15})(?:[-_. ]|$)")  # The number that a file's name begins with.


def specification_of_definitions(
    paths: Sequence[str | Path], *, washout: int = 0, least_mean: float = 0.01, windows: bool = True
) -> dict[str, object]:
    """Read definitions of cohorts, and specify their diagnostics.

    Parameters
    ----------
    paths : sequence of path
        Definitions as ATLAS exports them, folders of these, or specifications of Strategus, of
        which all cohorts are examined. The id of a definition is that in the file, or the number
        that the name of the file begins with, or the next one that is free.
    washout : int
        Days of observation before the time at risk of the incidence.
    least_mean : float
        The smallest mean of a 0/1 covariate that is reported.
    windows : bool
        Whether to describe cohorts by covariates of time windows.

    Returns
    -------
    dict
        The values of a specification.

    Raises
    ------
    DataError
        A file cannot be read, two definitions have one id, or there is none.
    """
    resources: list[object] = []
    found: dict[int, tuple[str, str]] = {}
    unnumbered: list[tuple[str, str]] = []
    for path in _files(paths):
        values = specification_values(path)
        if "sharedResources" in values:
            shared = values["sharedResources"]
            resources += shared if isinstance(shared, list) else [shared]
            continue
        name = str(values.get("name") or path.stem)
        text = _definition(values.get("expression", values))
        number = _number(values, path)
        if number is None:
            unnumbered.append((name, text))
        elif number in found:
            raise DataError(f"{path}: another definition has the id {number} too")
        else:
            found[number] = (name, text)
    free = (i for i in range(1, len(found) + len(unnumbered) + 1) if i not in found)
    found |= dict(zip(free, unnumbered, strict=False))
    if not found and not resources:
        raise DataError("there is no cohort definition: name JSON files, or folders of them")
    if found:
        resources.append({"cohortDefinitions": [
            {"cohortId": i, "cohortName": name, "cohortDefinition": text}
            for i, (name, text) in sorted(found.items())
        ]})  # fmt: skip
    settings = {
        "irWashoutPeriod": washout,
        "minCharacterizationMean": least_mean,
        "runTemporalCohortCharacterization": windows,
    }
    return {
        "sharedResources": resources,
        "moduleSpecifications": [
            {"module": "CohortGeneratorModule", "settings": {"generateStats": True}},
            {"module": COHORT_DIAGNOSTICS, "settings": settings},
        ],
    }


def _definition(expression: object) -> str:
    """Return the JSON of a definition, which WebAPI also writes as text beside its name."""
    if isinstance(expression, str):
        return expression
    return json.dumps(expression, ensure_ascii=False)


def _files(paths: Sequence[str | Path]) -> Iterator[Path]:
    """Yield the files at some paths, those of folders in the order of their names."""
    for path in map(Path, paths):
        if path.is_dir():
            inner = sorted(p for p in path.iterdir() if p.suffix.lower() == ".json")
            if not inner:
                raise DataError(f"{path} has no JSON files")
            yield from inner
        else:
            yield path


def _number(values: Mapping[str, Any], path: Path) -> int | None:
    """Return the id of a definition; None if neither its content nor its file has one."""
    given = values.get("id")
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return given
    match = NUMBERED.match(path.stem)
    return int(match[1]) if match and int(match[1]) > 0 else None
