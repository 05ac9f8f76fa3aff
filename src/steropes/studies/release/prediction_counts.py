"""Rounded numbers of people in the tables of a prediction model, consistent with their totals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.designs.prediction_measures.prediction_performance import GENDERS, age_group
from steropes.studies.disclosure.complementary_suppression import (
    Split,
    exhaustive_splits,
    withheld_counts,
)
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.prediction.unsuppressed_prediction_performance import (
    TEST,
    EvaluatedPredictions,
)
from steropes.studies.release.prediction_people import EvaluatedPeople, first_evaluation

__all__ = ["ANALYSIS_IDS", "CASES", "GROUPS", "PEOPLE", "PredictionCounts", "prediction_counts"]

PEOPLE, CASES = "person_count_at_risk", "person_count_with_outcome"
GROUPS = ("", "with_no_outcome_", "with_outcome_")
GENDER, AGE_GROUP = 1, 3  # Analyses of covariates of which everybody has one.
ANALYSIS_IDS = 1000  # The last digits of a covariate's id are its analysis.


@dataclass(frozen=True, eq=False)
class PredictionCounts:
    """Released counts of a model; those that are withheld are missing.

    Attributes
    ----------
    demographics, calibration, covariates : DataFrame
        The columns of counts of the result's tables.
    """

    demographics: pd.DataFrame
    calibration: pd.DataFrame
    covariates: pd.DataFrame


class _Cells:
    """All counts of a model, and which of them add up to others."""

    def __init__(self) -> None:
        self.exact, self.fewest = np.zeros(0), np.zeros(0)
        self.splits: list[Split] = []

    def add(self, counts: ArrayLike, fewest: int = 0) -> NDArray:
        """Append exact counts, and return their positions."""
        new = np.atleast_1d(np.asarray(counts, dtype=float))
        self.exact = np.append(self.exact, new)
        self.fewest = np.append(self.fewest, np.full(len(new), float(fewest)))
        return np.arange(len(self.exact) - len(new), len(self.exact))

    def add_up(self, parts: NDArray, totals: ArrayLike, kinds: ArrayLike = 0) -> None:
        """State that the parts of each kind add up to their totals, where they do."""
        totals, kinds = (np.broadcast_to(x, parts.shape) for x in (totals, kinds))
        of = exhaustive_splits(kinds, self.exact[parts], totals, self.exact[totals])
        self.splits += [(parts[own], totals) for own, totals in of]


def prediction_counts(
    result: EvaluatedPredictions,
    parts: Mapping[str, EvaluatedPeople],
    rules: DisclosureRules,
    rare: bool,
) -> PredictionCounts:
    """Release the counts of groups of people, so that none narrows a suppressed one.

    Ages with sexes and tenths of the risk add up to the people of an evaluation, those with a
    covariate to those with and without the outcome, and training and test to all.

    Parameters
    ----------
    parts : mapping of str to EvaluatedPeople
        The people of each evaluation.
    rare : bool
        Whether all numbers of people with the outcome are withheld.
    """
    cells, last = _Cells(), result.attrition.iloc[-1]
    n, cases = int(last["target_count"]), int(last["outcomes"])
    whole = cells.add([n, n - cases, cases])
    # All evaluations other than the test have the people of the first one.
    first = first_evaluation(result)
    own = {name: parts[name] for name in (first, TEST) if name in parts}
    sizes = {name: cells.add([p.people, p.cases]) for name, p in own.items()}
    for k, of in enumerate((whole[0], whole[2])):
        cells.add_up(np.array([at[k] for at in sizes.values()]), of)
    demographics = _of_groups(cells, result.demographics, sizes, ["age_group", "gen_group"])
    calibration = _of_groups(
        cells, result.calibration.assign(stratum=_strata(result)), sizes, ["stratum"]
    )
    covariates = _of_covariates(cells, result, whole, demographics)
    shown = pd.Series(cells.exact).map(rules.coarse).to_numpy(float)
    absent = np.zeros(len(shown), bool)
    absent[demographics[:, shown[demographics[0]] == -rules.least]] = True
    if rare:
        absent[[*whole[1:], *(at[1] for at in sizes.values())]] = True
        for table in (demographics, calibration, covariates):
            absent[table[1:]] = True
    gone = withheld_counts(shown, cells.splits, rules, fewest=cells.fewest, absent=absent)
    shown[gone] = math.nan
    return PredictionCounts(
        *(
            pd.DataFrame(dict(zip(names, shown[at], strict=True)), index=table.index)
            for names, at, table in (
                ((PEOPLE, CASES), demographics, result.demographics),
                ((PEOPLE, CASES), calibration, result.calibration),
                ([f"{name}covariate_count" for name in GROUPS], covariates, result.covariates),
            )
        )
    )


def _of_groups(
    cells: _Cells, table: pd.DataFrame, sizes: Mapping[str, NDArray], keys: Sequence[str]
) -> NDArray:
    """Add groups of the people of each evaluation; return positions of all and of cases.

    Groups with the same keys have the same people in training and its folds.
    """
    if table.empty:
        return np.zeros((2, 0), dtype=np.int64)
    training = next(iter(sizes))
    of = table["evaluation"].where(table["evaluation"] == TEST, training)
    same = [of, *(table[key] for key in keys)]
    number = table.groupby(same, sort=False, dropna=False).ngroup().to_numpy()
    _, first = np.unique(number, return_index=True)
    evaluation = table["evaluation"].iloc[first]
    found = []
    for k, name in enumerate((PEOPLE, CASES)):
        at = cells.add(table[name].iloc[first], fewest=int(k == 0))
        totals = [sizes[TEST if e == TEST else training][k] for e in evaluation]
        cells.add_up(at, totals, evaluation.factorize()[0])
        found.append(at[number])
    return np.array(found)


def _strata(result: EvaluatedPredictions) -> list[object]:
    """Return a key of each stratum of risks: evaluations in the same order share their strata."""
    found: dict[str, list[object]] = {}
    counts: dict[str, NDArray] = {}
    for of, table in result.calibration.groupby("evaluation", sort=False):
        name, n = str(of), table[[PEOPLE, CASES]].to_numpy()
        like = result.order_of(name)
        same = like in counts and np.array_equal(counts[like], n)
        counts[name] = n
        found[name] = found[like] if same else [(name, k) for k in range(len(table))]
    return [key for keys in found.values() for key in keys]


def _of_covariates(
    cells: _Cells, result: EvaluatedPredictions, whole: NDArray, groups: NDArray
) -> NDArray:
    """Add the people with each binary covariate; return positions by `GROUPS`.

    Everybody has one sex and one age, which are those of groups of ages and sexes.
    """
    table = result.covariates
    if table.empty:
        return np.zeros((3, 0), dtype=np.int64)
    at = np.array([cells.add(table[f"{name}covariate_count"], int(name == "")) for name in GROUPS])
    ids = table["covariate_id"].to_numpy(np.int64)
    cells.add_up(at[1:].ravel(), np.tile(at[0], 2))
    for own, of in zip(at, whole, strict=True):
        cells.add_up(own, of, ids % ANALYSIS_IDS)
    by_group = result.demographics
    first = by_group["evaluation"].isin([first_evaluation(result), TEST]).to_numpy()
    for column, analysis, names in (
        ("gen_group", GENDER, {g: GENDERS.get(g) for g in ids // ANALYSIS_IDS}),
        ("age_group", AGE_GROUP, {k: age_group(5 * k) for k in ids // ANALYSIS_IDS}),
    ):
        for j in np.flatnonzero(ids % ANALYSIS_IDS == analysis):
            name = names[ids[j] // ANALYSIS_IDS]
            rows = first & (by_group[column] == name).to_numpy()
            for k, kind in enumerate((0, 2)):
                cells.add_up(groups[k, rows], at[kind, j])
    return at
