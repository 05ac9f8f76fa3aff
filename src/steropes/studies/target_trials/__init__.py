"""Target trials emulated in an OMOP database."""

from steropes.studies.target_trials.emulated_trial import emulate_trial
from steropes.studies.target_trials.omop_person_periods import person_time
from steropes.studies.target_trials.target_trial_study import TargetTrialStudy, target_trial_study
from steropes.studies.target_trials.trial_settings import OmopTrial

__all__ = ["OmopTrial", "TargetTrialStudy", "emulate_trial", "person_time", "target_trial_study"]
