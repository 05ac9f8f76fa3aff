"""The plan of CohortDiagnosticsModule: which diagnostics of which cohorts are computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from steropes.errors import DataError
from steropes.studies.cohort_diagnostics.concept_sets_of_definitions import CohortDefinition
from steropes.studies.cohort_diagnostics.diagnostic_tables import (
    INCIDENCE,
    RELATIONSHIPS,
    SERIES,
    WINDOWS,
    AskedDiagnostics,
)
from steropes.studies.covariates.covariate_analysis_catalogue import WINDOWED
from steropes.studies.covariates.window_summaries import WindowRules
from steropes.studies.strategus_plans.r_json_values import (
    Flag,
    Identifier,
    Items,
    JsonPath,
    RDays,
    RModel,
    RNumber,
    json_path,
    parsed,
)
from steropes.studies.strategus_plans.r_temporal_covariate_settings import (
    DEFAULT_WINDOWS,
    window_rules,
)
from steropes.studies.strategus_plans.shared_cohorts import SharedCohorts
from steropes.studies.strategus_plans.supported_parts import PartVerdict, runs, skipped

__all__ = ["COHORT_DIAGNOSTICS", "CohortDiagnosticsPlan", "cohort_diagnostics_plan"]

COHORT_DIAGNOSTICS = "CohortDiagnosticsModule"
# Analyses that CohortDiagnostics has by default: all but records of drugs, their eras on a day,
# groups of eras that begin, values as numbers and counts.
DEFAULT_ANALYSES = tuple(
    n for n in WINDOWED if n not in (203, 301, 402, 403, 702, 803, *range(905, 912))
)


@dataclass(frozen=True)
class CohortDiagnosticsPlan:
    """Diagnostics to compute.

    Attributes
    ----------
    definitions : tuple of CohortDefinition
        The cohorts with their definitions.
    inclusion : bool
        Whether to count how many meet the inclusion rules.
    asked : AskedDiagnostics
        The other diagnostics.
    faults : tuple of (int, str, str)
        Cohorts that cannot be made: id, name and reason.
    verdicts : tuple of PartVerdict
        Verdicts on the diagnostics.
    """

    definitions: tuple[CohortDefinition, ...]
    inclusion: bool
    asked: AskedDiagnostics
    faults: tuple[tuple[int, str, str], ...]
    verdicts: tuple[PartVerdict, ...]

    @property
    def cohorts(self) -> tuple[int, ...]:
        """The ids of the cohorts."""
        return tuple(d.id for d in self.definitions)

    def without(self, refused: Mapping[int, str]) -> CohortDiagnosticsPlan:
        """Return the plan without cohorts that could not be made.

        Raises
        ------
        DataError
            No cohort is left.
        """
        left = tuple(d for d in self.definitions if d.id not in refused)
        if not left:
            raise DataError(next(why for i, why in refused.items() if i in self.cohorts))
        return replace(self, definitions=left)


class _Settings(RModel):
    """The settings of the module."""

    cohort_ids: Items[Identifier] = ()
    run_inclusion_statistics: Flag = True
    run_included_source_concepts: Flag = True
    run_orphan_concepts: Flag = True
    run_time_series: Flag = False
    run_visit_context: Flag = True
    run_breakdown_index_events: Flag = True
    run_incidence_rate: Flag = True
    run_cohort_relationship: Flag = True
    run_temporal_cohort_characterization: Flag = True
    temporal_covariate_settings: Any = None
    min_characterization_mean: RNumber = 0.01
    ir_washout_period: RDays = 0
    incremental: Flag = False


def cohort_diagnostics_plan(
    settings: object, path: JsonPath, cohorts: SharedCohorts
) -> CohortDiagnosticsPlan:
    """Read the settings and decide which diagnostics are computed.

    Raises
    ------
    DataError
        A field is unknown or invalid, or no cohort can be made.
    """
    read = parsed(_Settings, settings or {}, path)
    if read.ir_washout_period < 0:
        raise DataError(f"{json_path((*path, 'irWashoutPeriod'))} must not be negative")
    definitions = _definitions(cohorts)
    ids = read.cohort_ids or tuple(definitions)
    whys = {i: why for i in ids if (why := cohorts.fault(i) or _undefined(i, definitions))}
    good = [definitions[i] for i in dict.fromkeys(ids) if i not in whys]
    if not good:
        raise DataError(next(iter(whys.values()), "the specification defines no cohorts"))
    said = [f"{len(whys):,} cohorts are left out ({next(iter(whys.values()))})"] if whys else []
    verdicts = [runs(COHORT_DIAGNOSTICS, f"counts of {len(good):,} cohorts", said)]
    for on, part in (
        (read.run_inclusion_statistics, "inclusion rules"),
        (read.run_included_source_concepts, "included source concepts"),
        (read.run_orphan_concepts, "orphan concepts"),
        (read.run_visit_context, "visit context"),
        (read.run_breakdown_index_events, "index events"),
        (read.run_incidence_rate, INCIDENCE),
        (read.run_cohort_relationship, RELATIONSHIPS),
        (read.run_time_series, SERIES),
    ):
        if on:
            more = [RATES] if part == INCIDENCE else []
            verdicts.append(runs(COHORT_DIAGNOSTICS, part, more))
    windows = _windows(read, path, verdicts)
    asked = AskedDiagnostics(
        read.run_included_source_concepts,
        read.run_orphan_concepts,
        read.run_visit_context,
        read.run_breakdown_index_events,
        read.run_incidence_rate,
        read.run_cohort_relationship,
        read.ir_washout_period,
        windows,
        read.run_time_series,
    )
    faults = tuple((i, cohorts.names.get(i, f"cohort {i}"), why) for i, why in whys.items())
    return CohortDiagnosticsPlan(
        tuple(good), read.run_inclusion_statistics, asked, faults, tuple(verdicts)
    )


RATES = (
    "time at risk ends at the first entry and includes the last day of observation; R counts the "
    "time after the first entry"
)


def _windows(read: _Settings, path: JsonPath, verdicts: list[PartVerdict]) -> WindowRules | None:
    """Read the covariates of several windows, and add the verdict."""
    related, least = read.run_cohort_relationship, read.min_characterization_mean
    alone = WindowRules((), DEFAULT_WINDOWS, least_mean=least, cohorts=True) if related else None
    if not read.run_temporal_cohort_characterization:
        return alone
    part, at = WINDOWS, (*path, "temporalCovariateSettings")
    if read.temporal_covariate_settings is None:
        verdicts.append(runs(COHORT_DIAGNOSTICS, part))
        return WindowRules(DEFAULT_ANALYSES, DEFAULT_WINDOWS, least_mean=least, cohorts=related)
    try:
        rules, gone = window_rules(read.temporal_covariate_settings, at, least, related)
    except DataError as error:
        verdicts.append(skipped(COHORT_DIAGNOSTICS, part, str(error)))
        return alone
    verdicts.append(runs(COHORT_DIAGNOSTICS, part, gone))
    return rules


def _definitions(cohorts: SharedCohorts) -> dict[int, CohortDefinition]:
    """Return the definitions of cohorts and of subsets, which have that of their target."""
    found = {c.id: CohortDefinition(c.id, c.name, c.json_text) for c in cohorts.defined}
    for subset in cohorts.subsets:
        if subset.target in found:
            text = found[subset.target].json_text
            found[subset.id] = CohortDefinition(subset.id, cohorts.names[subset.id], text)
    return found


def _undefined(cohort: int, definitions: Mapping[int, CohortDefinition]) -> str:
    """Return the reason why a cohort cannot be examined; "" if it has a definition."""
    return "" if cohort in definitions else f"cohort {cohort} has no definition"
