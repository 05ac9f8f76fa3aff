"""The comparative study from database to hazard ratio: the order of the steps, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from steropes.errors import DataError
from steropes.studies.balance import balance_table
from steropes.studies.cohorts import Cohort, CohortRules, new_user_cohort
from steropes.studies.covariates import CovariateRules, Covariates, extract_covariates
from steropes.studies.effects import (
    arm_curves,
    hazard_ratio,
    incidence_rates,
    minimum_detectable_ratio,
    refuse_without_events,
)
from steropes.studies.matching import match_propensity
from steropes.studies.omop import OmopDatabase
from steropes.studies.propensity import Propensity, fit_propensity

__all__ = ["ComparativeStudy", "StudySettings", "comparative_study"]


@dataclass(frozen=True)
class StudySettings:
    """Everything that decides the result of a study, besides the database.

    Attributes
    ----------
    target, comparator, outcome : int
        Concept ids: two drugs (ingredients, or classes of them) and a condition.
    washout_days : int, default 365
        Days of observation required before the start.
    risk_days : int, optional
        Last day at risk, counted from the start. Default: the end of observation.
    descendants : bool, default True
        Whether the concepts stand for their descendants too.
    window_days : int, default 365
        Covariates come from this many days before the start through the start.
    min_people, min_share : default 10 and 0.001
        Covariates that fewer people or a smaller share have are dropped.
    exclude : tuple of int
        Concepts, with their descendants, that are no covariates.
    caliper : float, default 0.2
        In standard deviations of the logit of the propensity score.
    folds : int, default 10
        Folds of the cross-validation that chooses the prior's variance.
    seed : int, default 1
        Seed of the division into folds, the only thing left to chance.
    schema : str, default "main"
        The schema of the database that holds the CDM tables.
    """

    target: int
    comparator: int
    outcome: int
    washout_days: int = 365
    risk_days: int | None = None
    descendants: bool = True
    window_days: int = 365
    min_people: int = 10
    min_share: float = 0.001
    exclude: tuple[int, ...] = ()
    caliper: float = 0.2
    folds: int = 10
    seed: int = 1
    schema: str = "main"

    def __post_init__(self) -> None:
        if self.target == self.comparator:
            raise DataError(f"target and comparator are the same concept, {self.target}")
        if not 0 <= self.caliper < np.inf:
            raise DataError(f"caliper must be 0 or more, not {self.caliper}")
        if self.folds < 2:
            raise DataError(f"folds must be 2 or more, not {self.folds}")
        if self.window_days < 0:
            raise DataError(f"window_days must be 0 or more, not {self.window_days}")

    def part(self, kind: type) -> Any:
        """The settings that ``kind``, another dataclass, has fields for."""
        return kind(**{f.name: getattr(self, f.name) for f in fields(kind)})


@dataclass(frozen=True)
class ComparativeStudy:
    """A finished study; all tables are pandas DataFrames.

    Attributes
    ----------
    settings : StudySettings
    names : dict
        Names of the ``target``, ``comparator`` and ``outcome`` concepts.
    source : str or None
        What the database calls itself.
    cohort : Cohort
        ``attrition`` and more.
    covariates : Covariates
        ``design``, ``columns``, ``dropped``.
    propensity : Propensity
        ``model``, ``auc``, ``coefficients`` …
    people : DataFrame
        The cohort's people with ``propensity``, ``preference`` and ``matched_set`` (−1 if none).
    balance : DataFrame
        Standardised mean differences before and after matching, covariate by covariate.
    rates : DataFrame
        Events and incidence rates, indexed by ``analysis`` ("all" or "matched") and ``arm``.
    hazard_ratios : DataFrame
        Indexed by analysis: "crude", "matched", "matched, stratified".
    detectable : float
        Hazard ratio detectable with 80 % power among the matched.
    """

    settings: StudySettings
    names: dict[str, str]
    source: str | None
    cohort: Cohort
    covariates: Covariates
    propensity: Propensity
    people: pd.DataFrame
    balance: pd.DataFrame
    rates: pd.DataFrame
    hazard_ratios: pd.DataFrame
    detectable: float

    @property
    def attrition(self) -> pd.DataFrame:
        """People left, and dropped, by each rule in each arm."""
        return self.cohort.attrition

    @property
    def matched(self) -> pd.DataFrame:
        """The people who are in a matched set."""
        return self.people[self.people["matched_set"] >= 0]

    @property
    def pairs(self) -> int:
        """Number of matched pairs."""
        return len(self.matched) // 2

    def curves(self) -> dict[str, Any]:
        """Kaplan–Meier curves of the matched ``target`` and ``comparator`` people."""
        return arm_curves(self.matched)

    def to_dict(self) -> dict[str, Any]:
        """Every number of the study as plain Python values, ready for JSON."""
        from steropes.studies.numbers import study_numbers

        return study_numbers(self)

    def write(self, folder: str | Path) -> list[Path]:
        """Write ``report.html`` and ``study.json`` to a folder; returns the two paths.

        The folder is made if it is not there; each file appears complete or not at all.
        """
        from steropes.studies.report import write_report

        return write_report(self, folder)


def comparative_study(
    database: str | Path,
    settings: StudySettings,
    *,
    progress: Callable[[str], None] | None = None,
) -> ComparativeStudy:
    """Compare an outcome between new users of two drugs in an OMOP database.

    New-user cohort, covariates, propensity score by cross-validated lasso, 1:1 matching, balance,
    and Cox regression. The same input gives the same result every time.

    Parameters
    ----------
    database : str or Path
        A DuckDB file that holds an OMOP CDM v5.x; it is opened read-only.
    settings : StudySettings
    progress : callable, optional
        Called with a line of text as each step begins.

    Raises
    ------
    DataError
        A file, concept or setting that cannot be used, an arm without people or without events.
    """
    say = progress or (lambda line: None)
    say("opening the database")
    with OmopDatabase(database, settings.schema) as db:
        names = {
            role: db.concept_name(getattr(settings, role))
            for role in ("target", "comparator", "outcome")
        }
        say("finding new users")
        cohort = new_user_cohort(db, settings.part(CohortRules))
        refuse_without_events(cohort.people, names, "(before matching)")
        say("collecting covariates")
        covariates = extract_covariates(db, cohort, settings.part(CovariateRules))
        source = db.source_name()

    people = cohort.people.copy()
    n, p = len(people), len(covariates.columns)
    say(f"fitting the propensity model ({n:,} people, {p:,} covariates)")
    propensity = fit_propensity(
        covariates.design, people["treated"], folds=settings.folds, seed=settings.seed
    )
    people["propensity"] = propensity.score
    people["preference"] = propensity.preference

    say("matching")
    people["matched_set"] = match_propensity(propensity.logit, people["treated"], settings.caliper)
    matched = people[people["matched_set"] >= 0]
    if matched.empty:
        raise DataError(
            f"no pair lies within the caliper of {settings.caliper:g} standard deviations: "
            "the two groups are not comparable, or the caliper is too small"
        )
    refuse_without_events(matched, names, "(after matching)")
    balance = balance_table(
        covariates.design, covariates.columns["name"], people["treated"], people["matched_set"]
    )

    say("estimating hazard ratios")
    analyses = {
        "crude": hazard_ratio(people),
        "matched": hazard_ratio(matched),
        "matched, stratified": hazard_ratio(matched, strata=matched["matched_set"].to_numpy()),
    }
    return ComparativeStudy(
        settings=settings,
        names=names,
        source=source,
        cohort=cohort,
        covariates=covariates,
        propensity=propensity,
        people=people,
        balance=balance,
        rates=pd.concat(
            {"all": incidence_rates(people), "matched": incidence_rates(matched)},
            names=["analysis"],
        ),
        hazard_ratios=pd.DataFrame.from_dict(analyses, orient="index").rename_axis("analysis"),
        detectable=minimum_detectable_ratio(matched),
    )
