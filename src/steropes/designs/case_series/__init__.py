"""Case series: intervals of cases, splines of age and time, fits and profiles."""

from steropes.designs.case_series.model_settings import Spline

__all__ = ["Spline"]
