"""The specification of a grid: cohorts, questions and analyses."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, field, replace
from typing import Annotated

from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import Count, Day, Listed, Name, TimeZone, Whole
from steropes.errors import DataError
from steropes.studies.cohorts.cohort_builders import ConceptSet
from steropes.studies.cohorts.cohort_sources import CohortSources, MadeCohorts
from steropes.studies.cohorts.time_at_risk import TimeAtRisk
from steropes.studies.comparative.cohort_method_presets import cohort_method
from steropes.studies.comparative.grid_questions_and_analyses import (
    Outcome,
    Question,
    StudyAnalysis,
)
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.diagnostics.comparative_diagnostics import DiagnosticThresholds
from steropes.studies.settings.concept_id_type import ConceptId
from steropes.studies.specifications.positive_controls import PositiveControls

__all__ = ["CohortSources", "ControlSet", "Exclusion", "GridSpec", "RiskWindow"]


class ControlSet(Settings):
    """Outcomes that neither exposure causes, and the positive controls made from them.

    Parameters
    ----------
    cohorts : tuple of int
        Ids of cohorts that are defined elsewhere.
    concepts : tuple of int
        Condition concepts. Each becomes, with its descendants, a cohort with the same id.
    positive : PositiveControls, optional
        Positive controls to create from all negative ones, or only their ratios.

    Examples
    --------
    >>> from steropes.studies.specifications import ControlSet, PositiveControls
    >>> controls = ControlSet(concepts=(81151, 78272), positive=PositiveControls(ratios=(2.0,)))
    >>> controls.concepts
    (81151, 78272)
    """

    cohorts: Listed[Count] = ()
    concepts: Listed[ConceptId] = ()
    positive: PositiveControls | None = None

    def __post_init__(self) -> None:
        """Refuse repeated controls."""
        listed = [*self.cohorts, *self.concepts]
        twice = next((c for c, n in Counter(listed).items() if n > 1), None)
        if twice is not None:
            raise DataError(f"negative control {twice} is listed twice")


class RiskWindow(Settings):
    """A time at risk by which analyses are repeated.

    Parameters
    ----------
    id : int
        From 1 to 99. Analysis 7 with window 2 becomes analysis 702.
    description : str
        Text to append to the description of the analysis.
    at_risk : TimeAtRisk
        The time at risk.
    analyses : tuple of int
        Ids of the analyses to repeat. Default: all.

    Examples
    --------
    >>> from steropes.studies.cohorts import TimeAtRisk
    >>> from steropes.studies.specifications import RiskWindow
    >>> window = RiskWindow(2, "first year", TimeAtRisk(end=365, end_anchor="cohort start"))
    >>> window.at_risk.end
    365
    """

    id: Annotated[int, Whole(1, 99)]
    description: str = ""
    at_risk: TimeAtRisk = field(default_factory=TimeAtRisk)
    analyses: Listed[Count] = ()


class Exclusion(Settings):
    """Results that are not computed: those with all the given ids.

    Parameters
    ----------
    target, comparator, nesting, outcome, analysis : int, optional
        Ids of cohorts and of an analysis. None stands for every id.

    Examples
    --------
    >>> from steropes.studies.specifications import Exclusion
    >>> Exclusion(outcome=3, analysis=2).analysis
    2
    """

    target: Count | None = None
    comparator: Count | None = None
    nesting: Count | None = None
    outcome: Count | None = None
    analysis: Count | None = None

    def __post_init__(self) -> None:
        """Refuse an exclusion that excludes everything."""
        if all(getattr(self, name) is None for name in self.__dataclass_fields__):
            raise DataError("an exclusion needs an id, otherwise it excludes everything")

    def covers(self, question: Question, outcome: int, analysis: int) -> bool:
        """Return whether a result is excluded.

        Parameters
        ----------
        question : Question
            The question.
        outcome, analysis : int
            Ids of the outcome and of the analysis.

        Returns
        -------
        bool
            Whether all ids of the exclusion are those of the result.
        """
        ids = {
            "target": question.target,
            "comparator": question.comparator,
            "nesting": question.nesting,
            "outcome": outcome,
            "analysis": analysis,
        }
        own = {name: getattr(self, name) for name in ids}
        return all(ids[name] == i for name, i in own.items() if i is not None)


class GridSpec(Settings):
    """Specification of a comparative grid: questions × outcomes × analyses.

    Parameters
    ----------
    cohorts : CohortSources
        Sources of all cohorts.
    question : tuple of Question
        The questions.
    analysis : tuple of StudyAnalysis
        The analyses, each of which answers every question.
    controls : ControlSet
        Negative controls of every question, in addition to those listed in the questions.
    thresholds : DiagnosticThresholds
        Thresholds of the diagnostics.
    database_id : str, default "database"
        Name of the database in result tables.
    schema : str, default "main"
        Schema of the CDM tables.
    min_cell : int, optional
        Smallest count to publish, if larger than that of the disclosure rules (5 by default).
    window : tuple of RiskWindow
        Times at risk by which analyses are repeated instead of having one each.
    time_zone : str, default "UTC"
        Time zone that determines the dates of stored instants; see `OmopDatabase`.
    exclude : tuple of Exclusion
        Results that are not computed.
    observed_until : date, optional
        End observation on this day at the latest, such as the day on which the data were extracted
        if observation periods end later, on placeholder dates. Default: with the observation
        periods.

    Examples
    --------
    >>> from steropes.studies import GridSpec
    >>> from steropes.studies.cohorts import CohortSources, ConceptSet
    >>> from steropes.studies.comparative import Question, StudyAnalysis
    >>> sources = CohortSources(table="cohort", conditions={3: ConceptSet((192671,))})
    >>> spec = GridSpec(sources, (Question(1, 2, (3,)),), (StudyAnalysis(1), StudyAnalysis(2)))
    >>> [analysis.id for analysis in spec.analyses]
    [1, 2]
    """

    cohorts: CohortSources
    question: Listed[Question]
    analysis: Listed[StudyAnalysis]
    controls: ControlSet = field(default_factory=ControlSet)
    thresholds: DiagnosticThresholds = field(default_factory=DiagnosticThresholds)
    database_id: Name = "database"
    schema: Name = "main"
    min_cell: Count | None = None
    window: Listed[RiskWindow] = ()
    time_zone: TimeZone = "UTC"
    exclude: Listed[Exclusion] = ()
    observed_until: Day | None = None

    def __post_init__(self) -> None:
        """Refuse a grid with missing, repeated or contradictory parts."""
        for name in ("question", "analysis"):
            if not getattr(self, name):
                raise DataError(f"a grid needs at least one {name}")
        _check_windows(self.window, self.analysis)
        ids = [a.id for a in self.analyses]
        if len({*ids}) < len(ids):
            raise DataError(f"two analyses have the id {next(i for i in ids if ids.count(i) > 1)}")
        pairs = [(q.target, q.comparator, q.nesting) for q in self.question]
        twice = next((p for p, n in Counter(pairs).items() if n > 1), None)
        if twice is not None:
            raise DataError(
                f"two questions compare cohorts {twice[0]} and {twice[1]}; list the outcomes of "
                "both in one"
            )
        c = self.cohorts
        repeated = {*self.controls.concepts} & c.defined
        if repeated:
            raise DataError(f"control {min(repeated)} is also the id of a cohort")
        _check_controls(self.controls, self.question)
        _check_control_concepts(self.controls, self.question, self.cohorts)
        if self.controls.positive is not None:
            self.controls.positive.analysis(self.analyses)

    @property
    def analyses(self) -> tuple[StudyAnalysis, ...]:
        """The analyses, each repeated by its windows."""
        made: list[StudyAnalysis] = []
        for a in self.analysis:
            of = [w for w in self.window if not w.analyses or a.id in w.analyses]
            for w in of:
                said = ", ".join(s for s in (a.description, w.description or f"window {w.id}") if s)
                made.append(replace(a, id=100 * a.id + w.id, description=said, at_risk=w.at_risk))
            if not of:
                made.append(a)
        return tuple(made)

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions, with the negative controls that all of them share."""
        shared = [*self.controls.cohorts, *self.controls.concepts]
        made = []
        for q in self.question:
            listed = {o.id for o in q.outcomes}
            more = tuple(Outcome(c, 1.0) for c in shared if c not in listed)
            made.append(
                Question(q.target, q.comparator, (*q.outcomes, *more), q.nesting, q.exclude)
            )
        return tuple(made)

    def excludes(self, question: Question, outcome: int, analysis: StudyAnalysis) -> bool:
        """Return whether a result is excluded.

        Parameters
        ----------
        question : Question
            The question.
        outcome : int
            Id of the outcome.
        analysis : StudyAnalysis
            The analysis.

        Returns
        -------
        bool
            Whether an exclusion covers the result.
        """
        return any(e.covers(question, outcome, analysis.id) for e in self.exclude)

    def make_cohorts(self, db: OmopDatabase) -> MadeCohorts:
        """Build the cohorts of all questions and analyses, with the reasons for those that fail.

        Parameters
        ----------
        db : OmopDatabase
            The database.

        Returns
        -------
        MadeCohorts
            The cohorts, and the reasons why some cannot be built.
        """
        return self._sources().make(db, self._wanted())

    @property
    def unused(self) -> list[int]:
        """Ids of cohorts that are defined but not used by any question or analysis."""
        return sorted(self.cohorts.defined - self._wanted())

    def _wanted(self) -> set[int]:
        """Return the ids of the cohorts that questions and analyses use."""
        wanted = {c for a in self.analysis for c in (a.competing, a.nesting) if c is not None}
        for q in self.questions:
            wanted |= {q.target, q.comparator, *(o.id for o in q.outcomes)}
            wanted |= {q.nesting} if q.nesting is not None else set()
        return wanted

    def _sources(self) -> CohortSources:
        """Return the sources of cohorts, including controls that are given as concepts."""
        concepts = {c: ConceptSet((c,)) for c in self.controls.concepts}
        return replace(self.cohorts, conditions={**self.cohorts.conditions, **concepts})

    def of_compared(self, db: OmopDatabase, refused: Mapping[int, str]) -> OmopDatabase:
        """Narrow the database to people who may belong to one of the compared cohorts.

        Parameters
        ----------
        db : OmopDatabase
            The database.
        refused : mapping of int to str
            Cohorts that cannot be built.

        Returns
        -------
        OmopDatabase
            The restricted database.
        """
        compared = {c for q in self.question for c in (q.target, q.comparator)}
        return self.cohorts.compared(db, compared - {*refused})

    def to_json(self) -> str:
        """Return the specification as JSON with all settings.

        Returns
        -------
        str
            JSON text with every setting.
        """
        return json.dumps(asdict(self), indent=1, default=str, sort_keys=True) + "\n"


