"""The specification of a case-only or case–control design in an OMOP database."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal

from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import Count, Day, Days, Listed, Offset, YesNo
from steropes.errors import DataError, listed
from steropes.studies.cohorts.cohort_sources import CohortSources
from steropes.studies.settings.concept_id_type import ConceptId

__all__ = ["Design", "OmopCaseOnly"]

Design = Literal[
    "case-crossover",
    "case-time-control",
    "case-case-time-control",
    "nested-case-control",
    "risk-interval",
    "self-controlled-cohort",
]
# The settings of each design, besides those of all.
OWN: dict[str, tuple[str, ...]] = {
    "case-crossover": ("window", "references", "washout_days"),
    "case-time-control": (
        "window", "references", "washout_days", "controls_per_case", "match_sex", "birth_days",
        "seed",
    ),
    "case-case-time-control": (
        "window", "references", "washout_days", "controls_per_case", "future_gap", "seed",
    ),
    "nested-case-control": (
        "window", "washout_days", "controls_per_case", "match_sex", "birth_days", "seed",
    ),
    "risk-interval": ("risk", "control"),
    "self-controlled-cohort": ("risk", "control"),
}  # fmt: skip


class OmopCaseOnly(Settings):
    """A case-only or case–control design for cohorts of an OMOP database.

    Parameters
    ----------
    cohorts : CohortSources
        Sources of the cohorts.
    exposures : tuple of int
        Ids of the cohorts of exposures, such as eras of drugs.
    outcome : int
        Id of the outcome's cohort; its first entry of a person counts.
    design : {"case-crossover", "case-time-control", "case-case-time-control", \
"nested-case-control", "risk-interval", "self-controlled-cohort"}
        The design; see `steropes.designs.case_only`. Controls of "case-time-control" are sampled
        from the risk sets of cases.
    nesting : int, optional
        Id of a cohort, such as an indication: observation begins with its first entry.
    study_start : date, optional
        First day of observation; earlier ones are cut off.
    study_end : date, optional
        Last day of observation; later ones are cut off.
    sexes : tuple of int, default ()
        Gender concepts to keep; empty keeps all.
    window : (int, int), default (-30, 0)
        Days of exposure before index days.
    references : tuple of int, default (-60,)
        Days by which the window is moved to give reference windows.
    washout_days : int, default 180
        Least days of observation before index days.
    controls_per_case : int, default 1
        Number of future cases, or of controls at risk, for each case.
    future_gap : int, default 0
        A future case's own event must be more than this many days after the index day.
    match_sex : bool, default True
        Whether controls at risk have the sex of the case.
    birth_days : int, optional
        Largest difference in days of birth between controls at risk and the case, default 730.
    seed : int, default 1
        Seed of samples.
    risk : (int, int), default (1, 30)
        Days at risk after the start of exposure.
    control : (int, int), default (-30, -1)
        Control days before (or after) the start of exposure.

    Examples
    --------
    >>> from steropes.studies.case_only import OmopCaseOnly
    >>> from steropes.studies.cohorts import CohortSources, ConceptSet
    >>> sources = CohortSources(
    ...     drugs={1: ConceptSet((1118084,))}, conditions={3: ConceptSet((192671,))}
    ... )
    >>> OmopCaseOnly(sources, (1,), 3, "case-crossover").references
    (-60,)
    """

    cohorts: CohortSources
    exposures: Listed[Count]
    outcome: Count
    design: Design
    nesting: Count | None = None
    study_start: Day | None = None
    study_end: Day | None = None
    sexes: Listed[ConceptId] = ()
    window: Listed[Offset] = (-30, 0)
    references: Listed[Offset] = (-60,)
    washout_days: Days = 180
    controls_per_case: Count = 1
    future_gap: Days = 0
    match_sex: YesNo = True
    birth_days: Days | None = 730
    seed: Count = 1
    risk: Listed[Offset] = (1, 30)
    control: Listed[Offset] = (-30, -1)

    def __post_init__(self) -> None:
        """Refuse contradictions, and settings that the design does not use."""
        if not self.exposures:
            raise DataError("exposures is empty; list the ids of one cohort or more")
        roles = [*self.exposures, self.outcome, *(() if self.nesting is None else (self.nesting,))]
        if len({*roles}) < len(roles):
            raise DataError(f"cohort {max(roles, key=roles.count)} has two roles in the design")
        for name in ("window", "risk", "control"):
            if len(getattr(self, name)) != 2:
                raise DataError(f"{name} must be the first and last day, such as -30 and 0")
        known = {name for names in OWN.values() for name in names}
        unused = [
            f.name
            for f in fields(self)
            if f.name in known - {*OWN[self.design]} and getattr(self, f.name) != f.default
        ]
        if unused:
            raise DataError(
                f"{unused[0]} has no effect in the design {self.design!r}, whose settings are "
                f"{listed(list(OWN[self.design]))}; leave it out"
            )

    @property
    def roles(self) -> set[int]:
        """Ids of all cohorts."""
        found = {*self.exposures, self.outcome}
        return found if self.nesting is None else found | {self.nesting}

    @property
    def options(self) -> dict[str, Any]:
        """The settings of the design by their names here."""
        return {name: getattr(self, name) for name in OWN[self.design]}
