"""FeatureExtraction's covariate settings, and their translation to covariate rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from steropes.errors import DataError
from steropes.studies.covariates.concept_selection import ConceptSelection
from steropes.studies.covariates.covariate_analysis_catalogue import ANALYSES
from steropes.studies.covariates.feature_extraction import FeatureRules
from steropes.studies.strategus_plans.r_json_values import (
    ATTRIBUTES,
    CODE,
    Flag,
    Identifier,
    Items,
    JsonPath,
    RDays,
    RModel,
    json_path,
    parsed,
)

__all__ = ["CovariateSettings", "covariate_rules", "read_covariate_settings"]

DEFAULT_FUNCTION = "getDbDefaultCovariateData"
# FeatureExtraction's analyses that are not available here.
UNAVAILABLE = {
    "DemographicsPostObservationTime", "DemographicsTimeInCohort", "CareSiteId", "Hfrs",
    "ConditionOccurrencePrimaryInpatientAnyTimePrior",
    "ConditionOccurrencePrimaryInpatientLongTerm",
    "ConditionOccurrencePrimaryInpatientMediumTerm",
    "ConditionOccurrencePrimaryInpatientShortTerm",
}  # fmt: skip
NUMBERS = {analysis.name: number for number, analysis in ANALYSES.items()}


class CovariateSettings(RModel):
    """Settings that all covariate settings of R have besides the flags of analyses."""

    temporal: Flag = False
    temporal_sequence: Flag = False
    included_covariate_concept_ids: Items[Identifier] = ()
    included_covariate_ids: Items[Identifier] = ()
    add_descendants_to_include: Flag = False
    excluded_covariate_concept_ids: Items[Identifier] = ()
    add_descendants_to_exclude: Flag = False

    @property
    def selection(self) -> ConceptSelection:
        """The concepts to include and to exclude."""
        return ConceptSelection(
            tuple(dict.fromkeys(self.excluded_covariate_concept_ids)),
            tuple(dict.fromkeys(self.included_covariate_concept_ids)),
            self.add_descendants_to_exclude,
            self.add_descendants_to_include,
            "note",
        )


class _Terms(CovariateSettings):
    """Settings of covariates before the index, with long, medium and short terms."""

    long_term_start_days: RDays = -365
    medium_term_start_days: RDays = -180
    short_term_start_days: RDays = -30
    end_days: RDays = 0


Model = TypeVar("Model", bound=CovariateSettings)


def read_covariate_settings(
    settings: object,
    path: JsonPath,
    model: type[Model],
    analyses: Collection[str],
    functions: Sequence[str] = (DEFAULT_FUNCTION,),
) -> tuple[dict[str, bool], Model]:
    """Read covariate settings: the flags of analyses, and the other settings.

    Parameters
    ----------
    settings : mapping
        Settings as R writes them.
    model : type
        The other settings.
    analyses : collection of str
        The flags that may be there.
    functions : sequence of str
        Functions of R that may compute the covariates; the first is the default.

    Raises
    ------
    DataError
        A setting is unknown or of the wrong type, or another function computes the covariates.
    """
    if not isinstance(settings, Mapping):
        raise DataError(f"{json_path(path)} must be an object of covariate settings")
    function = settings.get("attr_fun", functions[0])
    if CODE in settings or function not in functions:
        raise DataError(
            f"{json_path((*path, 'attr_fun'))}: covariates come from a function of R "
            f"({str(function)[:60]}), which cannot be run"
        )
    flags = {k: v for k, v in settings.items() if k in analyses}
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise DataError(f"{json_path((*path, name))} must be true or false")
    known = {*flags, *ATTRIBUTES, "attr_fun"}
    return flags, parsed(model, {k: v for k, v in settings.items() if k not in known}, path)


def covariate_rules(
    settings: object, path: JsonPath, elsewhere: Collection[str] = ()
) -> tuple[FeatureRules, tuple[int, ...]]:
    """Translate covariate settings.

    Parameters
    ----------
    settings : mapping
        Settings as ``createCovariateSettings`` writes them, or a list of them, which may differ in
        their analyses only.
    elsewhere : collection of str
        Analyses that the caller computes; their flags are ignored.

    Returns
    -------
    FeatureRules
        The rules.
    tuple of int
        The only covariate ids to use; empty for all.

    Raises
    ------
    DataError
        A setting is unknown, or has no counterpart.
    """
    if isinstance(settings, list):
        if not settings:
            raise DataError(f"{json_path(path)} must have covariate settings")
        if len(settings) > 1:
            return _joined(settings, path, elsewhere)
        settings, path = settings[0], (*path, 0)
    flags, rest = read_covariate_settings(settings, path, _Terms, NUMBERS.keys() | UNAVAILABLE)
    for name, value in (("temporal", rest.temporal), ("temporalSequence", rest.temporal_sequence)):
        if value:
            raise DataError(
                f"{json_path((*path, name))}: covariates of several times have no counterpart here"
            )
    unavailable = UNAVAILABLE - {*elsewhere}
    gone = next((name for name in flags if flags[name] and name in unavailable), None)
    if gone is not None:
        raise DataError(f"{json_path((*path, gone))}: this covariate analysis is not available")
    included = tuple(dict.fromkeys(rest.included_covariate_concept_ids))
    rules = FeatureRules(
        tuple(NUMBERS[name] for name, on in flags.items() if on and name in NUMBERS),
        long_days=-rest.long_term_start_days,
        medium_days=-rest.medium_term_start_days,
        short_days=-rest.short_term_start_days,
        end_day=rest.end_days,
        exclude=rest.excluded_covariate_concept_ids,
        include=included,
        descendants=rest.add_descendants_to_exclude,
        include_descendants=rest.add_descendants_to_include if included else None,
        unknown="note",
    )
    return rules, rest.included_covariate_ids


def _joined(
    settings: list[object], path: JsonPath, elsewhere: Collection[str]
) -> tuple[FeatureRules, tuple[int, ...]]:
    """Join several settings, whose covariates R puts side by side.

    Raises
    ------
    DataError
        Settings differ in more than their analyses.
    """
    each = [covariate_rules(one, (*path, i), elsewhere) for i, one in enumerate(settings)]
    rules, only = each[0]
    numbers = [number for of, _ in each for number in of.analyses]
    for i, (of, ids) in enumerate(each):
        if replace(of, analyses=rules.analyses) != rules or ids != only:
            raise DataError(
                f"{json_path((*path, i))}: several covariate settings at once may differ in their "
                "analyses only, not in windows and concepts"
            )
    return replace(rules, analyses=tuple(dict.fromkeys(numbers))), only
