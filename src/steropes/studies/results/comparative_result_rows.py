"""Rows of CohortMethod's result tables before small counts are suppressed.

Names of tables and columns are those that OHDSI's viewer and meta-analysis read.
`disclosure.grid_release` derives the released tables from these; some columns and tables exist only
for that purpose.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from steropes.designs.effects.absolute_effects import events_by_day
from steropes.designs.effects.e_values import E_VALUE_FORMS
from steropes.designs.effects.two_group_tests import TRANSFORM
from steropes.designs.values.ratios_from_logarithms import ratio_of
from steropes.studies.comparative.analysis_result import AnalysisResult
from steropes.studies.comparative.grid_questions_and_analyses import Question, StudyAnalysis
from steropes.studies.diagnostics.comparative_diagnostics import Diagnostics, DiagnosticThresholds
from steropes.studies.diagnostics.diagnostic_catalogue import COMPARATIVE
from steropes.studies.result_files.table_layouts import TABLES
from steropes.studies.results.tables_shared_by_outcomes import Rows, balance_rows, comparison_id

__all__ = [
    "outcome_tables",
    "read_diagnostics",
    "refused_tables",
    "result_key",
    "specification_tables",
]

FACTS = {"PASS": True, "FAIL": False}


def specification_tables(
    questions: Iterable[Question], analyses: Iterable[StudyAnalysis]
) -> dict[str, Rows]:
    """Make the rows of the comparisons, outcomes and analyses of a specification."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for q in questions:
        key = {"target_comparator_id": comparison_id(q)}
        tables.setdefault("cm_target_comparator", []).append(
            {
                "target_id": q.target,
                "comparator_id": q.comparator,
                "nesting_cohort_id": q.nesting,
                **key,
            }
        )
        for o in q.outcomes:
            tables.setdefault("cm_target_comparator_outcome", []).append(
                {
                    "outcome_id": o.id,
                    "outcome_of_interest": int(o.of_interest),
                    "true_effect_size": o.true_ratio,
                    **key,
                }
            )
    for a in analyses:
        definition = json.dumps(asdict(a), default=str, sort_keys=True)
        tables.setdefault("cm_analysis", []).append(
            {"analysis_id": a.id, "description": a.description, "definition": definition}
        )
    return {**tables}


def result_key(result: AnalysisResult, database: str) -> dict[str, object]:
    """Return the columns that identify a result."""
    return {
        "target_comparator_id": comparison_id(result.question),
        "outcome_id": result.outcome,
        "analysis_id": result.analysis.id,
        "database_id": database,
    }


def outcome_tables(
    result: AnalysisResult, database: str, *, with_balance: bool = True
) -> dict[str, Rows]:
    """Make the rows of one outcome, without calibration, which needs all outcomes."""
    key = result_key(result, database)
    profile = result.estimate.profile[["log_rr", "log_likelihood", "gradient"]]
    tables: dict[str, Rows] = {
        "cm_result": [_result(result, key)],
        "cm_follow_up_dist": [{**key, **result.follow_up}],
        "cm_attrition": _attrition(result, key),
        "cm_diagnostics_summary": [{**key, **diagnostics_row(result.diagnostics)}],
        "further_diagnostic": further_rows(result.diagnostics, key),
        "cm_kaplan_meier_dist": result.curves.assign(**key),
        "cm_likelihood_profile": profile.assign(**key),
        "cm_interaction_result": _interactions(result, key),
        "subgroup": _subgroups(result, key),
        "effect_by_period": _periods(result, key),
        "absolute_effect": _absolute(result, key),
        "note": [{**key, **_note(result)}],
    }
    if with_balance and result.balance is not None:
        rows, shown = balance_rows(result.balance, key), result.analysis.balance_shown
        if shown is not None:
            rows = rows[shown.keeps(rows["covariate_id"].tolist())]
        tables["cm_covariate_balance"] = rows
    return tables


