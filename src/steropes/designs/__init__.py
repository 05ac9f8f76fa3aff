"""Study designs on tables in memory: people with treatment, follow-up, outcome and covariates.

Nothing here needs a database. The names are those that `steropes.compare_groups`,
`steropes.self_controlled_case_series` and whole studies take, and tables that compare groups.
Other designs and the parts of these are public by subpackage:

- `steropes.designs.propensity`: propensity scores, matching, strata, trimming, weights, balance;
- `steropes.designs.effects`: outcome models, risks and counts of two arms;
- `steropes.designs.target_trials`: emulations of trials in observational data;
- `steropes.designs.time_varying`: treatments that change over time;
- `steropes.designs.case_series`: intervals and models of case series;
- `steropes.designs.bias_analysis`: misclassification, unmeasured confounding and selection;
- `steropes.designs.case_only`: cases against themselves or against controls at risk;
- `steropes.designs.controls`: calibration of estimates by control outcomes;
- `steropes.designs.evidence`: combined estimates of several sources;
- `steropes.designs.surveillance`: tests of outcomes as data accrue;
- `steropes.designs.covariates`: covariates of people, one row a value.

`steropes.studies` makes such tables from OMOP databases and calls the same functions.

Names are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from steropes.moved_names import refuse_moved

if TYPE_CHECKING:  # for editors and type checkers; a test compares these names with __all__
    from . import (
        bias_analysis,
        case_only,
        case_series,
        controls,
        covariates,
        effects,
        evidence,
        propensity,
        surveillance,
        target_trials,
        time_varying,
    )
    from .case_series_from_tables.risk_periods import RiskPeriod
    from .comparative.balance_table import balance_table
    from .comparative.covariate_selection_comparison import compare_selections
    from .comparative.doubly_robust import DoublyRobust
    from .comparative.doubly_robust_survival import DoublyRobustSurvival
    from .comparative.entropy_balancing import EntropyBalancing
    from .comparative.group_means import compare_means
    from .comparative.high_dimensional_propensity_score import HighDimensionalPropensityScore
    from .comparative.matching import Matching
    from .comparative.outcome_adaptive_lasso import OutcomeAdaptiveLasso
    from .comparative.prevalent_new_users import prevalent_new_users
    from .comparative.propensity_weights import PropensityWeights
    from .comparative.table_one import table_one
    from .covariates import Covariates
    from .effects import OutcomeModel, estimate_effect
    from .propensity import Match, PropensityRules, Stratify, Trim, covariate_balance, fit_scores

# The package or module that defines each name.
_HOMES = {
    "comparative.balance_table": ["balance_table"],
    "comparative.doubly_robust": ["DoublyRobust"],
    "comparative.doubly_robust_survival": ["DoublyRobustSurvival"],
    "comparative.entropy_balancing": ["EntropyBalancing"],
    "comparative.group_means": ["compare_means"],
    "comparative.high_dimensional_propensity_score": ["HighDimensionalPropensityScore"],
    "comparative.matching": ["Matching"],
    "comparative.outcome_adaptive_lasso": ["OutcomeAdaptiveLasso"],
    "comparative.prevalent_new_users": ["prevalent_new_users"],
    "comparative.propensity_weights": ["PropensityWeights"],
    "comparative.covariate_selection_comparison": ["compare_selections"],
    "comparative.table_one": ["table_one"],
    "covariates": ["Covariates"],
    "effects": ["OutcomeModel", "estimate_effect"],
    "propensity": [
        "Match",
        "PropensityRules",
        "Stratify",
        "Trim",
        "covariate_balance",
        "fit_scores",
    ],
    "case_series_from_tables.risk_periods": ["RiskPeriod"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_SUBPACKAGES = (
    "bias_analysis", "case_only", "case_series", "controls", "covariates", "effects", "evidence",
    "propensity", "surveillance", "target_trials", "time_varying",
)  # fmt: skip
# Names of earlier versions, by their packages now.
_MOVED = {
    "designs.effects": ["AbsoluteEffect", "Estimate", "absolute_effect"],
    "designs.propensity": [
        "Balance",
        "EstimatedWeights",
        "PropensityScores",
        "match_scores",
        "matched_weights",
        "propensity_weights",
        "score_strata",
        "trim",
    ],
    "designs.target_trials": [
        "EmulatedTrial",
        "TargetTrial",
        "clone_censor_weight",
        "sequential_trials",
    ],
    "designs.time_varying": ["iterated_g_computation", "marginal_structural_model"],
}

__all__ = [
    "Covariates",
    "DoublyRobust",
    "DoublyRobustSurvival",
    "EntropyBalancing",
    "HighDimensionalPropensityScore",
    "Match",
    "Matching",
    "OutcomeAdaptiveLasso",
    "OutcomeModel",
    "PropensityRules",
    "PropensityWeights",
    "RiskPeriod",
    "Stratify",
    "Trim",
    "balance_table",
    "bias_analysis",
    "case_only",
    "case_series",
    "compare_means",
    "compare_selections",
    "controls",
    "covariate_balance",
    "covariates",
    "effects",
    "estimate_effect",
    "evidence",
    "fit_scores",
    "prevalent_new_users",
    "propensity",
    "surveillance",
    "table_one",
    "target_trials",
    "time_varying",
]


if not TYPE_CHECKING:  # type checkers would accept any name if they saw __getattr__

    def __getattr__(name: str) -> Any:
        if name in _SUBPACKAGES:
            return importlib.import_module(f".{name}", __name__)
        if name not in _HOME:
            refuse_moved(__name__, name, _MOVED)
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
