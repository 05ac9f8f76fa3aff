"""How far a walk along variances goes at once."""

import numpy as np
import pytest
from scipy import sparse
from scipy.interpolate import CubicSpline

from steropes import CoxRegression, CrossValidation, Laplace, Normal, Surv
from steropes.select.fold_fits_along_path import _together
from steropes.select.next_variance_by_score_curve import near, next_step, passed, promise, toward
from steropes.select.variance_path_constants import DEFAULT
from steropes.select.variance_prediction import Foreseen
from steropes.select.variance_search import VariancePath

STEPS = np.log(DEFAULT.step_ratio)


def next_steps(score, at, se=1.0, slope=None):
    """The next move in steps, for a score as a function of steps and those made so far.

    The slope of the last is known where a derivative is given.
    """
    at = np.asarray(at, float)
    known = np.full(len(at), np.nan)
    if slope is not None:
        known[-1] = slope(at[-1]) / STEPS
    return next_step(at * STEPS, score(at), known, se) / STEPS


def test_one_score_tells_nothing_nor_do_those_of_one_fold():
    assert next_steps(lambda t: 100 * t, [0]) == pytest.approx(1)
    assert next_steps(lambda t: 100 * t, [0, 1], se=np.nan) == pytest.approx(1)
    assert next_steps(lambda t: 100 * t, [0, 1, 2], se=np.nan) == pytest.approx(1)


def test_two_scores_tell_whether_it_is_steep():
    assert next_steps(lambda t: 8 * t, [0, 1]) == pytest.approx(2)
    assert next_steps(lambda t: 4 * t, [0, 1]) == pytest.approx(1)  # nobody knows how it bends
    assert next_steps(lambda t: 4 * t, [0, 1, 2]) == pytest.approx(2)
    assert next_steps(lambda t: -8 * t, [0, 1]) == pytest.approx(1)


def test_far_below_the_top_two_steps_are_one():
    assert next_steps(lambda t: 10 * t, [0, 1, 2]) == pytest.approx(2)
    assert next_steps(lambda t: 0.5 * t, [0, 1, 2]) == pytest.approx(1)  # less steep
    assert next_steps(lambda t: 10 * t + 5 * t**2, [0, 1, 3]) == pytest.approx(2)  # they differ
    assert next_steps(lambda t: 20 * t - t**2, [0, 1, 2]) == pytest.approx(1)  # it flattens
    assert next_steps(lambda t: 40 * t - 8 * t**2, [0, 1, 2]) == pytest.approx(1)  # it bends


def test_half_a_step_is_enough_where_it_is_past_the_top():
    assert next_steps(lambda t: -((t - 2.1) ** 2), [0, 1, 2]) == pytest.approx(0.5)
    assert next_steps(lambda t: -((t - 2.9) ** 2), [0, 1, 2]) == pytest.approx(1)


def test_whoever_knows_the_slope_goes_to_the_top_itself():
    def score(t):
        return -((t - 3.3) ** 2) - 0.1 * (t - 3.3) ** 3

    def slope(t):
        return -2 * (t - 3.3) - 0.3 * (t - 3.3) ** 2

    assert next_steps(score, [0, 1, 2, 3]) == pytest.approx(1)
    assert next_steps(score, [0, 1, 2, 3], slope=slope) == pytest.approx(0.3, abs=0.03)
    ahead = next_steps(lambda t: -((t - 3.3) ** 2), [0, 1, 2], slope=lambda t: -2 * (t - 3.3))
    assert ahead == pytest.approx(1.3, abs=0.01)


def test_of_scores_near_to_each_other_the_slopes_tell():
    """Folds' tolerances make a cubic through two near scores bend anyhow."""
    x = np.array([0, 1, 2, 2.2]) * STEPS
    slope = np.array([np.nan, 10, 6, 5])
    y = np.array([0.0, 14.0, 20.0, 20.84])
    for off in (-0.02, 0.0, 0.02):
        on = next_step(x, y + np.array([0, 0, 0, off]), slope, 1.0)
        assert on == pytest.approx(0.4 * STEPS)  # the top is a step ahead: half of that way
    slope[-1] = 2.0  # it bends more: as far as its top
    assert next_step(x, y, slope, 1.0) == pytest.approx(
        max(2 * 0.2 / 4, DEFAULT.least_step) * STEPS
    )
    slope[-1] = 0.05  # nothing to be had any more
    assert next_step(x, y, slope, 1.0) == 0


