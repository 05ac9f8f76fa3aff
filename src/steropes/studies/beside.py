"""What stands beside the hazard ratio of a study: other ways to adjust, and how it may be read.

Every way to adjust uses the scores that the study has. They answer questions of different people
(the estimand), so that they need not agree; how far they lie apart is part of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.errors import DataError
from steropes.studies.comparative.propensity_weights import (
    Estimand,
    propensity_weights,
    set_weights,
)
from steropes.studies.comparative.score_matching import Match, match_scores
from steropes.studies.comparative.score_strata import Stratify, score_strata
from steropes.studies.outcomes.effect_estimate import Estimate, estimate_effect
from steropes.studies.outcomes.settings import OutcomeModel
from steropes.studies.results.ratios import ratio_of

__all__ = ["Beside", "beside", "e_values"]

LARGEST_WEIGHT = 10.0
ARMS = ((1, "target"), (0, "comparator"))
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True, repr=False, eq=False)
class Beside:
    """What stands beside the hazard ratio.

    Attributes
    ----------
    adjustments : DataFrame
        ``analysis``, ``estimand`` ("att", "ate", "ato"), ``hr``, ``lower``, ``upper``, ``p``,
        ``note`` and ``converged``: Cox models with ties after Breslow, intervals of the profile
        likelihood or, with weights, robust ones.
    proportional_p : float
        P value that hazards are proportional between the matched arms, within pairs.
    follow_up : DataFrame
        ``analysis`` ("all", "matched"), ``arm``, and ``p10`` to ``p90``, quantiles of the days.
    source : dict
        Name, versions and dates of the database and its vocabulary, as ``cdm_source`` has them.
    """

    adjustments: pd.DataFrame
    proportional_p: float
    follow_up: pd.DataFrame
    source: dict[str, str | None]


def beside(people: pd.DataFrame, source: dict[str, str | None], seed: int) -> Beside:
    """Adjust the people of a study in other ways too.

    Parameters
    ----------
    people : DataFrame
        ``person_id``, ``treated``, ``time``, ``event``, ``propensity`` (NaN if there is none) and
        ``matched_set``.
    source : dict
        Of the database.
    seed : int
        Which of the people with equal scores are matched.
    """
    at_risk = people.assign(outcomes=people["event"], days_at_risk=people["time"])
    lines = []
    if len(people) and people["propensity"].notna().all():
        lines = [_line(name, estimand, way, at_risk, seed) for name, estimand, way in WAYS]
    matched = at_risk[at_risk["matched_set"] >= 0]
    within = OutcomeModel(stratified=True)
    sets = matched["matched_set"].to_numpy()
    proportional = estimate_effect(matched, within, sets=sets).proportional_p
    columns = ["analysis", "estimand", "hr", "lower", "upper", "p", "note", "converged"]
    return Beside(pd.DataFrame(lines, columns=columns), proportional, _follow_up(people), source)


def e_values(hr: float, lower: float, upper: float, common: bool = False) -> tuple[float, float]:
    """Compute the E-values of a hazard ratio and of its limit that is nearer to no effect.

    ``common`` says whether the outcome is common: 15 % of the people or more had it.
    """
    if not all(math.isfinite(x) and x > 0 for x in (hr, lower, upper)):
        return math.nan, math.nan
    found = Estimate(
        log_rr=math.log(hr), lower=math.log(lower), upper=math.log(upper), common=common
    )
    return found.e_value, found.e_value_limit


Way = Callable[[pd.DataFrame, NDArray, NDArray, int], Estimate]


def _line(name: str, estimand: Estimand, way: Way, people: pd.DataFrame, seed: int) -> dict:
    score, treated = people["propensity"].to_numpy(), people["treated"].to_numpy()
    try:
        found = way(people, score, treated, seed)
    except DataError as error:
        found = Estimate(note=str(error))
    none = bool(found.note)
    hr, lower, upper = (
        math.nan if none else ratio_of(x) for x in (found.log_rr, found.lower, found.upper)
    )
    p = math.nan if none else found.p
    line: dict[str, Any] = {"analysis": name, "estimand": estimand, "hr": hr, "lower": lower}
    return line | {"upper": upper, "p": p, "note": found.note, "converged": found.converged}


def _matched_to_many(people: pd.DataFrame, score: NDArray, treated: NDArray, seed: int) -> Estimate:
    ids = people["person_id"].to_numpy()
    sets = match_scores(score, treated, Match(max_ratio=10, seed=seed), ids=ids)
    kept = sets >= 0
    weights = set_weights(sets[kept], treated[kept], "att")
    weighted = OutcomeModel(weighted=True)
    return estimate_effect(people[kept], weighted, weights=weights, sets=sets[kept])


def _strata(people: pd.DataFrame, score: NDArray, treated: NDArray, seed: int) -> Estimate:
    sets = score_strata(score, treated, Stratify(5))
    return estimate_effect(people, OutcomeModel(stratified=True), sets=sets)


def _weighted(estimand: Estimand) -> Way:
    def way(people: pd.DataFrame, score: NDArray, treated: NDArray, seed: int) -> Estimate:
        weights = np.minimum(propensity_weights(score, treated, estimand), LARGEST_WEIGHT)
        return estimate_effect(people, OutcomeModel(weighted=True), weights=weights)

    return way


WAYS: tuple[tuple[str, Estimand, Way], ...] = (
    ("matched 1 to 10 at most, weighted", "att", _matched_to_many),
    ("within five strata of the score", "ate", _strata),
    ("weighted as the target", "att", _weighted("att")),
    ("weighted as everybody", "ate", _weighted("ate")),
    ("weighted by overlap", "ato", _weighted("ato")),
)


def _follow_up(people: pd.DataFrame) -> pd.DataFrame:
    lines = []
    for analysis, of in (("all", people), ("matched", people[people["matched_set"] >= 0])):
        for value, arm in ARMS:
            days = of.loc[of["treated"] == value, "time"].to_numpy(dtype=float)
            found = np.quantile(days, QUANTILES) if len(days) else np.full(len(QUANTILES), np.nan)
            told = {f"p{100 * q:.0f}": float(x) for q, x in zip(QUANTILES, found, strict=True)}
            lines.append({"analysis": analysis, "arm": arm, **told})
    return pd.DataFrame(lines)
