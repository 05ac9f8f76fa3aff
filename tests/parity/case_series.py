"""Compare results of SelfControlledCaseSeries 6 with this package's, number by number.

R's exported tables contain the analyses (``sccs_analysis``, ``sccs_exposure``,
``sccs_exposures_outcome_set``) and their results. The same analyses are run here on the same
database, and every number is compared; where R's convention differs, R's convention is computed.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tests.parity.r_conventions import (
    r_age_spans,
    r_calendar_spans,
    r_detectable,
    r_monthly_rates,
    r_p_values,
)

from steropes.designs.case_series.calendar_time_splines import time_effects
from steropes.designs.case_series.event_dependent_observation import fit_censoring
from steropes.designs.case_series.event_timing import time_to_event
from steropes.designs.case_series.interval_rows import PROBE, Intervals, make_intervals
from steropes.designs.case_series.sccs_model import CaseSeriesModel, fit_model
from steropes.errors import DataError
from steropes.studies.cohorts.cohort_builders import ConceptSet, condition_cohorts, drug_era_cohorts
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.omop import OmopDatabase, opened
from steropes.studies.sccs.cases.case_population import Population, find_cases
from steropes.studies.sccs.cases.era_covariates import CONTROL, era_columns
from steropes.studies.sccs.cases.era_sources import EraSources
from steropes.studies.sccs.cases.eras import Eras
from steropes.studies.sccs.cases.risk_windows import stream_spans
from steropes.studies.sccs.cases.series_preparation import exposures_of_interest
from steropes.studies.sccs.results.sccs_diagnostics import diagnose
from steropes.studies.sccs.specification.case_series_grid_settings import (
    CaseSeriesGrid,
    SeriesQuestion,
)
from steropes.studies.sccs.specification.case_series_settings import CaseSeriesSettings
from steropes.studies.sccs.specification.sccs_thresholds import Thresholds
from steropes.studies.strategus_plans.series_analyses import series_analysis

__all__ = ["Parity", "compare_with_r", "demo_cohorts"]

WITHOUT_ERAS = 2**62  # The id of an exposure that a question does not have.

CLOSE = 1e-5
STEPS = 1e-4  # R stops the search for a confidence limit early.
WANTED = ("sccs_analysis", "sccs_exposure", "sccs_exposures_outcome_set", "sccs_result")
LIMIT = "R's search of the limit ended early; ours is where the likelihood is 1.92 lower"
NO_EVENT = "no event in the window: the estimate is zero, R's is where its iterations ended"
SPLINES = "expected outcomes follow the model's splines, in R relative to another point of them"
ENDLESS = "the estimate is infinite, and R gives none"


@dataclass(frozen=True)
class Parity:
    """The numbers that were compared.

    Attributes
    ----------
    table : DataFrame
        One row a number: ``table``, ``question`` (analysis and exposures-outcome set), ``item``,
        ``ours``, ``theirs``, ``agrees``, and ``note`` where they need not agree.
    """

    table: pd.DataFrame

    @property
    def disagreements(self) -> pd.DataFrame:
        """Numbers that differ without a reason."""
        return self.table[~self.table["agrees"] & (self.table["note"] == "")]

    def summary(self) -> pd.DataFrame:
        """Numbers compared, agreed, and explained, by table of R's."""
        t = self.table.assign(explained=~self.table["agrees"] & (self.table["note"] != ""))
        found = t.groupby("table").agg(
            compared=("agrees", "size"), agree=("agrees", "sum"), explained=("explained", "sum")
        )
        return found.assign(differ=found["compared"] - found["agree"] - found["explained"])


def demo_cohorts(db: OmopDatabase) -> CohortTable:
    """Build the cohorts of R's results on the demonstration database.

    1 celecoxib, 2 diclofenac, 3 gastrointestinal haemorrhage, 4 either of the drugs.
    """
    drugs = {
        1: ConceptSet((1118084,)),
        2: ConceptSet((1124300,)),
        4: ConceptSet((1118084, 1124300)),
    }
    names = {1: "Exposure cohort 1", 2: "Exposure cohort 2"}
    return drug_era_cohorts(db, drugs, names=names) + condition_cohorts(db, {3: 192671})


