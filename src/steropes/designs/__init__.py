"""Study designs on tables in memory: people with treatment, follow-up, outcome and covariates.

Nothing here needs a database. `steropes.designs.controls` calibrates estimates by control outcomes,
`steropes.designs.evidence` combines estimates of several sources,
`steropes.designs.case_series` has intervals and models of case series, and
`steropes.designs.surveillance` tests outcomes as data accrue. `steropes.studies` makes
such tables from OMOP databases and calls the same functions.

Names are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers; a test compares these names with __all__
    from . import case_series, controls, evidence, surveillance
    from .comparative.balance_table import balance_table
    from .comparative.doubly_robust import DoublyRobust
    from .comparative.doubly_robust_survival import DoublyRobustSurvival
    from .comparative.entropy_balancing import EntropyBalancing
    from .comparative.group_means import compare_means
    from .comparative.matching import Matching
    from .comparative.outcome_adaptive_lasso import OutcomeAdaptiveLasso
    from .comparative.propensity_weights import PropensityWeights
    from .comparative.table_one import table_one
    from .covariates import Covariates
    from .effects import (
        AbsoluteEffect,
        Estimate,
        OutcomeModel,
        absolute_effect,
        estimate_effect,
    )
    from .propensity import (
        Balance,
        EstimatedWeights,
        Match,
        PropensityRules,
        PropensityScores,
        Stratify,
        Trim,
        covariate_balance,
        fit_scores,
        match_scores,
        matched_weights,
        propensity_weights,
        score_strata,
        trim,
    )
    from .series_tables.risk_periods import RiskPeriod
    from .target_trials.clone_censor_weight import clone_censor_weight
    from .target_trials.emulation_result import EmulatedTrial
    from .target_trials.protocol import TargetTrial
    from .target_trials.sequential_trials import sequential_trials
    from .time_varying.iterated_g_computation import iterated_g_computation
    from .time_varying.marginal_structural_model import marginal_structural_model

# The package or module that defines each name.
_HOMES = {
    "target_trials.clone_censor_weight": ["clone_censor_weight"],
    "target_trials.emulation_result": ["EmulatedTrial"],
    "target_trials.protocol": ["TargetTrial"],
    "target_trials.sequential_trials": ["sequential_trials"],
    "time_varying.iterated_g_computation": ["iterated_g_computation"],
    "time_varying.marginal_structural_model": ["marginal_structural_model"],
    "comparative.balance_table": ["balance_table"],
    "comparative.doubly_robust": ["DoublyRobust"],
    "comparative.doubly_robust_survival": ["DoublyRobustSurvival"],
    "comparative.entropy_balancing": ["EntropyBalancing"],
    "comparative.group_means": ["compare_means"],
    "comparative.matching": ["Matching"],
    "comparative.outcome_adaptive_lasso": ["OutcomeAdaptiveLasso"],
    "comparative.propensity_weights": ["PropensityWeights"],
    "comparative.table_one": ["table_one"],
    "covariates": ["Covariates"],
    "series_tables.risk_periods": ["RiskPeriod"],
    "effects": [
        "AbsoluteEffect",
        "Estimate",
        "OutcomeModel",
        "absolute_effect",
        "estimate_effect",
    ],
    "propensity": [
        "Balance",
        "EstimatedWeights",
        "Match",
        "PropensityRules",
        "PropensityScores",
        "Stratify",
        "Trim",
        "covariate_balance",
        "fit_scores",
        "match_scores",
        "matched_weights",
        "propensity_weights",
        "score_strata",
        "trim",
    ],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_SUBPACKAGES = (
    "case_series", "controls", "covariates", "effects", "evidence", "propensity", "surveillance",
)  # fmt: skip

__all__ = [
    "AbsoluteEffect",
    "Balance",
    "Covariates",
    "DoublyRobust",
    "DoublyRobustSurvival",
    "EmulatedTrial",
    "EntropyBalancing",
    "Estimate",
    "EstimatedWeights",
    "Match",
    "Matching",
    "OutcomeAdaptiveLasso",
    "OutcomeModel",
    "PropensityRules",
    "PropensityScores",
    "PropensityWeights",
    "RiskPeriod",
    "Stratify",
    "TargetTrial",
    "Trim",
    "absolute_effect",
    "balance_table",
    "case_series",
    "clone_censor_weight",
    "compare_means",
    "controls",
    "covariate_balance",
    "estimate_effect",
    "evidence",
    "fit_scores",
    "iterated_g_computation",
    "marginal_structural_model",
    "match_scores",
    "matched_weights",
    "propensity_weights",
    "score_strata",
    "sequential_trials",
    "surveillance",
    "table_one",
    "trim",
]


if not TYPE_CHECKING:  # type checkers would accept any name if they saw __getattr__

    def __getattr__(name: str) -> Any:
        if name in _SUBPACKAGES:
            return importlib.import_module(f".{name}", __name__)
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
