"""Names of the covariates in the catalogue, for display."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.covariates.covariate_analysis_catalogue import ANALYSES, Analysis
from steropes.studies.covariates.covariate_sql import OTHER_UNIT
from steropes.studies.database.concept_names_and_descendants import UNNAMED
from steropes.studies.database.omop import OmopDatabase

__all__ = ["CUSTOM", "LENGTHS", "covariate_table"]

CUSTOM = 999  # The analysis number of cohorts that are used as covariates.
WINDOW = {
    "any": "ever before",
    "long": "long term",
    "medium": "medium term",
    "short": "short term",
    "overlap": "on the last day",
    "": "",
}
RANGE = {1: "below the normal range", 2: "within the normal range", 3: "above the normal range"}
MONTHS = "January February March April May June July August September October November December"
LENGTHS = {
    2: "age in years",
    8: "days of observation before",
    9: "observation time (days) after index",
    10: "time (days) between cohort start and end",
}
SCORES = {
    901: "Charlson comorbidity index",
    902: "Diabetes complications severity index",
    903: "CHADS2",
    904: "CHA2DS2-VASc",
}


def covariate_table(
    db: OmopDatabase,
    ids: NDArray,
    cohorts: CohortTable | None = None,
    units: Mapping[int, int] | None = None,
    catalogue: Mapping[int, Analysis] = ANALYSES,
) -> pd.DataFrame:
    """Describe covariates by their id, name, analysis and concept.

    Parameters
    ----------
    db : OmopDatabase
        Source of the concepts' names.
    ids : ndarray of int, shape (p,)
    cohorts : CohortTable, optional
        Source of the names of cohorts that are used as covariates.
    units : mapping of int to int, optional
        The units of covariates of values, by covariate id.
    catalogue : mapping of int to Analysis
        The analyses by their numbers.

    Returns
    -------
    DataFrame
        ``covariate_id``, ``name``, ``analysis_id``, ``concept_id`` (0 if there is none).
    """
    analysis = ids % 1000
    concept = np.array(
        [_concept(int(i), int(a), catalogue) for i, a in zip(ids, analysis, strict=True)]
    )
    units = units or {}
    named = {*concept.tolist(), *units.values()}
    names = db.concept_names(sorted(named)) if named else {}
    return pd.DataFrame(
        {
            "covariate_id": ids,
            "name": [
                _name(int(i), int(a), int(c), names, cohorts, catalogue)
                + _unit(units.get(int(i)), names)
                for i, a, c in zip(ids, analysis, concept, strict=True)
            ],
            "analysis_id": analysis,
            "concept_id": concept.astype(np.int64),
        }
    )


def _concept(covariate: int, number: int, catalogue: Mapping[int, Analysis]) -> int:
    """Extract the concept from a covariate's id; 0 if the id contains none."""
    if number == CUSTOM or number in (3, 6, 7, 11):
        return 0
    kind = catalogue[number].kind
    if kind in ("length", "score", "distinct", "count", "value as concept"):
        return 0
    if kind == "value":
        return covariate % OTHER_UNIT // 1_000_000
    return covariate // (10_000 if kind == "range" else 1000)


def _name(
    covariate: int, number: int, concept: int, names: dict[int, str], cohorts: CohortTable | None,
    catalogue: Mapping[int, Analysis],
) -> str:  # fmt: skip
    """Name a covariate for display."""
    code = covariate // 1000
    if number == CUSTOM:
        return cohorts.name(code) if cohorts is not None else f"cohort {code}"
    analysis = catalogue[number]
    if analysis.kind == "score":
        return SCORES[number]
    if analysis.kind == "demographic":
        return _demographic(number, code, names)
    if analysis.kind == "length":
        return LENGTHS[number]
    when = "".join(
        f", {text}" for text in (WINDOW[analysis.window], "begun then" * analysis.begins) if text
    )
    if analysis.kind in ("distinct", "count"):
        counted = "visits" if analysis.kind == "count" else f"different {analysis.domain.lower()}s"
        return f"number of {counted}{when}"
    about = f"{analysis.domain.lower()}{' group' if analysis.kind == 'group' else ''}{when}: "
    if analysis.kind == "value as concept":
        return f"{about}value {covariate}"
    text = about + names.get(concept, UNNAMED)
    if analysis.kind == "range":
        return f"{text}, {RANGE.get(covariate // 1000 % 10, '')}"
    if analysis.kind == "value":
        return f"{text}, value"
    return f"{text}, visits" if analysis.kind == "by concept" else text


def _unit(unit: int | None, names: dict[int, str]) -> str:
    """Name the unit of a covariate of values; "" for other covariates."""
    if unit is None:
        return ""
    return f" ({names.get(unit, UNNAMED) if unit else 'unknown unit'})"


def _demographic(number: int, code: int, names: dict[int, str]) -> str:
    """Name a demographic covariate."""
    if number == 3:
        return f"age group: {5 * code}-{5 * code + 4}"
    if number == 6:
        return f"index year: {code}"
    if number == 7:
        return f"index month: {MONTHS.split()[code - 1]}"
    if number == 11:
        return f"index month: {MONTHS.split()[code % 100 - 1]} {code // 100}"
    kind = {1: "gender", 4: "race", 5: "ethnicity"}[number]
    return f"{kind}: {names.get(code, UNNAMED)}"