def compare_with_r(
    database: str | Path | OmopDatabase, folder: str | Path, cohorts: CohortTable | None = None
) -> Parity:
    """Run R's analyses on a database and compare the results.

    Parameters
    ----------
    database : path, connection or OmopDatabase
        The database that R was run on.
    folder : str or Path
        Folder of R's exported tables, ``sccs_*.csv``.
    cohorts : CohortTable, optional
        The cohorts that R was run on. Default: those of the demonstration, `demo_cohorts`.
    """
    tables = _read(Path(folder))
    with opened(database, "main", "UTC") as db:
        cohorts = demo_cohorts(db) if cohorts is None else cohorts
        rows = _Rows(tables)
        for _, question in tables["sccs_exposures_outcome_set"].iterrows():
            for _, analysis in tables["sccs_analysis"].iterrows():
                _compare(db, cohorts, tables, analysis, question, rows)
    columns = ["table", "question", "item", "ours", "theirs", "agrees", "note"]
    return Parity(pd.DataFrame(rows.found, columns=columns))


def _read(folder: Path) -> dict[str, pd.DataFrame]:
    """Read R's exported tables by name."""
    tables = {}
    for path in sorted([*folder.glob("sccs_*.csv"), *folder.glob("sccs_*.csv.gz")]):
        tables[path.name.split(".")[0]] = pd.read_csv(path)
    gone = [name for name in WANTED if name not in tables]
    if gone:
        raise DataError(f"{folder} has no {gone[0]}.csv, which R's export of results has")
    return tables


@dataclass
class _Rows:
    """Comparisons collected over questions."""

    tables: dict[str, pd.DataFrame]
    found: list[tuple] = field(default_factory=list)
    analysis: int = 0
    outcome_set: int = 0

    def theirs(self, table: str) -> pd.DataFrame:
        """Return R's rows of the current question."""
        t = self.tables.get(table)
        if t is None:
            return pd.DataFrame()
        mine = (t["analysis_id"] == self.analysis) & (
            t["exposures_outcome_set_id"] == self.outcome_set
        )
        return t[mine].reset_index(drop=True)

    def add(
        self, table: str, item: str, ours: Any, theirs: Any, close: float = CLOSE, note: str = ""
    ) -> None:
        """Compare two numbers; a note explains why they may differ."""
        agrees = _agree(ours, theirs, close)
        self.found.append(
            (table, f"{self.analysis}/{self.outcome_set}", item, ours, theirs, agrees,
             "" if agrees else note)
        )  # fmt: skip


def _agree(ours: Any, theirs: Any, close: float) -> bool:
    """Check that two values are equal, or close relative to R's where they are numbers."""
    if isinstance(theirs, str) or isinstance(ours, str):
        return str(ours) == str(theirs)
    a, b = float(ours), float(theirs)
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or abs(a - b) <= close * max(1.0, abs(b))


def _compare(
    db: OmopDatabase, cohorts: CohortTable, tables: dict[str, pd.DataFrame], analysis: pd.Series,
    question: pd.Series, rows: _Rows,
) -> None:  # fmt: skip
    """Run one analysis of one question and compare all its tables."""
    rows.analysis = int(analysis["analysis_id"])
    rows.outcome_set = int(question["exposures_outcome_set_id"])
    exposures = tables["sccs_exposure"]
    ids = exposures.loc[exposures["exposures_outcome_set_id"] == rows.outcome_set, "era_id"]
    names = ["exposureId", *(f"exposureId{k}" for k in range(2, len(ids) + 2))]
    nesting = question["nesting_cohort_id"]
    made, _ = series_analysis(
        json.loads(analysis["definition"]),
        ("sccs_analysis.csv", rows.analysis),
        dict.fromkeys(names, WITHOUT_ERAS) | dict(zip(names, map(int, ids), strict=False)),
    )
    asked = SeriesQuestion(
        int(ids.iloc[0]),
        int(question["outcome_id"]),
        nesting=None if pd.isna(nesting) else int(nesting),
    )
    settings = made.settings_for(asked, CaseSeriesGrid((asked,), (made,)))
    with db.workspace() as work:
        sources = EraSources(db, work, settings.cases, cohorts)
        population = find_cases(db, work, settings.cases, sources)
        if len(population) == 0:
            _nobody(population, rows)
            return
        eras = Eras(work, sources, settings)
        columns, windows = era_columns(eras, settings)
        intervals = make_intervals(
            stream_spans(eras, windows),
            population,
            settings,
            columns,
            time_effects(settings, population, settings.cases.study_periods),
            fit_censoring(population) if settings.event_dependent_observation else None,
            strict=False,
        )
        seen = exposures_of_interest(eras, intervals, settings)
    model = fit_model(intervals, settings)
    _attrition(population, intervals, rows)
    _results(intervals, model, rows)
    _covariates(settings, intervals, model, rows)
    _profiles(model, rows)
    _diagnostics(population, intervals, model, rows)
    _time(population, seen, settings, rows)


