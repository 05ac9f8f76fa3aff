"""Self-controlled case series from a database: specifications, cases, eras and results.

The model is in `steropes.designs.case_series`. The names here are settings of case series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steropes.studies._optional_packages import lazy_names

if TYPE_CHECKING:  # the same names for editors and type checkers
    from .specification.case_series_grid_settings import (
        SeriesAnalysis,
        SeriesExclusion,
        SeriesQuestion,
    )
    from .specification.case_series_settings import CaseRules, ExposureWindow, control_window
    from .specification.sccs_thresholds import Thresholds

__all__ = [
    "CaseRules",
    "ExposureWindow",
    "SeriesAnalysis",
    "SeriesExclusion",
    "SeriesQuestion",
    "Thresholds",
    "control_window",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "specification.case_series_grid_settings": [
                "SeriesAnalysis",
                "SeriesExclusion",
                "SeriesQuestion",
            ],
            "specification.sccs_thresholds": ["Thresholds"],
            "specification.case_series_settings": ["CaseRules", "ExposureWindow", "control_window"],
        },
    )
