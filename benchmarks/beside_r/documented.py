"""Reproduce documented differences that random studies do not draw, on people made by hand."""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from steropes.designs import covariate_balance
from steropes.designs.effects import curve_table
from steropes.designs.propensity.score_matching import matched_weights
from steropes.designs.propensity.weights_by_estimand import set_weights
from steropes.studies import OmopDatabase, case_series_settings
from steropes.studies.cohorts import (
    ComparisonRules,
    TimeAtRisk,
    circe_cohorts,
    compare_cohorts,
    study_population,
)
from steropes.studies.covariates import extract_features
from steropes.studies.covariates.feature_extraction import FeatureRules
from steropes.studies.results.propensity_score_density import density_of_bars, histogram
from steropes.studies.sccs.cases.series_preparation import prepare_series
from steropes.studies.strategus.specification_run import run_specification
from steropes.studies.strategus_plans.specification_plan import read_specification_plan

from .documented_models import (
    numbers_of_models,
    people_in_strata,
    variances_in_sets,
    write_tables_of_models,
)
from .documented_series import (
    LATER,
    MANY,
    OLDER,
    RESTRICTED,
    TWO_PERIODS,
    numbers_of_series,
    rows_of_series,
)
from .drawn_study import (
    COMPARATOR,
    OUTCOMES,
    TARGET,
    cohort_definitions,
    strategus_specification,
    write_databases,
)
from .r_programs import run_r

__all__ = ["reproduce_documented_differences"]

# Person, drug, first and last day of eras. Everybody is observed from 2010 to 2018.
ERAS = (
    (1, TARGET, "2012-01-01", "2012-03-31"),
    (1, COMPARATOR, "2012-03-31", "2012-06-30"),  # begins on the last day of the first era
    (2, TARGET, "2012-05-01", "2012-06-30"),
    (2, COMPARATOR, "2012-05-01", "2012-06-30"),  # both on one day
    (3, TARGET, "2012-01-01", "2012-02-01"),
    (3, TARGET, "2012-06-01", "2012-07-01"),  # a second era of the same drug
    (4, TARGET, "2012-01-01", "2012-12-31"),
    (5, COMPARATOR, "2012-01-01", "2012-12-31"),
    (6, TARGET, "2014-03-01", "2014-03-31"),  # on the 41st birthday
)
# As R's script, where 300 days are those of maxDaysAtRisk.
AT_RISK = {
    "300 days": TimeAtRisk(start=0, end=365, end_anchor="cohort start", max_days=300,
                           remove_prior=False),
    "cohort end": TimeAtRisk(start=0, end=0, end_anchor="cohort end", remove_prior=False),
}  # fmt: skip
# Person, day, value and unit of measurements before the target drug, between limits 1 and 10.
VALUES = (
    (1, "2011-12-01", "5", 8840),
    (2, "2011-12-01", "2e39", 8840),  # beyond single precision
    (3, "2011-12-01", "NULL", 8840),  # no value
    (4, "2011-12-01", "7", 9999840),  # another unit with the same last three digits
    (6, "2014-02-01", "4", 8840),  # both units
    (6, "2014-02-01", "3", 9999840),
)
# Person and birth. The 41st birthdays are 14,975 and 14,976 days after birth; 41 years of 365.25
# days are 14,975.25.
BIRTHS = ((6, "1973-03-01"), (OLDER, "1971-03-01"), (LATER, "1971-12-31"))


# A study of weighted people and one without scores, whose arms have fewer than five outcomes.
STUDY = {
    "target": TARGET, "comparator": COMPARATOR, "outcomes": [OUTCOMES[0]],
    "exclude": [TARGET, COMPARATOR], "refit": True,
    "analyses": [
        {
            "id": k, "description": f"analysis {k}",
            "data": {"washoutPeriod": 0, "restrictToCommonPeriod": False},
            "population": {"riskWindowEnd": 365, "endAnchor": "cohort start"},
            "propensity": {"estimator": "att", "variance": 0.05},
            "outcome": {"modelType": "cox", "stratified": False, "inversePtWeighting": weighted},
        }
        for k, weighted in ((1, True), (2, False))
    ],
}  # fmt: skip


