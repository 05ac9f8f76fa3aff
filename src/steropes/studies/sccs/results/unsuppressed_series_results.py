"""Results of a case series before small counts are suppressed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd
from numpy.typing import NDArray

from steropes.data.formatted_tables_for_papers import Interval
from steropes.data.plottable_result_tables import ResultTable, present
from steropes.designs.case_series.calendar_time_splines import TimeEffect, TimeEffects
from steropes.designs.case_series.event_dependent_observation import CensorModel
from steropes.designs.case_series.event_timing import (
    Exposures,
    age_spans,
    calendar_spans,
    time_to_event,
)
from steropes.designs.case_series.interval_rows import Intervals
from steropes.designs.case_series.sccs_model import CaseSeriesModel
from steropes.designs.case_series.unexposed_case_sampling_cost import Sampling, sampling_cost
from steropes.errors import DataError
from steropes.studies.database.data_quality_notes import DataNote, distinct
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.sccs.cases.case_population import Population
from steropes.studies.sccs.results.sccs_diagnostics import Diagnostics
from steropes.studies.sccs.specification.case_series_settings import CaseSeriesSettings
from steropes.studies.settings.frozen_protocol import ProtocolStatement

__all__ = ["ExactSeries"]


@dataclass(frozen=True, repr=False)
class ExactSeries:
    """The exact results of a case series, from which its release is made.

    `CaseSeries` describes the attributes.
    """

    settings: CaseSeriesSettings
    outcome: str
    eras: pd.DataFrame
    source: str | None
    population: Population
    intervals: Intervals
    model: CaseSeriesModel
    exposures: dict[str, Exposures]
    effects: TimeEffects | None
    censoring: CensorModel | None
    monthly: pd.DataFrame
    diagnostics: list[Diagnostics]
    notes: tuple[DataNote, ...] = ()
    rules: DisclosureRules = field(default_factory=DisclosureRules)
    protocol: ProtocolStatement | None = None

    @property
    def estimates(self) -> ResultTable:
        """Rate ratios; see `CaseSeriesModel`."""
        shown = Interval("Rate ratio", "rr", level=0.95)
        return present(
            self.model.estimates,
            "ratio_forest",
            intervals=[shown],
            hidden=["log_rr", "llr", "one_sided_p", "interval"],
            columns=shown[1:4],
            ratio=shown.caption,
        )

    @cached_property
    def sampling(self) -> Sampling | None:
        """The cost of leaving out unexposed cases (``spline_cases``); None if all are used."""
        return sampling_cost(self.intervals, self.estimates)

    @property
    def attrition(self) -> pd.DataFrame:
        """People, outcomes, observation periods and days that each rule leaves."""
        rows = [r for r in (self.intervals.comparable, self.intervals.attrition) if r is not None]
        last = pd.DataFrame(rows, columns=self.population.attrition.columns)
        return pd.concat([self.population.attrition, last], ignore_index=True)

    @property
    def data_notes(self) -> tuple[DataNote, ...]:
        """Notes on the database, such as people whose observation periods were joined."""
        return distinct((*self.population.notes, *self.notes))

    @property
    def of_interest(self) -> list[str]:
        """Names of the covariates of interest."""
        pairs = zip(self.intervals.names, self.intervals.columns, strict=True)
        return [name for name, column in pairs if column.of_interest]

    def time_to_event(self, covariate: str | None = None) -> pd.DataFrame:
        """Count outcomes by week around the first exposure.

        Parameters
        ----------
        covariate : str, optional
            The exposure, if there are several of interest.

        Returns
        -------
        DataFrame
            ``week`` (−26 … 25; week 0 begins with the exposure), ``outcomes``, ``exposed``
            (outcomes during any era) and ``observed`` (cases observed in that week).
        """
        name = self._exposure(covariate)
        return time_to_event(self.population, self.exposures[name])

    def age_spans(self) -> pd.DataFrame:
        """Count cases whose time covers each month of age.

        Returns
        -------
        DataFrame
            ``age_month`` (completed months) and ``cases``.

        Raises
        ------
        DataError
            Years of birth are missing.
        """
        self.population.require_age("age spans need")
        return age_spans(self.population)

    def calendar_spans(self) -> pd.DataFrame:
        """Count cases whose time covers each calendar month.

        Returns
        -------
        DataFrame
            ``year``, ``month`` (1 … 12) and ``cases``.
        """
        return calendar_spans(self.population)

    def effect_names(self, effect: TimeEffect) -> list[str]:
        """Return the names of the columns of one of the splines in ``effects``.

        Parameters
        ----------
        effect : TimeEffect
            One of the splines in ``effects``.

        Returns
        -------
        list of str
            Names of the columns.

        Raises
        ------
        DataError
            The effect belongs to another study.
        """
        assert self.effects is not None
        at = self.intervals.X.shape[1]
        for e in self.effects.effects:
            names = self.intervals.names[at : at + len(e.names)]
            if e is effect:
                return names
            at += len(e.names)
        raise DataError("the effect belongs to another study")

    def effect_coefficients(self, effect: TimeEffect) -> NDArray:
        """Return the coefficients of one of the splines in ``effects``.

        Parameters
        ----------
        effect : TimeEffect
            One of the splines in ``effects``.

        Returns
        -------
        ndarray
            Log rate ratios of the columns of the spline.
        """
        return self.estimates.loc[self.effect_names(effect), "log_rr"].to_numpy(float)

    def _exposure(self, covariate: str | None) -> str:
        """Return the named exposure, or the only one."""
        names = list(self.exposures)
        if covariate is None and len(names) == 1:
            return names[0]
        if covariate not in names:
            raise DataError(f"covariate must be one of {', '.join(names)}, not {covariate!r}")
        return str(covariate)
