"""The positive controls of a grid: made of its negative ones, question by question."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.controls.signal_injection import Synthesis, add_outcomes, outcome_rates
from steropes.errors import DataError
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.cohorts.study_populations import study_population
from steropes.studies.cohorts.time_at_risk import TimeAtRisk
from steropes.studies.cohorts.two_cohort_entry import ComparisonRules
from steropes.studies.comparative.analysis_cache import Workbench
from steropes.studies.comparative.grid_questions_and_analyses import (
    Outcome,
    Question,
    StudyAnalysis,
)
from steropes.studies.covariates.feature_extraction import FeatureRules
from steropes.studies.results.tables_shared_by_outcomes import comparison_id

__all__ = ["FIRST", "PositiveControls", "WithPositives", "add_positive_controls"]

FIRST = 1 << 32  # beyond the ids that a cohort table of 32 bits can have


class PositiveControls(Synthesis):
    """Positive controls to make of every negative control of a question.

    Parameters
    ----------
    ratios : tuple of float, default (1.5, 2, 4)
        Ratios of the positive controls that are made of each negative control.
    min_outcomes : int, default 25
        Required number of treated people with the outcome of a negative control.
    min_for_model : int, default 100
        From this number on, rates are modelled; with fewer all people have the same rate.
    variance : float, optional
        Variance of the model's Laplace prior. Default: chosen by cross-validation.
    folds : int, default 10
        Folds of that cross-validation.
    seed : int, default 1
        Seed of the folds and of the added outcomes.
    precision : float, default 0.01
        Largest difference between the log ratios that are reached and requested.
    tries : int, default 100
        Largest number of draws to reach that precision; the closest is used.
    cohorts : ComparisonRules, optional
        People to whom outcomes are added. Default: those of the analyses, which must then agree.
    at_risk : TimeAtRisk, optional
        Time in which outcomes are added. Default: that of the analyses, which must then agree.
    features : FeatureRules, optional
        Covariates of the model of the rates. Default: those of the first analysis that has any.

    References
    ----------
    Schuemie, Hripcsak, Ryan, Madigan and Suchard (2018), PNAS 115:2571.

    Examples
    --------
    >>> from steropes.studies.specifications import PositiveControls
    >>> PositiveControls(ratios=(2.0,)).min_outcomes
    25
    """

    cohorts: ComparisonRules | None = None
    at_risk: TimeAtRisk | None = None
    features: FeatureRules | None = None

    def analysis(self, analyses: tuple[StudyAnalysis, ...]) -> StudyAnalysis:
        """Return the settings of population and covariates as an analysis.

        Parameters
        ----------
        analyses : tuple of StudyAnalysis
            Analyses of the grid, from which missing settings are taken.

        Returns
        -------
        StudyAnalysis
            An analysis without a propensity model.

        Raises
        ------
        DataError
            Settings are missing, and the analyses differ in them.
        """
        found: dict[str, Any] = {}
        for name, what in (("cohorts", "who is compared"), ("at_risk", "the time at risk")):
            found[name] = getattr(self, name)
            if found[name] is None:
                found[name] = getattr(analyses[0], name)
                if any(getattr(a, name) != found[name] for a in analyses):
                    raise DataError(
                        f"the analyses differ in {what} ({name}): say in {name} of the positive "
                        "controls where outcomes are to be added"
                    )
        features = self.features or next((a.features for a in analyses if a.features), None)
        return StudyAnalysis(0, propensity=None, features=features, **found)


@dataclass(frozen=True, repr=False, eq=False)
class WithPositives:
    """Questions and cohorts with positive controls.

    Attributes
    ----------
    made : list of dict
        A row for each positive control: ``target_comparator_id``, ``outcome_id``,
        ``negative_control_id``, ``target_ratio`` (asked for), ``true_effect_size`` (reached),
        ``outcomes_before`` and ``outcomes_added`` among the target's people.
    """

    questions: tuple[Question, ...]
    cohorts: CohortTable
    made: list[dict[str, Any]]


def add_positive_controls(
    bench: Workbench,
    questions: tuple[Question, ...],
    analyses: tuple[StudyAnalysis, ...],
    rule: PositiveControls,
    say: Callable[[str], None] | None = None,
) -> WithPositives:
    """Make positive controls of all negative ones that have outcomes enough.

    Outcomes are added to people of the target who are at risk, before their own outcome and the
    end of risk. The cohort of a positive control holds those of the negative one as well.

    Parameters
    ----------
    say : callable, optional
        Told each step.
    """
    settings = rule.analysis(analyses)
    asked: list[Question] = []
    made: list[dict[str, Any]] = []
    parts: list[CohortTable] = []
    for question in questions:
        of_it: list[Outcome] = []
        for control in [o for o in question.outcomes if o.true_ratio == 1]:
            name = bench.cohorts.name(control.id)
            if say:
                say(f"positive controls from {name}")
            for row, table in _of_control(bench, question, control.id, settings, rule):
                of_it.append(Outcome(row["outcome_id"], row["true_effect_size"]))
                made.append(row)
                parts.append(table)
        asked.append(replace(question, outcomes=(*question.outcomes, *of_it)))
    return WithPositives(tuple(asked), _together(bench.cohorts, parts), made)


def _of_control(
    bench: Workbench, question: Question, control: int, settings: StudyAnalysis, rule: Synthesis
) -> list[tuple[dict[str, Any], CohortTable]]:
    """Create the positive controls of one negative control, with their cohorts."""
    comparison = bench.comparison(question, settings)
    population = study_population(comparison, bench.cohorts, control, settings.at_risk)
    people = pd.DataFrame(population.people)
    people = people[people["treated"] == 1]
    had = (people["event"] == 1).to_numpy()
    if had.sum() < rule.min_outcomes:
        return []
    features = None
    if settings.features is not None and had.sum() >= rule.min_for_model:
        features = bench.all_features(question, settings).take(people["row"].to_numpy())
    rate = outcome_rates(people, features, rule)
    found = []
    for ratio in rule.ratios:
        tc = comparison_id(question)
        added = add_outcomes(people["time"].to_numpy(), had, rate, ratio, rule, key=(tc, control))
        number = FIRST + zlib.crc32(repr((tc, control, ratio)).encode())
        row = {
            "target_comparator_id": tc,
            "outcome_id": number,
            "negative_control_id": control,
            "target_ratio": ratio,
            "true_effect_size": added.ratio,
            "outcomes_before": int(had.sum()),
            "outcomes_added": len(added.person),
        }
        of_them = people.iloc[added.person]
        person = of_them["person_id"].to_numpy()
        on = of_them["start"].to_numpy().astype("datetime64[D]") + (
            of_them["risk_start"].to_numpy() + added.day - 1
        ).astype("timedelta64[D]")
        name = f"{bench.cohorts.name(control)}, {ratio:g} times"
        found.append((row, _cohort(bench.cohorts, control, number, person, on, name)))
    return found


def _cohort(
    cohorts: CohortTable, control: int, number: int, person: NDArray, on: NDArray, name: str
) -> CohortTable:
    """Make a cohort of the negative control's entries and of the added entries of one day each."""
    own = cohorts.only(control)
    subject = np.concatenate((own.subject, person))
    return CohortTable(
        np.full(len(subject), number),
        subject,
        np.concatenate((own.start, on)),
        np.concatenate((own.end, on)),
        cohorts.database,
        {number: name},
    )


def _together(cohorts: CohortTable, parts: list[CohortTable]) -> CohortTable:
    """Combine all cohorts in one table; positive controls must not share an id."""
    if not parts:
        return cohorts
    every = [cohorts, *parts]
    ids = [i for part in every for i in part.ids]
    if len({*ids}) < len(ids):
        raise DataError("two positive controls have the same id; change a ratio a little")
    names: dict[int, str] = {}
    for part in every:
        names |= part.names or {}
    return CohortTable(
        np.concatenate([p.definition for p in every]),
        np.concatenate([p.subject for p in every]),
        np.concatenate([p.start for p in every]),
        np.concatenate([p.end for p in every]),
        cohorts.database,
        names,
        cohorts.notes,
    )
