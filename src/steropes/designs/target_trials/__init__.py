"""Emulation of target trials: sequential trials, and clones with weights for censoring."""

from steropes.designs.target_trials.clone_censor_weight import clone_censor_weight
from steropes.designs.target_trials.emulation_result import EmulatedTrial
from steropes.designs.target_trials.sequential_trials import sequential_trials
from steropes.designs.target_trials.trial_protocol import TargetTrial

__all__ = ["EmulatedTrial", "TargetTrial", "clone_censor_weight", "sequential_trials"]
