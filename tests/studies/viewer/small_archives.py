"""Small archives of comparative studies with given estimates, flags and names."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

from steropes.studies.formatting.text_safety import csv_text
from steropes.studies.result_files.table_layouts import TABLES

COMPARISON = 99
HOSTILE = "</script><img src=x onerror=\"document.title='hacked'\">"
FORMULA = '=HYPERLINK("http://x","y")'


def small_archive(
    folder: Path,
    database: str,
    results: list[tuple[int, int, float, int, int]],
    *,
    covariates: int = 3,
    cohorts: dict[int, str] | None = None,
    truth: dict[int, float] | None = None,
    definition: str = '{"outcome_model": {"kind": "cox"}}',
) -> Path:
    """Write an archive and return its path.

    Parameters
    ----------
    folder : Path
    database : str
    results : list of (outcome, analysis, ratio, unblind, unblind for synthesis)
    covariates : int
        Number of covariates of the balance, for analysis 1.
    cohorts : dict of int to str, optional
        Names of cohorts.
    truth : dict of int to float, optional
        The known ratios of control outcomes.
    definition : str
        Settings of all analyses, as JSON.
    """
    truth = truth or {}
    key = {"target_comparator_id": COMPARISON, "database_id": database}
    named = {1: "drug A", 2: "drug B", 3: "bleeding", 4: "control"} | (cohorts or {})
    tables: dict[str, list[dict]] = {name: [] for name in TABLES}
    for outcome, analysis, ratio, unblind, synthesis in results:
        own = {**key, "outcome_id": outcome, "analysis_id": analysis}
        tables["cm_result"].append({**own, **_estimate(ratio)})
        tables["cm_diagnostics_summary"].append(
            {**own, "unblind": unblind, "unblind_for_evidence_synthesis": synthesis, "mdrr": 2.5,
             "mdrr_diagnostic": "PASS" if unblind else "FAIL"}
        )  # fmt: skip
        tables["note"].append({**own, "note": "", "interval": "profile", "e_value": ratio + 0.1})
        for x in np.linspace(-2, 2, 21):
            fall = -((x - np.log(ratio)) ** 2) / (2 * 0.1**2)
            tables["cm_likelihood_profile"].append({**own, "log_rr": x, "log_likelihood": fall})
        for day in (0, 30, 60):
            tables["cm_kaplan_meier_dist"].append(
                {**own, "time_day": day, "target_survival": 1 - day / 1000 * ratio}
            )
        tables["cm_interaction_result"].append({**own, "interaction_covariate_id": 8532001})
        tables["subgroup"].append(
            {**own, "interaction_covariate_id": 8532001, "level": 1, "rr": ratio + 0.01}
        )
        tables["cm_follow_up_dist"].append({**own, "target_p_10_days": round(300 / ratio, 1)})
        tables["effect_by_period"] += [
            {**own, "first_day": first, "last_day": last, **_estimate(ratio + 0.01)}
            for first, last in ((1, 30), (31, None))
        ]
        tables["further_diagnostic"].append(
            {**own, "diagnostic": "Share of old people", "value": 0.4,
             "verdict": "PASS" if unblind else "FAIL"}
        )  # fmt: skip
        tables["absolute_effect"].append({**own, "horizon_day": 365, "target_risk": ratio / 10})
        for arm in (1, 2):
            tables["cm_attrition"].append(
                {
                    **own,
                    "exposure_id": arm,
                    "sequence_number": 1,
                    "description": "all",
                    "subjects": 9,
                }
            )
    for outcome in dict.fromkeys(r[0] for r in results):
        known = truth.get(outcome)
        tables["cm_target_comparator_outcome"].append(
            {"target_comparator_id": COMPARISON, "outcome_id": outcome, "true_effect_size": known,
             "outcome_of_interest": int(known is None)}
        )  # fmt: skip
    for i in range(covariates):
        own = {**key, "analysis_id": 1, "covariate_id": 1000 + i}
        tables["cm_shared_covariate_balance"].append(
            {**own, "std_diff_before": 0.3 * np.sin(i), "std_diff_after": 0.08 * np.cos(i),
             "target_mean_before": 0.01 + (i % 90) / 100}
        )  # fmt: skip
        tables["cm_covariate"].append(
            {
                **own,
                "covariate_name": f"condition {i} in the year before",
                "covariate_analysis_id": 1,
            }
        )
    tables["cm_covariate_analysis"].append(
        {"analysis_id": 1, "covariate_analysis_id": 1, "covariate_analysis_name": "conditions"}
    )
    tables["cm_target_comparator"].append(
        {"target_comparator_id": COMPARISON, "target_id": 1, "comparator_id": 2}
    )
    for analysis in dict.fromkeys(r[1] for r in results):
        tables["cm_analysis"].append(
            {"analysis_id": analysis, "description": f"analysis {analysis}",
             "definition": definition}
        )  # fmt: skip
    tables["cohort"] += [{"cohort_id": i, "name": name} for i, name in named.items()]
    tables["database"].append({"database_id": database, "name": f"{database} hospital"})
    path = folder / database / "release" / "results.zip"
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, rows in tables.items():
            table = pd.DataFrame(rows).reindex(columns=list(TABLES[name]))
            archive.writestr(f"{name}.csv", csv_text(table))
    return path


def _estimate(ratio: float) -> dict[str, float]:
    """Return an estimate with a standard error of 0.1 and with counts."""
    low, high = ratio * np.exp(-0.196), ratio * np.exp(0.196)
    effect = {"rr": ratio, "ci_95_lb": low, "ci_95_ub": high, "p": 0.01, "log_rr": np.log(ratio)}
    effect |= {"se_log_rr": 0.1, "calibrated_rr": ratio * 1.001}
    people = {"target_subjects": 500, "comparator_subjects": 600}
    people |= {
        "target_days": 182_500 - int(1000 * np.nan_to_num(ratio)),
        "comparator_days": 219_000,
    }
    return {**effect, **people, "target_outcomes": 57, "comparator_outcomes": 61}
