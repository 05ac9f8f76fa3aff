"""Translation of Characterization's settings for covariates of target cohorts and of cases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from steropes.errors import DataError
from steropes.studies.covariates.covariate_analysis_catalogue import DURING
from steropes.studies.covariates.feature_extraction import FeatureRules
from steropes.studies.covariates.window_summaries import WindowRules
from steropes.studies.strategus_plans.characterization_cohort_lookup import known_cohorts
from steropes.studies.strategus_plans.r_covariate_settings import (
    CovariateSettings,
    covariate_rules,
    read_covariate_settings,
)
from steropes.studies.strategus_plans.r_json_values import (
    Identifier,
    Integer,
    Items,
    JsonPath,
    MaybeDays,
    MaybeNumber,
    RDays,
    RModel,
    Text,
    json_path,
    parsed,
)
from steropes.studies.strategus_plans.shared_cohorts import SharedCohorts

__all__ = [
    "AFTER_INDEX",
    "Baseline",
    "CaseDescription",
    "aggregate_cases",
    "analyses_after_index",
    "case_series",
    "risk_factors",
]

# Analyses of times after the index, which are computed here and not by `extract_features`.
AFTER_INDEX = {9: "DemographicsPostObservationTime", 10: "DemographicsTimeInCohort"}
DURING_FUNCTIONS = ("Characterization::getDbDuringCovariateData", "getDbDuringCovariateData")
NUMBERS = {analysis.name: number for number, analysis in DURING.items()}
INPATIENT = "ConditionOccurrencePrimaryInpatientDuring"
ANCHORS = {"cohort start": "start", "cohort end": "end"}
ALL_DIFFERENCES = "covariates with small differences between cases and others are reported too"
FIRST = 99_999  # Days after which an entry counts again where only the first ones do.


@dataclass(frozen=True)
class Baseline:
    """Covariates of targets at their index.

    Attributes
    ----------
    targets : tuple of int
        The cohorts.
    first_in_days : int
        Entries count that are first or begin at least this many days after the previous one's end.
    prior_days : int
        Required days of observation before the index.
    only : tuple of int
        The only covariates to report, by id; empty for all.
    after_index : tuple of int
        Analyses of times after the index.
    json_text : str
        The covariate settings as the specification has them.
    least_mean : float
        The smallest mean of a 0/1 covariate that is reported.
    """

    targets: tuple[int, ...]
    first_in_days: int
    prior_days: int
    rules: FeatureRules
    only: tuple[int, ...]
    after_index: tuple[int, ...]
    json_text: str
    least_mean: float


@dataclass(frozen=True)
class CaseDescription:
    """Covariates of people with an outcome in their time at risk, by target and outcome.

    Attributes
    ----------
    targets, outcomes : tuple of int
        The cohorts.
    washouts : tuple of int
        Days without the outcome before an outcome that counts, by outcome.
    start, end : int
        First and last day at risk, relative to the anchors.
    start_anchor, end_anchor : {"start", "end"}
        The first or last day of the target.
    at_target : Baseline
        Which entries of targets count. Its covariates are those of cases at the start of the
        target, and it has none without risk factors.
    risk_factors : bool
        Whether to describe cases at the start of the target.
    around : WindowRules or None
        Covariates of the days around the case; None without case series.
    before, after : int
        Days before the target and after the outcome that ``around`` describes.
    json_text : str
        The settings of the case series as the specification has them.
    least_targets, least_cases : int
        The smallest numbers of entries and of cases that are described.
    """

    targets: tuple[int, ...]
    outcomes: tuple[int, ...]
    washouts: tuple[int, ...]
    start: int
    start_anchor: str
    end: int
    end_anchor: str
    at_target: Baseline
    risk_factors: bool
    around: WindowRules | None
    before: int
    after: int
    json_text: str
    least_targets: int = 0
    least_cases: int = 0

    def without(self, refused: Mapping[int, str]) -> CaseDescription | None:
        """Return the description without cohorts that could not be made; None if none is left."""
        targets = tuple(t for t in self.targets if t not in refused)
        kept = [k for k, o in enumerate(self.outcomes) if o not in refused]
        if not (targets and kept):
            return None
        return replace(
            self,
            targets=targets,
            outcomes=tuple(self.outcomes[k] for k in kept),
            washouts=tuple(self.washouts[k] for k in kept),
        )


class _Cases(RModel):
    """Settings that risk factors and case series share, in all versions of Characterization."""

    target_ids: Items[Identifier]
    outcome_ids: Items[Identifier] = ()
    limit_to_first_in_n_days: MaybeDays = None
    min_prior_observation: RDays = 0
    outcome_washout_days: Items[Integer] = ()
    risk_window_start: RDays = 1
    start_anchor: Text = "cohort start"
    risk_window_end: RDays = 365
    end_anchor: Text = "cohort start"
    covariate_settings: Any = None
    case_covariate_settings: Any = None
    case_pre_target_duration: Integer = 365
    case_post_outcome_duration: Integer = 365
    min_characterization_mean: MaybeNumber = None
    extract_non_case_covariates: Any = None
    min_target_size: Integer = 0
    min_twith_o_size: Integer = 0


Read = tuple[CaseDescription, list[str]]


def risk_factors(values: object, at: JsonPath, cohorts: SharedCohorts, least_mean: float) -> Read:
    """Read settings of risk factors of Characterization 3.

    Returns
    -------
    CaseDescription
        The description.
    list of str
        Differences from R.

    Raises
    ------
    DataError
        A setting is invalid or has no counterpart.
    """
    made, said = _described(values, at, cohorts, least_mean, (True, False))
    return made, [*said, ALL_DIFFERENCES]


def case_series(values: object, at: JsonPath, cohorts: SharedCohorts, least_mean: float) -> Read:
    """Read settings of case series of Characterization 3; see `risk_factors`."""
    return _described(values, at, cohorts, least_mean, (False, True))


def aggregate_cases(
    values: object, at: JsonPath, cohorts: SharedCohorts, least_mean: float
) -> Read:
    """Read the settings of both of Characterization up to 2; see `risk_factors`.

    Versions before 1 had no case series, and no settings of their covariates.
    """
    series = isinstance(values, Mapping) and values.get("caseCovariateSettings") is not None
    return _described(values, at, cohorts, least_mean, (True, series))


def _described(
    values: object,
    at: JsonPath,
    cohorts: SharedCohorts,
    least_mean: float,
    parts: tuple[bool, bool],
) -> Read:
    """Read settings of risk factors, case series or both."""
    read = parsed(_Cases, values, at)
    targets, said = known_cohorts(read.target_ids, cohorts)
    outcomes, more = known_cohorts(read.outcome_ids, cohorts)
    washouts = read.outcome_washout_days or (0,)
    if len(washouts) == 1:
        washouts = washouts * len(read.outcome_ids)
    if len(washouts) != len(read.outcome_ids):
        raise DataError(
            f"{json_path((*at, 'outcomeWashoutDays'))} must be one number, or one for each outcome"
        )
    of = dict(zip(read.outcome_ids, washouts, strict=True))
    if read.min_characterization_mean is not None:
        least_mean = read.min_characterization_mean
    place: JsonPath = (*at, "covariateSettings")
    rules, text = FeatureRules(analyses=()), ""
    only: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    if parts[0]:
        given = read.covariate_settings
        rules, only = covariate_rules(given, place, elsewhere=AFTER_INDEX.values())
        after = analyses_after_index(given)
        text = json.dumps(given, ensure_ascii=False)
    around, during = None, ""
    gone: list[str] = []
    if parts[1]:
        place = (*at, "caseCovariateSettings")
        around, gone = _during_rules(read.case_covariate_settings, place, least_mean)
        during = json.dumps(read.case_covariate_settings, ensure_ascii=False)
    first = read.limit_to_first_in_n_days
    baseline = Baseline(
        targets, FIRST if first is None else first, read.min_prior_observation, rules, only,
        after, text, least_mean,
    )  # fmt: skip
    made = CaseDescription(
        targets, outcomes, tuple(of[o] for o in outcomes),
        read.risk_window_start, _anchor(read.start_anchor, (*at, "startAnchor")),
        read.risk_window_end, _anchor(read.end_anchor, (*at, "endAnchor")),
        baseline, parts[0], around,
        read.case_pre_target_duration, read.case_post_outcome_duration, during,
        read.min_target_size, read.min_twith_o_size,
    )  # fmt: skip
    return made, [*said, *more, *gone]


def analyses_after_index(settings: Any) -> tuple[int, ...]:
    """Return the analyses of times after the index in covariate settings, one or several."""
    each = settings if isinstance(settings, list) else [settings]
    return tuple(n for n, flag in AFTER_INDEX.items() if any(of.get(flag) for of in each))


def _anchor(text: str, path: JsonPath) -> str:
    """Translate an anchor, which version 3 writes with a line below the space."""
    found = ANCHORS.get(text.lower().replace("_", " "))
    if found is None:
        raise DataError(f"{json_path(path)} must be 'cohort start' or 'cohort end', not {text!r}")
    return found


def _during_rules(
    settings: object, path: JsonPath, least_mean: float
) -> tuple[WindowRules, list[str]]:
    """Translate settings of covariates of spans; a list of one is allowed."""
    if isinstance(settings, list) and len(settings) == 1:
        settings, path = settings[0], (*path, 0)
    flags, rest = read_covariate_settings(
        settings, path, CovariateSettings, {*NUMBERS, INPATIENT}, DURING_FUNCTIONS
    )
    numbers = tuple(sorted(NUMBERS[name] for name, on in flags.items() if on and name in NUMBERS))
    gone = [f"{INPATIENT} is not computed"] if flags.get(INPATIENT) else []
    return WindowRules(numbers, (), rest.selection, rest.included_covariate_ids, least_mean), gone
