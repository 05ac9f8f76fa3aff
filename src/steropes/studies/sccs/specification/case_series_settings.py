"""Settings of a case series: cases, exposure windows and model."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Literal

from steropes.designs.case_series.model_settings import Prior, Spline, Variance
from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import (
    Age,
    Count,
    Day,
    Days,
    Folds,
    Listed,
    Name,
    Number,
    Offset,
    TimeZone,
    Whole,
    YesNo,
)
from steropes.designs.settings.value_checks import Before
from steropes.designs.values.dates_and_ages import AgeRule, calendar_date
from steropes.errors import DataError
from steropes.select.crossvalidation import FOLDS
from steropes.studies.sccs.specification.sccs_thresholds import Thresholds
from steropes.studies.settings.concept_id_type import ConceptId

__all__ = ["CaseRules", "CaseSeriesSettings", "ExposureWindow", "control_window"]

Anchor = Literal["start", "end"]
Kind = Literal["exposure", "condition"]


def _periods(periods: object) -> tuple[tuple[dt.date | None, dt.date | None], ...]:
    """Check and sort the study periods."""
    if isinstance(periods, str) or not isinstance(periods, Sequence):
        raise ValueError(f"must be a list of (start, end), not {periods!r}")
    found = []
    for pair in periods:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise ValueError(f"each must be (start, end), not {pair!r}")
        start, end = (_date(d) for d in pair)
        if start is not None and end is not None and end < start:
            raise ValueError(f"a study period ends on {end}, before it starts on {start}")
        found.append((start, end))
    found.sort(key=lambda p: p[0] or dt.date.min)
    for a, b in itertools.pairwise(found):
        if a[1] is None or b[0] is None or b[0] <= a[1]:
            raise ValueError("study periods overlap")
    return tuple(found)


def _date(value: object) -> dt.date | None:
    """Convert a date or text to a date; an open end is None, or in files false or empty text."""
    if value is None or value is False or value == "":
        return None
    return calendar_date("the start or end of a study period", value)


Periods = Annotated[tuple[tuple[dt.date | None, dt.date | None], ...], Before(_periods)]


class ExposureWindow(Settings):
    """A period around eras in which a 0/1 covariate is one.

    Eras that overlap or touch count as one era. A window ends before the next era of the same
    covariate begins. Days are counted from 0, and both ends are inclusive.

    Parameters
    ----------
    label : str
        Name of the covariate; with ``by_concept`` the names of the concepts are added.
    eras : tuple of int, optional
        Ids of the eras: concepts, or cohorts if exposures come from a cohort table. None means all
        ids.
    exclude : tuple of int
        Ids to leave out.
    start, end : int, default 0
        Offsets in days of the first and last day from ``start_at`` and ``end_at``.
    start_at, end_at : {"start", "end"}, default "start" and "end"
        Whether an offset is relative to the era's first or last day.
    by_concept : bool, default False
        Create a covariate for each id instead of one for all ids.
    first_only : bool, default False
        Use only the first era in an observation period.
    penalized : bool, default False
        Apply the prior to the covariate.
    of_interest : bool, default False
        Whether the covariate is of interest: it gets an interval, power and diagnostics.
    profile : bool, default False
        Compute its likelihood profile for evidence synthesis.
    pre_exposure : bool, optional
        Whether it is the pre-exposure window of the diagnostic. Default: whether ``start`` is
        negative.
    kind : {"exposure", "condition"}, default "exposure"
        Kind of eras: exposures, or conditions (``condition_era``), such as the indication of a drug
        as a confounder.

    Examples
    --------
    >>> from steropes.studies.sccs import ExposureWindow
    >>> ExposureWindow("before", (1118084,), start=-30, end=-1, end_at="start").label
    'before'
    """

    label: Name
    eras: Listed[ConceptId] | None = None
    exclude: Listed[ConceptId] = ()
    start: Offset = 0
    end: Offset = 0
    start_at: Anchor = "start"
    end_at: Anchor = "end"
    by_concept: YesNo = False
    first_only: YesNo = False
    penalized: YesNo = False
    of_interest: YesNo = False
    profile: YesNo = False
    pre_exposure: YesNo | None = None
    kind: Kind = "exposure"

    def __post_init__(self) -> None:
        """Mark windows before exposure, and refuse those that end before they start."""
        if self.pre_exposure is None:
            object.__setattr__(self, "pre_exposure", self.start < 0)
        if self.start_at == self.end_at and self.end < self.start:
            raise DataError(
                f"window {self.label!r} ends on day {self.end}, before it starts on {self.start}"
            )


def control_window(
    label: str = "Control interval",
    eras: Sequence[int] | None = None,
    start: int = -180,
    end: int = -1,
    start_at: Anchor = "start",
    end_at: Anchor = "start",
    first_only: bool = False,
) -> ExposureWindow:
    """Define the control interval of a self-controlled risk interval design.

    Only days in a window or in the control interval count; days in both count as exposed.

    Parameters
    ----------
    label : str, default "Control interval"
        Name of the interval.
    eras : sequence of int, optional
        Ids of the eras: concepts, or cohorts. None means all ids.
    start, end : int, default -180 and -1
        Offsets in days of the first and last day from ``start_at`` and ``end_at``.
    start_at, end_at : {"start", "end"}, default "start"
        Whether an offset is relative to the era's first or last day.
    first_only : bool, default False
        Use only the first era in an observation period.

    Returns
    -------
    ExposureWindow
        The interval.

    References
    ----------
    Greene, Kulldorff, Lewis and others (2010), American Journal of Epidemiology 171:177–188.

    Examples
    --------
    >>> from steropes.studies.sccs import control_window
    >>> control_window(eras=(1118084,), start=-90).end
    -1
    """
    return ExposureWindow(
        label, None if eras is None else tuple(eras), start=start, end=end, start_at=start_at,
        end_at=end_at, first_only=first_only, pre_exposure=False,
    )  # fmt: skip


class CaseRules(Settings):
    """Rules that select the cases and the days that count.

    Parameters
    ----------
    outcome : int
        Id of the outcome: a condition, or a cohort.
    outcomes_from : str, default "condition_occurrence"
        Source of outcomes: "condition_occurrence", "condition_era", "drug_era" (the first day of an
        era, with the start of a treatment as a proxy of the condition), or "cohort".
    exposures_from : str, default "drug_era"
        Source of exposures: "drug_era", or "cohort".
    descendants : bool, default True
        Also include the descendants of concepts in ``concept_ancestor``.
    nesting_cohort : int, optional
        Only time within this cohort counts.
    study_periods : tuple of (start, end), optional
        Only time within these periods counts. Ends are dates (``datetime.date`` or "2010-12-31"),
        or None if open.
    first_outcome_only : bool, default False
        Only a person's first recorded outcome counts.
    naive_days : int, default 0
        Initial days of observation that do not count, nor outcomes in them.
    min_age : int, optional
        Time before this age in completed years does not count. A missing month or day of birth is
        taken as the first; people born on 29 February have birthdays on 1 March in other years.
    max_age : int, optional
        Time after this age in completed years does not count.
    sexes : tuple of int
        Concept ids of sexes (8507 male, 8532 female); empty for all.
    restrict_to_exposure : int, optional
        Only days between the first and the last record of this exposure in the database count.
    max_cases : int, default 0
        Size of a random sample of the cases; 0 for all.
    min_eras : int, default 0
        Ids with fewer eras among the cases are not used.
    seed : int, default 1
        Seed of the sample.
    age_rule : {"birthdays", "365.25 days"}, default "birthdays"
        Whether a year of age is completed on the birthday, or after 365.25 days, rounded, as in
        R's SelfControlledCaseSeries.

    Examples
    --------
    >>> from steropes.studies.sccs import CaseRules
    >>> CaseRules(192671, first_outcome_only=True, naive_days=365).outcomes_from
    'condition_occurrence'
    """

    outcome: ConceptId
    outcomes_from: Literal["condition_occurrence", "condition_era", "drug_era", "cohort"] = (
        "condition_occurrence"
    )
    exposures_from: Literal["drug_era", "cohort"] = "drug_era"
    descendants: YesNo = True
    nesting_cohort: ConceptId | None = None
    study_periods: Periods = ()
    first_outcome_only: YesNo = False
    naive_days: Count = 0
    min_age: Age | None = None
    max_age: Age | None = None
    sexes: Listed[ConceptId] = ()
    restrict_to_exposure: ConceptId | None = None
    max_cases: Count = 0
    min_eras: Count = 0
    seed: Count = 1
    age_rule: AgeRule = "birthdays"

    def __post_init__(self) -> None:
        """Refuse a largest age below the smallest."""
        low, high = self.min_age, self.max_age
        if low is not None and high is not None and high < low:
            raise DataError(f"max_age {high} is below min_age {low}")


class CaseSeriesSettings(Settings):
    """Settings of a case series that determine its result for a given database.

    Parameters
    ----------
    cases : CaseRules
        Rules that select the cases.
    windows : tuple of ExposureWindow
        Covariates of the exposures.
    control : ExposureWindow, optional
        Control interval of a self-controlled risk interval design.
    age : Spline, optional
        Adjust for age by a spline.
    season : Spline, optional
        Adjust for season by a cyclic spline.
    calendar : Spline, optional
        Adjust for calendar time by a spline.
    spline_cases : int, default 10000
        Largest number of unexposed cases, evenly spaced, used to fit the splines.
    end_of_observation_days : int, default 30
        Length of the probe window at the end of observation; 0 for none. A risk interval design
        has none.
    event_dependent_observation : bool, default False
        Weight time by Farrington and others (2011), for events that may end observation.
    prior : {"laplace", "normal", "hierarchical", "none"}, default "laplace"
        Prior of windows and splines that are ``penalized``. The hierarchical prior is normal
        around the mean of each drug's ATC class (Suchard and others 2013, section 4).
    group_variance : float, default 1
        Variance of the classes' means in a hierarchical prior.
    class_length : {1, 3, 4, 5}, default 4
        Length of the ATC codes that define the classes.
    variance : float, optional
        Variance of the prior. None chooses it by cross-validation over people.
    folds : int, default 10
        Folds of that cross-validation.
    seed : int, default 1
        Seed of the folds and of the bootstrap.
    bootstrap : int, default 0
        Number of draws of people, for bootstrap intervals and the share of draws in which the
        coefficient of a penalised covariate is not zero.
    level : float, default 0.95
        Level of the intervals.
    thresholds : Thresholds
        Thresholds of the diagnostics.
    min_cell : int, optional
        Smallest count to publish, if larger than that of the disclosure rules (5 by default).
    schema : str, default "main"
        Schema of the CDM tables.
    unblind : bool, default False
        Show estimates of exposures that fail a diagnostic on the page, in its figures, in the
        terminal and in the ``repr``. The exact tables contain them in any case.
    time_zone : str, default "UTC"
        Time zone that determines the dates of instants; see `OmopDatabase`.
    observed_until : date, optional
        End observation on this day at the latest, such as the day on which the data were extracted
        if observation periods end later, on placeholder dates. Default: with the observation
        periods.

    See Also
    --------
    case_series_settings : Common designs.

    Examples
    --------
    >>> from steropes.studies import CaseSeriesSettings
    >>> from steropes.studies.sccs import CaseRules, ExposureWindow
    >>> window = ExposureWindow("celecoxib", (1118084,), end=30, of_interest=True)
    >>> CaseSeriesSettings(CaseRules(192671), (window,)).prior
    'laplace'
    """

    cases: CaseRules
    windows: Listed[ExposureWindow]
    control: ExposureWindow | None = None
    age: Spline | None = None
    season: Spline | None = None
    calendar: Spline | None = None
    spline_cases: Annotated[int, Whole(1)] = 10_000
    end_of_observation_days: Days = 30
    event_dependent_observation: YesNo = False
    prior: Prior = "laplace"
    variance: Variance | None = None
    group_variance: Variance = 1.0
    class_length: Literal[1, 3, 4, 5] = 4
    folds: Folds = FOLDS
    seed: Count = 1
    bootstrap: Count = 0
    level: Annotated[float, Number(0.5, 0.9999)] = 0.95
    thresholds: Thresholds = field(default_factory=Thresholds)
    min_cell: Count | None = None
    schema: Name = "main"
    unblind: YesNo = False
    time_zone: TimeZone = "UTC"
    observed_until: Day | None = None

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other."""
        if not self.windows:
            raise DataError("a case series needs at least one exposure window")
        if self.control is not None and (self.age or self.season or self.calendar):
            raise DataError(
                "a self-controlled risk interval design compares days that are close together "
                "and has no splines; leave age, season and calendar out"
            )
        if self.control is not None and self.event_dependent_observation:
            raise DataError(
                "event_dependent_observation weights all of a person's time, of which a risk "
                "interval design uses a part; choose one of the two"
            )
        splines = (self.age, self.season, self.calendar)
        penalized = [part.penalized for part in (*self.windows, *splines) if part is not None]
        if self.prior == "none" and any(penalized):
            raise DataError("a window or spline is penalized, but prior is 'none'")