def _check_controls(controls: ControlSet, questions: tuple[Question, ...]) -> None:
    """Refuse negative controls with another role in a question, and positive ones without any.

    A question may list a negative control itself, with a true ratio of 1.
    """
    shared = {*controls.cohorts, *controls.concepts}
    for q in questions:
        asked = f"the question of {q.target} against {q.comparator}"
        uses = {o.id: f"an outcome of interest of {asked}" for o in q.outcomes if o.of_interest}
        uses |= {
            o.id: f"an outcome of {asked} with a true ratio of {o.true_ratio:g}"
            for o in q.outcomes
            if o.true_ratio not in (None, 1.0)
        }
        uses |= {q.target: f"the target of {asked}", q.comparator: f"the comparator of {asked}"}
        both = shared & {*uses}
        if both:
            raise DataError(
                f"negative control {min(both)} is also {uses[min(both)]}; it can be one of the two"
            )
    negative = any(o.true_ratio == 1.0 for q in questions for o in q.outcomes)
    if controls.positive is not None and not (shared or negative):
        raise DataError("positive controls are made from negative ones, and none are listed")


def _check_control_concepts(
    controls: ControlSet, questions: tuple[Question, ...], cohorts: CohortSources
) -> None:
    """Refuse negative controls with a concept of an outcome of interest, under another id."""
    of_control = {concept: concept for concept in controls.concepts}
    for control in controls.cohorts:
        if control in cohorts.conditions:
            of_control |= dict.fromkeys(cohorts.conditions[control].include, control)
    for q in questions:
        for outcome in q.outcomes:
            if not outcome.of_interest or outcome.id not in cohorts.conditions:
                continue
            both = {*cohorts.conditions[outcome.id].include} & {*of_control}
            if both:
                raise DataError(
                    f"concept {min(both)} of negative control {of_control[min(both)]} is also one "
                    f"of outcome {outcome.id}, an outcome of interest of the question of "
                    f"{q.target} against {q.comparator}; it can be one of the two"
                )


def _check_windows(windows: tuple[RiskWindow, ...], analyses: tuple[StudyAnalysis, ...]) -> None:
    """Refuse repeated windows, unknown analyses, and analyses with another time at risk."""
    ids = [w.id for w in windows]
    if len({*ids}) < len(ids):
        raise DataError(f"two windows have the id {next(i for i in ids if ids.count(i) > 1)}")
    known = {a.id for a in analyses}
    for w in windows:
        gone = [a for a in w.analyses if a not in known]
        if gone:
            raise DataError(f"window {w.id}: there is no analysis {gone[0]}")
        for a in analyses:
            by_default = a.at_risk in (TimeAtRisk(), cohort_method().at_risk)
            if (not w.analyses or a.id in w.analyses) and not by_default:
                raise DataError(
                    f"analysis {a.id} has a time at risk and window {w.id}; give it in "
                    "one of the two places"
                )
