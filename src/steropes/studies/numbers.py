"""A study as plain numbers: what the JSON file holds, and the numbers behind the pictures."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from steropes import __version__

if TYPE_CHECKING:
    from steropes.data.kaplan_meier import KaplanMeier
    from steropes.studies.comparative import ComparativeStudy

__all__ = ["study_json", "study_numbers"]

FORMAT = 1  # of the JSON file; raise it when a key changes its meaning or goes away


def study_numbers(study: ComparativeStudy) -> dict[str, Any]:
    """Every number of a study as dicts, lists, numbers and strings; not-a-number becomes None.

    No time of day and no file path is in it: the same database and settings give the same result.
    """
    model = study.propensity.model
    balance = study.balance
    numbers = {
        "format": FORMAT,
        "software": {"name": "steropes", "version": __version__},
        "database": study.source,
        "settings": asdict(study.settings),
        "names": study.names,
        "attrition": study.attrition.to_dict("records"),
        "covariates": {
            "people": len(study.people),
            "columns": len(study.covariates.columns),
            "entries": study.covariates.entries,
            "domains": study.covariates.dropped.to_dict("records"),
        },
        "propensity": {
            "auc": study.propensity.auc,
            "equipoise": study.propensity.equipoise(),
            "variance": float(model.variance_),
            "optimality": float(np.max(model.optimality_)),
            "nonzero": len(study.propensity.coefficients) - 1,
            "coefficients": study.propensity.coefficients.to_dict("records"),
            "cross_validation": pd.DataFrame(model.cv_results_).to_dict("records"),
            "preference": preference_histogram(study),
        },
        "matching": {
            "pairs": study.pairs,
            "caliper_sd": study.settings.caliper,
            "caliper_logit": study.settings.caliper * float(np.std(study.propensity.logit, ddof=1)),
        },
        "balance": {
            "largest_before": float(balance["smd_before"].abs().max()),
            "largest_after": float(balance["smd_after"].abs().max()),
            "over_0.1_before": int((balance["smd_before"].abs() > 0.1).sum()),
            "over_0.1_after": int((balance["smd_after"].abs() > 0.1).sum()),
            "covariates": balance.reset_index().to_dict("records"),
        },
        "rates": study.rates.reset_index().to_dict("records"),
        "hazard_ratios": study.hazard_ratios.reset_index().to_dict("records"),
        "detectable_hazard_ratio": study.detectable,
        "survival": {arm: _curve(curve) for arm, curve in study.curves().items()},
    }
    return _plain(numbers)


def study_json(study: ComparativeStudy) -> str:
    """The numbers of a study as JSON text."""
    return json.dumps(study_numbers(study), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def preference_histogram(study: ComparativeStudy, bins: int = 50) -> dict[str, Any]:
    """People by preference score, in each arm, before and after matching."""
    edges = np.linspace(0, 1, bins + 1)
    counts: dict[str, Any] = {"edges": edges.tolist()}
    for when, people in (("before", study.people), ("after", study.matched)):
        for value, arm in ((1, "target"), (0, "comparator")):
            scores = people["preference"][people["treated"] == value]
            counts[f"{arm}_{when}"] = np.histogram(scores, edges)[0].tolist()
    return counts


def _curve(curve: KaplanMeier) -> dict[str, Any]:
    """The curve at its event times; between them it is flat."""
    at = curve.events > 0
    lower, upper = curve.interval()
    columns = {
        "time": curve.times,
        "survival": curve.survival,
        "lower": lower,
        "upper": upper,
        "at_risk": curve.at_risk,
        "events": curve.events,
    }
    return {name: values[at].tolist() for name, values in columns.items()}


def _plain(value: Any) -> Any:
    """The same without NumPy types; missing and infinite numbers, which JSON lacks, as None."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value