def _nobody(population: Population, rows: _Rows) -> None:
    """Compare a question without cases, where R counts zeros and gives no estimate."""
    zero = [0] * 4
    ours = population.attrition.iloc[:, 1:].to_numpy().tolist()
    for k, (_, line) in enumerate(rows.theirs("sccs_attrition").iterrows()):
        _count(rows, line, ours[k] if k < len(ours) else zero)
    for _, line in rows.theirs("sccs_result").iterrows():
        rows.add("sccs_result", "rr", math.nan, line["rr"])
    for _, line in rows.theirs("sccs_diagnostics_summary").iterrows():
        rows.add("sccs_diagnostics_summary", "mdrr", math.inf, line["mdrr"])
        rows.add(
            "sccs_diagnostics_summary", "rare_outcome_prevalence", population.prevalence,
            line["rare_outcome_prevalence"],
        )  # fmt: skip


VERDICTS = {
    "time stability": "time_stability_diagnostic",
    "pre-exposure": "event_exposure_diagnostic",
    "end of observation": "event_observation_diagnostic",
    "rarity": "rare_outcome_diagnostic",
    "detectable ratio": "mdrr_diagnostic",
    "EASE": "ease_diagnostic",
}
COUNTED = ("outcome_subjects", "outcome_events", "outcome_observation_periods", "observed_days")


def _count(rows: _Rows, line: pd.Series, ours: list[Any]) -> None:
    """Compare the four counts of a row of attrition."""
    for name, n in zip(COUNTED, ours, strict=True):
        rows.add("sccs_attrition", f"{line['description']}: {name}", n, line[name], 0.0)


def _attrition(population: Population, intervals: Intervals, rows: _Rows) -> None:
    """Compare attrition."""
    theirs = rows.theirs("sccs_attrition")
    ours = population.attrition.iloc[:, 1:].to_numpy().tolist()
    ours.append(list(intervals.attrition[1:]))
    interest = next(n for n, c in zip(intervals.names, intervals.columns, strict=True)
                    if c.of_interest)  # fmt: skip
    line = intervals.statistics.loc[interest]
    total = line["observed_days"] + line["days_before"]
    ours.append([line["subjects"], line["observed_events"], line["periods"], total])
    for (_, line_), counts in zip(theirs.iterrows(), ours, strict=False):
        _count(rows, line_, counts)


