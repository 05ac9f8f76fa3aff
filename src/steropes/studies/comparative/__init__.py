"""Comparative cohort studies: settings, adjustment, estimates and positive controls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steropes.studies._optional_packages import lazy_names

if TYPE_CHECKING:  # the same names for editors and type checkers
    from .analysis_cache import Workbench
    from .analysis_result import AnalysisResult
    from .confounder_selection_settings import SelectedConfounders
    from .grid_questions_and_analyses import BalanceFilter, Outcome, Question, StudyAnalysis

__all__ = [
    "AnalysisResult",
    "BalanceFilter",
    "Outcome",
    "Question",
    "SelectedConfounders",
    "StudyAnalysis",
    "Workbench",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "analysis_cache": ["Workbench"],
            "confounder_selection_settings": ["SelectedConfounders"],
            "grid_questions_and_analyses": [
                "BalanceFilter",
                "Outcome",
                "Question",
                "StudyAnalysis",
            ],
            "analysis_result": ["AnalysisResult"],
        },
    )