def refused_tables(
    key: dict[str, object], analysis: StudyAnalysis, why: str, thresholds: DiagnosticThresholds
) -> dict[str, Rows]:
    """Make the rows of an outcome without a result, with the reason.

    Parameters
    ----------
    key : dict
        Comparison, outcome, analysis and database.
    """
    counts = ("subjects", "days", "outcomes", "informative")
    nobody = {f"{arm}_{c}": 0 for arm in ("target", "comparator") for c in counts}
    none = Diagnostics(detectable=math.inf, thresholds=thresholds)
    return {
        "cm_result": [{**key, **nobody, "target_estimator": analysis.estimates()}],
        "cm_diagnostics_summary": [{**key, **diagnostics_row(none)}],
        "note": [{**key, "note": why}],
    }


def read_diagnostics(line: Mapping[Any, Any], thresholds: DiagnosticThresholds) -> Diagnostics:
    """Restore the diagnostics of a result from its columns.

    Parameters
    ----------
    line : mapping
        Columns of ``cm_diagnostics_summary`` and of ``note``, and ``further``, the values of
        further diagnostics; ``fewest`` if it is known.
    """

    def value(column: str) -> float:
        """Return a number; NaN if it is missing."""
        x = line.get(column)
        return math.nan if x is None or pd.isna(x) else float(x)

    def text(column: str) -> str:
        """Return a text; "" if it is missing."""
        x = line.get(column)
        return x if isinstance(x, str) else ""

    numbers = {
        one.value: value(one.column)
        for declared in COMPARATIVE
        for one in (declared, declared.variant)
        if one is not None and one.relation is not None and one.value and one.key != "precision"
    }
    return Diagnostics(
        **numbers
        | {
            "detectable": math.inf if math.isnan(value("mdrr")) else value("mdrr"),
            "comparator_attrition": value("comparator_lost"),
            "fewest": value("fewest"),
        },
        worst_covariate=text("worst_covariate"),
        converged=FACTS.get(text("convergence_diagnostic")),
        unconverged=text("unconverged"),
        adjusted=FACTS.get(text("adjustment_diagnostic")),
        further=line["further"],
        thresholds=thresholds,
    )


def diagnostics_row(d: Diagnostics) -> dict[str, object]:
    """Return the columns of ``cm_diagnostics_summary``."""
    row: dict[str, Any] = {}
    for declared in COMPARATIVE:
        if declared.verdict_column not in TABLES["cm_diagnostics_summary"]:
            continue
        for one in (declared, declared.variant):
            if one is not None:
                row[one.column] = getattr(d, one.value)
        row[declared.verdict_column] = d.verdict(declared.key)
    row["mdrr"] = d.detectable if math.isfinite(d.detectable) else math.nan
    return row | {
        "unblind_for_evidence_synthesis": int(d.unblind_for_evidence_synthesis),
        "unblind": int(d.unblind),
    }


def further_rows(d: Diagnostics, key: dict[str, object]) -> Rows:
    """Return the rows of ``further_diagnostic``."""
    return [
        {**key, "diagnostic": name, "value": value, "verdict": d.verdict(name)}
        for name, value in d.further.items()
    ]


def _result(result: AnalysisResult, key: dict[str, object]) -> dict[str, object]:
    """Return the row of an estimate, with calibrated values of NaN until calibration."""
    e = result.estimate
    has = math.isfinite(e.log_rr)
    nothing = ("rr", "ci_95_lb", "ci_95_ub", "p", "one_sided_p", "log_rr", "se_log_rr")
    effect: dict[str, Any] = {f"calibrated_{c}": math.nan for c in nothing}
    return {
        **key,
        "rr": ratio_of(e.log_rr),
        "ci_95_lb": ratio_of(e.lower),
        "ci_95_ub": ratio_of(e.upper),
        "p": e.p if has else math.nan,
        "one_sided_p": e.one_sided_p if has else math.nan,
        **result.counts,
        "target_informative": result.informative[0],
        "comparator_informative": result.informative[1],
        "log_rr": e.log_rr,
        "se_log_rr": e.se,
        "llr": e.llr,
        **effect,
        "target_estimator": result.estimand,
    }


