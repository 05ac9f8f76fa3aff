"""The command that emulates a target trial."""

from __future__ import annotations

from typing import Any

from steropes.studies.cli.design_command_builder import design_command
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.target_trials.trial_settings import OmopTrial

__all__ = ["target_trial"]

CONVERTED: dict[str, Any] = {
    "treatment": (int, int, "Cohort of the treated, or the concept of a drug."),
    "outcome": (int, int, "Cohort of the outcome, or the concept of a condition."),
    "nesting": (int, int, "Cohort or condition that people must have had by the start."),
}
NAMES = {"sexes": "sex", "washout_days": "washout", "covariates": "covariate"}
CONCEPTS = {
    "drugs": ["treatment"], "conditions": ["outcome"], "indications": ["nesting"],
}  # fmt: skip


def _run(db: OmopDatabase, question: OmopTrial, rules: DisclosureRules) -> Any:
    """Run the design."""
    from steropes.studies.target_trials.target_trial_study import target_trial_study

    return target_trial_study(db, question, disclosure=rules)


target_trial = design_command(
    "target_trial",
    "Emulate a target trial of starting a treatment, as a sequence of trials.",
    OmopTrial,
    _run,
    concepts=CONCEPTS,
    converted=CONVERTED,
    names=NAMES,
    in_files=("features",),
)
COMMANDS = (target_trial,)
