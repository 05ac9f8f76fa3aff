"""The emulation of a target trial from its specification."""

from __future__ import annotations

import pandas as pd

from steropes.designs.target_trials.emulation_result import EmulatedTrial
from steropes.designs.target_trials.sequential_trials import sequential_trials
from steropes.designs.target_trials.trial_protocol import TargetTrial
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.target_trials.omop_person_periods import (
    covariate_names,
    person_time,
)
from steropes.studies.target_trials.trial_settings import OmopTrial

__all__ = ["emulate_trial", "fit_trial"]


def emulate_trial(
    db: OmopDatabase, trial: OmopTrial, cohorts: CohortTable | None = None
) -> EmulatedTrial:
    """Emulate a target trial in a database, as a sequence of trials.

    The result has exact numbers for the analyst, which are not rounded or suppressed;
    `target_trial_study` has tables for release.

    Parameters
    ----------
    db : OmopDatabase
        The database.
    trial : OmopTrial
        The specification.
    cohorts : CohortTable, optional
        Cohorts to use instead of those of the specification.

    Returns
    -------
    EmulatedTrial
        Odds ratio, risks by period, weights, diagnostics, and the protocol in words.

    Raises
    ------
    DataError
        As of `person_time` and `sequential_trials`.

    See Also
    --------
    target_trial_study : The same with tables for release.
    person_time : The table of people and periods alone, for other analyses.

    Examples
    --------
    >>> from datetime import date
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import CohortSources, ConceptSet
    >>> from steropes.studies.target_trials import OmopTrial, emulate_trial
    >>> sources = CohortSources(
    ...     drugs={1: ConceptSet((1118084,))}, conditions={3: ConceptSet((192671,))}
    ... )
    >>> trial = OmopTrial(sources, 1, 3, date(2008, 1, 1), date(2009, 12, 31), period_days=90)
    >>> found = emulate_trial(synthetic_database(2000), trial)
    >>> found.effects["measure"].tolist()
    ['odds ratio']
    """
    if cohorts is None:
        cohorts = trial.cohorts.make(db, trial.roles).require_all()
    return fit_trial(person_time(db, trial, cohorts), trial, cohorts)


def fit_trial(table: pd.DataFrame, trial: OmopTrial, cohorts: CohortTable) -> EmulatedTrial:
    """Run the sequence of trials of a table of person-time."""
    names = covariate_names(table)
    switching = trial.effect != "intention-to-treat"
    return sequential_trials(
        table,
        id="person_id",
        period="period",
        treatment="treated",
        outcome="outcome",
        eligible="eligible",
        censored="censored",
        covariates=names,
        effect=trial.effect,
        treatment_weights=([], names) if switching else None,
        censoring_weights=([], names) if trial.censoring_weights else None,
        truncate=trial.truncate,
        follow_up=trial.follow_up,
        bootstrap=trial.bootstrap,
        random_state=trial.seed,
        protocol=protocol_of(trial, cohorts),
    )


def protocol_of(trial: OmopTrial, cohorts: CohortTable) -> TargetTrial:
    """Describe the trial that is emulated in words."""
    treatment, outcome = cohorts.name(trial.treatment), cohorts.name(trial.outcome)
    eligibility = [
        f"{trial.washout_days} days of observation without {treatment}",
        f"no earlier {outcome}",
    ]
    if trial.nesting is not None:
        eligibility.append(f"an earlier record of {cohorts.name(trial.nesting)}")
    if trial.min_age is not None:
        eligibility.append(f"at least {trial.min_age} years old")
    if trial.max_age is not None:
        eligibility.append(f"at most {trial.max_age} years old")
    if trial.sexes:
        eligibility.append(f"gender concepts {', '.join(map(str, trial.sexes))}")
    effects = {
        "intention-to-treat": "Intention-to-treat effect",
        "per-protocol": "Per-protocol effect",
        "as-treated": "Effect of treatment as taken",
    }
    return TargetTrial(
        eligibility="; ".join(eligibility),
        strategies=f"Start {treatment}, or do not start it",
        follow_up=(
            f"From the first day of a period of {trial.period_days} days until {outcome}, the end "
            f"of observation or {trial.study_end}"
        ),
        outcome=outcome,
        contrast=effects[trial.effect],
    )
