"""Validated outcomes and row vectors; every error message names the row and the remedy."""

from .row_label_checks import refuse_other_order
from .survival_outcome import Surv, SurvivalOutcome, check_survival
from .vector_checks import (
    check_classes,
    check_exposure,
    check_level,
    check_offset,
    check_response,
    check_strata,
    check_weights,
)

__all__ = [
    "Surv",
    "SurvivalOutcome",
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
