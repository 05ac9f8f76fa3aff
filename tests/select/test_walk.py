"""How far a walk along variances goes at once."""

import numpy as np
import pytest

from steropes.select.path import TOGETHER, _together
from steropes.select.search import CLEAR, STEP, _next

STEPS = np.log(STEP)


def next_steps(score, at, se=1.0, dear=False):
    """The next move in steps, for a score as a function of steps and those made so far."""
    at = np.asarray(at, float)
    return _next(at * STEPS, score(at), se, dear) / STEPS


def test_two_scores_tell_nothing():
    assert next_steps(lambda t: 100 * t, [0, 1]) == pytest.approx(1)
    assert next_steps(lambda t: 100 * t, [0, 1, 2], se=np.nan) == pytest.approx(1)


def test_far_below_the_top_two_steps_are_one():
    assert next_steps(lambda t: 10 * t, [0, 1, 2]) == pytest.approx(2)
    assert next_steps(lambda t: 5 * t, [0, 1, 2]) == pytest.approx(1)  # less steep
    assert next_steps(lambda t: 40 * t - 8 * t**2, [0, 1, 2]) == pytest.approx(1)  # it bends


def test_half_a_step_is_enough_where_it_is_past_the_top():
    assert next_steps(lambda t: -((t - 2.1) ** 2), [0, 1, 2]) == pytest.approx(0.5)
    assert next_steps(lambda t: -((t - 2.9) ** 2), [0, 1, 2]) == pytest.approx(1)


def test_where_variances_are_dear_the_step_is_no_longer_than_it_must_be():
    def score(t):
        return -((t - 3.3) ** 2)

    ahead = next_steps(score, [0, 1, 2, 3], dear=True)
    assert 0.5 < ahead < 1
    assert score(3 + ahead) < score(3) - CLEAR
    assert next_steps(score, [0, 1, 2, 3]) == pytest.approx(1)


def test_right_at_the_top_of_dear_ones_a_third_of_a_step_may_do():
    def score(t):
        return -10 * (t - 3.02) ** 2

    assert next_steps(score, [0, 1, 2, 3], se=2.0, dear=True) == pytest.approx(0.3)
    assert next_steps(score, [0, 1, 2, 3], se=16.0, dear=True) == pytest.approx(0.5)  # not clear


def test_where_the_last_dear_one_is_past_the_top_the_top_is_what_is_missing():
    def score(t):
        return 3 * (t - 2.4) - (t - 2.4) ** 2 - 0.8 * (t - 2.4) ** 3

    back = next_steps(score, [0, 1, 2, 4], dear=True)
    t = np.linspace(2, 4, 2001)
    assert -1.9 < back < -0.1
    assert abs(4 + back - t[score(t).argmax()]) < 0.25


@pytest.mark.parametrize("count", [1, 2, 5, 10, 12, 13, 25, 100])
def test_folds_go_in_groups_of_one_size(count):
    size = _together(count)
    assert 1 <= size <= TOGETHER
    groups = -(-count // size)
    assert groups == -(-count // TOGETHER)
    assert groups * size - count < groups
