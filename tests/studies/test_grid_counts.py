"""Released counts of grids: no difference between analyses is of few people."""

from types import SimpleNamespace

import pandas as pd
import pytest

from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.release.grid_counts import released_counts
from steropes.studies.release.grid_survival_curves import released_follow_up

EXPOSURES = pd.DataFrame({"target_comparator_id": [1], "target_id": [11], "comparator_id": [12]})


def release(*analyses):
    """Release (people, people with the outcome) of the target arm in several analyses."""
    results, attrition = [], []
    for number, (n, events) in enumerate(analyses, start=1):
        key = {"target_comparator_id": 1, "outcome_id": 5, "analysis_id": number}
        counts = {"target_subjects": n, "target_outcomes": events, "target_days": 1000 * n}
        other = {"comparator_subjects": 900, "comparator_outcomes": 300, "comparator_days": 9_000}
        results.append(key | counts | other)
        for arm, last in ((11, n), (12, 900)):
            for rule, people in (("start", 1000), ("end", last)):
                attrition.append(
                    key | {"exposure_id": arm, "description": rule, "subjects": people}
                )
    order = range(1, len(analyses) + 1)
    found = released_counts(
        pd.DataFrame(results), pd.DataFrame(attrition), EXPOSURES, order, DisclosureRules("ohdsi")
    )
    return found.results


@pytest.mark.parametrize("events", [(50, 33), (50, 27)])
def test_few_people_without_the_outcome_do_not_follow_from_two_analyses(events):
    """Of 100 and 80 people 50 and 47 (or 53) had no outcome: the difference is of 3."""
    first, second = events
    found = release((100, first), (80, second))
    assert found["target_subjects"].tolist() == [100, 80]
    assert found["target_outcomes"].tolist() == [50, -80]


def test_differences_of_many_people_are_released():
    found = release((100, 50), (80, 40))
    assert found["target_outcomes"].tolist() == [50, 40]


def test_follow_up_is_withheld_beside_a_large_number_of_outcomes_that_is_a_bound():
    """A quarter of 72 people are followed for at most 24 days, all of whom have the outcome."""
    key = {"target_comparator_id": 1, "outcome_id": 3, "analysis_id": 1}
    people = pd.DataFrame([key | {"target_subjects": 72, "comparator_subjects": 72}])
    table = pd.DataFrame([key | {f"{arm}_p_25_days": 24.0 for arm in ("target", "comparator")}])
    told = pd.DataFrame([key | {"target_outcomes": -19, "comparator_outcomes": -5}])
    counts = SimpleNamespace(exact=people, results=told)
    found = released_follow_up(table, counts, DisclosureRules()).iloc[0]
    assert pd.isna(found["target_p_25_days"])
    assert found["comparator_p_25_days"] == 24
