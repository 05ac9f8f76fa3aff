"""Numbers of people in training, test and validation of a prediction model, for release."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit

from steropes.studies.disclosure.complementary_suppression import count_ranges
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.prediction.prediction_population import outside_training
from steropes.studies.prediction.unsuppressed_prediction_performance import (
    TEST,
    EvaluatedPredictions,
)

__all__ = [
    "COUNTED",
    "EvaluatedPeople",
    "evaluated_people",
    "first_evaluation",
    "has_rare_outcomes",
    "rules_of_entries",
]

Range = tuple[float, float]
COUNTED = ("populationSize", "outcomeCount")  # The statistics that are numbers of people.


@dataclass(frozen=True)
class EvaluatedPeople:
    """The people of an evaluation, exact and as released.

    Attributes
    ----------
    people, cases : int
        Exact numbers of all people and of those with the outcome.
    shown_people, shown_cases : int
        Released numbers, which follow from those of the whole population.
    few : bool
        Whether few people have the outcome, or few do not have it.
    ranges : tuple of (float, float)
        For which numbers with, and without, the outcome the released totals can stand.
    log_odds : DataFrame
        Log odds of the exact risks of groups of ``people``.
    """

    people: int
    cases: int
    shown_people: int
    shown_cases: int
    few: bool
    ranges: tuple[Range, Range]
    log_odds: pd.DataFrame

    @property
    def shift(self) -> float:
        """The log odds of the released share with the outcome, less those of the exact share."""
        shares = (self.shown_share, self.cases / max(self.people, 1))
        if not all(0 < share < 1 for share in shares):
            return 0.0
        shown, exact = (math.log(share / (1 - share)) for share in shares)
        return shown - exact

    @property
    def shown_share(self) -> float:
        """The released share with the outcome."""
        return self.shown_cases / max(self.shown_people, 1)

    def intercept(self, at: float = 0.0, gradient: float = 1.0) -> float:
        """Return the intercept with which risks sum to the released number with the outcome.

        An intercept of the exact number, moved by the difference of log odds of shares, would
        still depend on it, so that it followed for somebody who knows the risks of everybody.

        Parameters
        ----------
        at : float
            Returned where everybody or nobody has the outcome.
        gradient : float
            The factor of the log odds.
        """
        if not 0 < self.shown_share < 1 or not math.isfinite(gradient):
            return at
        odds = gradient * self.log_odds["log_odds"].to_numpy(float)
        weights = self.log_odds["people"].to_numpy(float) / self.log_odds["people"].sum()
        far = float(np.abs(odds).max()) + 50.0
        return float(brentq(lambda x: weights @ expit(odds + x) - self.shown_share, -far, far))


def has_rare_outcomes(result: EvaluatedPredictions, rules: DisclosureRules) -> bool:
    """Check whether the total number of people with the outcome must be withheld.

    Few people of a part of the population have the outcome, or few do not have it, or all risks of
    an evaluation that sum to the number with the outcome are equal, so that they are its share.
    """
    if rules.open:
        return False
    rules = rules_of_entries(result, rules)
    cases, others = _totals(result)
    split = result.evaluated.split
    unused = (outside_training(n, split)[1] for n in (cases, others))
    few = any(part.few for part in evaluated_people(result, rules).values())
    by_evaluation = result.distribution.groupby("evaluation", sort=False)
    equal = any(
        not of["max_predicted_probability"].max() - of["min_predicted_probability"].min() > 1e-9
        for name, of in by_evaluation
        if result.sums_to_outcomes(str(name))
    )
    return few or any(map(rules.small, unused)) or equal


def first_evaluation(result: EvaluatedPredictions) -> str:
    """Return the first evaluation, of which others than the test have the people too."""
    return str(result.statistics["evaluation"].iloc[0])


def rules_of_entries(result: EvaluatedPredictions, rules: DisclosureRules) -> DisclosureRules:
    """Return rules for entries; a person may have several.

    The smallest count is raised so that this number of entries belongs to at least as many people
    as the original count. The largest number of entries of a person is rounded up to a power of
    two, because it describes a single person.
    """
    most = 2 ** math.ceil(math.log2(max(result.most_entries, 1)))
    return DisclosureRules(rules.name, (rules.least - 1) * most + 1)


def _totals(result: EvaluatedPredictions) -> tuple[int, int]:
    """Return the numbers of the population with and without the outcome."""
    last = result.attrition.iloc[-1]
    return int(last["outcomes"]), int(last["target_count"] - last["outcomes"])


def evaluated_people(
    result: EvaluatedPredictions, rules: DisclosureRules
) -> dict[str, EvaluatedPeople]:
    """Return the people of each evaluation."""
    cases, others = _totals(result)
    told = np.array([rules.coarse(cases), rules.coarse(cases + others)], dtype=float)
    (low, least), (high, most) = (x.tolist() for x in count_ranges(told, rules))
    shown = (rules.coarse(cases), rules.coarse(cases + others) - rules.coarse(cases))
    value = result.statistics.set_index(["evaluation", "metric"])["value"]
    found = {}
    for name in map(str, result.statistics["evaluation"].unique()):

        def part(n: float, name: str = name) -> int:
            """Return how many of n people with equal outcomes are in the part."""
            tested, unused = outside_training(max(int(n), 0), result.evaluated.split)
            return tested if name == TEST else max(int(n), 0) - tested - unused

        own_cases, own_others = map(part, shown)
        people, of_people = (int(value[name, metric]) for metric in COUNTED)
        few = any(map(rules.small, (of_people, people - of_people, own_cases, own_others)))
        found[name] = EvaluatedPeople(
            people=people,
            cases=of_people,
            shown_people=max(rules.coarse(own_cases + own_others), 0),
            shown_cases=max(rules.coarse(own_cases), 0),
            few=few,
            ranges=((part(low), part(high)), (part(least - high), part(most - low))),
            log_odds=result.log_odds[result.log_odds["evaluation"] == name],
        )
    return found
