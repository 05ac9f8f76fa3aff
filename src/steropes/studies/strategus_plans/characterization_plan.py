"""The plan of CharacterizationModule: which descriptions of cohorts are computed, and verdicts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from steropes.errors import DataError
from steropes.studies.covariates.feature_extraction import FeatureRules
from steropes.studies.strategus_plans.part_verdicts import PartVerdict, runs, skipped
from steropes.studies.strategus_plans.r_covariate_settings import covariate_rules
from steropes.studies.strategus_plans.r_values import (
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

__all__ = [
    "AFTER_INDEX",
    "CHARACTERIZATION",
    "Baseline",
    "Challenge",
    "CharacterizationPlan",
    "characterization_plan",
]

CHARACTERIZATION = "CharacterizationModule"
# Analyses of times after the index, which are computed here and not by `extract_features`.
AFTER_INDEX = {9: "DemographicsPostObservationTime", 10: "DemographicsTimeInCohort"}
# Analyses that are not available, by the name of their list.
ELSEWHERE = {
    "riskFactorSettings": "risk factors are not available",
    "caseSeriesSettings": "covariates of cases around the outcome are not available",
}


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
    least_count : int
        The smallest number of people with a covariate that is reported.
    verdicts : tuple of PartVerdict
        Verdicts on the settings.
    """

    pairs: tuple[tuple[int, int], ...]
    challenges: tuple[Challenge, ...]
    baselines: tuple[Baseline, ...]
    least_count: int
    verdicts: tuple[PartVerdict, ...]

    @property
    def targets(self) -> frozenset[int]:
        """The cohorts that are described."""
        pairs, described = (
            (t for t, _ in self.pairs),
            (t for b in self.baselines for t in b.targets),
        )
        return frozenset((*pairs, *described, *(c.target for c in self.challenges)))

    def without(self, refused: Mapping[int, str]) -> CharacterizationPlan:
        """Return the plan without cohorts that could not be made."""
        left = [
            replace(b, targets=targets)
            for b in self.baselines
            if (targets := tuple(t for t in b.targets if t not in refused))
        ]
        pairs = tuple(p for p in self.pairs if not {*p} & {*refused})
        challenges = tuple(c for c in self.challenges if not {c.target, c.outcome} & {*refused})
        return replace(self, pairs=pairs, challenges=challenges, baselines=tuple(left))


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
    least_mean, least_count = 0.0, 0
    if isinstance(settings, Mapping) and "analysis" in settings:
        if "minSMD" in settings:
            settings = {("minSmd" if k == "minSMD" else k): v for k, v in settings.items()}
        read = parsed(_Settings, settings, path)
        least_mean, least_count = read.min_characterization_mean, read.min_covariate_count
        settings, path = read.analysis, (*path, "analysis")
    lists = parsed(_Analyses, settings, path)
    verdicts: list[PartVerdict] = []
    pairs: dict[tuple[int, int], None] = {}
    challenges: dict[Challenge, None] = {}
    baselines: dict[Baseline, None] = {}

    def attempt(part: str, run: Callable[[], PartVerdict]) -> None:
        """Add the verdict on a part; an error is a verdict."""
        try:
            verdicts.append(run())
        except DataError as error:
            verdicts.append(skipped(CHARACTERIZATION, part, str(error)))

    for name, values, at in _listed(lists.time_to_event_settings, "timeToEventSettings", path):
        attempt(f"time to event {name}", partial(_events, name, values, at, cohorts, pairs))
    kind = "dechallengeRechallengeSettings"
    for name, values, at in _listed(lists.dechallenge_rechallenge_settings, kind, path):
        part = f"dechallenge and rechallenge {name}"
        attempt(part, partial(_challenges, part, values, at, cohorts, challenges))
    for kind, listed in (
        ("targetBaselineSettings", lists.target_baseline_settings),
        ("aggregateCovariateSettings", lists.aggregate_covariate_settings),
    ):
        for name, values, at in _listed(listed, kind, path):
            attempt(
                f"covariates of targets {name}",
                partial(_covariates, name, values, at, kind, cohorts, least_mean, baselines),
            )
    for kind, listed in (
        ("riskFactorSettings", lists.risk_factor_settings),
        ("caseSeriesSettings", lists.case_series_settings),
    ):
        for name, _, _ in _listed(listed, kind, path):
            verdicts.append(skipped(CHARACTERIZATION, f"{kind} {name}", ELSEWHERE[kind]))
    return CharacterizationPlan(
        tuple(pairs), tuple(challenges), _joined(baselines), least_count, tuple(verdicts)
    )


def _joined(baselines: Iterable[Baseline]) -> tuple[Baseline, ...]:
    """Join the targets of equal settings, whose results have one setting id."""
    targets: dict[Baseline, dict[int, None]] = {}
    for baseline in baselines:
        own = targets.setdefault(replace(baseline, targets=()), {})
        own |= dict.fromkeys(baseline.targets)
    return tuple(replace(setting, targets=tuple(of)) for setting, of in targets.items())


def _listed(values: object, name: str, path: JsonPath) -> Iterable[tuple[int, object, JsonPath]]:
    """Yield settings with their number from 1 and their path; one object is a list of one."""
    listed = [values] if isinstance(values, Mapping) else values or []
    if not isinstance(listed, list):
        raise DataError(f"{json_path((*path, name))} must be a list")
    for i, value in enumerate(listed):
        yield i + 1, value, (*path, name, i)


def _known(ids: Iterable[int], cohorts: SharedCohorts) -> tuple[tuple[int, ...], list[str]]:
    """Return the cohorts that can be made, and why the others cannot.

    Raises
    ------
    DataError
        None can be made.
    """
    whys = {i: why for i in ids if (why := cohorts.fault(i))}
    good = tuple(dict.fromkeys(i for i in ids if i not in whys))
    if not good:
        raise DataError(next(iter(whys.values()), "it has no cohorts"))
    said = [f"{len(whys):,} cohorts are left out ({next(iter(whys.values()))})"] if whys else []
    return good, said


def _events(
    name: int,
    values: object,
    at: JsonPath,
    cohorts: SharedCohorts,
    pairs: dict[tuple[int, int], None],
) -> PartVerdict:
    """Read settings of times to events."""
    read = parsed(_TimeToEvent, values, at)
    targets, said = _known(read.target_ids, cohorts)
    outcomes, more = _known(read.outcome_ids, cohorts)
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
    targets, said = _known(read.target_cohort_definition_ids, cohorts)
    outcomes, more = _known(read.outcome_cohort_definition_ids, cohorts)
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
    targets, said = _known(read.target_ids, cohorts)
    place: JsonPath = (*at, "covariateSettings")
    given = read.covariate_settings
    rules, only = covariate_rules(given, place, elsewhere=AFTER_INDEX.values())
    flags = given[0] if isinstance(given, list) else given
    if isinstance(read, _Aggregate):
        if read.min_characterization_mean is not None:
            least_mean = read.min_characterization_mean
        said.append("cases, people without the outcome and their covariates are not described")
    baselines[
        Baseline(
            targets,
            99_999 if read.limit_to_first_in_n_days is None else read.limit_to_first_in_n_days,
            read.min_prior_observation,
            rules,
            only,
            tuple(n for n, flag in AFTER_INDEX.items() if flags.get(flag)),
            json.dumps(given, ensure_ascii=False),
            least_mean,
        )
    ] = None
    needs = [(t,) for t in targets]
    return runs(CHARACTERIZATION, f"covariates of targets {name}", said, needs=needs)
