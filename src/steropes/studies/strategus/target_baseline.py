"""Covariates of target cohorts at their index, summarised as Characterization summarises them."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.covariates.covariate_analysis_catalogue import ANALYSES, Analysis
from steropes.studies.covariates.covariate_names import LENGTHS
from steropes.studies.covariates.feature_extraction import AGE, extract_features
from steropes.studies.database.irregular_rows import distinct_people
from steropes.studies.database.observation_periods import observation_periods
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.release.strategus_release import PERCENTILES
from steropes.studies.strategus_plans.baseline_and_case_covariates import AFTER_INDEX, Baseline
from steropes.studies.strategus_plans.characterization_plan import CharacterizationPlan

__all__ = [
    "TABLES",
    "add_covariates",
    "analysis_row",
    "baseline_tables",
    "counted_entries",
    "target_entries",
]

ENTRIES, TARGET = "baseline_entries", "Target"
TABLES = (
    "c_settings", "c_cohort_details", "c_cohort_counts", "c_analysis_ref", "c_covariate_ref",
    "c_covariates", "c_covariates_continuous",
)  # fmt: skip
# The columns of a target's entries and their types.
OF_ENTRY = {
    "person_id": "int64", "start": "datetime64[us]", "time_in_cohort": "int64",
    "time_after": "int64", "has_age": "bool",
}  # fmt: skip
Tables = dict[str, pd.DataFrame]


def baseline_tables(db: OmopDatabase, plan: CharacterizationPlan, cohorts: CohortTable) -> Tables:
    """Summarise the covariates of all targets.

    Returns
    -------
    dict of str to DataFrame
        Exact tables, which are not for release.
    """
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for baseline in plan.baselines:
        key = {"setting_id": _setting_id(baseline)}
        rows["c_settings"].append(
            {
                **key,
                "covariate_setting_json": baseline.json_text,
                "min_prior_observation": baseline.prior_days,
            }
        )
        numbers = [*baseline.rules.analyses, *baseline.after_index]
        rows["c_analysis_ref"] += [{**key, **analysis_row(n, baseline)} for n in numbers]
        for target in baseline.targets:
            of = {"cohort_type": TARGET, "target_cohort_id": target, "outcome_cohort_id": 0}
            entries = target_entries(db, baseline, target, cohorts)
            rows["c_cohort_details"].append({**key, **of})
            rows["c_cohort_counts"].append({**of, **counted_entries(entries, baseline)})
            if len(entries):
                add_covariates(db, plan.least_count, baseline, entries, {**key, **of}, rows)
    tables = {name: pd.DataFrame(of) for name, of in rows.items()}
    # Settings that differ in covariates count the same people.
    tables["c_cohort_counts"] = tables["c_cohort_counts"].drop_duplicates()
    named = tables["c_covariate_ref"]
    if len(named):
        tables["c_covariate_ref"] = named.drop_duplicates(["setting_id", "covariate_id"])
    return tables


def _setting_id(baseline: Baseline) -> str:
    """Return the id of a setting: a hash of the parts that decide its results."""
    numbers = (baseline.prior_days, baseline.first_in_days, baseline.least_mean)
    text = " ".join(map(str, (baseline.json_text, *numbers)))
    return f"t_{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def target_entries(
    db: OmopDatabase, baseline: Baseline, target: int, cohorts: CohortTable
) -> pd.DataFrame:
    """Return a target's entries that count, with the days to the ends of entry and observation."""
    chosen = cohorts.only(target)
    if not len(chosen):
        return pd.DataFrame({name: np.empty(0, kind) for name, kind in OF_ENTRY.items()})
    people = distinct_people(db, f"SELECT subject_id FROM {ENTRIES}")
    with db.workspace() as work:
        chosen.place(work, ENTRIES)
        return work.frame(f"""
            SELECT subject_id AS person_id, cohort_start_date AS start,
                (cohort_end_date - cohort_start_date)::BIGINT AS time_in_cohort,
                (op.observation_period_end_date::DATE - cohort_start_date)::BIGINT AS time_after,
                p.year_of_birth IS NOT NULL AS has_age
            FROM (SELECT *, cohort_start_date - lag(cohort_end_date) OVER (
                    PARTITION BY subject_id ORDER BY cohort_start_date) AS gap FROM {ENTRIES}) e
            JOIN {observation_periods(db)} op ON op.person_id = e.subject_id
                AND e.cohort_start_date BETWEEN op.observation_period_start_date
                AND op.observation_period_end_date
            JOIN {people} p ON p.person_id = e.subject_id
            WHERE (gap IS NULL OR gap >= {baseline.first_in_days})
                AND e.cohort_start_date - op.observation_period_start_date::DATE
                    >= {baseline.prior_days}
            ORDER BY subject_id, cohort_start_date""")