def _results(intervals: Intervals, model: CaseSeriesModel, rows: _Rows) -> None:
    """Compare counts and estimates of the exposures of interest."""
    interest = [n for n, c in zip(intervals.names, intervals.columns, strict=True) if c.of_interest]
    for name, (_, line) in zip(interest, rows.theirs("sccs_result").iterrows(), strict=False):
        stats, e = intervals.statistics.loc[name], model.estimates.loc[name]
        for item, ours in (
            ("outcome_subjects", intervals.attrition[1]),
            ("outcome_events", intervals.attrition[2]),
            ("outcome_observation_periods", intervals.attrition[3]),
            ("observed_days", intervals.attrition[4]),
            ("covariate_subjects", stats["subjects"]),
            ("covariate_days", stats["days"]),
            ("covariate_eras", stats["eras"]),
            ("covariate_outcomes", stats["events"]),
        ):
            rows.add("sccs_result", item, ours, line[item], 0.0)
        endless = ENDLESS if math.isinf(e["log_rr"]) else ""
        p, one = r_p_values(float(e["log_rr"]), float(e["se"]))
        for item, ours, close, note in (
            ("rr", e["rr"], CLOSE, endless),
            ("log_rr", e["log_rr"], CLOSE, endless),
            ("llr", e["llr"], CLOSE, endless),
            ("ci_95_lb", e["lower"], STEPS, endless or LIMIT),
            ("ci_95_ub", e["upper"], STEPS, endless or LIMIT),
            ("se_log_rr", e["se"], STEPS, endless or LIMIT),
            ("p", p, CLOSE, endless or LIMIT),
            ("one_sided_p", one, CLOSE, endless or LIMIT),
        ):
            rows.add("sccs_result", item, ours, line[item], close, note)


def _covariates(
    settings: CaseSeriesSettings, intervals: Intervals, model: CaseSeriesModel, rows: _Rows
) -> None:
    """Compare covariates, which R numbers 99 (end of observation) and from 1000 (windows)."""
    names = {99: PROBE} if PROBE in intervals.names else {}  # R lists a probe of no days as well
    at = 1000
    for name, c in zip(intervals.names, intervals.columns, strict=True):
        if c.window >= 0 and c.window != CONTROL:
            names[at] = name
            at += 1
    for _, line in rows.theirs("sccs_covariate_result").iterrows():
        number = int(line["covariate_id"])
        if number not in names:
            continue
        e = model.estimates.loc[names[number]]
        infinite = math.isinf(e["log_rr"])
        why = (NO_EVENT if e["log_rr"] < 0 else ENDLESS) if infinite else ""
        item = f"{names[number]}: "
        rows.add("sccs_covariate_result", item + "rr", e["rr"], line["rr"], CLOSE, why)
        for ours, theirs in (("lower", "ci_95_lb"), ("upper", "ci_95_ub")):
            rows.add(
                "sccs_covariate_result", item + theirs, e[ours], line[theirs], STEPS, why or LIMIT
            )


def _profiles(model: CaseSeriesModel, rows: _Rows) -> None:
    """Compare profiles at the points that both have."""
    theirs = rows.theirs("sccs_likelihood_profile")
    if not len(theirs) or not model.profiles:
        return
    ours = next(iter(model.profiles.values()))
    for _, line in theirs.iterrows():
        near = int(np.abs(ours["log_rr"] - line["log_rr"]).argmin())
        if abs(ours["log_rr"].iloc[near] - line["log_rr"]) > 1e-9:
            continue  # R adds points that our grid lacks
        value = float(ours["log_likelihood"].iloc[near])
        rows.add(
            "sccs_likelihood_profile", f"at {line['log_rr']:.4f}", value, line["log_likelihood"]
        )


def _diagnostics(
    population: Population, intervals: Intervals, model: CaseSeriesModel, rows: _Rows
) -> None:
    """Compare the diagnostics and their verdicts."""
    table = "sccs_diagnostics_summary"
    interest = [n for n, c in zip(intervals.names, intervals.columns, strict=True) if c.of_interest]
    probe = model.estimates.loc[PROBE] if PROBE in model.estimates.index else None
    monthly = r_monthly_rates(population)
    verdicts = {
        d.covariate: d for d in diagnose(population, intervals, model, monthly, Thresholds())
    }
    for name, (_, line) in zip(interest, rows.theirs(table).iterrows(), strict=False):
        stats, d = intervals.statistics.loc[name], verdicts[name]
        p = d.verdicts["time stability"].p
        rows.add(table, "time_stability_p", p, line["time_stability_p"])
        for ours, theirs in VERDICTS.items():
            why = NO_EVENT if ours in ("pre-exposure", "end of observation") else ""
            rows.add(table, theirs, d.verdicts[ours].verdict, line[theirs], 0.0, why)
        rows.add(table, "unblind", int(d.unblind), line["unblind"], 0.0)
        both = "unblind_for_evidence_synthesis"
        rows.add(table, both, int(d.unblind_for_evidence_synthesis), line[both], 0.0)
        rows.add(
            table, "rare_outcome_prevalence", population.prevalence,
            line["rare_outcome_prevalence"],
        )  # fmt: skip
        rows.add(table, "mdrr", r_detectable(stats), line["mdrr"])
        if probe is not None:
            rows.add(table, "event_observation_lb", probe["lower"], line["event_observation_lb"],
                     STEPS, LIMIT)  # fmt: skip
            rows.add(
                table, "event_observation_ub", probe["upper"], line["event_observation_ub"], STEPS,
                "R exports the lower limit as the upper one",
            )  # fmt: skip


