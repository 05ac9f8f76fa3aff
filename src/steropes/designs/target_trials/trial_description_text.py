"""Sentences about a sequence of trials: the estimand, and the emulation of each component."""

from __future__ import annotations

from typing import Any, Protocol

from steropes.data.number_formatting import counted
from steropes.designs.target_trials.sequential_trial_rows import TrialSequence
from steropes.designs.target_trials.trial_protocol import TargetTrial

__all__ = ["Analysis", "emulated_protocol", "estimand_words"]

EFFECTS = {
    "intention-to-treat": (
        "The intention-to-treat effect: of starting treatment against not starting it at the "
        "beginning of a trial, whatever people take later"
    ),
    "per-protocol": (
        "The per-protocol effect: of taking treatment throughout against never taking it, had "
        "nobody deviated"
    ),
    "as-treated": (
        "The as-treated effect: of taking treatment in a period, compared between people by the "
        "treatment of this period"
    ),
}
NOT = {
    "intention-to-treat": "The effect of adherence (per protocol) is not estimated.",
    "per-protocol": "The effect of assignment alone (intention to treat) is not estimated.",
    "as-treated": (
        "Neither the effect of assignment (intention to treat) nor effects of the duration of "
        "treatment are estimated."
    ),
}


class Analysis(Protocol):
    """Settings that the sentences name."""

    @property
    def effect(self) -> str:
        """Effect that is estimated."""

    @property
    def model(self) -> str:
        """Outcome model."""

    @property
    def covariates(self) -> tuple[str, ...]:
        """Columns of the outcome model."""

    @property
    def pairs(self) -> list[Any]:
        """Models of the weights."""

    @property
    def stabilized(self) -> bool:
        """Whether weights have numerators."""

    @property
    def truncate(self) -> Any:
        """Quantiles at which weights are truncated."""

    @property
    def bootstrap(self) -> int:
        """Number of bootstrap draws."""

    @property
    def follow_up(self) -> int | None:
        """Largest number of periods of follow-up."""


def estimand_words(effect: str, population: str) -> str:
    """State which effect is estimated, and which is not."""
    people = "person-trials" if population == "all" else "people of the first trial"
    return (
        f"{EFFECTS[effect]}; risks are averages over the {people}. It is causal if the covariates "
        f"suffice to make the groups exchangeable. {NOT[effect]}"
    )


def emulated_protocol(settings: Analysis, trials: TrialSequence) -> TargetTrial:
    """Describe how each component of the target trial is emulated."""
    periods = int(trials.trial.max() - trials.trial.min()) + 1
    names = ", ".join(settings.covariates) or "no covariates"
    last = "the end of the data" if settings.follow_up is None else f"{settings.follow_up} periods"
    weights = "without weights"
    if settings.pairs:
        weights = "with stabilised" if settings.stabilized else "with unstabilised"
        weights += " inverse probability weights"
        if settings.truncate is not None:
            weights += f" truncated at the quantile {settings.truncate}"
    kind = "pooled logistic" if settings.model == "logistic" else "Cox"
    errors = (
        f"{settings.bootstrap} bootstrap draws of people"
        if settings.bootstrap
        else "errors clustered by person"
    )
    return TargetTrial(
        eligibility=(
            f"The same criteria in each of {periods} periods: {counted(trials.rows.people)} people "
            f"in {counted(len(trials.start))} person-trials"
        ),
        strategies="Treatment, or no treatment, from the period of eligibility on",
        assignment=(
            f"By the treatment in the first period, taken as random given {names} at that time"
        ),
        follow_up=(
            f"From the period of eligibility to the outcome, loss, or {last}"
            + (", or the first change of treatment" if settings.effect == "per-protocol" else "")
        ),
        outcome="The outcome in each period of the data",
        contrast=f"{settings.effect.capitalize()} effect",
        analysis=f"{kind.capitalize()} model of the sequence of trials {weights}; {errors}",
    )
