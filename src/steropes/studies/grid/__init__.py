"""Grids of analyses: questions × outcomes × analyses on the cohorts of one database."""

from .analysis_cache import Workbench
from .answer import AnalysisResult, Prepared, Shared
from .settings import Outcome, Question, StudyAnalysis

__all__ = [
    "AnalysisResult",
    "Outcome",
    "Prepared",
    "Question",
    "Shared",
    "StudyAnalysis",
    "Workbench",
]
