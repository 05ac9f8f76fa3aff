"""Result tables of what all outcomes of a question and an analysis have in common."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pandas as pd

from steropes.studies.adjust.comparability import Balance
from steropes.studies.covariates.analyses import ANALYSES
from steropes.studies.covariates.naming import CUSTOM
from steropes.studies.grid.answer import Shared
from steropes.studies.grid.settings import Question, StudyAnalysis

__all__ = ["Rows", "balance_rows", "comparison_id", "shared_tables", "told_worst"]

Rows = list[dict[str, Any]]


def comparison_id(question: Question) -> int:
    """A number for a target, a comparator and a nesting cohort: a checksum of the three."""
    return zlib.crc32(repr((question.target, question.comparator, question.nesting)).encode())


def shared_tables(
    question: Question, analysis: StudyAnalysis, shared: Shared, database: str, least: int
) -> dict[str, Rows]:
    """What all outcomes of a question and an analysis have in common."""
    key = {
        "target_comparator_id": comparison_id(question),
        "analysis_id": analysis.id,
        "database_id": database,
    }
    tables: dict[str, Rows] = {}
    if shared.balance is not None:
        tables["cm_shared_covariate_balance"] = balance_rows(shared.balance, key, least)
        tables["covariate_family"] = _families(shared.balance, key, least)
    if shared.scores is not None:
        model = shared.scores.coefficients
        tables["cm_propensity_model"] = [
            {**key, "covariate_id": int(i), "coefficient": float(c)}
            for i, c in zip(model["covariate_id"], model["coefficient"], strict=True)
        ]
        tables["cm_preference_score_dist"] = _preference(shared, key, least)
        if shared.balance is not None:
            tables["preference_score_after"] = _preference(shared, key, least, after=True)
    if shared.features is not None:
        columns = shared.features.columns
        tables["cm_covariate"] = [
            {
                "covariate_id": int(i),
                "covariate_name": name,
                "covariate_analysis_id": int(a),
                "analysis_id": analysis.id,
                "database_id": database,
            }
            for i, name, a in zip(
                columns["covariate_id"], columns["name"], columns["analysis_id"], strict=True
            )
        ]
        tables["unusable_value"] = [
            {
                **key,
                "covariate_analysis_id": n,
                "records": -least if 0 < records < least else records,
            }
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


def balance_rows(balance: Balance, key: dict[str, Any], least: int) -> Rows:
    """Means to three digits; of a 0/1 covariate that fewer than ``least`` people have, a bound.

    That is minus the share that ``least`` people are of those who count, before or after
    adjustment. The mean of both arms is bounded where that of one is, which would follow from it;
    and a standardised difference is missing where one of its two means is bounded, for that mean
    would be the root of a quadratic equation in the other.
    """
    t = balance.table
    made: dict[str, Any] = {"covariate_id": t["covariate_id"]}
    moved = np.zeros((3, len(t)), bool)  # whose mean is bounded before or after: of an arm, of both
    for when, sizes in balance.people.items():
        target, comparator, both = (
            t[f"{of}mean_{when}"].to_numpy() for of in ("target_", "comparator_", "")
        )
        few = _few(target, sizes[0], least), _few(comparator, sizes[1], least)
        made[f"target_mean_{when}"] = _bounded(target, few[0], least / max(sizes[0], 1))
        made[f"comparator_mean_{when}"] = _bounded(comparator, few[1], least / max(sizes[1], 1))
        smaller = max(min(sizes), 1)
        limit = np.maximum(least / smaller, np.where(few[0] | few[1], [target, comparator], 0))
        few_of_both = few[0] | few[1] | _few(both, smaller, least)
        made[f"mean_{when}"] = _bounded(both, few_of_both, limit.max(axis=0))
        made[f"std_diff_{when}"] = t[f"smd_{when}"].round(3).mask(few[0] | few[1])
        made[f"std_diff_var_{when}"] = t[f"smd_variance_{when}"].mask(few[0] | few[1])
        made[f"balanced_{when}"] = (t[f"smd_{when}"].abs() <= balance.threshold).astype(int)
        moved |= np.array([*few, few_of_both])
    made |= {
        "target_std_diff": t["target_smd"].round(3).mask(moved[0]),
        "comparator_std_diff": t["comparator_smd"].round(3).mask(moved[1]),
        "target_comparator_std_diff": t["both_smd"].round(3).mask(moved[2]),
    }
    return [{**line, **key} for line in pd.DataFrame(made).to_dict("records")]


def _few(mean: np.ndarray, n: int, least: int) -> np.ndarray:
    return (mean > 0) & (mean * n < least - 1e-9)


def _bounded(mean: np.ndarray, few: np.ndarray, limit: np.ndarray | float) -> np.ndarray:
    return np.where(few, -np.asarray(limit), mean).round(3)


def _preference(shared: Shared, key: dict[str, Any], least: int, *, after: bool = False) -> Rows:
    """Smoothed densities of the preference score at a hundred points."""
    from steropes.studies.plots import density

    assert shared.scores is not None
    treated = shared.population.people["treated"].to_numpy() == 1
    weights = np.ones(len(treated))
    if after and shared.adjusted is not None:
        kept = shared.adjusted.kept
        balancing = shared.adjusted.balancing(treated[kept])
        weights = np.zeros(len(treated))
        weights[kept] = 1.0 if balancing is None else balancing
    points = np.linspace(0, 1, 100)
    curves = {}
    for arm, of_arm in (("target", treated), ("comparator", ~treated)):
        of_arm = of_arm & (weights > 0)
        few = of_arm.sum() < max(least, 1)
        curves[arm] = np.full(100, np.nan)
        if not few:
            curves[arm] = density(shared.scores.preference[of_arm], 100, weights[of_arm])[1]
    return [
        {
            "preference_score": float(x),
            "target_density": float(a),
            "comparator_density": float(b),
            **key,
        }
        for x, a, b in zip(points, curves["target"], curves["comparator"], strict=True)
    ]


def told_worst(balance: Balance, name: str, least: int) -> str:
    """The name of the covariate whose difference is the largest, but not of one of few people.

    The difference is told beside it, and with it their number would be.
    """
    t, people = balance.table, balance.people["after"]
    few = np.any(
        [
            _few(t[f"{arm}_mean_after"].to_numpy(), n, least)
            for arm, n in zip(("target", "comparator"), people, strict=True)
        ],
        axis=0,
    )
    return "" if name in set(t["name"][few]) else name


def _families(balance: Balance, key: dict[str, Any], least: int) -> Rows:
    """Balance of each family of covariates."""
    table = balance.families().rename(columns={"analysis_id": "covariate_analysis_id"})
    table["worst"] = [told_worst(balance, name, least) for name in table["worst"]]
    return [{**line, **key} for line in table.to_dict("records")]
