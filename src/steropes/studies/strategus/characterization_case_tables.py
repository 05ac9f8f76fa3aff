"""Covariates of cases: people with an outcome in their time at risk after a target.

As in Characterization, cases are described at the start of the target (risk factors), and in the
days before the target, between target and outcome, and after the outcome (case series).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
import pandas as pd

from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.covariates.covariate_analysis_catalogue import DURING
from steropes.studies.covariates.window_summaries import MOST_ROWS, summarise_spans
from steropes.studies.database.observation_periods import observation_periods
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.database.sources.table_source import require_rows
from steropes.studies.strategus.target_baseline import (
    TABLES,
    add_covariates,
    analysis_row,
    counted_entries,
    target_entries,
)
from steropes.studies.strategus_plans.baseline_and_case_covariates import CaseDescription

__all__ = ["case_tables"]

OUTCOMES = "case_outcomes"
CASES, EXCLUDED = "Cases", "Exclude"
SPANS = {1: "CasesBefore", 2: "CasesBetween", 3: "CasesAfter"}
Rows = dict[str, list[dict[str, Any]]]
Tables = dict[str, pd.DataFrame]


def case_tables(
    db: OmopDatabase, described: Sequence[CaseDescription], least_count: int, cohorts: CohortTable
) -> Tables:
    """Describe the cases of all targets and outcomes.

    Parameters
    ----------
    least_count : int
        The smallest number of entries with a covariate that is reported.

    Returns
    -------
    dict of str to DataFrame
        Exact tables, which are not for release.

    Raises
    ------
    DataError
        There are too many covariates; see `require_rows`.
    """
    rows: Rows = {name: [] for name in TABLES}
    references: list[pd.DataFrame] = []
    counted: list[pd.DataFrame] = []  # Covariates by target and outcome.
    known: dict[tuple[int, int, int], pd.DataFrame] = {}  # Outcomes are shared by all targets.
    for description in described:
        key = {"setting_id": _setting_id(description)}
        rows["c_settings"].append({**key, **_settings(description)})
        rows["c_analysis_ref"] += [{**key, **line} for line in _analyses(description)]
        entries = {t: target_entries(db, description.at_target, t, cohorts)
                   for t in description.targets}  # fmt: skip
        for target in description.targets:
            if len(entries[target]) < description.least_targets:
                continue
            for place, outcome in enumerate(description.outcomes):
                asked = (outcome, description.washouts[place], description.at_target.prior_days)
                if asked not in known:
                    known[asked] = _washed(db, cohorts, *asked)
                cases, excluded = _cases(description, asked[1], entries[target], known[asked])
                if len(cases) < description.least_cases:
                    continue
                of = {"target_cohort_id": target, "outcome_cohort_id": outcome}
                for kind, some in ((CASES, cases), (EXCLUDED, excluded)):
                    _add_group(db, description, least_count, {**key, **of, "cohort_type": kind},
                               some, rows)  # fmt: skip
                if description.around is not None and len(cases):
                    _add_spans(db, description, least_count, {**key, **of}, cases, rows, references)
                references = _distinct(references)
                counted.append(pd.DataFrame(rows["c_covariates"]))  # Smaller than its rows.
                rows["c_covariates"] = []
                require_rows(sum(map(len, counted)), "covariates of cases", MOST_ROWS)
    return _tables(rows, counted, references)


def _tables(
    rows: Rows, counted: Sequence[pd.DataFrame], references: Sequence[pd.DataFrame]
) -> Tables:
    """Return the tables of rows, of covariates and of the names of covariates of spans."""
    tables = {name: pd.DataFrame(of) for name, of in rows.items()}
    some = [table for table in counted if len(table)]
    if some:
        tables["c_covariates"] = pd.concat(some, ignore_index=True)
    if references:
        whole = [tables["c_covariate_ref"], *references]
        tables["c_covariate_ref"] = pd.concat([t for t in whole if len(t)], ignore_index=True)
    if len(tables["c_covariate_ref"]):
        names = tables["c_covariate_ref"]
        tables["c_covariate_ref"] = names.drop_duplicates(["setting_id", "covariate_id"])
    tables["c_cohort_counts"] = tables["c_cohort_counts"].drop_duplicates()
    return tables


def _distinct(references: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return one table of names without repeated ones, which nearly all are."""
    if len(references) < 2:
        return references
    whole = pd.concat(references, ignore_index=True)
    return [whole.drop_duplicates(["setting_id", "covariate_id"])]


