"""Copies of estimators without their fitted attributes."""

from __future__ import annotations

from typing import TypeVar

from steropes.models.fitting.sklearn_base_types import BaseEstimator

__all__ = ["unfitted_copy"]

Step = TypeVar("Step", bound=BaseEstimator)


def unfitted_copy(step: Step) -> Step:
    """Return a copy with the settings alone, so that an error leaves the previous fit intact."""
    draft = object.__new__(type(step))
    draft.__dict__ = dict(step.get_params(deep=False))
    return draft