def reproduce_documented_differences() -> pd.DataFrame:
    """Return what both programs find for each statement and person, as a table of texts."""
    with tempfile.TemporaryDirectory() as made:
        folder, study = Path(made) / "db", Path(made) / "study"
        write_databases(folder, 40, 1, _edits())
        write_tables_of_models(folder)
        write_databases(study, 400, 3)
        (study / "settings.json").write_text(json.dumps(STUDY), encoding="utf-8")
        run_r("cohort_method.R", study)
        for script in ("documented.R", "documented_models.R", "documented_series.R"):
            run_r(script, folder, study)
        people = pd.read_csv(folder / "people.csv")
        values = pd.read_csv(folder / "values.csv")
        lines = [
            (f"{both}; {'first exposure' if first else 'all exposures'}; {risk}", person, *days)
            for both in ("keep first, truncate to second", "keep first")
            for first in (True, False)
            for risk in AT_RISK
            for person, days in _days(folder, people, both, first, risk).items()
        ]
        lines += _values(folder, values)
        theirs = f"{pd.read_csv(folder / 'windows.csv')['days'].sum():.0f} days"
        lines.append(("window of 201 days of the first era", 3, theirs, _window_days(folder)))
        strata = pd.read_csv(folder / "strata_results.csv").set_index("what")["value"]
        lines += [
            (f"strata: {what}", 0, f"{strata[what]:.4f}", f"{value:.4f}")
            for what, value in _strata().items()
        ]
        ours = {**_cohorts(folder), **numbers_of_models(), **numbers_of_series(folder)}
        for name in ("cohorts", "models", "series"):
            said = pd.read_csv(folder / f"{name}.csv", keep_default_na=False)
            for what, theirs in zip(said["what"], said["R"], strict=True):
                lines.append((what, 0, theirs, ours.get(what, "")))
        lines += _study(study)
        for kind in ("strata", "sets"):
            simulated, by_r, here = variances_in_sets(kind)
            what = f"{kind}: mean variance of differences that vary by {simulated:.4f}"
            lines.append((what, 0, f"{by_r:.4f}", f"{here:.4f}"))
    return pd.DataFrame(lines, columns=["what", "person", "R", "here"])


def _strata() -> dict[str, float]:
    """Return our difference with its variance, a curve of the comparators, and a density at 0."""
    people = people_in_strata()
    treated, sets = people["treatment"].to_numpy(), people["stratumId"].to_numpy()
    balance = covariate_balance(
        people[["x"]], treated, after=matched_weights(sets, treated), sets=sets, estimand=None
    ).table.iloc[0]
    renamed = {"survivalTime": "time", "outcomeCount": "event", "treatment": "treated"}
    curve = curve_table(people.rename(columns=renamed), set_weights(sets, treated, "att"))
    line = curve[curve["time_day"] <= 30].iloc[-1]
    bars = density_of_bars(*histogram(people["score"].to_numpy(), 100), 100)
    return {
        "difference": balance["smd_after"], "variance": balance["smd_variance_after"],
        "survival": line["comparator_survival"], "lower": line["comparator_survival_lb"],
        "upper": line["comparator_survival_ub"], "density": bars[1][0],
    }  # fmt: skip


def _cohorts(folder: Path) -> dict[str, str]:
    """Return who is old enough and has enough days at risk."""
    found = {}
    with OmopDatabase(folder / "omop.duckdb") as db:
        cohorts = circe_cohorts(db, cohort_definitions())

        def persons(days: int, **rules: Any) -> list[int]:
            settings = ComparisonRules(washout_days=0, common_period=False, **rules)
            compared = compare_cohorts(db, cohorts, TARGET, COMPARATOR, settings)
            risk = TimeAtRisk(start=0, end_anchor="cohort end", min_days=days, remove_prior=False)
            return list(study_population(compared, cohorts, OUTCOMES[0], risk).people["person_id"])

        of_age = persons(1, min_age=41).count(6)
        found["people aged 41 or more, of whom one enters on the birthday"] = str(of_age)
        for days in (32, 33):
            what = f"people with {days} days at risk or more, of whom one has 32"
            found[what] = str(persons(days).count(3))
    return found


