"""Run drawn cohort studies in both packages and compare their result tables cell by cell."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from steropes.studies.strategus.specification_run import run_specification
from steropes.studies.strategus_plans.specification_plan import read_specification_plan

from .drawn_study import draw_settings, strategus_specification, write_databases
from .r_programs import run_r

__all__ = ["StudyComparison", "compare_study"]

Analysis = dict[str, Any]

# Key columns of R's tables, and how close their numbers must be, relative to one or the number.
TABLES = {
    "cm_attrition": (["analysis_id", "outcome_id", "exposure_id", "sequence_number"], 0.0),
    "cm_follow_up_dist": (["analysis_id", "outcome_id"], 1e-12),
    "cm_result": (["analysis_id", "outcome_id"], 1e-3),
    "cm_interaction_result": (["analysis_id", "outcome_id", "interaction_covariate_id"], 1e-3),
    "cm_propensity_model": (["analysis_id", "covariate_id"], 1e-4),
    "cm_preference_score_dist": (["analysis_id", "preference_score"], 1e-4),
    "cm_shared_covariate_balance": (["analysis_id", "covariate_id"], 6e-4),  # R writes 3 decimals
    "cm_covariate_balance": (["analysis_id", "outcome_id", "covariate_id"], 6e-4),
    "cm_kaplan_meier_dist": (["analysis_id", "outcome_id", "time_day"], 1e-6),
    "cm_diagnostics_summary": (["analysis_id", "outcome_id"], 1e-3),
    "cm_covariate": (["covariate_id", "analysis_id"], 0.0),
}
TEXTS = ("description", "covariate_name", "interval", "definition", "database_id")


# Differences that the pages on R list: table and columns, analyses that they concern, and why.
EXPLAINED: tuple[tuple[str, Callable[[Analysis], bool], str], ...] = (
    (r"cm_follow_up_dist\.\w+_p_75_days", lambda a: True, "R's 75 % quantile is that of 85 %"),
    (r"cm_kaplan_meier_dist\.", lambda a: True, "curves of weighted analyses and sets, last days"),
    (r"\w+\.\w*std_diff_var_after", lambda a: True, "variances of weighted differences"),
    (r"\w+\.\w*sdm_family_wise_min_p", lambda a: True, "p-values above one, their variances"),
    (r"cm_diagnostics_summary\.attrition_fraction", lambda a: True, "R leaves it empty"),
    (r"cm_preference_score_dist\.", lambda a: True, "kernel densities without lone people"),
    (r"cm_\w*covariate_balance\.(\w*_before|\w+_std_diff)", lambda a: True,
     "people before the rules of time at risk"),
    (r"cm_diagnostics_summary\.generalizability_max_sdm", lambda a: True,
     "people before the rules of time at risk"),
    (r"cm_\w*covariate_balance\.mean_after", lambda a: True, "R leaves a mean of zero empty"),
    (r"cm_result\.ci_95_[lu]b", lambda a: True, "R ends its search for a limit early"),
    (r"cm_\w*covariate_balance\.balanced_", lambda a: True, "differences next to the limit"),
    (r"cm_covariate_balance\.\w+_(after|diff)", lambda a: is_weighted(a) and "truncate" not in a,
     "R does not weight balance of outcomes without truncation"),
    (r"cm_diagnostics_summary\.(max_sdm|balance_diagnostic|unblind\w*)",
     lambda a: is_weighted(a) and "truncate" not in a,
     "R does not weight balance of outcomes without truncation"),
    (r"cm_attrition\.", lambda a: a["data"]["washoutPeriod"] == 0, "lines of rules without effect"),
    (r"cm_(\w*covariate_balance\.rows|diagnostics_summary\.)", lambda a: "trim" in a,
     "no balance of trimming alone here"),
    (r"cm_covariate_balance\.rows", lambda a: True,
     "no balance of outcomes without estimates here"),
    (r"cm_covariate\.rows", lambda a: "propensity" not in a,
     "no covariates of crude analyses here"),
    (r"cm_(attrition|result|\w*covariate_balance|diagnostics_summary|follow_up_dist)\.",
     lambda a: "match" in a, "the order of people with equal scores"),
)  # fmt: skip


def is_weighted(analysis: Analysis) -> bool:
    """Whether the outcome model is weighted."""
    return bool(analysis.get("outcome", {}).get("inversePtWeighting"))


def explanation(cell: str, analysis: Analysis) -> str:
    """Return why a cell may differ, or ""; ``cell`` is a table and a column, joined by a dot."""
    for pattern, concerns, reason in EXPLAINED:
        if re.match(pattern, cell) and concerns(analysis):
            return reason
    return ""


@dataclass
class StudyComparison:
    """Counts of compared cells and of those that differ, by reason, with examples of the others."""

    seed: int
    explained: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    differ: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


def compare_study(seed: int, people: int, folder: Path | None = None) -> StudyComparison:
    """Run the study of a seed in both packages and compare the tables.

    Parameters
    ----------
    seed : int
    people : int
        Number of simulated people.
    folder : Path, optional
        Where to keep the databases and results. Default: a temporary folder.
    """
    if folder is not None:
        return _compare_in(folder, seed, people)
    with tempfile.TemporaryDirectory() as made:
        return _compare_in(Path(made), seed, people)


def _compare_in(folder: Path, seed: int, people: int) -> StudyComparison:
    out = StudyComparison(seed)
    write_databases(folder, people, seed)
    settings = draw_settings(seed)
    analyses = {analysis["id"]: analysis for analysis in settings["analyses"]}
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    said = run_r("cohort_method.R", folder)
    out.seconds["R"] = json.loads(said.strip().splitlines()[-1])["seconds"]
    specification = folder / "study.json"
    specification.write_text(json.dumps(strategus_specification(folder)), encoding="utf-8")
    started = time.perf_counter()
    run_specification(
        folder / "omop.duckdb",
        read_specification_plan(specification),
        folder / "here",
        database_id="simulated",
        disclosure="none",
    )
    out.seconds["steropes"] = time.perf_counter() - started
    for name, (key, close) in TABLES.items():
        ours, theirs = _read(folder / "here", name), _read(folder / "r", name)
        if ours is not None and theirs is not None:
            _compare_table(out, analyses, name, ours, theirs, key, close)
        elif (ours is None) != (theirs is None):
            out.differ[f"{name}.file"] += 1
            out.examples.append(f"{name}: only {'R' if ours is None else 'steropes'} has it")
    return out


def _read(folder: Path, name: str) -> pd.DataFrame | None:
    found = sorted(folder.rglob(f"{name}.csv"))
    return pd.read_csv(found[0]) if found else None


def _compare_table(
    out: StudyComparison,
    analyses: dict[int, Analysis],
    name: str,
    ours: pd.DataFrame,
    theirs: pd.DataFrame,
    key: list[str],
    close: float,
) -> None:
    """Compare the cells of the columns that both tables have, and the rows that one lacks."""
    both = ours.merge(theirs, on=key, how="outer", suffixes=("", "_r"), indicator=True)
    lone = (both["_merge"] != "both").to_numpy()
    _count(out, analyses, name, "rows", both, lone, key)
    matched = both[both["_merge"] == "both"]
    for column in theirs.columns:
        if column in key or column in TEXTS or f"{column}_r" not in matched:
            continue
        apart = ~_equal(matched[column], matched[f"{column}_r"], close)
        _count(out, analyses, name, column, matched, apart, key)


def _count(
    out: StudyComparison,
    analyses: dict[int, Analysis],
    table: str,
    column: str,
    rows: pd.DataFrame,
    apart: np.ndarray,
    key: list[str],
) -> None:
    """Count the cells of a column that differ, by the reason of the row's analysis."""
    cell = f"{table}.{column}"
    out.compared[cell] += len(rows)
    shown = 0
    for _, row in rows[apart].iterrows():
        reason = explanation(cell, analyses.get(int(row.get("analysis_id", 0)), {}))
        out.explained[reason] += bool(reason)
        if reason:
            continue
        out.differ[cell] += 1
        shown += 1
        if shown <= 3:
            where = ", ".join(f"{k}={row[k]}" for k in key)
            found = row["_merge"] if column == "rows" else f"{row[column]} / {row[f'{column}_r']}"
            out.examples.append(f"{cell} ({where}): {found}")


def _equal(ours: pd.Series[Any], theirs: pd.Series[Any], close: float) -> np.ndarray:
    """Mark equal cells: equal texts, or numbers within the tolerance, missing ones included."""
    a, b = pd.to_numeric(ours, errors="coerce"), pd.to_numeric(theirs, errors="coerce")
    a, b = a.to_numpy(float), b.to_numpy(float)
    numbers = (a == b) | (np.abs(a - b) <= close * np.maximum(1.0, np.abs(b)))
    missing = ours.isna().to_numpy() & theirs.isna().to_numpy()
    return numbers | missing | (ours.astype(str) == theirs.astype(str)).to_numpy()
