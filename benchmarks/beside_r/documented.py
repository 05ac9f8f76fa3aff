"""Reproduce documented differences that random studies do not draw, on people made by hand."""

from __future__ import annotations

import tempfile
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

from .drawn_study import COMPARATOR, OUTCOMES, TARGET, cohort_definitions, write_databases
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
)
# As R's script, where 300 days are those of maxDaysAtRisk.
AT_RISK = {
    "300 days": TimeAtRisk(start=0, end=365, end_anchor="cohort start", max_days=300,
                           remove_prior=False),
    "cohort end": TimeAtRisk(start=0, end=0, end_anchor="cohort end", remove_prior=False),
}  # fmt: skip
# Person, value and unit of measurements a month before the target drug, between limits 1 and 10.
VALUES = (
    (1, "5", 8840),
    (2, "2e39", 8840),  # beyond single precision
    (3, "NULL", 8840),  # no value
    (4, "7", 9999840),  # another unit with the same last three digits
)


def reproduce_documented_differences() -> pd.DataFrame:
    """Return what both programs find for each person, as a table of texts."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "db"
        write_databases(folder, 5, 1, _edits())
        _people_in_strata().to_csv(folder / "strata.csv", index=False)
        run_r("documented.R", folder)
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
    return pd.DataFrame(lines, columns=["what", "person", "R", "here"])


def _people_in_strata() -> pd.DataFrame:
    """Make 40 people in two strata of different size, with follow-up and a covariate."""
    k = np.arange(40)
    stratum = np.where(k < 28, 1, 2)
    return pd.DataFrame(
        {
            "rowId": k + 1, "stratumId": stratum,
            "treatment": np.where(stratum == 1, k % 4 == 0, k % 3 > 0).astype(int),
            "survivalTime": 10 * (1 + k % 6), "outcomeCount": (k % 5 == 0).astype(int),
            "x": np.where(stratum == 1, k % 3 == 0, k % 4 > 0).astype(int),
            "score": 0.05 + 0.02 * k,
        }
    )  # fmt: skip


def _strata() -> dict[str, float]:
    """Return our difference with its variance, a curve of the comparators, and a density at 0."""
    people = _people_in_strata()
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


def _edits() -> list[str]:
    """Return the statements that replace the simulated rows."""
    tables = ("drug_era", "condition_occurrence", "condition_era", "measurement", "observation",
              "procedure_occurrence", "death")  # fmt: skip
    period = "observation_period_start_date = '2010-01-01', observation_period_end_date"
    made = [f"DELETE FROM {table}" for table in tables]
    made.append(f"UPDATE observation_period SET {period} = '2018-12-31'")
    for k, (person, drug, first, last) in enumerate(ERAS):
        made.append(
            "INSERT INTO drug_era BY NAME SELECT "
            f"{k} AS drug_era_id, {person} AS person_id, {drug} AS drug_concept_id, "
            f"DATE '{first}' AS drug_era_start_date, DATE '{last}' AS drug_era_end_date"
        )
    made.append(
        "INSERT INTO condition_occurrence BY NAME SELECT 1 AS condition_occurrence_id, "
        f"3 AS person_id, {OUTCOMES[0]} AS condition_concept_id, "
        "DATE '2012-02-10' AS condition_start_date, DATE '2012-02-10' AS condition_end_date"
    )
    for k, (person, value, unit) in enumerate(VALUES):
        made.append(
            "INSERT INTO measurement BY NAME SELECT "
            f"{k} AS measurement_id, {person} AS person_id, 400000 AS measurement_concept_id, "
            f"DATE '2011-12-01' AS measurement_date, {value}::DOUBLE AS value_as_number, "
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
    starts = pd.DataFrame({"person_id": [1, 2, 3, 4], "start": pd.to_datetime(
        ["2012-01-01", "2012-05-01", "2012-01-01", "2012-01-01"])})  # fmt: skip
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
