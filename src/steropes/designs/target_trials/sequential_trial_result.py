"""The result of a sequence of trials: tables of effects, risks, weights and diagnostics."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.target_trials.bootstrap_of_trials import (
    Refit,
    drawn_coefficients,
    drawn_risks,
)
from steropes.designs.target_trials.columns_on_demand import is_on_demand
from steropes.designs.target_trials.emulation_diagnostics import (
    Row,
    censoring_table,
    diagnostics_table,
    of_draws,
    of_optimum,
    of_positivity,
    of_weights,
    positivity_table,
)
from steropes.designs.target_trials.emulation_result import EmulatedTrial
from steropes.designs.target_trials.marginal_risks import StrategyRisks, contrast_table, risk_table
from steropes.designs.target_trials.sequential_trial_estimates import (
    NAMES,
    Estimates,
    coefficients,
    effect_table,
)
from steropes.designs.target_trials.sequential_trial_rows import TrialSequence, weights_by_interval
from steropes.designs.target_trials.trial_description_text import emulated_protocol, estimand_words
from steropes.designs.target_trials.trial_protocol import TargetTrial, protocol_table

__all__ = ["result_of"]


def result_of(estimates: Estimates, refit: Refit, trial: TargetTrial | None) -> EmulatedTrial:
    """Fit the outcome model, and put the parts of the result together.

    Parameters
    ----------
    refit : callable
        Computes weights of rows, trials and numbers of draws; see `SequenceSettings.weights`.
    """
    settings, trials = estimates.settings, estimates.trials
    model = estimates.fit()
    pooled = settings.model == "logistic"
    stacked = settings.errors == "stacked"
    if pooled:
        influences = estimates.influences(model)
        V = influences.T @ influences
    else:
        V = model.vcov("robust", estimates.clusters)
    draws, failed = drawn_coefficients(estimates, model, refit)
    weights = weights_by_interval(trials, estimates.weights)
    risks = contrasts = pd.DataFrame()
    if pooled:
        found = _strategy_risks(estimates, coefficients(model), V.to_numpy(), draws)
        risks, contrasts = risk_table(found, settings.level), contrast_table(found, settings.level)
    names = list(V.index)
    chosen = [name for name in names if name == "treatment" or name.startswith("treatment:")]
    values = pd.Series(coefficients(model) if pooled else model.coef_, names)
    drawn = None if draws is None else pd.DataFrame(draws, columns=names)[chosen]
    measure = "odds ratio" if pooled else "hazard ratio"
    checks: list[Row] = [*of_positivity(trials), *of_weights(weights, settings.stabilized)]
    checks += [*_of_numerators(estimates), *of_draws(failed, settings.bootstrap)]
    if pooled and is_on_demand(len(estimates.which), len(estimates.columns.names)):
        # The columns are those of the table, which the user may change. Pickles omit the data, but
        # not the covariance that has been computed.
        model = pickle.loads(pickle.dumps(model))
    return EmulatedTrial(
        effects=effect_table(
            measure, values[chosen], V, drawn, settings.level, bool(settings.pairs), stacked
        ),
        risks=risks, contrasts=contrasts, weights=weights,
        censoring=_censoring(trials), diagnostics=diagnostics_table([*checks, *of_optimum(model)]),
        protocol=protocol_table(trial, emulated_protocol(settings, trials)),
        estimand=estimand_words(settings.effect, settings.standardize_to),
        models={"outcome": model}, positivity=positivity_table(trials.trial, trials.assigned),
    )  # fmt: skip


def _strategy_risks(
    estimates: Estimates, coef: NDArray, V: NDArray, draws: NDArray | None
) -> StrategyRisks:
    """Compute risks by time, with their covariance or draws."""
    risk, slope = estimates.risks(coef)
    times = np.arange(1, risk.shape[1] + 1)
    if draws is not None:
        drawn = drawn_risks(estimates, draws)
        return StrategyRisks(NAMES, times, risk, None, drawn)
    covariance = np.einsum("stq,qr,utr->tsu", slope, V, slope)
    return StrategyRisks(NAMES, times, risk, covariance)


def _of_numerators(estimates: Estimates) -> Iterator[Row]:
    """Yield how many columns of numerators change with time."""
    names = [name for numerator, _ in estimates.settings.pairs for name in numerator or ()]
    changing = estimates.trials.rows.changing(list(dict.fromkeys(names)))
    if names:
        note = (
            f"{changing[0]!r} changes with time, but the outcome model conditions on its value at "
            "the start of the trial alone: take baseline columns in numerators."
            if changing
            else ""
        )
        yield "numerators that change with time", float(len(changing)), 0.0, not changing, note


def _censoring(trials: TrialSequence) -> pd.DataFrame:
    """Count how person-trials end."""
    lost = trials.rows.censored[trials.end - 1] == 1
    event = trials.event == 1
    reasons = {
        "outcome": event,
        "change of treatment": trials.deviated & ~event,
        "lost": lost & ~event & ~trials.deviated,
        "end of follow-up": ~event & ~trials.deviated & ~lost,
    }
    return censoring_table(NAMES, 1 - trials.assigned, trials.length, reasons)
