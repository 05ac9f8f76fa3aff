"""Grids of analyses: questions × outcomes × analyses on the cohorts of one database."""

from .answer import AnalysisResult, Prepared, Shared
from .settings import Outcome, Question, StudyAnalysis
from .workbench import Workbench

__all__ = [
    "AnalysisResult",
    "Outcome",
    "Prepared",
    "Question",
    "Shared",
    "StudyAnalysis",
    "Workbench",
]
