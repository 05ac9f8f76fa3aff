"""Numbers of people in training, test and validation of a prediction model, for release."""

from __future__ import annotations

import math
from dataclasses import dataclass

from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.prediction.evaluated_predictions import TEST, EvaluatedPredictions
from steropes.studies.prediction.prediction_population import outside_training

__all__ = [
    "COUNTED",
    "EvaluatedPeople",
    "evaluated_people",
    "first_evaluation",
    "has_rare_outcomes",
    "rules_of_entries",
]

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
    """

    people: int
    cases: int
    shown_people: int
    shown_cases: int
    few: bool

    @property
    def shift(self) -> float:
        """The log odds of the released share with the outcome, less those of the exact share."""
        shares = (self.shown_cases / max(self.shown_people, 1), self.cases / max(self.people, 1))
        if not all(0 < share < 1 for share in shares):
            return 0.0
        shown, exact = (math.log(share / (1 - share)) for share in shares)
        return shown - exact


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
    shown = (rules.coarse(cases), rules.coarse(cases + others) - rules.coarse(cases))
    names = map(str, result.statistics["evaluation"].unique())
    shown_parts: dict[str, list[int]] = {name: [] for name in names}
    for n in (max(x, 0) for x in shown):
        tested, unused = outside_training(n, result.evaluated.split)
        for name in shown_parts:
            shown_parts[name].append(tested if name == TEST else n - tested - unused)
    value = result.statistics.set_index(["evaluation", "metric"])["value"]
    found = {}
    for name, (own_cases, own_others) in shown_parts.items():
        people, of_people = (int(value[name, metric]) for metric in COUNTED)
        few = any(map(rules.small, (of_people, people - of_people, own_cases, own_others)))
        all_shown = max(rules.coarse(own_cases + own_others), 0)
        found[name] = EvaluatedPeople(
            people, of_people, all_shown, max(rules.coarse(own_cases), 0), few
        )
    return found
