"""Specifications of comparative studies: classes, files, presets and a demonstration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steropes.studies._optional_packages import lazy_names

if TYPE_CHECKING:  # the same names for editors and type checkers
    from .grid_specification import ControlSet, Exclusion, RiskWindow
    from .positive_controls import PositiveControls

__all__ = [
    "ControlSet",
    "Exclusion",
    "PositiveControls",
    "RiskWindow",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "positive_controls": ["PositiveControls"],
            "grid_specification": ["ControlSet", "Exclusion", "RiskWindow"],
        },
    )