def _setting_id(description: CaseDescription) -> str:
    """Return the id of a setting: a hash of the parts that decide its results."""
    text = repr([x for x in astuple(description) if x is not None])
    return f"c_{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _time_at_risk(description: CaseDescription) -> dict[str, object]:
    """Return the columns of the time at risk."""
    return {
        "risk_window_start": description.start,
        "start_anchor": f"cohort {description.start_anchor}",
        "risk_window_end": description.end,
        "end_anchor": f"cohort {description.end_anchor}",
        "min_prior_observation": description.at_target.prior_days,
        "outcome_washout_days": max(description.washouts),
    }


def _settings(description: CaseDescription) -> dict[str, object]:
    """Return the row of the settings."""
    return {
        "covariate_setting_json": description.at_target.json_text or None,
        "case_covariate_setting_json": description.json_text or None,
        "case_pre_target_duration": description.before,
        "case_post_outcome_duration": description.after,
        **_time_at_risk(description),
    }


def _analyses(description: CaseDescription) -> list[dict[str, object]]:
    """Describe the analyses."""
    found = []
    if description.risk_factors:
        baseline = description.at_target
        numbers = [*baseline.rules.analyses, *baseline.after_index]
        found += [analysis_row(number, baseline) for number in numbers]
    for number in () if description.around is None else description.around.analyses:
        analysis = DURING[number]
        found.append(
            {
                "analysis_id": number,
                "analysis_name": analysis.name,
                "domain_id": analysis.domain,
                "is_binary": "Y" if analysis.binary else "N",
                "missing_means_zero": None if analysis.binary else "Y",
            }
        )
    return found


def _washed(
    db: OmopDatabase, cohorts: CohortTable, outcome: int, washout: int, prior: int
) -> pd.DataFrame:
    """Return the observed outcomes of all people, as ``person_id`` and ``day`` from 1970.

    An outcome counts if none began in its washout, after the days of observation that are required.
    """
    chosen = cohorts.only(outcome)
    if not len(chosen):
        return pd.DataFrame({"person_id": np.zeros(0, np.int64), "day": np.zeros(0, np.int64)})
    with db.workspace() as work:
        chosen.place(work, OUTCOMES)
        return work.frame(
            "SELECT subject_id AS person_id, "
            "(cohort_start_date - DATE '1970-01-01')::BIGINT AS day "
            "FROM (SELECT *, cohort_start_date - lag(cohort_start_date) OVER (PARTITION BY "
            f"subject_id ORDER BY cohort_start_date) AS gap FROM {OUTCOMES}) "
            f"JOIN {observation_periods(db)} op ON op.person_id = subject_id "
            "AND cohort_start_date BETWEEN op.observation_period_start_date "
            "AND op.observation_period_end_date "
            f"WHERE (gap IS NULL OR gap >= {washout}) "
            f"AND cohort_start_date - op.observation_period_start_date::DATE >= {prior}"
        )


