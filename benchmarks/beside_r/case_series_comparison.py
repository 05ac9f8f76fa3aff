"""Draw case series that both programs run, with the reasons why their result tables may differ."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from benchmarks.omop import HARMED, SEASONAL
from tests.parity.case_series import compare_with_r
from tests.parity.compared_numbers import (
    BEFORE,
    EARLY,
    ENDLESS,
    FOLLOWS,
    LIMIT,
    NO_EVENT,
    SPLINES,
)

from steropes.studies import OmopDatabase

from .drawn_study import COMPARATOR, NESTING, TARGET
from .irregular_rows_in_r import ENTRIES, cohorts_of
from .study_batches import StudyKind
from .table_comparison import (
    CONVENTION,
    R_ERROR,
    TOLERANCE,
    Analysis,
    Reason,
    StudyComparison,
    Table,
)

__all__ = ["CASE_SERIES", "draw_series"]

Row = Mapping[str, Any]
OWN = "exposureId"  # R's name of the exposure of a question
MAIN = {
    "label": "Main",
    "includeEraIds": OWN,
    "exposureOfInterest": True,
    "profileLikelihood": True,
}


def draw_series(seed: int, analyses: int = 4) -> dict[str, Any]:
    """Draw questions and analyses of case series, with the names of R's arguments."""
    rng = np.random.default_rng([73, seed])
    exposure = int(rng.choice([TARGET, COMPARATOR]))
    outcome = int(rng.choice([HARMED, SEASONAL]))
    question = {"exposure": exposure, "outcome": outcome}
    if rng.random() < 0.25:
        question["nesting"] = NESTING
    drawn = [_draw_analysis(rng, k) for k in range(1, analyses + 1)]
    # R drops results without a probe at the end of observation, and fails if none are left.
    if all(_without_probe(analysis, {}) for analysis in drawn):
        drawn.append(_draw_analysis(rng, analyses + 1))
        drawn[-1].pop("control", None)
        drawn[-1]["endOfObservationEraLength"] = 30
    return {"questions": [question], "analyses": drawn}


