"""Grids of analyses: questions × outcomes × analyses on the cohorts of one database."""

from .diagnostics import Diagnostics, DiagnosticThresholds
from .settings import Outcome, Question, StudyAnalysis
from .workbench import AnalysisResult, Shared, Workbench

__all__ = [
    "AnalysisResult",
    "DiagnosticThresholds",
    "Diagnostics",
    "Outcome",
    "Question",
    "Shared",
    "StudyAnalysis",
    "Workbench",
]