def test_whoever_is_at_the_top_or_past_it_and_knows_the_slope_ends():
    for top in (2.5, 2.95, 3.05):

        def score(t, top=top):
            return -10 * (t - top) ** 2

        def slope(t, top=top):
            return -20 * (t - top)

        assert next_steps(score, [0, 1, 2, 3], se=4.0, slope=slope) == 0
    assert next_steps(score, [0, 1, 2, 3], se=500.0, slope=slope) == pytest.approx(1)  # not clear
    assert next_steps(score, [0, 1, 2, 3], se=0.1, slope=slope) == pytest.approx(0.2)  # not there


def test_the_slope_is_worth_asking_for_near_the_top():
    x = STEPS * np.arange(4.0)
    for top, expected in [(2.0, True), (4.2, True), (5.0, False), (9.0, False)]:
        assert near(x, -((x / STEPS - top) ** 2)) is expected
    assert not near(x, x)
    assert not near(x[:2], -x[:2])


def test_no_slope_is_asked_at_the_top_that_a_slope_led_to():
    def found(at, top=3.3, se=1.0, known=True):
        at = np.asarray(at, float)
        slope = np.full(len(at), np.nan)
        if known:
            slope[-2] = -2 * (at[-2] - top) / STEPS
        return passed(at * STEPS, -((at - top) ** 2), slope, se)

    assert found([0, 1, 2, 3, 3.3])
    assert found([0, 1, 2, 3, 3.35])
    assert not found([0, 1, 2, 3, 3.35], known=False)
    assert not found([0, 1, 2, 3, 3.1])  # it is farther: there is more to be had
    assert found([0, 1, 2, 3, 3.2], se=2.0)  # too little to matter
    assert not found([0, 1, 2, 3, 3.2], se=0.5)
    assert not found([0, 1, 2, 3])  # a whole step: curves are less sure
    assert found([0, 1, 2, 3, 3.55])  # past it: what is better is before
    assert not found([3, 3.3])


def test_where_a_slope_led_past_the_top_its_curve_tells_the_way_back():
    at = np.array([0, 1, 2, 3, 3.55])
    slope = np.array([np.nan, np.nan, np.nan, 0.6 / STEPS, np.nan])
    gain, place = promise(at * STEPS, -((at - 3.3) ** 2), slope, 4)
    assert (gain, place / STEPS) == pytest.approx((0.25**2, 3.3), abs=0.01)
    slope[3] = np.nan
    assert promise(at * STEPS, -((at - 3.3) ** 2), slope, 4) == (np.inf, None)


@pytest.mark.parametrize("known", [[], [3], [2, 3], [2]])
@pytest.mark.parametrize("best", [2, 3])
def test_what_a_better_place_promises_is_what_it_has(known, best):
    """Of the best or its slope, whether another one is beyond it or not."""
    x = np.array([0.0, 0.7, 1.5, 2.1, 2.6])[: best + 2 if known == [] else best + 1]
    slope = np.full(len(x), np.nan)
    top = 1.9

    def score(x):
        return -3 * (x - top) ** 2 + 0.2 * (x - top) ** 3

    for k in known:
        if k < len(x):
            slope[k] = -6 * (x[k] - top) + 0.6 * (x[k] - top) ** 2
    gain, place = promise(x, score(x), slope, best)
    if np.isfinite(slope[best]) and slope[best] > 0:
        assert (gain, place) == (0.0, None)  # the walk has seen to what is ahead
    elif not np.isfinite(slope[best]) and best == len(x) - 1:
        assert (gain, place) == (np.inf, None)
    else:
        assert place == pytest.approx(top, abs=0.05)
        assert gain == pytest.approx(score(top) - score(x[best]), abs=0.02)


