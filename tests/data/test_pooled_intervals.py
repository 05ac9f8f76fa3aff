"""Which intervals a person contributes: (t_{k−1}, t_k], those at whose start they are at risk."""

import numpy as np
import pytest

from steropes import DataError, Surv
from steropes.data import check_survival
from steropes.data.discrete_time_intervals import TimeIntervals


def cut(y, breaks=None, width=None):
    outcome = check_survival(y, len(y))
    grid = (
        TimeIntervals.at(breaks, outcome)
        if width is None
        else TimeIntervals.of_width(width, outcome)
    )
    at_risk = grid.cut(outcome)
    return list(zip(*(x.tolist() for x in at_risk.__dict__.values()), strict=True)), grid


def test_the_event_is_in_the_interval_that_holds_its_time():
    y = Surv([0.5, 1.0, 1.5, 2.0, 3.0], [1, 1, 1, 0, 1])
    expected = [(0, 1, 1), (0, 1, 1), (0, 2, 1), (0, 2, 0), (0, 3, 1)]
    assert cut(y, breaks=[0, 1, 2, 3])[0] == expected
    assert cut(y, width=1)[0] == expected


def test_entry_inside_an_interval_begins_with_the_next():
    y = Surv([2.5, 2.5, 2.5, 1.5], [1, 1, 1, 1], [1.0, 1.2, -np.inf, 1.2])
    # The last enters and has the event within (1, 2]: at risk at the start of no interval.
    assert cut(y, breaks=[0, 1, 2, 3])[0] == [(1, 3, 1), (2, 3, 1), (0, 3, 1), (2, 2, 0)]
    assert cut(y, width=1)[0] == [(1, 3, 1), (2, 3, 1), (0, 3, 1), (2, 2, 0)]


def test_whoever_is_at_risk_at_the_last_break_is_censored_there():
    y = Surv([2.0, 2.1, 9.0], [1, 1, 0])
    assert cut(y, breaks=[0, 1, 2])[0] == [(0, 2, 1), (0, 2, 0), (0, 2, 0)]


def test_a_first_break_above_zero_has_zero_before_it_unless_everyone_enters_later():
    y = Surv([1.0, 3.0], [1, 1])
    assert cut(y, breaks=[2, 4])[1].breaks.tolist() == [0, 2, 4]
    assert cut(Surv([51.0, 53.0], [1, 1], [50, 51]), breaks=[50, 52, 54])[1].breaks[0] == 50
    assert cut(Surv([1.0, 3.0], [1, 1], [0, 0]), breaks=[2, 4])[1].breaks.tolist() == [0, 2, 4]


@pytest.mark.parametrize("width", [0.1, 0.2, 0.3, 1 / 3, 0.7])
def test_ends_of_intervals_are_not_lost_to_rounding(width):
    """1.1 / 0.1 is more than 11 in floating point; 1.1 still ends the eleventh interval."""
    k = np.arange(1, 200)
    for time in (k * width, np.cumsum(np.full(199, width)), np.round(k * width, 10)):
        rows, grid = cut(Surv(time, np.ones(199)), width=width)
        assert [r[1] for r in rows] == k.tolist()
        assert grid.ended(time).tolist() == k.tolist()
        assert grid.ended(time - 0.01 * width).tolist() == (k - 1).tolist()


@pytest.mark.parametrize(
    ("breaks", "match"),
    [([0, 2, 2, 3], "position 1 is 2"), ([3, 1], "increase"), ([0.0], "one interval"),
     ([0, np.nan], "finite"), ([], "finite")],
)  # fmt: skip
def test_breaks_that_make_no_intervals_are_refused(breaks, match):
    with pytest.raises(DataError, match=match):
        cut(Surv([1.0], [1]), breaks=breaks)


@pytest.mark.parametrize("width", [0, -1, np.nan, np.inf])
def test_widths_must_be_positive(width):
    with pytest.raises(DataError, match="positive"):
        cut(Surv([1.0], [1]), width=width)


def test_absurdly_many_intervals_are_refused():
    with pytest.raises(DataError, match="longer"):
        cut(Surv([1e9], [1]), width=1)
