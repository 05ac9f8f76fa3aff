"""Compare results of SelfControlledCaseSeries 6 with this package's, number by number.

The analyses of R's exported tables are run here on the same database, and every number is compared;
where R's convention differs, R's convention is computed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tests.parity.compared_numbers import (
    BEFORE,
    CLOSE,
    EARLY,
    ENDLESS,
    FOLLOWS,
    LIMIT,
    NO_EVENT,
    SPLINES,
    STEPS,
    Parity,
    Rows,
    agree,
)
from tests.parity.r_conventions import (
    higher_than_at_r,
    is_limit,
    r_age_spans,
    r_calendar_spans,
    r_detectable,
    r_monthly_rates,
    r_p_values,
)
from tests.parity.r_event_dependence import counted_by_weights, r_censor_model

from steropes.designs.case_series.calendar_time_splines import time_effects
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

WEIGHTS = 1e-7  # Sums of integrals.
WANTED = ("sccs_analysis", "sccs_exposure", "sccs_exposures_outcome_set", "sccs_result")


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
        rows = Rows(tables)
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


def _compare(
    db: OmopDatabase, cohorts: CohortTable, tables: dict[str, pd.DataFrame], analysis: pd.Series,
    question: pd.Series, rows: Rows,
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
        censoring = None
        if settings.event_dependent_observation:
            censoring = r_censor_model(rows.theirs("sccs_censor_model"))
            if censoring is None:  # Without R's model of the ends nothing can be compared.
                return
            if censoring.kind.endswith("age"):
                settings = replace(settings, age=None)  # R removes the spline of age.
        try:
            effects = time_effects(settings, population, settings.cases.study_periods)
        except DataError:  # Too few cases for the knots: such a series has no numbers here.
            return
        intervals = make_intervals(
            stream_spans(eras, windows), population, settings, columns, effects, censoring,
            strict=False,
        )  # fmt: skip
        if censoring is not None:
            intervals = counted_by_weights(intervals, population)
        seen = exposures_of_interest(eras, intervals, settings)
    model = fit_model(intervals, settings)
    _attrition(population, intervals, rows)
    _results(settings, intervals, model, rows)
    _covariates(settings, intervals, model, rows)
    _profiles(model, rows)
    _diagnostics(population, intervals, model, rows)
    _time(population, seen, settings, rows)


def _nobody(population: Population, rows: Rows) -> None:
    """Compare a question without cases, where R counts zeros and gives no estimate."""
    zero = [0] * 4
    ours = population.attrition.iloc[:, 1:].to_numpy().tolist()
    # R counts the days of a case once for each of its outcomes.
    ours[-1][-1] = int((population.end - population.start + 1)[population.outcome_case].sum())
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


def _count(rows: Rows, line: pd.Series, ours: list[Any]) -> None:
    """Compare the four counts of a row of attrition."""
    for name, n in zip(COUNTED, ours, strict=True):
        close = WEIGHTS if isinstance(n, float) else 0.0
        rows.add("sccs_attrition", f"{line['description']}: {name}", n, line[name], close)


def _attrition(population: Population, intervals: Intervals, rows: Rows) -> None:
    """Compare attrition."""
    theirs = rows.theirs("sccs_attrition")
    ours = population.attrition.iloc[:, 1:].to_numpy().tolist()
    # R counts the days of a case once for each of its outcomes.
    ours[-1][-1] = int((population.end - population.start + 1)[population.outcome_case].sum())
    ours.append(list(intervals.attrition[1:]))
    pairs = zip(intervals.names, intervals.columns, strict=True)
    interest = next(n for n, c in pairs if c.of_interest)
    line = intervals.statistics.loc[interest]
    total = line["observed_days"] + line["days_before"]
    ours.append([line["subjects"], line["observed_events"], line["periods"], total])
    for (_, line_), counts in zip(theirs.iterrows(), ours, strict=False):
        _count(rows, line_, counts)


def _results(
    settings: CaseSeriesSettings, intervals: Intervals, model: CaseSeriesModel, rows: Rows
) -> None:
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
            close = WEIGHTS if isinstance(ours, float) else 0.0
            rows.add("sccs_result", item, ours, line[item], close)
        endless = ENDLESS if math.isinf(e["log_rr"]) else ""
        p, one = r_p_values(float(e["log_rr"]), float(e["se"]))
        early = endless or (lambda: _early(settings, intervals, model, rows))
        limit = endless or _limit_of(model, name, e, line)
        for item, ours, close, note in (
            ("rr", e["rr"], CLOSE, early),
            ("log_rr", e["log_rr"], CLOSE, early),
            ("llr", e["llr"], CLOSE, early),
            ("ci_95_lb", e["lower"], STEPS, limit),
            ("ci_95_ub", e["upper"], STEPS, limit),
            ("se_log_rr", e["se"], STEPS, limit),
            ("p", p, CLOSE, limit),
            ("one_sided_p", one, CLOSE, limit),
        ):
            rows.add("sccs_result", item, ours, line[item], close, note)


def _covariates(
    settings: CaseSeriesSettings, intervals: Intervals, model: CaseSeriesModel, rows: Rows
) -> None:
    """Compare covariates, which R numbers 99 (end of observation) and from 1000 (windows)."""
    names = _numbered(settings, intervals)
    for _, line in rows.theirs("sccs_covariate_result").iterrows():
        number = int(line["covariate_id"])
        if number not in names:
            continue
        e = model.estimates.loc[names[number]]
        infinite = math.isinf(e["log_rr"])
        why = (NO_EVENT if e["log_rr"] < 0 else ENDLESS) if infinite else ""
        item = f"{names[number]}: "
        early = why or (lambda: _early(settings, intervals, model, rows))
        rows.add("sccs_covariate_result", item + "rr", e["rr"], line["rr"], CLOSE, early)
        for ours, theirs in (("lower", "ci_95_lb"), ("upper", "ci_95_ub")):
            rows.add(
                "sccs_covariate_result", item + theirs, e[ours], line[theirs], STEPS,
                why or _limit_of(model, names[number], e, line),
            )  # fmt: skip


def _numbered(settings: CaseSeriesSettings, intervals: Intervals) -> dict[int, str]:
    """Return our covariates by R's numbers; a spline of season has no counterparts."""
    names = {99: PROBE} if PROBE in intervals.names else {}  # R lists a probe of no days as well
    pairs = [*zip(intervals.names, intervals.columns, strict=True)]
    windows = [n for n, c in pairs if c.window >= 0 and c.window != CONTROL]
    names |= dict(enumerate(windows, 1000))
    if settings.season is None:
        for what, first in (("age", 100), ("calendar", 300)):
            parts = [n for n, c in pairs if c.window == -2 and n.startswith(what)]
            names |= dict(enumerate(parts, first))
    return names


