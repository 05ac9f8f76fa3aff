"""Numbers of a study for its JSON file and its CSV tables."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from steropes.designs.effects.e_values import E_VALUE_FORMS
from steropes.designs.effects.two_group_tests import TRANSFORM
from steropes.studies.diagnostics.diagnostic import Verdict
from steropes.studies.disclosure.released_table_rows import cell
from steropes.studies.disclosure.small_cell_suppression import Bound
from steropes.studies.formatting.text_safety import csv_text
from steropes.studies.one_question.study_result_rows import ARMS, QUANTILES
from steropes.studies.release.one_question_release import Published
from steropes.studies.specifications.one_question_specification import CRUDE, LARGEST_WEIGHT
from steropes.version import __version__

__all__ = ["study_json", "study_numbers", "study_tables"]

# Columns of the tables that may have no rows.
HEADERS = {
    "other_adjustments": [
        *("analysis", "estimand", "hr", "lower", "upper", "p", "note", "converged")
    ],
    "risks": [
        *("day", "target_risk", "comparator_risk", "risk_difference", "risk_difference_lb"),
        *("risk_difference_ub", "risk_ratio", "lower", "upper", "p", "note"),
    ],
    "follow_up": ["analysis", "arm", *QUANTILES],
    "outcomes": [
        *("outcome", "role", *(f"{a}_{c}" for c in ("subjects", "outcomes") for a in ARMS)),
        *("hr", "lower", "upper", "p", "converged"),
        *(f"calibrated_{name}" for name in ("hr", "lower", "upper", "p")),
        *("note", "passes"),
    ],
    "balance": [
        "covariate",
        *(f"{name}_{when}" for when in ("before", "after") for name in (*ARMS, "smd")),
    ],
    "propensity": ["name", "coef"],
}
FORMAT = 4  # Version of the JSON file, raised when a key changes its meaning or disappears.


def study_numbers(public: Published) -> dict[str, object]:
    """Return all numbers of a study as dicts, lists, numbers and strings; NaN becomes None.

    The result has no times of day or file paths, so the same database and settings give the same.
    A count that must not be published is a string such as ``"<5"``, or None. If a diagnostic fails,
    the effect and the outcomes of the arms are None and ``blinded`` is true.
    """
    about = public.tables["database"].drop(columns="database_id").to_dict("records")[0]
    people = cell(public.results[CRUDE]["people"])
    until = public.settings.observed_until
    numbers = {
        "format": FORMAT,
        "software": {"name": "steropes", "version": __version__},
        "database": about["name"],
        "protocol": public.protocol and asdict(public.protocol),
        "disclosure": public.rules.record(),
        "settings": {
            **asdict(public.settings),
            "observed_until": until and until.isoformat(),
        },
        "names": public.names,
        "ended": public.ended or None,
        "data_notes": public.data_notes,
        "attrition": public.attrition,
        "covariates": public.covariates and {"people": people, **public.covariates},
        "propensity": _propensity(public),
        "matching": _matching(public),
        "balance": _balance(public),
        "diagnostics": [_verdict(v) for v in public.verdicts],
        "blinded": public.blinded,
        "rates": public.rates,
        "hazard_ratios": public.hazard_ratios,
        "other_adjustments": public.adjustments,
        "risks": public.risks,
        "outcomes": public.outcomes,
        "proportional_hazards_p": public.proportional_p,
        "proportional_hazards_transform": TRANSFORM,
        "weights": {"stabilized": ["att", "ate"], "largest": LARGEST_WEIGHT},
        "e_value": public.e_value[0],
        "e_value_of_limit": public.e_value[1],
        "e_value_form": E_VALUE_FORMS[public.common] if math.isfinite(public.e_value[0]) else None,
        "follow_up": public.follow_up,
        "source": about,
        "detectable_hazard_ratio": public.detectable,
        "survival": {arm: _curve(public.survival, arm) for arm in ARMS if len(public.survival)},
    }
    return _plain(numbers)


def _verdict(v: Verdict) -> dict[str, object]:
    """Return a verdict, with its value and rule."""
    fields = ("key", "name", "value", "rule", "verdict", "hides", "about", "threshold")
    return {name: getattr(v, name) for name in fields}


def _propensity(public: Published) -> dict[str, object] | None:
    """Return the numbers of the propensity model; None if there is none."""
    if public.model is None:
        return None
    before, after = public.preference
    densities = {
        f"{arm}_{when}": table[f"{arm}_density"].tolist()
        for when, table in (("before", before), ("after", after))
        for arm in ARMS
    }
    return {
        "equipoise": public.judged("equipoise").value,
        **{name: value for name, value in public.model.items() if name != "caliper_logit"},
        "preference": {"score": before["preference_score"].tolist(), **densities},
    }


def _matching(public: Published) -> dict[str, object] | None:
    """Return the numbers of the matching; None without one."""
    if public.model is None or public.ties is None:
        return None
    found = public.ties["draws"]
    return {
        "pairs": public.pairs,
        "caliper_sd": public.settings.caliper,
        "caliper_logit": public.model["caliper_logit"],
        "estimand": "atm",
        "ties": {
            "distinct_scores": public.ties["distinct"],
            "share_tied": public.ties["share"],
            "orders": len(found),
            "hr_smallest": min(found, default=None),
            "hr_median": float(np.median(found)) if found else None,
            "hr_largest": max(found, default=None),
        },
    }


def _balance(public: Published) -> dict[str, object] | None:
    """Return the balance of the covariates; None without matching."""
    if public.over["before"] is None:
        return None
    return {
        "largest_before": public.largest["before"],
        "largest_after": public.largest["after"],
        "over_0.1_before": public.over["before"],
        "over_0.1_after": public.over["after"],
        "covariates": public.balance,
    }


def study_json(numbers: dict[str, object]) -> str:
    """Return the numbers of a study as JSON."""
    return json.dumps(numbers, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def study_tables(numbers: dict[str, Any]) -> dict[str, str]:
    """Return the tables of `study_numbers` as CSV texts by name; empty ones have a header."""
    tables = {
        "attrition": numbers["attrition"],
        "rates": numbers["rates"],
        "hazard_ratios": numbers["hazard_ratios"],
        "other_adjustments": numbers["other_adjustments"],
        "risks": numbers["risks"],
        "outcomes": numbers["outcomes"],
        "diagnostics": numbers["diagnostics"],
        "follow_up": numbers["follow_up"],
        "balance": numbers["balance"]["covariates"] if numbers["balance"] else [],
        "propensity": numbers["propensity"]["coefficients"] if numbers["propensity"] else [],
    }
    return {
        name: csv_text(
            pd.DataFrame(lines, columns=None if lines else HEADERS.get(name), dtype=object)
        )
        for name, lines in tables.items()
    }


def _curve(table: pd.DataFrame, arm: str) -> dict[str, object]:
    """Return the steps of a curve, and the people at risk on some days."""
    known = table[table[f"{arm}_survival"].notna()]
    values = [f"{arm}_survival{end}" for end in ("", "_lb", "_ub")]
    first = known[values].diff().fillna(known[values] - 1.0)
    steps = known[first.ne(0.0).any(axis=1)]
    marks = table[table[f"{arm}_at_risk"].notna()]
    return {
        "time": steps["time_day"].tolist(),
        **{
            name: steps[column].tolist()
            for name, column in zip(("survival", "lower", "upper"), values, strict=True)
        },
        "at_risk": {
            "time": marks["time_day"].tolist(),
            "people": [cell(n) for n in marks[f"{arm}_at_risk"]],
        },
    }


def _plain(value: object) -> Any:
    """Convert NumPy types, and make missing and infinite numbers None, which JSON lacks."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Bound):
        return str(value)
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value
