"""Designs of PatientLevelPredictionModule: the learner of each, in a verdict."""

from __future__ import annotations

from collections.abc import Mapping

from steropes.errors import DataError
from steropes.studies.report.plain_text import plain_text
from steropes.studies.strategus.part_verdicts import PartVerdict, skipped
from steropes.studies.strategus.r_values import JsonPath, json_path

__all__ = ["PREDICTION", "prediction_verdicts"]

PREDICTION = "PatientLevelPredictionModule"
LASSO = "lasso logistic regression"
# R's names of the learner whose model this package has.
LASSO_NAMES = ("lassologisticregression", "lasso logistic regression")


def prediction_verdicts(settings: object, path: JsonPath) -> list[PartVerdict]:
    """Return a verdict on each design, which names its learner.

    Parameters
    ----------
    settings : object
        The settings as parsed JSON.
    path : tuple of str and int
        Their path, for messages.

    Raises
    ------
    DataError
        There is no list of designs.
    """
    listed = settings.get("modelDesignList") if isinstance(settings, Mapping) else settings
    listed = [listed] if isinstance(listed, Mapping) else listed
    at: JsonPath = (*path, "modelDesignList")
    if not isinstance(listed, list) or not listed:
        raise DataError(f"{json_path(at)} must be a list of designs")
    found = []
    for i, design in enumerate(listed):
        if not isinstance(design, Mapping):
            raise DataError(f"{json_path((*at, i))} must be an object")
        learner = _learner(design.get("modelSettings"))
        ids = f"{design.get('outcomeId')} in {design.get('targetId')}"
        part = plain_text(f"design {i + 1} ({learner}, {ids})")
        if learner == LASSO:
            why = "prediction models are not available yet; use R"
        else:
            why = f"the learner {plain_text(learner)} is R's PatientLevelPrediction"
        found.append(skipped(PREDICTION, part, why))
    return found


def _learner(model: object) -> str:
    """Return the name of a learner, as versions 5 and 6 of R's package write it."""
    if not isinstance(model, Mapping):
        return "unknown learner"
    param, kept = model.get("param"), model.get("settings")
    places = [
        kept.get("modelName") if isinstance(kept, Mapping) else None,
        kept.get("name") if isinstance(kept, Mapping) else None,
    ]
    if isinstance(param, Mapping) and isinstance(param.get("attr_settings"), Mapping):
        own = param["attr_settings"]
        places += [own.get("modelName"), own.get("name")]
    places.append(model.get("fitFunction"))
    name = next((p for p in places if isinstance(p, str) and p), "unknown learner")
    return LASSO if name.lower() in LASSO_NAMES else name[:60]