def _draw_analysis(rng: np.random.Generator, number: int) -> dict[str, Any]:
    """Draw an analysis; all settings are those that both programs have."""

    def one(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    population: dict[str, Any] = {
        "firstOutcomeOnly": one(True, False),
        "naivePeriod": one(0, 0, 180, 365),
    }
    for name, value in (("minAge", one(30, 40)), ("maxAge", one(60, 70))):
        if one(True, False, False, False):
            population[name] = value
    if one(True, False, False, False, False):
        population["genderConceptIds"] = one(8532, 8507)
    if one(True, False, False, False, False):
        population["restrictTimeToEraId"] = OWN
    data: dict[str, Any] = {"deleteCovariatesSmallCount": 0}
    if one(True, False, False):
        data |= one(
            {"studyStartDates": ["20120101"], "studyEndDates": ["20171231"]},
            {
                "studyStartDates": ["20100601", "20150301"],
                "studyEndDates": ["20131231", "20180131"],
            },
        )
    analysis: dict[str, Any] = {
        "id": number,
        "description": f"analysis {number}",
        "data": data,
        "population": population,
        "windows": _draw_windows(rng, one),
        "endOfObservationEraLength": one(0, 30, 30, 60),
        "eventDependentObservation": one(True, False, False, False),
    }
    splines: dict[str, int] = {"ageKnots": one(4, 5), "seasonKnots": 5, "calendarKnots": one(4, 5)}
    chosen = one("", "", "", *splines, "all")  # R needs minutes for several splines
    if rng.random() < 0.25 or chosen != "all":
        analysis |= {name: knots for name, knots in splines.items() if chosen in (name, "all")}
    if one(True, False, False, False, False, False):
        analysis["control"] = {
            "includeEraIds": OWN, "start": -90, "startAnchor": "era start", "end": -31,
            "endAnchor": "era start", "firstOccurrenceOnly": one(True, False),
        }  # fmt: skip
        analysis["windows"] = analysis["windows"][:1]
    elif any(w.get("allowRegularization") for w in analysis["windows"]):
        analysis |= {"prior": one("laplace", "normal"), "variance": one(0.05, 0.5)}
        data["exposureIds"] = []
    return analysis


def _draw_windows(rng: np.random.Generator, one: Any) -> list[dict[str, Any]]:
    """Draw the windows of the exposure of interest and of other eras."""
    first = one(True, False, False)
    way = one("eras", "eras", "periods", "start")
    if way == "eras":
        ends = {"start": one(0, 1), "end": one(0, 30), "endAnchor": "era end"}
        windows = [MAIN | ends | {"firstOccurrenceOnly": first}]
    elif way == "start":
        ends = {"start": one(0, 1), "end": one(28, 90), "endAnchor": "era start"}
        windows = [MAIN | ends | {"firstOccurrenceOnly": first}]
    else:
        cut = int(rng.integers(7, 60))
        windows = [
            MAIN | {"start": 0, "end": cut, "endAnchor": "era start", "firstOccurrenceOnly": first},
            {"label": "Later", "includeEraIds": OWN, "start": cut + 1, "end": 0,
             "endAnchor": "era end", "firstOccurrenceOnly": first},
        ]  # fmt: skip
    if one(True, True, False):
        windows.append(
            {"label": "Pre", "includeEraIds": OWN, "start": -30, "end": -1,
             "endAnchor": "era start", "preExposure": True, "firstOccurrenceOnly": first}
        )  # fmt: skip
    if one(True, False, False, False):
        windows.append(
            {"label": "Other", "includeEraIds": [TARGET, COMPARATOR], "stratifyById": True,
             "start": 0, "end": 0, "endAnchor": "era end", "allowRegularization": True}
        )  # fmt: skip
    return windows


QUESTION = ("analysis_id", "exposures_outcome_set_id")
TABLES = {
    "sccs_attrition": Table([*QUESTION, "covariate_id", "sequence_number"]),
    "sccs_result": Table([*QUESTION, "covariate_id"], 1e-3),
    "sccs_covariate_result": Table([*QUESTION, "covariate_id"], 1e-3),
    "sccs_covariate": Table([*QUESTION, "covariate_id"]),
    "sccs_era": Table([*QUESTION, "era_type", "era_id"]),
    "sccs_spline": Table([*QUESTION, "spline_type", "knot_month"], 1e-3, "knot_month"),
    "sccs_censor_model": Table([*QUESTION, "parameter_id"], 1e-3),
    "sccs_likelihood_profile": Table([*QUESTION, "covariate_id", "log_rr"], 1e-4, "log_rr"),
    "sccs_time_to_event": Table([*QUESTION, "era_id", "week"]),
    "sccs_event_dep_observation": Table([*QUESTION, "months_to_end", "censored"]),
    "sccs_diagnostics_summary": Table([*QUESTION, "covariate_id"], 1e-3),
}


def _without_probe(analysis: Analysis, row: Row) -> bool:
    """Whether the model has no probe at the end of observation, as with a control interval."""
    return "control" in analysis or analysis["endOfObservationEraLength"] == 0


def _censored(analysis: Analysis, row: Row) -> bool:
    """Whether observation depends on events, for which R fits another model."""
    return analysis["eventDependentObservation"] and "control" not in analysis


def _of_spline(analysis: Analysis, row: Row) -> bool:
    """Whether the covariate is of a spline."""
    return 100 <= row.get("covariate_id", 0) < 1000


def _no_events(analysis: Analysis, row: Row) -> bool:
    """Whether our estimate is zero, infinite or missing for want of events in or outside."""
    ratio = row.get("rr")
    return ratio is None or not 0 < ratio < float("inf")


def mark_series_without_cases(folder: Path, analyses: dict[int, Analysis]) -> None:
    """Mark analyses of which nobody is left or exposed, which have a note and no numbers here."""
    for path in (folder / "here").rglob("note.csv"):
        for row in pd.read_csv(path).to_dict("records"):
            if re.search(NOTHING, str(row.get("note"))):
                analyses[int(row["analysis_id"])]["nobody"] = True


NOTHING = (
    "^no case (of|has)|^nobody's exposure changes|all of everybody's time that counts|"
    "the quantiles at which knots are placed coincide|knots for [0-9]+ outcomes|"
    "^event-dependent observation: "
)


def _looks_ahead(analysis: Analysis) -> bool:
    """Whether a window or the control interval begins before exposure."""
    return "control" in analysis or any(window["start"] < 0 for window in analysis["windows"])


def _reads_later(analysis: Analysis) -> bool:
    """Whether windows before exposures that begin after the study period count here."""
    return "studyEndDates" in analysis["data"] and _looks_ahead(analysis)


LONGEST = 90  # days of a window after an era, which may reach the next study period
LATER = "R does not read exposures that begin after the study period, with windows before them"
STARTS, COUNTS = "studyStartDates", ("outcome_subjects", "outcome_observation_periods")
LOST = "cases whose weights for event-dependent observation R cannot compute are left out"

# The pages on R list these; the first reason that concerns a cell is counted.
REASONS = (
    Reason(r"sccs_\w+\.", CONVENTION,
           "series that the cases cannot support have a note here instead of numbers",
           lambda a, row: a.get("nobody", False)),
    Reason(r"sccs_covariate\.rows", CONVENTION, "R lists covariates that nobody has",
           lambda a, row: row["_merge"] == "right_only"),
    Reason(r"sccs_(attrition|result)\.outcome_(subjects|events)", R_ERROR, LOST,
           lambda a, row: _censored(a, row)
           and row["outcome_subjects_r"] < row["outcome_subjects"]),
    Reason(r"sccs_(covariate|spline|censor|likelihood)\w*\.", CONVENTION,
           "the model of event-dependent observation", _censored),
    Reason(r"sccs_(attrition|result|diagnostics_summary)\.(\w*rr|llr|se_log_rr|ci_95_[lu]b|"
           r"observed_days|outcome_observation_periods|event_(exposure|observation)_\w+|\w*p|unblind\w*)$",
           CONVENTION, "the model of event-dependent observation", _censored),
    Reason(r"sccs_attrition\.outcome_observation_periods", CONVENTION,
           "an observation period in two study periods counts twice here",
           lambda a, row: len(a["data"].get(STARTS, ())) > 1),
    Reason(r"sccs_attrition\.observed_days", R_ERROR, "observed days count once for each outcome"),
    Reason(r"sccs_(result|diagnostics_summary)\.rows", R_ERROR,
           "results without a probe at the end of observation are dropped", _without_probe),
    Reason(r"sccs_result\.(one_sided_)?p$", CONVENTION, "p-values of Wald instead of the profile"),
    Reason(r"sccs_covariate(_result)?\.rows", CONVENTION, "R lists a probe of no days",
           lambda a, row: row["covariate_id"] == 99 and a["endOfObservationEraLength"] == 0),
    Reason(r"sccs_(covariate_)?result\.", R_ERROR,
           "no events in a window: R's number is where its iterations ended", _no_events),
    Reason(r"sccs_(covariate_)?result\.(ci_95_[lu]b|se_log_rr)", TOLERANCE,
           "R ends its search for a limit early"),
    Reason(r"sccs_\w+\.(rows|rr)$", CONVENTION, "columns of the spline of season",
           lambda a, row: "seasonKnots" in a and (
               200 <= row.get("covariate_id", 0) < 300 or row.get("spline_type") == "season")),
    Reason(r"sccs_result\.llr", R_ERROR, "the likelihood ratio has a penalised null",
           lambda a, row: "prior" in a),
    # `compare_by_r_rules` compares the likelihood at R's estimates.
    Reason(r"sccs_(covariate_result|result)\.((log_)?rr|llr)", TOLERANCE,
           "R's iterations end before the optimum of splines or priors",
           lambda a, row: _of_spline(a, row) or any(name.endswith("Knots") for name in a) or (
               "prior" in a and abs(row["rr"] / row["rr_r"] - 1) < 0.02)),
    Reason(r"sccs_likelihood_profile\.(log_likelihood|gradient)", R_ERROR,
           "profiles of models with splines, whose iterations end at once",
           lambda a, row: abs(row["gradient"] - row["gradient_r"]) >= 1e-3
           and any(name.endswith("Knots") for name in a)),
    Reason(r"sccs_likelihood_profile\.gradient", TOLERANCE,
           "R's iterations end before the optimum of splines or priors",
           lambda a, row: any(name.endswith("Knots") for name in a)),
    Reason(r"sccs_(covariate_)?result\.", R_ERROR, "R's model was not fitted",
           lambda a, row: row["rr_r"] != row["rr_r"] and 0 < row["rr"] != 1),
    Reason(r"sccs_diagnostics_summary\.(event_\w+|time_stability_p)", R_ERROR,
           "R's model was not fitted",
           lambda a, row: row["event_observation_lb_r"] != row["event_observation_lb_r"]
           and row["event_exposure_lb_r"] != row["event_exposure_lb_r"]
           and row["event_exposure_ub_r"] != row["event_exposure_ub_r"]
           and row["event_exposure_ub"] == row["event_exposure_ub"]),
    Reason(r"sccs_diagnostics_summary\.event_observation_", R_ERROR, "R's model was not fitted",
           lambda a, row: row["event_observation_lb_r"] != row["event_observation_lb_r"]
           and row["event_observation_lb"] > 0),
    Reason(r"sccs_diagnostics_summary\.event_observation_", R_ERROR,
           "no events in a window: R's number is where its iterations ended",
           lambda a, row: row["event_observation_lb"] == 0),
    Reason(r"sccs_covariate_result\.", CONVENTION, "R leaves out covariates without days",
           lambda a, row: row["rr"] == 1 and row["rr_r"] != row["rr_r"]),
    Reason(r"sccs_spline\.rr", CONVENTION, "R writes coefficients as ratios at the knots"),
    Reason(r"sccs_era\.rows", CONVENTION, "R lists the outcome among the eras"),
    Reason(r"sccs_likelihood_profile\.rows", CONVENTION, "our points of the profile",
           lambda a, row: row.get("_merge") == "left_only"),
    Reason(r"sccs_likelihood_profile\.log_likelihood", CONVENTION, "a constant of the profile",
           lambda a, row: abs(row["gradient"] - row["gradient_r"]) < 1e-3),
    Reason(r"sccs_likelihood_profile\.rows", CONVENTION, "R's further points of the profile",
           lambda a, row: row["_merge"] == "right_only"),
    Reason(r"sccs_diagnostics_summary\.event_observation_ub", R_ERROR,
           "the lower limit is exported as the upper one"),
    Reason(r"sccs_diagnostics_summary\.event_exposure_", R_ERROR,
           "no events in a window: R's number is where its iterations ended",
           lambda a, row: row["event_exposure_lb"] == 0),
    Reason(r"sccs_diagnostics_summary\.event_(observation_lb|exposure_[lu]b)", TOLERANCE,
           "R ends its search for a limit early"),
    Reason(r"sccs_diagnostics_summary\.unblind", CONVENTION,
           "no estimate: nothing is shown here", lambda a, row: row["mdrr"] == float("inf")),
    Reason(r"sccs_time_to_event\.rows", CONVENTION, "weeks in which no case was observed",
           lambda a, row: row["_merge"] == "left_only" and row["observed_subjects"] == 0),
    Reason(r"sccs_diagnostics_summary\.time_stability_p", CONVENTION, "monthly rates"),
    Reason(r"sccs_diagnostics_summary\.(time_stability_diagnostic|unblind\w*)", CONVENTION,
           "monthly rates",
           lambda a, row: row["time_stability_diagnostic"] != row["time_stability_diagnostic_r"]),
    Reason(r"sccs_diagnostics_summary\.mdrr", CONVENTION, "time before the first day that counts"),
    Reason(r"sccs_diagnostics_summary\.unblind", CONVENTION,
           "time before the first day that counts",
           lambda a, row: row["mdrr_diagnostic"] != row["mdrr_diagnostic_r"]),
    Reason(r"sccs_likelihood_profile\.(log_likelihood|gradient)", TOLERANCE,
           "R's profile is lower, where its iterations of the other coefficients ended",
           lambda a, row: row["log_likelihood"] > row["log_likelihood_r"]),
    Reason(rf"sccs_attrition\.({'|'.join(COUNTS)})", CONVENTION, LATER,
           lambda a, row: _reads_later(a) and row["outcome_subjects"] > row["outcome_subjects_r"]),
    # `compare_by_r_rules` compares the estimates without these exposures.
    Reason(r"sccs_(covariate_)?result\.(log_)?rr", CONVENTION, LATER,
           lambda a, row: _reads_later(a)),
    Reason(r"sccs_diagnostics_summary\.unblind", R_ERROR,
           "no events in a window: R's number is where its iterations ended",
           lambda a, row: row["event_exposure_lb"] == 0
           and row["event_exposure_diagnostic"] != row["event_exposure_diagnostic_r"]),
)  # fmt: skip

# Tables by conventions that differ, whose numbers are compared by R's rules instead.
BY_R_RULES = (
    "sccs_attrition", "sccs_covariate_result", "sccs_diagnostics_summary", "sccs_result",
    "sccs_time_trend", "sccs_time_period", "sccs_age_spanning", "sccs_calendar_time_spanning",
)  # fmt: skip
RULE_REASONS = {
    EARLY: TOLERANCE,
    LIMIT: TOLERANCE,
    NO_EVENT: R_ERROR,
    ENDLESS: R_ERROR,
    SPLINES: CONVENTION,
    BEFORE: CONVENTION,
    FOLLOWS: CONVENTION,
}


def compare_by_r_rules(folder: Path, out: StudyComparison) -> None:
    """Compare the numbers whose conventions differ after computing them by R's rules."""
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    analyses = {analysis["id"]: analysis for analysis in settings["analyses"]}
    with tempfile.TemporaryDirectory() as made:
        database = folder / "omop.duckdb"
        if len(analyses) == 1 and _reads_later(*analyses.values()):
            outcomes = [question["outcome"] for question in settings["questions"]]
            database = _without_later_exposures(database, Path(made), outcomes, *analyses.values())
        with OmopDatabase(database) as db:
            cohorts = cohorts_of(db)
            table = compare_with_r(db, folder / "r", cohorts).table
    for row in table[table["table"].isin(BY_R_RULES)].to_dict("records"):
        cell = f"{row['table']}.by R's rules"
        out.compared[cell] += 1
        if row["agrees"]:
            continue
        kind, words = _why(analyses[int(row["question"].split("/")[0])], row)
        if words:
            out.explained[f"{kind}: {words}"] += 1
            continue
        out.differ[cell] += 1
        out.apart[f"{cell} ({row['question']}: {row['item']})"] = row["ours"], row["theirs"]
        if out.differ[cell] <= 3:
            found = f"{row['question']}: {row['item']}: {row['ours']} / {row['theirs']}"
            out.examples.append(f"{cell} {found}")


def _without_later_exposures(
    database: Path, folder: Path, outcomes: list[int], analysis: Analysis
) -> Path:
    """Return a copy of the database without the exposures of cases that R does not read."""
    copy = folder / database.name
    shutil.copy(database, copy)
    starts, ends = (analysis["data"][name] for name in ("studyStartDates", "studyEndDates"))
    # The cohorts of exposures are made from drug_era, unless the database has R's entries.
    table, person, era, some = "drug_era", "person_id", "drug_era", "TRUE"
    with duckdb.connect(copy) as edited:
        if edited.execute("FROM duckdb_tables() WHERE table_name = ?", [ENTRIES]).fetchall():
            table, person, era = ENTRIES, "subject_id", "cohort"
            some = f"cohort_definition_id IN ({TARGET}, {COMPARATOR})"
        for end, following in zip(ends, [*starts[1:], "99991231"], strict=True):
            edited.execute(
                f"DELETE FROM {table} WHERE {some} AND {era}_start_date > strptime(?, '%Y%m%d') "
                f"AND {era}_end_date + ? < strptime(?, '%Y%m%d') AND {person} IN (SELECT person_id "
                "FROM condition_occurrence WHERE condition_concept_id IN (SELECT unnest(?)))",
                [end, LONGEST, following, outcomes],
            )
    return copy


def _why(analysis: Analysis, row: Row) -> tuple[str, str]:
    """Return the class and the reason of a number that differs by R's rules, or empty words."""
    item = str(row["item"])
    if item.endswith("observed_days") and row["theirs"] > row["ours"]:
        return R_ERROR, "observed days count once for each outcome"
    if item.endswith("outcome_observation_periods") and len(analysis["data"].get(STARTS, ())) > 1:
        return CONVENTION, "an observation period in two study periods counts twice here"
    counted = item.endswith(("outcome_subjects", "outcome_events", COUNTS[1]))
    if _censored(analysis, row) and counted and 0 < row["theirs"] - row["ours"] <= 2:
        return R_ERROR, LOST
    if item.startswith(("time_stability", "unblind")) and (
        "seasonKnots" in analysis or "calendarKnots" in analysis
    ):
        return CONVENTION, SPLINES
    if "prior" in analysis and item == "llr":
        return R_ERROR, "the likelihood ratio has a penalised null"
    if row["theirs"] != row["theirs"] and row["ours"] == 1.0 and item.endswith(": rr"):
        return CONVENTION, "R leaves out covariates without days"
    numbers = not isinstance(row["ours"], str)
    if numbers and row["theirs"] != row["theirs"] and abs(row["ours"]) < float("inf"):
        return R_ERROR, "R's model was not fitted"
    if numbers and "seasonKnots" in analysis and not row["note"]:
        close = 0.02 * max(1.0, abs(row["ours"]))
        if item.split(": ")[-1] in ("rr", "log_rr") and abs(row["ours"] - row["theirs"]) < close:
            return TOLERANCE, "R's iterations end before the optimum of splines or priors"
    return RULE_REASONS.get(row["note"], R_ERROR), str(row["note"])


CASE_SERIES = StudyKind(
    "SelfControlledCaseSeriesModule",
    "case_series.R",
    draw_series,
    TABLES,
    REASONS,
    compare_by_r_rules,
    mark=mark_series_without_cases,
    stored=(
        "sccs_analysis", "sccs_exposure", "sccs_exposures_outcome_set", "sccs_attrition",
        "sccs_result", "sccs_covariate_result", "sccs_diagnostics_summary",
        "sccs_likelihood_profile",
    ),
)  # fmt: skip