@pytest.mark.parametrize("count", [1, 2, 5, 10, 12, 13, 25, 100])
def test_folds_go_in_groups_of_one_size(count):
    size = _together(count, DEFAULT.max_lanes)
    assert 1 <= size <= DEFAULT.max_lanes
    groups = -(-count // size)
    assert groups == -(-count // DEFAULT.max_lanes)
    assert groups * size - count < groups


class Scored(VariancePath):
    """Scores as a function of steps from the first variance, with a standard error of one.

    Of variances with many nonzero coefficients the slope is known.
    """

    def __init__(self, score, nonzero=1):
        super().__init__(CrossValidation(3), Laplace(), None)
        self.of, self.many = score, nonzero

    def evaluate(self, variance):
        spread = np.sqrt(3) * np.array([-1.0, 0.0, 1.0])
        return np.zeros(1), self.many, self.of(self.steps(variance)) + spread

    def slope(self, variance):
        return float(self.of(self.steps(variance), 1)) / STEPS

    def steps(self, variance):
        return np.log(variance / self.first()) / STEPS

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
    # Curves beyond the last score are less sure than between two.
    assert found.score > best - (2 if nonzero > 1 else 1) * DEFAULT.flat
    assert len(found.results) < 12
    assert len(found.results) <= (10 if nonzero > 1 else 11)


class Led(Scored):
    """The same, beginning with a variance that is foreseen some steps from the first."""

    def __init__(self, score, at, bend=12.0, **options):
        super().__init__(score, **options)
        self.at, self.bend, self.asked = at, bend, []

    def foresee(self, first):
        return Foreseen(first * DEFAULT.step_ratio**self.at, self.bend / STEPS**2)

    def evaluate(self, variance):
        self.asked.append(self.steps(variance))
        return super().evaluate(variance)


def hill(steps, derivative=0, top=5.3):
    t = np.asarray(steps, float) - top
    return (-6 * t**2 - 0.5 * t**3) if derivative == 0 else (-12 * t - 1.5 * t**2)


@pytest.mark.parametrize("bend", [0.0, 3.0, 12.0, 50.0])
@pytest.mark.parametrize("at", [1, 2, 3, 4, 4.6, 5, 5.3, 5.7, 6, 7])
def test_from_what_is_foreseen_the_best_is_found_wherever_that_is(at, bend):
    walk = Led(hill, at, bend, nonzero=3000)
    found = walk.search()
    assert found.score > -DEFAULT.flat
    assert walk.asked[:2] == pytest.approx([0, at], abs=0.02)
    if at >= 4 and bend == 12:
        assert len(found.results) <= 5


@pytest.mark.parametrize(("at", "nonzero"), [(10, 3000), (4, 1), (0, 3000)])
def test_where_scores_do_not_say_that_it_is_right_the_walk_goes_all_of_its_way(at, nonzero):
    """They are no better than at first, or there is no slope, or it is the first itself."""
    found, alone = Led(hill, at, nonzero=nonzero).search(), Scored(hill, nonzero).search()
    assert found.results.equals(alone.results)


def test_the_simplest_within_a_standard_error_is_looked_for_below_as_ever():
    walk = Led(hill, 4.3, nonzero=3000)
    walk.within = 1.0
    table = walk.search().results
    inside = table["mean"] >= table["mean"].max() - 1
    assert walk._simplest(table) == int(np.argmax(inside))
    assert not inside.iloc[0]


def test_by_a_slope_and_its_bend_the_top_is_told():
    assert toward(-1.0, 2.0) == pytest.approx(-0.5)
    assert toward(1.0, 2.0) == pytest.approx(0.5)
    assert toward(1e-6, 2.0) == pytest.approx(DEFAULT.least_step * STEPS)
    assert toward(-100.0, 2.0) == pytest.approx(-DEFAULT.slope_reach * STEPS)
    assert toward(1.0, 0.0) == pytest.approx(DEFAULT.slope_reach * STEPS)


def test_a_ridge_is_searched_where_its_variance_matters():
    """The first variances change the scores by less than their error; the best one lies beyond."""
    rng = np.random.default_rng(114)
    X = sparse.csc_array((rng.random((300, 3)) < 0.1).astype(float)) * 100.0
    eta = X @ (rng.normal(size=3) * 0.005)
    y = Surv(rng.exponential(np.exp(-eta)), rng.random(300) < 0.5)
    prior = Normal()
    found = CoxRegression(prior=prior, cv=CrossValidation(5, random_state=0)).fit(X, y)
    grid = CrossValidation(5, search=10.0 ** np.arange(-9.0, 0.0, 0.5), random_state=0)
    best = CoxRegression(prior=prior, cv=grid).fit(X, y).cv_results_["mean"].max()
    assert found.cv_results_["mean"].max() > best - 0.005
