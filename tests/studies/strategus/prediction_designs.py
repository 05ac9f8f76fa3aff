"""Designs of prediction models, and the plan that reads them."""

import copy

from tests.studies.strategus.small_modules import PREDICTION_DESIGN

from steropes.studies.strategus_plans.prediction_plan import prediction_plan
from steropes.studies.strategus_plans.shared_cohorts import DefinedCohort, SharedCohorts

COHORTS = SharedCohorts(tuple(DefinedCohort(i, f"cohort {i}", "{}") for i in (1, 2, 3)))


def design(**changes):
    """Return a design; each change is a field with the values that replace its own."""
    made = copy.deepcopy(PREDICTION_DESIGN)
    for name, value in changes.items():
        made[name] = {**made[name], **value} if isinstance(value, dict) else value
    return made


def plan(*designs):
    return prediction_plan({"modelDesignList": list(designs)}, ("settings",), COHORTS)
