"""Outcomes and the vectors beside them, validated; every refusal names the row and the remedy."""

from .checks import (
    check_classes,
    check_exposure,
    check_level,
    check_offset,
    check_response,
    check_strata,
    check_weights,
)
from .labels import refuse_other_order
from .outcome import Surv, Survival, check_survival

__all__ = [
    "Surv",
    "Survival",
    "check_classes",
    "check_exposure",
    "check_level",
    "check_offset",
    "check_response",
    "check_strata",
    "check_survival",
    "check_weights",
    "refuse_other_order",
]