def _limit_of(
    model: CaseSeriesModel, name: str, ours: pd.Series, theirs: pd.Series
) -> Callable[[], str]:
    """Return a function that checks our limits, and those of R that differ from them."""

    def why() -> str:
        for here, there in (("lower", "ci_95_lb"), ("upper", "ci_95_ub")):
            open_ = ours[here] in (0.0, math.inf) and pd.isna(theirs[there])
            if open_ or agree(ours[here], theirs[there], STEPS):
                continue
            if not is_limit(model, name, ours[here]) or is_limit(model, name, theirs[there]):
                return ""
        return LIMIT

    return why


def _early(
    settings: CaseSeriesSettings, intervals: Intervals, model: CaseSeriesModel, rows: Rows
) -> str:
    """Say that R's optimum is worse if the penalised likelihood at its estimates is lower."""
    names = _numbered(settings, intervals)
    ratios = {
        names[int(line["covariate_id"])]: float(line["rr"])
        for _, line in rows.theirs("sccs_covariate_result").iterrows()
        if int(line["covariate_id"]) in names
    }
    return EARLY if higher_than_at_r(settings, intervals, model, ratios) > 0 else ""


def _profiles(model: CaseSeriesModel, rows: Rows) -> None:
    """Compare profiles at the points that both have."""
    theirs = rows.theirs("sccs_likelihood_profile")
    if not len(theirs) or not model.profiles:
        return
    ours = next(iter(model.profiles.values()))
    for _, line in theirs.iterrows():
        near = int(np.abs(ours["log_rr"] - line["log_rr"]).argmin())
        if abs(ours["log_rr"].iloc[near] - line["log_rr"]) > 1e-9:
            continue  # R adds points that our grid lacks
        value, item = float(ours["log_likelihood"].iloc[near]), f"at {line['log_rr']:.4f}"
        rows.add("sccs_likelihood_profile", item, value, line["log_likelihood"])


def _diagnostics(
    population: Population, intervals: Intervals, model: CaseSeriesModel, rows: Rows
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
        detectable, follows = r_detectable(stats), ""
        for ours, theirs in VERDICTS.items():
            why = NO_EVENT if ours in ("pre-exposure", "end of observation") else ""
            verdict = d.verdicts[ours].verdict
            if theirs == "mdrr_diagnostic":
                by_r = "PASS" if detectable < Thresholds().detectable else "FAIL"
                why = BEFORE * (line[theirs] == by_r)
            rows.add(table, theirs, verdict, line[theirs], 0.0, why)
            follows = FOLLOWS if why and verdict != line[theirs] else follows
        for shown in ("unblind", "unblind_for_evidence_synthesis"):
            rows.add(table, shown, int(getattr(d, shown)), line[shown], 0.0, follows)
        rows.add(
            table, "rare_outcome_prevalence", population.prevalence,
            line["rare_outcome_prevalence"],
        )  # fmt: skip
        rows.add(table, "mdrr", detectable, line["mdrr"], STEPS)  # R rounds it.
        if probe is not None:
            limit = pd.Series({"ci_95_lb": line["event_observation_lb"], "ci_95_ub": math.nan})
            rows.add(
                table, "event_observation_lb", probe["lower"], line["event_observation_lb"],
                STEPS, _limit_of(model, PROBE, probe.replace({probe["upper"]: math.inf}), limit),
            )  # fmt: skip
            rows.add(
                table, "event_observation_ub", probe["upper"], line["event_observation_ub"], STEPS,
                "R exports the lower limit as the upper one",
            )  # fmt: skip


def _time(
    population: Population, seen: dict[str, Any], settings: CaseSeriesSettings, rows: Rows
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


def _spans(population: Population, rows: Rows) -> None:
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
