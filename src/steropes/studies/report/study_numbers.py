"""Numbers of a study for its JSON file and its CSV tables."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from steropes.studies.comparative.study_specification import LARGEST_WEIGHT
from steropes.studies.diagnostics.study_verdicts import equipoise_share
from steropes.studies.disclosure import Bound, DisclosureRules
from steropes.studies.disclosure.one_question_release import Published, publish, published_at_risk
from steropes.studies.disclosure.rounding import significant, to_unit
from steropes.studies.outcomes.e_values import E_VALUE_FORMS
from steropes.studies.outcomes.two_group_tests import TRANSFORM
from steropes.studies.report.plain_text import csv_text
from steropes.version import __version__

if TYPE_CHECKING:
    from steropes.data.kaplan_meier import KaplanMeier
    from steropes.studies.comparative.one_question import ComparativeStudy

__all__ = ["study_json", "study_numbers", "study_tables"]

FORMAT = 3  # Version of the JSON file, raised when a key changes its meaning or disappears.


def study_numbers(study: ComparativeStudy) -> dict[str, Any]:
    """Return all numbers of a study as dicts, lists, numbers and strings; NaN becomes None.

    The result has no times of day or file paths, so the same database and settings give the same.
    A count that must not be published is a string such as ``"<5"``, or None. If a diagnostic fails,
    the effect and the outcomes of the arms are None and ``blinded`` is true.
    """
    public = publish(study)
    covariates = None
    if study.covariates is not None:
        covariates = {
            "people": public.people,
            "columns": len(study.covariates.columns),
            "entries": study.covariates.entries
            if public.rules.open
            else int(to_unit(significant(study.covariates.entries, 2), 2.0 * public.rules.least)),
            "domains": study.covariates.dropped.to_dict("records"),
        }
    numbers = {
        "format": FORMAT,
        "software": {"name": "steropes", "version": __version__},
        "database": study.source,
        "disclosure": public.rules.record(),
        "settings": asdict(study.settings),
        "names": study.names,
        "ended": study.ended or None,
        "data_notes": public.data_notes,
        "attrition": public.attrition,
        "covariates": covariates,
        "propensity": _propensity(study, public),
        "matching": _matching(study, public),
        "balance": _balance(study, public),
        "diagnostics": [vars(v) for v in public.verdicts],
        "blinded": public.blinded,
        "rates": public.rates,
        "hazard_ratios": public.hazard_ratios,
        **_beside(study, public),
        "detectable_hazard_ratio": public.detectable,
        "survival": {
            arm: _curve(curve, study.pairs, public.rules) for arm, curve in public.curves.items()
        },
    }
    return _plain(numbers)


def _beside(study: ComparativeStudy, public: Published) -> dict[str, Any]:
    """Return the results of other ways to adjust, and numbers that qualify the hazard ratio."""
    if study.beside is None:
        return {}
    return {
        "other_adjustments": public.adjustments,
        "proportional_hazards_p": public.proportional_p,
        "proportional_hazards_transform": TRANSFORM,
        "weights": {"stabilized": ["att", "ate"], "largest": LARGEST_WEIGHT},
        "e_value": public.e_value[0],
        "e_value_of_limit": public.e_value[1],
        "e_value_form": E_VALUE_FORMS[public.common] if math.isfinite(public.e_value[0]) else None,
        "follow_up": public.follow_up,
        "source": study.beside.source,
    }


def _propensity(study: ComparativeStudy, public: Published) -> dict[str, Any] | None:
    """Return the numbers of the propensity model; None if there is none."""
    fit = study.propensity
    if fit is None:
        return None
    return {
        "equipoise": equipoise_share(study),
        "converged": fit.converged,
        "folds": fit.folds,
        "nonzero": len(fit.coefficients) - 1,
        **{name: value for name, value in public.scores.items() if name != "caliper_logit"},
    }


def _matching(study: ComparativeStudy, public: Published) -> dict[str, Any] | None:
    """Return the numbers of the matching; None without one."""
    if study.propensity is None or study.ties is None:
        return None
    found = public.other_draws
    return {
        "pairs": public.pairs,
        "caliper_sd": study.settings.caliper,
        "caliper_logit": public.scores["caliper_logit"],
        "estimand": "atm",
        "ties": {
            "distinct_scores": public.distinct,
            "share_tied": public.tied,
            "orders": len(found),
            "hr_smallest": min(found, default=None),
            "hr_median": float(np.median(found)) if found else None,
            "hr_largest": max(found, default=None),
        },
    }


def _balance(study: ComparativeStudy, public: Published) -> dict[str, Any] | None:
    """Return the balance of the covariates; None without matching."""
    if study.balance is None:
        return None
    before, after = (study.balance[f"smd_{when}"].abs() for when in ("before", "after"))
    return {
        "largest_before": public.largest["before"],
        "largest_after": public.largest["after"],
        "over_0.1_before": int((before > 0.1).sum()),
        "over_0.1_after": int((after > 0.1).sum()) if study.pairs else None,
        "covariates": public.balance,
    }


def study_json(study: ComparativeStudy) -> str:
    """Return the numbers of a study as JSON."""
    return json.dumps(study_numbers(study), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def study_tables(study: ComparativeStudy) -> dict[str, str]:
    """Return the tables of ``study_numbers`` as CSV texts by name."""
    numbers = study_numbers(study)
    tables = {
        "attrition": numbers["attrition"],
        "rates": numbers["rates"],
        "hazard_ratios": numbers["hazard_ratios"],
        "other_adjustments": numbers.get("other_adjustments", []),
        "diagnostics": numbers["diagnostics"],
        "follow_up": numbers.get("follow_up", []),
        "balance": [] if study.balance is None else numbers["balance"]["covariates"],
        "propensity": [] if study.propensity is None else numbers["propensity"]["coefficients"],
    }
    return {name: csv_text(pd.DataFrame(lines, dtype=object)) for name, lines in tables.items()}


def _curve(curve: KaplanMeier, people: int, rules: DisclosureRules) -> dict[str, Any]:
    """Return a curve at its published steps."""
    survival, lower, upper = (
        s if rules.open else s.round(3 if rules.rounds else 4)
        for s in (curve.survival, *curve.interval())
    )
    return {
        "time": curve.times,
        "survival": survival,
        "lower": lower,
        "upper": upper,
        "at_risk": published_at_risk(people, curve.at_risk, rules),
        "events": [rules.rounded(n) for n in curve.events],
    }


def _plain(value: Any) -> Any:
    """Convert NumPy types, and make missing and infinite numbers None, which JSON lacks."""
    if isinstance(value, dict):
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
