"""Questions and analyses of a grid of case series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Annotated, Any

from steropes.designs.controls.signal_injection import Ratios, Synthesis, Tries
from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import (
    Count,
    Day,
    Listed,
    Name,
    Positive,
    TimeZone,
    TrueRatio,
    Whole,
    YesNo,
)
from steropes.errors import DataError
from steropes.studies.cohorts.cohort_sources import CohortSources
from steropes.studies.result_files.hashed_ids import hashed_id
from steropes.studies.sccs.specification.case_series_settings import (
    Anchor,
    CaseRules,
    CaseSeriesSettings,
    ExposureWindow,
    Spline,
)
from steropes.studies.sccs.specification.sccs_cohorts import cohort_settings
from steropes.studies.sccs.specification.sccs_presets import analysis_fields, case_series_settings
from steropes.studies.sccs.specification.sccs_thresholds import Thresholds
from steropes.studies.settings.concept_id_type import ConceptId

__all__ = [
    "CaseSeriesGrid",
    "SeriesAnalysis",
    "SeriesExclusion",
    "SeriesPositives",
    "SeriesQuestion",
]

SPLINES = ("age", "season", "calendar")
# Arguments of `case_series_settings` that describe its own windows.
OF_WINDOWS = {
    "risk_start", "risk_end", "risk_start_at", "risk_end_at", "first_only", "by_concept",
    "pre_exposure_days", "others", "indication", "control",
}  # fmt: skip


class SeriesPositives(Settings):
    """Rules for positive controls from the negative controls of a grid of case series.

    Defaults that comparative grids have too are those of `Synthesis`.

    Attributes
    ----------
    ratios : tuple of float
        Rate ratios to create from each negative control.
    min_outcomes : int
        Required number of outcomes of a negative control in exposed time.
    risk_start : int, default 0
        First exposed day, relative to the first day of an era.
    risk_end : int, default 0
        Last exposed day, relative to the day of the era that ``risk_end_at`` names.
    risk_end_at : {"end", "start"}, default "end"
        Whether ``risk_end`` is relative to the era's last or first day.
    precision : float
        Largest difference between the log ratios that are reached and requested.
    tries : int
        Largest number of draws to reach that precision; the closest is used.
    seed : int, default 1
        Seed of the draws.
    """

    ratios: Ratios = Synthesis.ratios
    min_outcomes: Annotated[int, Whole(1)] = Synthesis.min_outcomes
    risk_start: Annotated[int, Whole(-10_000, 10_000)] = 0
    risk_end: Annotated[int, Whole(-10_000, 10_000)] = 0
    risk_end_at: Anchor = "end"
    precision: Positive = Synthesis.precision
    tries: Tries = Synthesis.tries
    seed: Count = 1


class SeriesQuestion(Settings):
    """An exposure and an outcome.

    Parameters
    ----------
    exposure : int
        Id of the exposure: a drug concept, or a cohort.
    outcome : int
        Id of the outcome: a condition concept, or a cohort.
    true_ratio : float, optional
        Known effect: 1 for a negative control. Without it the question is of interest.
    nesting : int, optional
        A cohort in which time counts, instead of that of the analysis.

    Examples
    --------
    >>> from steropes.studies.sccs import SeriesQuestion
    >>> SeriesQuestion(1118084, 192671).true_ratio is None
    True
    """

    exposure: ConceptId
    outcome: ConceptId
    true_ratio: TrueRatio | None = None
    nesting: ConceptId | None = None

    def __post_init__(self) -> None:
        """Refuse an exposure that is the outcome."""
        if self.exposure == self.outcome:
            raise DataError(f"exposure and outcome are the same, {self.exposure}")

    @property
    def number(self) -> int:
        """The identifier of the question, as SelfControlledCaseSeries computes it."""
        return hashed_id(self.outcome, self.nesting, self.exposure)


class SeriesAnalysis(Settings):
    """The settings of an analysis.

    Parameters
    ----------
    id : int
        Number of the analysis in result tables.
    description : str
        Description in result tables.
    settings : dict
        Arguments of `case_series_settings`; a spline may be given by its number of knots.
        Thresholds, ``min_cell``, ``schema``, ``time_zone`` and ``observed_until`` are the grid's.
    windows : tuple of ExposureWindow
        Windows that replace those of `case_series_settings`; empty ``eras`` stand for the exposure
        of the question.
    control : ExposureWindow, optional
        Control interval that goes with these windows.
    within_exposure : bool, default False
        Only days between the first and the last record of the exposure in the database count.

    Examples
    --------
    >>> from steropes.studies.sccs import SeriesAnalysis
    >>> SeriesAnalysis(1, "simple", {"pre_exposure_days": 30}).id
    1
    """

    id: Count
    description: Name
    settings: Mapping[str, Any]
    windows: Listed[ExposureWindow] = ()
    control: ExposureWindow | None = None
    within_exposure: YesNo = False

    def __post_init__(self) -> None:
        """Check the settings and convert lists to tuples."""
        known = {k: tuple(v) if isinstance(v, list) else v for k, v in self.settings.items()}
        for name in ("outcome", "exposure"):
            if name in known:
                raise DataError(f"analysis {self.id}: {name} belongs to the questions")
        words = analysis_fields()
        for name in known:
            if name not in words:
                known_words = ", ".join(words)
                raise DataError(
                    f"analysis {self.id}: unknown setting {name!r}; the settings are {known_words}"
                )
            if self.windows and name in OF_WINDOWS:
                raise DataError(f"analysis {self.id}: {name} belongs to windows, which are given")
        if self.control is not None and not self.windows:
            raise DataError(f"analysis {self.id}: a control interval here needs windows")
        object.__setattr__(self, "settings", known)

    def settings_for(
        self, question: SeriesQuestion, grid: CaseSeriesGrid, made: bool = False
    ) -> CaseSeriesSettings:
        """Return the settings of one case series; a ``made`` outcome is a cohort.

        Parameters
        ----------
        question : SeriesQuestion
            The question.
        grid : CaseSeriesGrid
            The grid, whose thresholds and database settings apply.
        made : bool, default False
            Whether the outcome is a positive control, which is a cohort.

        Returns
        -------
        CaseSeriesSettings
            The settings.

        Raises
        ------
        DataError
            A setting of the analysis is invalid.
        """
        given = dict(self.settings)
        if made:
            given["outcomes_from"] = "cohort"
        for name in SPLINES:
            if isinstance(given.get(name), int) and not isinstance(given[name], bool):
                given[name] = Spline(given[name])
        of_grid = ("thresholds", "schema", "time_zone", "observed_until")
        given |= {name: getattr(grid, name) for name in of_grid}
        given = cohort_settings(grid.cohorts, question.outcome, question.exposure) | given
        if question.nesting is not None:
            given["nesting_cohort"] = question.nesting
        if self.within_exposure:
            given["restrict_to_exposure"] = question.exposure
        try:
            if self.windows:
                return self._of_windows(question, given)
            return case_series_settings(question.outcome, question.exposure, **given)
        except (TypeError, ValueError) as error:
            raise DataError(f"analysis {self.id}: {error}") from None

    def _of_windows(self, question: SeriesQuestion, given: dict[str, Any]) -> CaseSeriesSettings:
        """Return the settings of a case series with the windows of the analysis."""

        def own(window: ExposureWindow) -> ExposureWindow:
            """Put the exposure of the question into a window."""
            return replace(window, eras=(question.exposure,)) if window.eras == () else window

        rules = {k: v for k, v in given.items() if k in CaseRules.__dataclass_fields__}
        others = {k: v for k, v in given.items() if k not in rules or k == "seed"}
        return CaseSeriesSettings(
            CaseRules(question.outcome, **rules),
            tuple(own(w) for w in self.windows),
            control=None if self.control is None else own(self.control),
            **others,
        )


class SeriesExclusion(Settings):
    """Case series that are not run: those with all the given ids.

    Parameters
    ----------
    exposure, outcome, nesting, analysis : int, optional
        Ids of cohorts or concepts and of an analysis. None stands for every id.

    Examples
    --------
    >>> from steropes.studies.sccs import SeriesExclusion, SeriesQuestion
    >>> SeriesExclusion(exposure=1, analysis=2).covers(SeriesQuestion(1, 3), 2)
    True
    """

    exposure: ConceptId | None = None
    outcome: ConceptId | None = None
    nesting: ConceptId | None = None
    analysis: Count | None = None

    def __post_init__(self) -> None:
        """Refuse an exclusion that excludes everything."""
        if all(getattr(self, name) is None for name in self.__dataclass_fields__):
            raise DataError("an exclusion needs an id, otherwise it excludes everything")

    def covers(self, question: SeriesQuestion, analysis: int) -> bool:
        """Return whether a case series is excluded.

        Parameters
        ----------
        question : SeriesQuestion
            The question.
        analysis : int
            Id of the analysis.

        Returns
        -------
        bool
            Whether all ids of the exclusion are those of the case series.
        """
        ids = {
            "exposure": question.exposure,
            "outcome": question.outcome,
            "nesting": question.nesting,
            "analysis": analysis,
        }
        own = {name: getattr(self, name) for name in ids}
        return all(ids[name] == i for name, i in own.items() if i is not None)


class CaseSeriesGrid(Settings):
    """Questions and analyses, all combinations of which are answered.

    Parameters
    ----------
    questions : tuple of SeriesQuestion
        The questions.
    analyses : tuple of SeriesAnalysis
        The analyses, each of which answers every question.
    thresholds : Thresholds
        Thresholds of the diagnostics.
    database_id : str, default "database"
        Name of the database in result tables.
    schema : str, default "main"
        Schema of the CDM tables.
    min_cell : int, optional
        Smallest count to publish, if larger than that of the disclosure rules (5 by default).
    positive : SeriesPositives, optional
        Create positive controls with these ratios from all negative controls.
    cohorts : CohortSources, optional
        Source of cohorts. Outcomes and exposures with ids that it defines are cohorts; with a
        table, all are.
    time_zone : str, default "UTC"
        Time zone that determines the dates of instants; see `OmopDatabase`.
    exclude : tuple of SeriesExclusion
        Case series that are not run.
    observed_until : date, optional
        End observation on this day at the latest, such as the day on which the data were extracted
        if observation periods end later, on placeholder dates. Default: with the observation
        periods.

    Examples
    --------
    >>> from steropes.studies import CaseSeriesGrid
    >>> from steropes.studies.sccs import SeriesAnalysis, SeriesQuestion
    >>> grid = CaseSeriesGrid(
    ...     (SeriesQuestion(1118084, 192671),),
    ...     (SeriesAnalysis(1, "simple", {"pre_exposure_days": 30}),),
    ... )
    >>> len(grid.questions) * len(grid.analyses)
    1
    """

    questions: Listed[SeriesQuestion]
    analyses: Listed[SeriesAnalysis]
    thresholds: Thresholds = field(default_factory=Thresholds)
    database_id: Name = "database"
    schema: Name = "main"
    min_cell: Count | None = None
    positive: SeriesPositives | None = None
    cohorts: CohortSources | None = None
    time_zone: TimeZone = "UTC"
    exclude: Listed[SeriesExclusion] = ()
    observed_until: Day | None = None

    def __post_init__(self) -> None:
        """Refuse a grid without questions or analyses, or with one of them twice."""
        for name in ("questions", "analyses"):
            if not getattr(self, name):
                raise DataError(f"a grid of case series needs {name}")
        keys: dict[str, list[Any]] = {
            "question": [
                (q.exposure, q.outcome) if q.nesting is None else (q.exposure, q.outcome, q.nesting)
                for q in self.questions
            ],
            "analysis": [a.id for a in self.analyses],
        }
        for kind, ids in keys.items():
            if len({*ids}) < len(ids):
                twice = next(i for i in ids if ids.count(i) > 1)
                raise DataError(f"{kind} {twice} occurs twice; remove one of the two")
