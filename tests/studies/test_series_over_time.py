"""Released outcomes by month, year and time until observation ends: no period has few of them."""

import numpy as np
import pandas as pd
import pytest
from tests.studies.series_attacks import attack_series, exact_series, released_series

from steropes.studies.disclosure import DisclosureRules
from steropes.studies.release.series_over_time import (
    month_periods,
    released_trend,
    released_years,
    time_until_end,
)

RULES = [DisclosureRules(), DisclosureRules("opensafely", 8)]


def bars(ended, data_ended):
    """Outcomes in bars of equal width."""
    edges = np.linspace(0, 2, len(ended) + 1)
    return pd.DataFrame(
        {"start": edges[:-1], "stop": edges[1:], "ended": ended, "data_ended": data_ended}
    )


def ends(table, rules=RULES[0], beyond=0):
    """Release bars, with so many outcomes before the end of the observation after them."""
    sums = table[["ended", "data_ended"]].sum().to_dict()
    return time_until_end(table, sums | {"ended": sums["ended"] + beyond}, rules)


def test_bars_until_the_end_are_so_wide_that_none_is_small():
    """Before, bars with a suppressed number and bars of zero narrowed each other and windows."""
    found = ends(bars([9, 3, 0, 12, 4, 7, 0, 0], [0] * 8))
    assert found["ended"].tolist() == [10, 10, 10, 0]
    assert found["stop"].tolist() == [0.5, 1.0, 1.5, 2.0]
    narrow = bars([9, 8, 0, 12, 6, 7, 0, 0], [0] * 8)
    assert ends(narrow)["stop"].tolist() == narrow["stop"].tolist()
    # Few outcomes of one reason would follow from all outcomes less those of the other one.
    assert ends(bars([9, 8, 0, 12], [0, 2, 0, 0])).empty


def test_few_outcomes_after_the_last_bar_belong_to_it():
    """Of 39 outcomes and a bar of 40, at least 38, one is left, whose week may be known."""
    table = bars([20, 18], [0, 0])
    assert ends(table, beyond=1)["ended"].tolist() == [20, 20]
    assert ends(table, beyond=4)["ended"].tolist() == [20, 20]
    assert ends(bars([20, 0], [0, 0]), beyond=1)["ended"].tolist() == [20]
    assert ends(bars([20, 0], [0, 0]), beyond=9)["ended"].tolist() == [20, 0]


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_periods_of_months_have_no_few_outcomes_and_hold_all_of_them(rules):
    rng = np.random.default_rng(1)
    for _ in range(200):
        first, n = int(rng.integers(0, 12)), int(rng.integers(1, 50))
        events = rng.poisson(rng.uniform(0, 6), n) * (rng.random(n) < rng.uniform(0.2, 1))
        period = month_periods(24_000 + first + np.arange(n), events, rules)
        if period is not None:
            sums = np.bincount(period, events)
            assert not any(rules.small(int(k)) for k in sums)
            assert sums.sum() == events.sum()


def monthly(events):
    """A table of months from April 2010, with two outcomes expected in each."""
    n = len(events)
    month = 3 + np.arange(n)
    return pd.DataFrame(
        {"year": 2010 + month // 12, "month": month % 12 + 1, "observed": events, "expected": 2.0,
         "adjusted": 2.0, "cases": 50}
    )  # fmt: skip


def test_months_have_the_ratio_of_their_period():
    """Single months with few outcomes would follow from those of the others and the total."""
    names = {"year": "calendar_year", "month": "calendar_month", "observed": "observed_outcomes"}
    exact = monthly([2, 4, 4, 7, 1, 5, 9, 3, 6, 0, 0, 0, 1]).rename(columns=names)
    exact = exact.assign(analysis_id=1, exposures_outcome_set_id=1, observed_subjects=50)
    ratio = released_trend(exact, set(), RULES[0])["ratio"].tolist()
    # Two months each; those at the ends, with two outcomes and one, are joined with the next.
    for first, end in ((0, 3), (3, 5), (5, 7), (7, 13)):
        assert ratio[first:end] == [ratio[first]] * (end - first)
    assert len({*ratio}) == 4
    assert released_trend(exact, {(1, 1)}, RULES[0])["ratio"].isna().all()


def test_years_of_few_outcomes_at_the_ends_are_left_out():
    table = monthly([0] * 6 + [1, 1, 1] + [2] * 12 + [3] * 12 + [4])
    found = released_years(table, False, RULES[0])
    assert found.index.tolist() == []
    table = monthly([0] * 6 + [1, 1, 1] + [2] * 12 + [3] * 12 + [6])
    assert released_years(table, False, RULES[0]).index.tolist() == [2012, 2013]
    assert released_years(table, True, RULES[0]).empty
    assert released_years(table, False, DisclosureRules("none", 0)).index.tolist() == [
        2010, 2011, 2012, 2013,
    ]  # fmt: skip


def test_no_outcomes_of_a_week_follow_from_those_by_the_time_until_observation_ends():
    """In this database narrow bars told four numbers, together with the weeks and windows."""
    exact = exact_series(np.random.default_rng([66, 35]))
    for rules in RULES:
        found = attack_series(released_series(exact, rules, None), exact, rules)
        assert found["suppressed"] > 0
        assert found["exact"] == found["two"] == 0
