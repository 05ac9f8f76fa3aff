"""Case-only and case–control designs from tables of events, exposures and observation."""

from steropes.designs.case_only.case_crossover import case_crossover
from steropes.designs.case_only.case_only_result import CaseOnlyResult
from steropes.designs.case_only.case_time_control import case_time_control
from steropes.designs.case_only.nested_case_control import nested_case_control
from steropes.designs.case_only.risk_interval import self_controlled_risk_interval
from steropes.designs.case_only.risk_set_sampling import sample_risk_sets
from steropes.designs.case_only.self_controlled_cohort import self_controlled_cohort

__all__ = [
    "CaseOnlyResult",
    "case_crossover",
    "case_time_control",
    "nested_case_control",
    "sample_risk_sets",
    "self_controlled_cohort",
    "self_controlled_risk_interval",
]