def counted_entries(entries: pd.DataFrame, baseline: Baseline) -> dict[str, object]:
    """Count entries, people and days of a target."""
    days = entries["time_in_cohort"].astype(float)
    return {
        "min_prior_observation": baseline.prior_days,
        "row_count": len(entries),
        "person_count": entries["person_id"].nunique(),
        "min_exposure_time": days.min() if len(days) else math.nan,
        "mean_exposure_time": days.mean() if len(days) else math.nan,
        "max_exposure_time": days.max() if len(days) else math.nan,
    }


def analysis_row(number: int, baseline: Baseline) -> dict[str, object]:
    """Describe an analysis."""
    if number in AFTER_INDEX:
        name = AFTER_INDEX[number]
        return {
            "analysis_id": number, "analysis_name": name, "domain_id": "Demographics",
            "is_binary": "N", "missing_means_zero": "Y",
        }  # fmt: skip
    analysis = ANALYSES[number]
    timed = bool(analysis.window)
    return {
        "analysis_id": number,
        "analysis_name": analysis.name,
        "domain_id": analysis.domain,
        "start_day": baseline.rules.first_day(analysis) if timed else None,
        "end_day": baseline.rules.end_day if timed else None,
        "is_binary": "Y" if analysis.binary else "N",
        "missing_means_zero": None if analysis.binary else "Y" if _zero(analysis) else "N",
    }


def _zero(analysis: Analysis) -> bool:
    """Return whether people without a value of an analysis have a zero."""
    return analysis.kind != "value"


def add_covariates(
    db: OmopDatabase,
    least_count: int,
    baseline: Baseline,
    entries: pd.DataFrame,
    key: dict[str, object],
    rows: dict[str, list[dict[str, object]]],
) -> None:
    """Summarise the covariates of one target, and append the rows of its tables."""
    features = extract_features(db, entries[["person_id", "start"]], baseline.rules)
    setting = {"setting_id": key["setting_id"]}
    person = entries["person_id"].to_numpy()
    everybody = {"persons": _count(person)}
    for number in baseline.after_index:
        values = entries["time_after" if number == 9 else "time_in_cohort"].to_numpy(float)
        covariate = {"covariate_id": 1000 + number}
        rows["c_covariates_continuous"].append(
            {**key, **covariate, **everybody, **_summary(values)}
        )
        name = LENGTHS[number]
        rows["c_covariate_ref"].append(
            {**setting, **covariate, "covariate_name": name, "analysis_id": number, "concept_id": 0}
        )
    for j, column in enumerate(features.columns.to_dict("records")):
        covariate = {"covariate_id": int(column["covariate_id"])}
        if baseline.only and covariate["covariate_id"] not in baseline.only:
            continue
        own = slice(features.indptr[j], features.indptr[j + 1])
        values = features.values[own].astype(float)
        persons = {"persons": _count(person[features.rows[own]])}
        analysis = ANALYSES[int(column["analysis_id"])]
        # People without a year of birth have no age, which is not an age of zero.
        known = person[entries["has_age"].to_numpy(bool)] if analysis.id == AGE else person
        if len(values) < least_count:
            continue
        if analysis.binary:
            if len(values) / features.n < baseline.least_mean:
                continue
            mean = {"sum_value": len(values), "average_value": len(values) / features.n}
            least = {"min_characterization_mean": baseline.least_mean, "people": features.n}
            rows["c_covariates"].append({**key, **covariate, **persons, **least, **mean})
        else:
            rows["c_covariates_continuous"].append(
                {
                    **key,
                    **covariate,
                    **(persons if analysis.kind != "length" else {"persons": _count(known)}),
                    **_summary(*_values(len(known), values, analysis)),
                }
            )
        rows["c_covariate_ref"].append(
            {
                **setting, **covariate,
                "covariate_name": column["name"],
                "analysis_id": analysis.id,
                "concept_id": column["concept_id"],
            }
        )  # fmt: skip


def _count(person: NDArray) -> int:
    """Count distinct people."""
    return len(np.unique(person))


def _values(n: int, values: NDArray, analysis: Analysis) -> tuple[NDArray, int]:
    """Return the recorded values of an analysis, and how many of n entries have a zero instead."""
    absent = n - len(values)
    if analysis.kind == "length":  # All n have one, and zeros are not stored.
        return np.concatenate([values, np.zeros(absent)]), 0
    return values, absent if _zero(analysis) else 0


def _summary(values: NDArray, zeros: int = 0) -> dict[str, float]:
    """Summarise a distribution with further zeros as FeatureExtraction does.

    Mean and percentiles refer to all people, the standard deviation to the recorded values. A
    percentile is the smallest value that reaches its share.
    """
    ordered = np.sort(np.concatenate([values, np.zeros(zeros)]))
    n = len(ordered)
    found = {
        f"{name}_value": float(ordered[max(math.ceil(share * n) - 1, 0)])
        for name, share in PERCENTILES.items()
    }
    return {
        "count_value": len(values),
        "min_value": float(ordered[0]),
        "max_value": float(ordered[-1]),
        "average_value": float(ordered.mean()),
        "standard_deviation": float(values.std(ddof=1)) if len(values) > 1 else 0.0,
        **found,
    }