def _time(
    population: Population, seen: dict[str, Any], settings: CaseSeriesSettings, rows: _Rows
) -> None:
    """Compare weeks around exposure and calendar months; R writes −5 for counts that it hides."""
    theirs = rows.theirs("sccs_time_to_event")
    if len(theirs) and seen:
        ours = time_to_event(population, next(iter(seen.values()))).set_index("week")
        for _, line in theirs.iterrows():
            week = int(line["week"])
            for name, column in (("outcomes", "outcomes"), ("observed_subjects", "observed")):
                n = _censored(ours.loc[week, column], line[name])
                rows.add("sccs_time_to_event", f"week {week}: {name}", n, line[name], 0.0)
    theirs = rows.theirs("sccs_time_trend")
    if len(theirs):
        months = r_monthly_rates(population).set_index(["year", "month"])
        for _, line in theirs.iterrows():
            month = months.loc[(int(line["calendar_year"]), int(line["calendar_month"]))]
            where = f"{int(line['calendar_year'])}-{int(line['calendar_month']):02d}: "
            rows.add("sccs_time_trend", where + "observed_subjects",
                     _censored(round(month["cases"]), line["observed_subjects"]),
                     line["observed_subjects"], 0.0)  # fmt: skip
            rows.add("sccs_time_trend", where + "ratio", month["ratio"], line["ratio"])
            splines = "" if settings.season is None and settings.calendar is None else SPLINES
            rows.add("sccs_time_trend", where + "adjusted_ratio", month["adjusted_ratio"],
                     line["adjusted_ratio"], note=splines)  # fmt: skip
    _spans(population, rows)
    theirs = rows.theirs("sccs_time_period")
    if len(theirs):
        first, last = population.restricted or (
            np.datetime64(int((population.observed + population.start).min()), "D"),
            np.datetime64(int((population.observed + population.end).max()), "D"),
        )
        rows.add("sccs_time_period", "min_date", str(first), theirs["min_date"].iloc[0])
        rows.add("sccs_time_period", "max_date", str(last), theirs["max_date"].iloc[0])


def _spans(population: Population, rows: _Rows) -> None:
    """Compare spans of age and calendar time, computed by R's conventions."""
    for table, ours, key in (
        ("sccs_age_spanning", r_age_spans, ["age_month"]),
        ("sccs_calendar_time_spanning", r_calendar_spans, ["calendar_year", "calendar_month"]),
    ):
        theirs = rows.theirs(table)
        if not len(theirs):
            continue
        found = ours(population)
        found.columns = [*key, "cases"]
        found = found.set_index(key)["cases"]
        rows.add(table, "months", len(found), len(theirs), 0.0)
        for _, line in theirs.iterrows():
            month = tuple(int(line[k]) for k in key)
            n = found.get(month if len(month) > 1 else month[0], 0)
            item = "-".join(map(str, month))
            theirs_n = line["cover_before_after_subjects"]
            rows.add(table, item, _censored(n, theirs_n), theirs_n, 0.0)


def _censored(n: Any, theirs: float) -> int:
    """Replace a count of one to four by −5, if R has done so."""
    return -5 if 0 < int(n) < 5 and theirs < 0 else int(n)
