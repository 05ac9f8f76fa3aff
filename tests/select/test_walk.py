"""How far a walk along variances goes at once."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from steropes import CrossValidation, Laplace
from steropes.select.curve import CLEAR, STEP, next_step
from steropes.select.path import TOGETHER, _together
from steropes.select.search import FLAT, VariancePath

STEPS = np.log(STEP)


def next_steps(score, at, se=1.0, dear=False):
    """The next move in steps, for a score as a function of steps and those made so far."""
    at = np.asarray(at, float)
    return next_step(at * STEPS, score(at), se, dear) / STEPS


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


class Scored(VariancePath):
    """Scores as a function of steps from the first variance, with a standard error of one."""

    def __init__(self, score, nonzero=1):
        super().__init__(CrossValidation(3), Laplace(), None)
        self.of, self.many = score, nonzero

    def evaluate(self, variance):
        spread = np.sqrt(3) * np.array([-1.0, 0.0, 1.0])
        return np.zeros(1), self.many, self.of(np.log(variance / self.first()) / STEPS) + spread

    def first(self):
        return 1e-4


@pytest.mark.parametrize("nonzero", [1, 3000])
@pytest.mark.parametrize(
    "scores",
    [
        [0, 118.2, 198.8, 253.7, 290.7, 328.0, 368.7, 379.2, 360.1, 290.1, 171.8, 20.3, -151.6],
        [0, 19.3, 43.5, 72.6, 94.4, 107.1, 112.3, 108.7, 93.6, 69.0, 36.5, -0.8, -40.4],
        [
            0,
            150.7,
            252.9,
            318.3,
            344.7,
            341.9,
            276.9,
            120.1,
            -130.1,
            -456.9,
            -836.1,
            -1237.5,
            -1649,
        ],
    ],
)
def test_the_best_is_found_where_the_walk_went_two_steps_at_once(scores, nonzero):
    """A parabola through scores of uneven distances may have its top next to the best of them."""
    curve = CubicSpline(np.arange(len(scores)) / 2, scores)
    best = curve(np.linspace(0, 6, 6001)).max()
    found = Scored(curve, nonzero).search()
    assert found.score > best - FLAT
    assert len(found.results) < 12