def _note(result: AnalysisResult) -> dict[str, object]:
    """Return the columns that the results model lacks."""
    e, d = result.estimate, result.diagnostics
    return {
        "note": e.note,
        "interval": e.interval,
        "proportional_p": e.proportional_p,
        "proportional_transform": None if math.isnan(e.proportional_p) else TRANSFORM,
        "e_value": e.e_value,
        "e_value_limit": e.e_value_limit,
        "e_value_form": None if math.isnan(e.log_rr) else E_VALUE_FORMS[e.common],
        "limit_ratio": ratio_of(e.upper - e.lower),
        "convergence_diagnostic": d.convergence_verdict,
        "unconverged": d.unconverged or None,
        "adjustment_diagnostic": d.adjustment_verdict,
        "precision_diagnostic": d.precision_verdict,
        "tied": d.tied,
        "tied_diagnostic": d.tied_verdict,
        "target_lost": d.attrition,
        "comparator_lost": d.comparator_attrition,
        "worst_covariate": d.worst_covariate,
    }


def _absolute(result: AnalysisResult, key: dict[str, object]) -> Rows:
    """Return the row of absolute effects; empty if there are none."""
    if math.isnan(result.absolute.horizon):
        return []
    by_day = events_by_day(result.people, result.absolute.horizon)
    events = dict(zip(("target_events", "comparator_events"), by_day, strict=True))
    return [{**key, **result.absolute.row(), **events}]


def _interactions(result: AnalysisResult, key: dict[str, object]) -> Rows:
    """Return the interactions, with calibrated values of NaN until calibration."""
    if result.estimate.interactions.empty:
        return []
    calibrated = ("rr", "ci_95_lb", "ci_95_ub", "p", "log_rr", "se_log_rr")
    return [
        {
            **key,
            "interaction_covariate_id": int(line.covariate_id),
            "rr": ratio_of(line.log_rr),
            "ci_95_lb": ratio_of(line.lower),
            "ci_95_ub": ratio_of(line.upper),
            "p": line.p,
            **result.counts,
            "log_rr": line.log_rr,
            "se_log_rr": line.se,
            **{f"calibrated_{c}": math.nan for c in calibrated},
            "target_estimator": result.estimand,
        }
        for line in result.estimate.interactions.itertuples(index=False)
    ]


def _subgroups(result: AnalysisResult, key: dict[str, object]) -> Rows:
    """Return the effects within the levels of each subgroup."""
    table = result.estimate.subgroups
    if table.empty:  # Sorting a table takes a millisecond even if there is nothing to sort.
        return []
    table = table.sort_values(["covariate_id", "level"], kind="stable")
    return [
        {
            **key,
            **{str(k): v for k, v in line.items()},
            "interaction_covariate_id": int(line["covariate_id"]),
            "rr": ratio_of(line["log_rr"]),
            "ci_95_lb": ratio_of(line["lower"]),
            "ci_95_ub": ratio_of(line["upper"]),
            "se_log_rr": line["se"],
            "target_estimator": result.estimand,
        }
        for line in table.to_dict("records")
    ]


def _periods(result: AnalysisResult, key: dict[str, object]) -> Rows:
    """Return the effects in periods of the time at risk."""
    if result.estimate.periods.empty:
        return []
    return [
        {
            **key,
            **{str(k): v for k, v in line.items()},
            "last_day": None if math.isnan(line["last_day"]) else int(line["last_day"]),
            "rr": ratio_of(line["log_rr"]),
            "ci_95_lb": ratio_of(line["lower"]),
            "ci_95_ub": ratio_of(line["upper"]),
            "se_log_rr": line["se"],
            "target_estimator": result.estimand,
        }
        for line in result.estimate.periods.to_dict("records")
    ]


def _attrition(result: AnalysisResult, key: dict[str, object]) -> Rows:
    """Return the people that each rule leaves in each arm."""
    exposures = {"target": result.question.target, "comparator": result.question.comparator}
    lines = result.attrition.to_dict("records")
    return [
        {
            "sequence_number": i + 1,
            "description": line["rule"],
            "subjects": int(line[f"{arm}_people"]),
            "exposure_id": exposure,
            **key,
        }
        for arm, exposure in exposures.items()
        for i, line in enumerate(lines)
    ]
