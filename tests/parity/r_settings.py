"""Translation of SelfControlledCaseSeries 6 settings (JSON) to this package's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from steropes.errors import DataError
from steropes.studies.sccs.settings import (
    CaseRules,
    CaseSeriesSettings,
    ExposureWindow,
    Spline,
    control_window,
)

__all__ = ["settings_from_r"]


def settings_from_r(
    definition: str | Mapping[str, Any],
    outcome: int,
    exposures: Mapping[str, int],
    *,
    nesting_cohort: int | None = None,
    outcomes_from: Any = "cohort",
    exposures_from: Any = "cohort",
) -> CaseSeriesSettings:
    """Translate an analysis of SelfControlledCaseSeries 6.

    Parameters
    ----------
    definition : str or mapping
        The JSON of an analysis, as in ``sccs_analysis.csv``.
    outcome : int
        Id of the outcome.
    exposures : mapping of str to int
        Ids of R's placeholders, such as ``exposureId``.
    nesting_cohort : int, optional
    outcomes_from, exposures_from
        As in `CaseRules`.

    Raises
    ------
    DataError
        A setting has no counterpart.
    """
    given = json.loads(definition) if isinstance(definition, str) else definition
    data, people = given["getDbSccsDataArgs"], given["createStudyPopulationArgs"]
    cut, fit = given["createIntervalDataArgs"], given["fitSccsModelArgs"]
    loaded = _ids(data.get("exposureIds"), exposures)
    windows = tuple(_window(w, exposures, loaded) for w in _list(cut["eraCovariateSettings"]))
    rules = CaseRules(
        outcome,
        outcomes_from=outcomes_from,
        exposures_from=exposures_from,
        nesting_cohort=nesting_cohort,
        study_periods=_periods(data),
        first_outcome_only=bool(people["firstOutcomeOnly"]),
        naive_days=int(people["naivePeriod"] or 0),
        min_age=people["minAge"],
        max_age=people["maxAge"],
        age_rule="365.25 days",
        sexes=tuple(_list(people["genderConceptIds"])),
        restrict_to_exposure=people["restrictTimeToEraId"],
        max_cases=int(data.get("maxCasesPerOutcome") or 0),
        min_eras=int(data.get("deleteCovariatesSmallCount") or 0),
        seed=int(fit["control"]["seed"]),
    )
    control = cut.get("controlIntervalSettings")
    return CaseSeriesSettings(
        rules,
        windows,
        control=None if control is None else _control(control, exposures, loaded),
        age=_spline(cut.get("ageCovariateSettings"), "ageKnots"),
        season=_spline(cut.get("seasonalityCovariateSettings"), "seasonKnots"),
        calendar=_spline(cut.get("calendarTimeCovariateSettings"), "calendarTimeKnots"),
        spline_cases=int(cut.get("minCasesForTimeCovariates") or 10_000),
        end_of_observation_days=int(cut.get("endOfObservationEraLength") or 0),
        event_dependent_observation=bool(cut.get("eventDependentObservation")),
        prior=_prior(fit["prior"]),
        variance=None if fit["prior"]["useCrossValidation"] else fit["prior"]["variance"],
        folds=int(fit["control"]["fold"]),
        seed=int(fit["control"]["seed"]),
    )


def _window(
    given: Mapping[str, Any], exposures: Mapping[str, int], loaded: tuple[int, ...] | None
) -> ExposureWindow:
    return ExposureWindow(
        given["label"],
        _loaded(_ids(given["includeEraIds"], exposures), loaded),
        exclude=_ids(given["excludeEraIds"], exposures) or (),
        start=int(given["start"]),
        end=int(given["end"]),
        start_at=_anchor(given["startAnchor"]),
        end_at=_anchor(given["endAnchor"]),
        by_concept=bool(given["stratifyById"]),
        first_only=bool(given["firstOccurrenceOnly"]),
        penalized=bool(given["allowRegularization"]),
        of_interest=bool(given["exposureOfInterest"]),
        profile=bool(given["profileLikelihood"]),
        pre_exposure=bool(given["preExposure"]),
    )


def _control(
    given: Mapping[str, Any], exposures: Mapping[str, int], loaded: tuple[int, ...] | None
) -> ExposureWindow:
    return control_window(
        "Control interval",
        _loaded(_ids(given["includeEraIds"], exposures), loaded),
        start=int(given["start"]),
        end=int(given["end"]),
        start_at=_anchor(given["startAnchor"]),
        end_at=_anchor(given["endAnchor"]),
        first_only=bool(given["firstOccurrenceOnly"]),
    )


def _loaded(ids: tuple[int, ...] | None, loaded: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Keep the requested ids whose eras R loads."""
    if loaded is None:
        return ids
    return loaded if ids is None else tuple(i for i in ids if i in loaded)


def _ids(given: Any, exposures: Mapping[str, int]) -> tuple[int, ...] | None:
    """Resolve ids and placeholders for exposures; placeholders without an exposure are dropped."""
    if given is None:
        return None
    found = [exposures.get(i) if isinstance(i, str) else int(i) for i in _list(given)]
    return tuple(i for i in found if i is not None)


def _anchor(given: str) -> Any:
    return {"era start": "start", "era end": "end"}[given]


def _spline(given: Mapping[str, Any] | None, name: str) -> Spline | None:
    if given is None:
        return None
    knots = given[name]
    if isinstance(knots, Sequence) and any(isinstance(k, str) for k in knots):
        raise DataError(f"{name}: give knots that are dates as months since year 0")
    return Spline(
        int(knots) if not isinstance(knots, Sequence) else tuple(knots),
        penalized=bool(given["allowRegularization"]),
    )


def _prior(given: Mapping[str, Any]) -> Any:
    kind = given["priorType"]
    if kind not in ("laplace", "normal", "none"):
        raise DataError(f"prior {kind!r} has no counterpart")
    return kind


def _periods(data: Mapping[str, Any]) -> tuple:
    starts, ends = (_list(data.get(n)) for n in ("studyStartDates", "studyEndDates"))
    return tuple((_date(a), _date(b)) for a, b in zip(starts, ends, strict=True))


def _date(given: str) -> str | None:
    return f"{given[:4]}-{given[4:6]}-{given[6:]}" if given else None


def _list(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
