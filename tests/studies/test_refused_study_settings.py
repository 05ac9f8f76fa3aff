"""Settings of a study that are impossible are refused, and those of the caller are copied."""

import math

import pytest

from steropes.errors import DataError
from steropes.studies import (
    DEMO,
    StudySettings,
)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"comparator": DEMO["target"]}, "same concept"),
        ({"caliper": -0.1}, "caliper"),
        ({"folds": 1}, "folds"),
        ({"window_days": -1}, "window_days"),
        ({"caliper": math.inf}, "caliper must be a finite number of 0 or more, not inf"),
        ({"caliper": "0.2"}, "caliper"),
        ({"target": "celecoxib"}, "target must be a concept id, a whole number such as"),
        ({"target": 1.5}, "target must be a concept id"),
        ({"outcome": None}, "outcome must be a concept id"),
        ({"comparator": 2**63}, "comparator must be a concept id"),
        ({"comparator": True}, "comparator must be a concept id"),
        ({"seed": -1}, "seed"),
        ({"seed": None}, "seed"),
        ({"folds": 10.5}, "folds"),
        ({"washout_days": 10**9}, "washout_days"),
        ({"risk_days": 10**9}, "risk_days"),
        ({"min_share": 1.5}, "min_share"),
        ({"min_cell": -1}, "min_cell"),
        ({"tie_orders": -1}, "tie_orders"),
        ({"exclude": "70"}, "exclude"),
        ({"exclude": (0,)}, "exclude"),
        ({"descendants": "no"}, "descendants"),
        ({"unblind": "yes"}, "unblind must be True or False"),
        (
            {"thresholds": {"balance": 0.2}},
            "must be an instance of DiagnosticThresholds",
        ),
        ({"schema": ""}, "schema"),
    ],
)
def test_impossible_settings_are_refused(change, words):
    with pytest.raises(DataError, match=words):
        StudySettings(**(DEMO | change))


def test_settings_keep_no_list_of_the_caller():
    exclude = [1, 2]
    settings = StudySettings(**DEMO, exclude=exclude)
    exclude.append(3)
    assert settings.exclude == (1, 2)