def _study(folder: Path) -> list[tuple[str, int, str, str]]:
    """Compare what both hide of small cells, and the balance of an analysis without scores."""
    specification = folder / "study.json"
    made = strategus_specification(folder, "CohortMethodModule")
    specification.write_text(json.dumps(made), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_specification(
            folder / "omop.duckdb", read_specification_plan(specification), folder / "here",
            database_id="simulated",
        )  # fmt: skip
    both = [_hidden(folder / "hidden"), _hidden(folder / "here")]
    return [(f"fewer than five: {what}", 0, theirs, both[1][what])
            for what, theirs in both[0].items()]  # fmt: skip


def _hidden(folder: Path) -> dict[str, str]:
    """Describe the tables of a folder."""

    def read(name: str) -> pd.DataFrame:
        found = sorted(folder.rglob(f"{name}.csv"))
        table = pd.read_csv(found[0]) if found else pd.DataFrame({"analysis_id": []})
        return table.sort_values("analysis_id")

    result, balance = read("cm_result"), read("cm_shared_covariate_balance")
    summary, attrition = read("cm_diagnostics_summary"), read("cm_attrition")
    first = balance[balance["analysis_id"] == 1]
    small = first[(first["target_mean_after"] < 0) | (first["comparator_mean_after"] < 0)]
    one = small[(small["target_mean_after"] < 0) != (small["comparator_mean_after"] < 0)]
    curves = read("cm_kaplan_meier_dist")
    return {
        "outcomes of the arms": " ".join(
            f"{row.target_outcomes:.0f} {row.comparator_outcomes:.0f}"
            for row in result[result["analysis_id"] == 1].itertuples()
        ),
        "covariates with a share": str(len(small)),
        "their standardised differences": str(int(small["std_diff_after"].notna().sum())),
        "covariates with a share of one arm": str(len(one)),
        "their shares of both arms": str(int((one["mean_after"] > 0).sum())),
        "days of curves": str(int((curves["analysis_id"] == 1).sum())),
        "detectable ratios": str(int(summary["mdrr"].notna().sum())),
        "balance without scores": str(int((balance["analysis_id"] == 2).sum())),
        "lines of attrition": str(attrition["description"].nunique()),
    }


def _edits() -> list[str]:
    """Return the statements that replace the simulated rows."""
    tables = ("drug_era", "condition_occurrence", "condition_era", "measurement", "observation",
              "procedure_occurrence", "death")  # fmt: skip
    period = "observation_period_start_date = '2010-01-01', observation_period_end_date"
    made = [f"DELETE FROM {table}" for table in tables]
    made.append(f"UPDATE observation_period SET {period} = '2018-12-31'")
    for person, birth in BIRTHS:
        year, month, born = (int(part) for part in birth.split("-"))
        made.append(
            f"UPDATE person SET year_of_birth = {year}, month_of_birth = {month}, "
            f"day_of_birth = {born} WHERE person_id = {person}"
        )
    made.append(
        "INSERT INTO observation_period BY NAME SELECT * REPLACE (9000 AS observation_period_id, "
        "DATE '2015-01-01' AS observation_period_start_date) FROM observation_period "
        f"WHERE person_id = {TWO_PERIODS}"
    )
    made.append(
        "UPDATE observation_period SET observation_period_end_date = '2012-12-31' "
        f"WHERE person_id = {TWO_PERIODS} AND observation_period_id < 9000"
    )
    made.append(
        "UPDATE observation_period SET observation_period_end_date = '2017-12-31' "
        f"WHERE person_id = {RESTRICTED} OR person_id IN {tuple([*MANY][::2])}"
    )
    rows = [*rows_of_series()]
    eras: list[tuple[Any, ...]] = [*ERAS, *(row[1:] for row in rows if row[0] == "drug")]
    events: list[tuple[Any, ...]] = [(3, OUTCOMES[0], "2012-02-10")]
    events += [row[1:4] for row in rows if row[0] != "drug"]
    for k, (who, drug, first, last) in enumerate(eras):
        made.append(
            "INSERT INTO drug_era BY NAME SELECT "
            f"{k} AS drug_era_id, {who} AS person_id, {drug} AS drug_concept_id, "
            f"DATE '{first}' AS drug_era_start_date, DATE '{last}' AS drug_era_end_date"
        )
    for n, (who, condition, day) in enumerate(events):
        made.append(
            f"INSERT INTO condition_occurrence BY NAME SELECT {n} AS condition_occurrence_id, "
            f"{who} AS person_id, {condition} AS condition_concept_id, "
            f"DATE '{day}' AS condition_start_date, DATE '{day}' AS condition_end_date"
        )
    for n, (who, day, value, unit) in enumerate(VALUES):
        made.append(
            "INSERT INTO measurement BY NAME SELECT "
            f"{n} AS measurement_id, {who} AS person_id, 400000 AS measurement_concept_id, "
            f"DATE '{day}' AS measurement_date, {value}::DOUBLE AS value_as_number, "
            f"1.0 AS range_low, 10.0 AS range_high, {unit} AS unit_concept_id"
        )
    return made


def _days(
    folder: Path, people: pd.DataFrame, both: Any, first: bool, risk: str
) -> dict[int, tuple[str, str]]:
    """Return the days at risk of each person in both programs."""
    rules = ComparisonRules(both, washout_days=0, first_only=first, common_period=False)
    with OmopDatabase(folder / "omop.duckdb") as db:
        cohorts = circe_cohorts(db, cohort_definitions())
        compared = compare_cohorts(db, cohorts, TARGET, COMPARATOR, rules)
        found = pd.DataFrame(study_population(compared, cohorts, OUTCOMES[0], AT_RISK[risk]).people)
    theirs = people[
        (people["both"] == both) & (people["first"] == first) & (people["risk"] == risk)
    ]

    def said(table: pd.DataFrame, person: int, arm: str, days: str) -> str:
        rows = table[table["person_id" if "person_id" in table else "person"] == person]
        named = [f"{'target' if r[arm] else 'comparator'} {r[days]:.0f} days"
                 for r in rows.to_dict("records")]  # fmt: skip
        return ", ".join(sorted(named)) or "left out"

    return {
        person: (said(theirs, person, "treatment", "days"),
                 said(found, person, "treated", "days_at_risk"))
        for person in range(1, 6)
    }  # fmt: skip


def _values(folder: Path, values: pd.DataFrame) -> list[tuple[str, int, str, str]]:
    """Return the recorded values of each person in both programs."""
    starts = pd.DataFrame({"person_id": [1, 2, 3, 4, 6], "start": pd.to_datetime(
        ["2012-01-01", "2012-05-01", "2012-01-01", "2012-01-01", "2014-03-01"])})  # fmt: skip
    rules = FeatureRules(analyses=(706, 710))
    with OmopDatabase(folder / "omop.duckdb") as db:
        features = extract_features(db, starts, rules)
    lines = []
    for row, person in enumerate(starts["person_id"]):
        here = []
        for column in features.columns.to_dict("records"):
            value = np.asarray(features.column(column["covariate_id"]))[row]
            if value:
                here.append(f"{column['name']} = {value:g}")
        theirs = values[values["rowId"] == person]
        r = [f"{n} = {v:g}" for n, v in zip(theirs["name"], theirs["covariateValue"], strict=True)]
        lines.append(("recorded values", person, "; ".join(sorted(set(r))), "; ".join(here)))
    return lines


def _window_days(folder: Path) -> str:
    """Return the days of a window of the first era, within which another era begins."""
    settings = case_series_settings(
        OUTCOMES[0], TARGET, outcomes_from="cohort", exposures_from="cohort", first_only=True,
        risk_end=200, risk_end_at="start", pre_exposure_days=0, end_of_observation_days=0,
    )  # fmt: skip
    with OmopDatabase(folder / "omop.duckdb") as db:
        cohorts = circe_cohorts(db, cohort_definitions())
        intervals = prepare_series(db, settings, cohorts).intervals
    return f"{intervals.statistics['days'].iloc[0]:.0f} days"
