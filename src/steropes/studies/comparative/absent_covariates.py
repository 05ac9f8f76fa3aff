"""Covariate ids in the settings of an analysis that no one in its comparison has.

As in R's CohortMethod, they change nothing: no one has them, so that there is nothing to use, to
leave out, to agree on or to interact with. A note on the data names them, because an id may also be
misspelt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from steropes.studies.comparative.grid_questions_and_analyses import StudyAnalysis
from steropes.studies.covariates.feature_extraction import Features
from steropes.studies.database.data_quality_notes import DataNote

__all__ = ["absent_covariates", "absent_note", "without_absent"]


def without_absent(analysis: StudyAnalysis, features: Features | None) -> StudyAnalysis:
    """Return an analysis without interactions and exact matching on covariates no one has.

    Other lists of covariates stay, because an empty list means all; `tidy` ignores absent ids in
    them. An outcome model has no covariates if no one has any of those to include.
    """
    if features is None:
        return analysis
    changed: dict[str, Any] = {}
    model, match, strata = analysis.outcome_model, analysis.match, analysis.stratify
    if _absent(features, model.interactions):
        model = replace(model, interactions=_present(features, model.interactions))
    if model.covariates and model.include and not _present(features, model.include):
        model = replace(model, covariates=False)
    if model is not analysis.outcome_model:
        changed["outcome_model"] = model
    if match and _absent(features, match.exact):
        changed["match"] = replace(match, exact=_present(features, match.exact))
    if strata and _absent(features, strata.exact):
        changed["stratify"] = replace(strata, exact=_present(features, strata.exact))
    return replace(analysis, **changed) if changed else analysis


def absent_covariates(analysis: StudyAnalysis, features: Features | None) -> tuple[DataNote, ...]:
    """Note the covariate ids of an analysis that no one in the comparison has."""
    if features is None:
        return ()
    model, scores = analysis.outcome_model, analysis.propensity
    listed = {
        "to include in the propensity model": () if scores is None else scores.include,
        "to exclude from the propensity model": () if scores is None else scores.exclude,
        "to include in the outcome model": model.include if model.covariates else (),
        "to exclude from the outcome model": model.exclude if model.covariates else (),
        "of interactions": model.interactions,
        "to match on exactly": analysis.match.exact if analysis.match else (),
        "of strata": analysis.stratify.exact if analysis.stratify else (),
    }
    notes = (absent_note(features, ids, purpose) for purpose, ids in listed.items())
    return tuple(note for note in notes if note is not None)


def absent_note(features: Features, ids: tuple[int, ...], purpose: str) -> DataNote | None:
    """Note the absent ids of one list; None if there are none."""
    gone = _absent(features, ids)
    if not gone:
        return None
    first = ", ".join(str(c) for c in gone[:3]) + (", …" if len(gone) > 3 else "")
    text = (
        f"Nobody in the comparison has {len(gone):,} of the {len(ids):,} covariates {purpose} "
        f"({first}), which are ignored"
    )
    return DataNote("absent_covariates", text, warning=True)


def _absent(features: Features, ids: Iterable[int]) -> list[int]:
    """List the ids that no one has."""
    known = _known(features)
    return [c for c in ids if c not in known]


def _present(features: Features, ids: Iterable[int]) -> tuple[int, ...]:
    """List the ids that somebody has."""
    known = _known(features)
    return tuple(c for c in ids if c in known)


def _known(features: Features) -> set[int]:
    """Return the ids of the covariates that somebody has."""
    ids = features.columns["covariate_id"].to_numpy()
    return {*ids[np.asarray(features.columns["people"]) > 0].tolist()}
