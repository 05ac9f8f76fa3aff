"""Case series: intervals of cases, splines of age and time, fits and profiles."""

from steropes.designs.case_series.cases import Cases
from steropes.designs.case_series.columns import Column
from steropes.designs.case_series.event_dependent_observation import CensorModel, fit_censoring
from steropes.designs.case_series.intervals import Intervals, make_intervals
from steropes.designs.case_series.model_settings import SeriesModelSettings, Spline
from steropes.designs.case_series.sccs_model import CaseSeriesModel, fit_model
from steropes.designs.case_series.spans import Spans

__all__ = [
    "CaseSeriesModel",
    "Cases",
    "CensorModel",
    "Column",
    "Intervals",
    "SeriesModelSettings",
    "Spans",
    "Spline",
    "fit_censoring",
    "fit_model",
    "make_intervals",
]
