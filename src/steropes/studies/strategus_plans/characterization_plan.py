"""The plan of CharacterizationModule: which descriptions of cohorts are computed, and how."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from steropes.errors import DataError
from steropes.studies.strategus_plans.baseline_and_case_covariates import (
    AFTER_INDEX,
    Baseline,
    CaseDescription,
    aggregate_cases,
    analyses_after_index,
    case_series,
    risk_factors,
)
from steropes.studies.strategus_plans.characterization_cohort_lookup import (
    known_cohorts,
    listed_settings,
)
from steropes.studies.strategus_plans.r_covariate_settings import covariate_rules
from steropes.studies.strategus_plans.r_json_values import (
    Identifier,
    Integer,
    Items,
    JsonPath,
    MaybeDays,
    MaybeNumber,
    RDays,
    RModel,
    RNumber,
    json_path,
    parsed,
)
from steropes.studies.strategus_plans.shared_cohorts import SharedCohorts
from steropes.studies.strategus_plans.supported_parts import PartVerdict, runs, skipped

__all__ = [
    "CHARACTERIZATION",
    "Challenge",
    "CharacterizationPlan",
    "characterization_plan",
]

CHARACTERIZATION = "CharacterizationModule"
SINGLE_PEOPLE = (
    "c_rechallenge_fail_case_series is empty, because its rows are of single people and never leave"
)


@dataclass(frozen=True)
class Challenge:
    """A target and an outcome, with the days that define dechallenges.

    Attributes
    ----------
    target, outcome : int
        The cohorts.
    stop : int
        The largest number of days from the outcome to the end of the target (the stop interval).
    span : int
        Days after that end in which the outcome must not begin again (the evaluation window).
    """

    target: int
    outcome: int
    stop: int
    span: int


@dataclass(frozen=True)
class CharacterizationPlan:
    """Descriptions of cohorts to compute.

    Attributes
    ----------
    pairs : tuple of (int, int)
        Targets and outcomes of the times to events.
    challenges : tuple of Challenge
        Targets and outcomes of dechallenges and rechallenges.
    baselines : tuple of Baseline
        Covariates of targets.
    cases : tuple of CaseDescription
        Covariates of people with an outcome in their time at risk.
    least_count : int
        The smallest number of people with a covariate that is reported.
    verdicts : tuple of PartVerdict
        Verdicts on the settings.
    """

    pairs: tuple[tuple[int, int], ...]
    challenges: tuple[Challenge, ...]
    baselines: tuple[Baseline, ...]
    cases: tuple[CaseDescription, ...]
    least_count: int
    verdicts: tuple[PartVerdict, ...]

    @property
    def targets(self) -> frozenset[int]:
        """The cohorts that are described."""
        pairs, described = (
            (t for t, _ in self.pairs),
            (t for b in self.baselines for t in b.targets),
        )
        of_cases = (t for c in self.cases for t in c.targets)
        return frozenset((*pairs, *described, *of_cases, *(c.target for c in self.challenges)))

    def without(self, refused: Mapping[int, str]) -> CharacterizationPlan:
        """Return the plan without cohorts that could not be made."""
        left = [
            replace(b, targets=targets)
            for b in self.baselines
            if (targets := tuple(t for t in b.targets if t not in refused))
        ]
        pairs = tuple(p for p in self.pairs if not {*p} & {*refused})
        challenges = tuple(c for c in self.challenges if not {c.target, c.outcome} & {*refused})
        cases = tuple(c for d in self.cases if (c := d.without(refused)) is not None)
        return replace(self, pairs=pairs, challenges=challenges, baselines=tuple(left), cases=cases)


class _TimeToEvent(RModel):
    """Settings of times to events."""

    target_ids: Items[Identifier]
    outcome_ids: Items[Identifier]


class _Challenges(RModel):
    """Settings of dechallenges and rechallenges."""

    target_cohort_definition_ids: Items[Identifier]
    outcome_cohort_definition_ids: Items[Identifier]
    dechallenge_stop_interval: RDays = 30
    dechallenge_evaluation_window: RDays = 30


class _Targets(RModel):
    """Settings of covariates of targets."""

    target_ids: Items[Identifier]
    limit_to_first_in_n_days: MaybeDays = None
    min_prior_observation: RDays = 0
    covariate_settings: Any


class _Aggregate(_Targets):
    """Settings of Characterization up to 2, which also describe cases and other people."""

    outcome_ids: Items[Identifier] = ()
    outcome_washout_days: Items[Integer] = ()
    risk_window_start: RDays = 0
    start_anchor: Any = None
    risk_window_end: RDays = 0
    end_anchor: Any = None
    case_covariate_settings: Any = None
    case_pre_target_duration: Integer = 0
    case_post_outcome_duration: Integer = 0
    min_characterization_mean: MaybeNumber = None
    extract_non_case_covariates: Any = None


class _Analyses(RModel):
    """The lists of settings."""

    time_to_event_settings: Any = None
    target_baseline_settings: Any = None
    aggregate_covariate_settings: Any = None
    dechallenge_rechallenge_settings: Any = None
    risk_factor_settings: Any = None
    case_series_settings: Any = None


class _Settings(RModel):
    """The settings of the module from version 1.0 of Strategus on."""

    analysis: Any
    min_characterization_mean: RNumber = 0.0
    min_covariate_count: Integer = 0
    mode: Any = None
    min_smd: RNumber = 0.0
    output_table: Any = None
    include_age_strata: Any = None


def characterization_plan(
    settings: object, path: JsonPath, cohorts: SharedCohorts
) -> CharacterizationPlan:
    """Read the settings and decide which of them can be computed.

    Raises
    ------
    DataError
        A field is unknown or invalid.
    """
    lists, path, least_mean, least_count = _analyses(settings, path)
    verdicts: list[PartVerdict] = []
    pairs: dict[tuple[int, int], None] = {}
    challenges: dict[Challenge, None] = {}
    baselines: dict[Baseline, None] = {}
    cases: dict[CaseDescription, None] = {}

    def attempt(part: str, run: Callable[[], PartVerdict]) -> None:
        """Add the verdict on a part; an error is a verdict."""
        try:
            verdicts.append(run())
        except DataError as error:
            verdicts.append(skipped(CHARACTERIZATION, part, str(error)))

    for name, values, at in listed_settings(
        lists.time_to_event_settings, "timeToEventSettings", path
    ):
        attempt(f"time to event {name}", partial(_events, name, values, at, cohorts, pairs))
    kind = "dechallengeRechallengeSettings"
    for name, values, at in listed_settings(lists.dechallenge_rechallenge_settings, kind, path):
        part = f"dechallenge and rechallenge {name}"
        attempt(part, partial(_challenges, part, values, at, cohorts, challenges))
    for kind, listed in (
        ("targetBaselineSettings", lists.target_baseline_settings),
        ("aggregateCovariateSettings", lists.aggregate_covariate_settings),
    ):
        for name, values, at in listed_settings(listed, kind, path):
            attempt(
                f"covariates of targets {name}",
                partial(_covariates, name, values, at, kind, cohorts, least_mean, baselines),
            )
    for kind, listed, of, read_cases in (
        (
            "aggregateCovariateSettings",
            lists.aggregate_covariate_settings,
            "covariates of cases",
            aggregate_cases,
        ),
        ("riskFactorSettings", lists.risk_factor_settings, "risk factors", risk_factors),
        ("caseSeriesSettings", lists.case_series_settings, "case series", case_series),
    ):
        for name, values, at in listed_settings(listed, kind, path):
            attempt(
                f"{of} {name}",
                partial(_cases, f"{of} {name}", read_cases, values, at, cohorts, least_mean, cases),
            )
    return CharacterizationPlan(
        tuple(pairs),
        tuple(challenges),
        _joined(baselines),
        tuple(cases),
        least_count,
        tuple(verdicts),
    )


def _analyses(settings: object, path: JsonPath) -> tuple[_Analyses, JsonPath, float, int]:
    """Read the analyses, their place, and the least mean and count of covariates."""
    least_mean, least_count = 0.0, 0
    if isinstance(settings, Mapping) and "analysis" in settings:
        if "minSMD" in settings:
            settings = {("minSmd" if k == "minSMD" else k): v for k, v in settings.items()}
        read = parsed(_Settings, settings, path)
        least_mean, least_count = read.min_characterization_mean, read.min_covariate_count
        settings, path = read.analysis, (*path, "analysis")
    return parsed(_Analyses, settings, path), path, least_mean, least_count


def _joined(baselines: Iterable[Baseline]) -> tuple[Baseline, ...]:
    """Join the targets of equal settings, whose results have one setting id."""
    targets: dict[Baseline, dict[int, None]] = {}
    for baseline in baselines:
        own = targets.setdefault(replace(baseline, targets=()), {})
        own |= dict.fromkeys(baseline.targets)
    return tuple(replace(setting, targets=tuple(of)) for setting, of in targets.items())


def _events(
    name: int,
    values: object,
    at: JsonPath,
    cohorts: SharedCohorts,
    pairs: dict[tuple[int, int], None],
) -> PartVerdict:
    """Read settings of times to events."""
    read = parsed(_TimeToEvent, values, at)
    targets, said = known_cohorts(read.target_ids, cohorts)
    outcomes, more = known_cohorts(read.outcome_ids, cohorts)
    made = [(t, o) for t in targets for o in outcomes]
    pairs |= dict.fromkeys(made)
    return runs(CHARACTERIZATION, f"time to event {name}", [*said, *more], needs=made)


def _challenges(
    part: str,
    values: object,
    at: JsonPath,
    cohorts: SharedCohorts,
    challenges: dict[Challenge, None],
) -> PartVerdict:
    """Read settings of dechallenges and rechallenges.

    Raises
    ------
    DataError
        A number of days is negative.
    """
    read = parsed(_Challenges, values, at)
    stop, span = read.dechallenge_stop_interval, read.dechallenge_evaluation_window
    for name, days in (("dechallengeStopInterval", stop), ("dechallengeEvaluationWindow", span)):
        if days < 0:
            raise DataError(f"{json_path((*at, name))} is {days}; it must not be negative")
    targets, said = known_cohorts(read.target_cohort_definition_ids, cohorts)
    outcomes, more = known_cohorts(read.outcome_cohort_definition_ids, cohorts)
    made = [(t, o) for t in targets for o in outcomes]
    challenges |= dict.fromkeys(Challenge(t, o, stop, span) for t, o in made)
    return runs(CHARACTERIZATION, part, [*said, *more, SINGLE_PEOPLE], needs=made)


def _covariates(
    name: int,
    values: object,
    at: JsonPath,
    kind: str,
    cohorts: SharedCohorts,
    least_mean: float,
    baselines: dict[Baseline, None],
) -> PartVerdict:
    """Read settings of covariates of targets."""
    read = parsed(_Aggregate if kind == "aggregateCovariateSettings" else _Targets, values, at)
    targets, said = known_cohorts(read.target_ids, cohorts)
    place: JsonPath = (*at, "covariateSettings")
    given = read.covariate_settings
    rules, only = covariate_rules(given, place, elsewhere=AFTER_INDEX.values())
    if isinstance(read, _Aggregate) and read.min_characterization_mean is not None:
        least_mean = read.min_characterization_mean
    baselines[
        Baseline(
            targets,
            99_999 if read.limit_to_first_in_n_days is None else read.limit_to_first_in_n_days,
            read.min_prior_observation,
            rules,
            only,
            analyses_after_index(given),
            json.dumps(given, ensure_ascii=False),
            least_mean,
        )
    ] = None
    needs = [(t,) for t in targets]
    return runs(CHARACTERIZATION, f"covariates of targets {name}", said, needs=needs)


def _cases(
    part: str,
    read: Callable[..., tuple[CaseDescription, list[str]]],
    values: object,
    at: JsonPath,
    cohorts: SharedCohorts,
    least_mean: float,
    cases: dict[CaseDescription, None],
) -> PartVerdict:
    """Read settings of cases."""
    made, said = read(values, at, cohorts, least_mean)
    cases[made] = None
    needs = [(t, o) for t in made.targets for o in made.outcomes]
    return runs(CHARACTERIZATION, part, said, needs=needs)
