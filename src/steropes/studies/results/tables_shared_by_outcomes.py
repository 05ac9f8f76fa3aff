"""Exact result tables that all outcomes of a question and an analysis share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from steropes.designs.propensity.covariate_balance import Balance
from steropes.studies.comparative.analysis_result import Shared
from steropes.studies.comparative.grid_questions_and_analyses import Question, StudyAnalysis
from steropes.studies.covariates.covariate_analysis_catalogue import ANALYSES
from steropes.studies.covariates.covariate_names import CUSTOM
from steropes.studies.execution.result_store import Rows
from steropes.studies.result_files.hashed_ids import hashed_id

__all__ = ["Rows", "balance_rows", "comparison_id", "shared_tables"]


def comparison_id(question: Question) -> int:
    """Return the identifier of a target, comparator and nesting cohort, as CohortMethod does."""
    return hashed_id(question.target, question.comparator, question.nesting)


def shared_tables(
    question: Question, analysis: StudyAnalysis, shared: Shared, database: str
) -> dict[str, Rows]:
    """Make the rows that all outcomes of a question and an analysis share."""
    key = {
        "target_comparator_id": comparison_id(question),
        "analysis_id": analysis.id,
        "database_id": database,
    }
    tables: dict[str, Rows] = {}
    if shared.balance is not None:
        tables["cm_shared_covariate_balance"] = balance_rows(shared.balance, key)
        tables["covariate_family"] = _families(shared.balance, key)
    if shared.scores is not None:
        model = shared.scores.coefficients
        tables["cm_propensity_model"] = [
            {**key, "covariate_id": int(i), "coefficient": float(c)}
            for i, c in zip(model["covariate_id"], model["coefficient"], strict=True)
        ]
        bars = _histogram(shared, key, after=False)
        if shared.balance is not None:
            bars += _histogram(shared, key, after=True)
        tables["preference_histogram"] = bars
    if shared.features is not None:
        columns = shared.features.columns
        tables["cm_covariate"] = pd.DataFrame(
            {
                "covariate_id": columns["covariate_id"],
                "covariate_name": columns["name"],
                "covariate_analysis_id": columns["analysis_id"],
                "analysis_id": analysis.id,
                "database_id": database,
            }
        )
        tables["unusable_value"] = [
            {**key, "covariate_analysis_id": n, "records": records}
            for n, records in shared.features.unusable.items()
        ]
        names = {CUSTOM: "Cohort"} | {n: a.name for n, a in ANALYSES.items()}
        tables["cm_covariate_analysis"] = [
            {
                "covariate_analysis_id": n,
                "covariate_analysis_name": names[n],
                "analysis_id": analysis.id,
            }
            for n in (analysis.features.analyses if analysis.features else ())
        ]
    return tables


def balance_rows(balance: Balance, key: dict[str, object]) -> pd.DataFrame:
    """Return means and differences of covariates, and the numbers of people in them."""
    t = balance.table
    made: dict[str, Any] = {"covariate_id": t["covariate_id"]}
    for when, (target, comparator) in balance.people.items():
        made |= {f"{of}mean_{when}": t[f"{of}mean_{when}"] for of in ("target_", "comparator_", "")}
        made |= {f"target_people_{when}": target, f"comparator_people_{when}": comparator}
        made[f"std_diff_{when}"] = t[f"smd_{when}"]
        made[f"std_diff_var_{when}"] = t[f"smd_variance_{when}"]
        made[f"balanced_{when}"] = (t[f"smd_{when}"].abs() <= balance.threshold).astype(int)
    made |= {
        "target_std_diff": t["target_smd"],
        "comparator_std_diff": t["comparator_smd"],
        "target_comparator_std_diff": t["both_smd"],
    }
    return pd.DataFrame(made | key)


def _histogram(shared: Shared, key: dict[str, object], *, after: bool) -> list[dict[str, Any]]:
    """Return people and weights of each bar of the preference score that has people."""
    from steropes.studies.results.propensity_score_density import histogram

    assert shared.scores is not None
    treated = shared.population.people["treated"].to_numpy() == 1
    weights = np.ones(len(treated))
    if after and shared.adjusted is not None:
        kept = shared.adjusted.kept
        balancing = shared.adjusted.balancing(treated[kept])
        weights = np.zeros(len(treated))
        weights[kept] = 1.0 if balancing is None else balancing
    rows: list[dict[str, Any]] = []
    for arm, of_arm in (("target", treated), ("comparator", ~treated)):
        of_arm = of_arm & (weights > 0)
        bars = histogram(shared.scores.preference[of_arm], 100, weights[of_arm])
        rows += [
            {
                "adjusted": int(after),
                "arm": arm,
                "bar": int(i),
                "people": int(bars[0][i]),
                "mass": float(bars[1][i]),
                "squares": float(bars[2][i]),
                **key,
            }
            for i in np.flatnonzero(bars[0])
        ]
    return rows


def _families(balance: Balance, key: dict[str, object]) -> Rows:
    """Return the balance of each family of covariates."""
    table = balance.families().rename(columns={"analysis_id": "covariate_analysis_id"})
    return table.assign(**key)
