"""The plan of CohortIncidenceModule: which incidence rates are computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from steropes.errors import DataError
from steropes.studies.strategus_plans.incidence_settings import (
    IncidenceDesign,
    IncidenceSettings,
    OutcomeDef,
    StrataSettings,
)
from steropes.studies.strategus_plans.r_json_values import JsonPath, json_path, parsed
from steropes.studies.strategus_plans.shared_cohorts import SharedCohorts
from steropes.studies.strategus_plans.supported_parts import PartVerdict, runs, skipped

__all__ = ["INCIDENCE", "AgeGroup", "Combination", "IncidencePlan", "incidence_plan"]

INCIDENCE = "CohortIncidenceModule"


@dataclass(frozen=True)
class AgeGroup:
    """Ages from ``low`` to below ``high``; None is unlimited."""

    id: int
    name: str
    low: int | None
    high: int | None


@dataclass(frozen=True)
class Combination:
    """A target, a time at risk and an outcome, by their ids in the design."""

    target: int
    tar: int
    outcome: int


@dataclass(frozen=True)
class IncidencePlan:
    """Rates to compute.

    Attributes
    ----------
    design : IncidenceDesign
        The definitions.
    combinations : tuple of Combination
        Targets, times at risk and outcomes.
    age_groups : tuple of AgeGroup
        Groups of age; empty without strata by age.
    verdicts : tuple of PartVerdict
        Verdicts on the analyses.
    """

    design: IncidenceDesign
    combinations: tuple[Combination, ...]
    age_groups: tuple[AgeGroup, ...]
    verdicts: tuple[PartVerdict, ...]

    @property
    def strata(self) -> StrataSettings:
        """The characteristics of the strata."""
        return self.design.strata_settings or StrataSettings()

    @property
    def targets(self) -> frozenset[int]:
        """The cohorts whose rates are computed."""
        return frozenset(c.target for c in self.combinations)

    def without(self, refused: Mapping[int, str]) -> IncidencePlan:
        """Return the plan without rates of cohorts that could not be made.

        Raises
        ------
        DataError
            No rate is left.
        """
        outcomes = {o.id: o for o in self.design.outcome_defs}

        def used(c: Combination) -> set[int | None]:
            outcome = outcomes[c.outcome]
            return {c.target, outcome.cohort_id, outcome.exclude_cohort_id}

        left = tuple(c for c in self.combinations if not used(c) & {*refused})
        if not left:
            first = used(self.combinations[0])
            raise DataError(next(why for i, why in refused.items() if i in first))
        return replace(self, combinations=left)


def incidence_plan(settings: object, path: JsonPath, cohorts: SharedCohorts) -> IncidencePlan:
    """Read the design and decide which of its rates can be computed.

    Raises
    ------
    DataError
        A field is unknown or invalid, or has no counterpart.
    """
    design = parsed(IncidenceSettings, settings, path).ir_design
    at: JsonPath = (*path, "irDesign")
    for name, listed in (("subgroups", design.subgroups), ("cohortDefs", design.cohort_defs)):
        if listed:
            raise DataError(f"{json_path((*at, name))} have no counterpart")
    groups = _age_groups(design.strata_settings or StrataSettings(), (*at, "strataSettings"))
    targets = {t.id for t in design.target_defs}
    outcomes = {o.id: o for o in design.outcome_defs}
    tars = {t.id for t in design.time_at_risk_defs}
    verdicts: list[PartVerdict] = []
    found: dict[Combination, None] = {}
    for i, analysis in enumerate(design.analysis_list):
        part = f"analysis {i + 1}"
        try:
            for name, ids, known in (
                ("targets", analysis.targets, targets),
                ("outcomes", analysis.outcomes, {*outcomes}),
                ("tars", analysis.tars, tars),
            ):
                gone = [n for n in ids if n not in known]
                if gone:
                    place = json_path((*at, "analysisList", i, name))
                    raise DataError(f"{place}: {gone[0]} is not defined")
            made = [
                Combination(t, r, o)
                for t in analysis.targets
                for r in analysis.tars
                for o in analysis.outcomes
            ]
            whys = {c: why for c in made if (why := _fault(c, outcomes[c.outcome], cohorts))}
            good = [c for c in made if c not in whys]
            if not good:
                raise DataError(next(iter(whys.values()), "it combines nothing"))
        except DataError as error:
            verdicts.append(skipped(INCIDENCE, part, str(error)))
            continue
        found |= dict.fromkeys(good)
        differences = []
        if whys:
            first = next(iter(whys.values()))
            differences.append(f"{len(whys):,} rates are not computed ({first})")
        verdicts.append(
            runs(
                INCIDENCE,
                f"{part}, {len(good):,} rates and their strata",
                differences,
                needs=[(c.target,) for c in good],
            )
        )
    return IncidencePlan(design, tuple(found), groups, tuple(verdicts))


def _fault(asked: Combination, outcome: OutcomeDef, cohorts: SharedCohorts) -> str:
    """Return the reason why a rate cannot be computed; "" if it can."""
    used = (asked.target, outcome.cohort_id, outcome.exclude_cohort_id)
    return next((why for c in used if c is not None and (why := cohorts.fault(c))), "")


def _age_groups(strata: StrataSettings, path: JsonPath) -> tuple[AgeGroup, ...]:
    """Return the groups of age between the breaks of one or several lists."""
    if not strata.by_age:
        return ()
    lists = [list(strata.age_breaks)] if strata.age_breaks else []
    for breaks in strata.age_break_list:
        listed = breaks if isinstance(breaks, list) else [breaks]
        if any(isinstance(b, bool) or not isinstance(b, int) for b in listed):
            raise DataError(f"{json_path((*path, 'ageBreakList'))} must have whole numbers")
        lists.append(listed)
    if not any(lists):
        raise DataError(f"{json_path((*path, 'ageBreaks'))}: strata by age need breaks")
    found: list[AgeGroup] = []
    for breaks in filter(None, lists):
        edges: list[int | None] = [None, *breaks, None]
        for low, high in zip(edges[:-1], edges[1:], strict=True):
            if low is None:
                name = f"<{high}"
            elif high is None:
                name = f">={low}"
            else:
                name = f"{low} - {high - 1}"
            found.append(AgeGroup(len(found) + 1, name, low, high))
    return tuple(found)
