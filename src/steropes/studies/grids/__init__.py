"""Runs of many questions: comparative grids and grids of case series."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steropes.studies._optional_packages import lazy_names

if TYPE_CHECKING:  # the same names for editors and type checkers
    from .control_performance import analysis_performance, compare_analyses

__all__ = [
    "analysis_performance",
    "compare_analyses",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "control_performance": ["analysis_performance", "compare_analyses"],
        },
    )