def _cases(
    description: CaseDescription, washout: int, entries: pd.DataFrame, washed: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return entries of a target with their first outcome at risk, and those with an earlier one.

    Parameters
    ----------
    washed : DataFrame
        The outcomes that count; see `_washed`.
    """
    nobody = entries.iloc[:0]
    if entries.empty or washed.empty:  # Most pairs of a large specification on a small database.
        return nobody.assign(outcome=np.empty(0, "datetime64[us]")), nobody
    start = pd.to_datetime(entries["start"]).to_numpy("datetime64[D]").astype(np.int64)
    days = entries["time_in_cohort"].to_numpy(np.int64)
    begin, end = (
        start + (days if anchor == "end" else 0) + day
        for anchor, day in (
            (description.start_anchor, description.start), (description.end_anchor, description.end)
        )
    )  # fmt: skip
    targets = pd.DataFrame(
        {"person_id": entries["person_id"].to_numpy(), "row": np.arange(len(entries)),
         "start": start, "begin": begin, "end": end}
    )  # fmt: skip
    both = targets.merge(washed, on="person_id")
    first = both[both["day"].between(both["begin"], both["end"])].groupby("row")["day"].min()
    early = both[both["day"].between(both["start"] - washout, both["start"] - 1)]["row"].unique()
    cases = entries.iloc[first.index.to_numpy(np.int64)].reset_index(drop=True)
    outcome = first.to_numpy(np.int64).astype("datetime64[D]").astype("datetime64[us]")
    cases = cases.assign(outcome=outcome)
    return cases, entries.iloc[np.sort(early.astype(np.int64))].reset_index(drop=True)


def _add_group(
    db: OmopDatabase,
    description: CaseDescription,
    least_count: int,
    key: dict[str, object],
    entries: pd.DataFrame,
    rows: Rows,
) -> None:
    """Count cases or excluded people, and describe them at the start of the target."""
    of = {k: v for k, v in key.items() if k != "setting_id"}
    rows["c_cohort_details"].append(key)
    counts = counted_entries(entries, description.at_target)
    rows["c_cohort_counts"].append({**of, **counts, **_time_at_risk(description)})
    if description.risk_factors and len(entries):
        add_covariates(db, least_count, description.at_target, entries, key, rows)


def _add_spans(
    db: OmopDatabase,
    description: CaseDescription,
    least_count: int,
    key: dict[str, object],
    cases: pd.DataFrame,
    rows: Rows,
    references: list[pd.DataFrame],
) -> None:
    """Describe cases before the target, until the outcome, and after it."""
    start, outcome = (cases[c].to_numpy("datetime64[D]") for c in ("start", "outcome"))
    spans = {
        1: (start - description.before, start),
        2: (start + 1, outcome),
        3: (outcome + 1, outcome + description.after),
    }
    parts = [(np.full(len(cases), kind), cases["person_id"].to_numpy(), *days)
             for kind, days in spans.items()]  # fmt: skip
    kind, person, first, last = (np.concatenate(of) for of in zip(*parts, strict=True))
    kept = last >= first  # An outcome on the first day has no day between.
    table = CohortTable(kind[kept], person[kept], first[kept], last[kept], db.identity)
    assert description.around is not None
    found = summarise_spans(db, table, description.around)
    rows["c_cohort_details"] += [{**key, "cohort_type": name} for name in SPANS.values()]
    named = {"covariate_id": "covariate_id", "name": "covariate_name",
             "analysis_id": "analysis_id", "concept_id": "concept_id"}  # fmt: skip
    references.append(
        found.columns[[*named]].rename(columns=named).assign(setting_id=key["setting_id"])
    )
    for line in found.ones.to_dict("records"):
        if line["sum_value"] >= least_count:
            rows["c_covariates"].append(
                {
                    **key, "cohort_type": SPANS[int(line["cohort_id"])],
                    "covariate_id": line["covariate_id"], "persons": line["persons"],
                    "min_characterization_mean": description.around.least_mean,
                    "people": line["entries"], "sum_value": line["sum_value"],
                    "average_value": line["sum_value"] / line["entries"],
                }
            )  # fmt: skip
    for line in found.values.to_dict("records"):
        if line["count_value"] >= least_count:
            of = {k: v for k, v in line.items() if k not in ("cohort_id", "time_id")}
            kind_ = {"cohort_type": SPANS[int(line["cohort_id"])]}
            rows["c_covariates_continuous"].append({**key, **kind_, **of})
