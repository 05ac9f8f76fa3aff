"""Where replicates are heading: as lines in λ say, which a lasso's paths are."""

import numpy as np
import pytest

from steropes.select.path_extrapolation import Course
from steropes.select.variance_path_constants import DEFAULT

A = np.array([[2.0, -1.0], [0.0, 3.0], [0.5, 1.0]])
SLOPE = np.array([[0.3, 0.1], [0.0, -0.2], [-0.4, 0.0]])
G = np.array([[1.0, 2.0], [-1.5, 0.5], [0.2, 0.1]])


def at(variance):
    """Coefficients and gradients on a line in λ."""
    lam = variance**-0.5
    return A + lam * SLOPE, G * (1 + lam)


def ahead(course, variance):
    """Coefficients, and gradients in their own units."""
    beta, g = course.ahead(variance)
    return beta, g.astype(float) * variance**-0.5


def follow(*variances):
    course = Course()
    for v in variances:
        beta, g = at(v)
        beta[1, 0] = 0.0
        course.note(v, beta, g)
    return course


def test_lines_are_followed_either_way():
    course = follow(1.0, 4.0)
    for v in (9.0, 3.0, 0.9):
        beta, g = ahead(course, v)
        expected, gradients = at(v)
        expected[1, 0] = 0.0  # zero it was and is
        np.testing.assert_allclose(beta, expected)
        np.testing.assert_allclose(g, gradients, rtol=1e-6)


def test_nobody_goes_beyond_zero_and_nothing_is_said_from_far_away():
    course = follow(0.2, 0.25)
    beta, _ = ahead(course, 0.17)
    assert at(0.17)[0][2, 0] < 0.5 - 0.4 * 0.25**-0.5 < 0  # a long way from zero
    np.testing.assert_allclose(beta[2, 0], at(0.17)[0][2, 0])
    course = follow(1.0, 0.8)
    here = at(0.8)[0]
    beta, _ = ahead(course, 0.6)
    assert here[2, 0] > 0 > at(0.6)[0][2, 0]
    assert beta[2, 0] == here[2, 0]
    beta, g = ahead(course, 1e-4)
    here[1, 0] = 0.0
    np.testing.assert_array_equal(beta, here)
    np.testing.assert_allclose(g, at(0.8)[1], rtol=1e-6)


def test_of_one_variance_all_stay():
    course = follow(1.0)
    beta, _ = ahead(course, 3.0)
    here = at(1.0)[0]
    here[1, 0] = 0.0
    np.testing.assert_array_equal(beta, here)


@pytest.mark.parametrize("then", [0.3, 0.04840511085270991])
def test_variances_that_differ_by_rounding_say_no_way(then):
    course = follow(0.04840511085270991, 0.04840511085270992)  # the same λ
    beta, g = ahead(course, then)
    here, there = at(0.04840511085270991)
    here[1, 0] = 0.0
    np.testing.assert_allclose(beta, here)
    np.testing.assert_allclose(g, there, rtol=1e-6)


def test_only_the_nearest_are_kept_and_nothing_by_reference():
    course = Course()
    for v in np.exp(np.arange(8.0)):
        beta, g = at(v)
        course.note(v, beta, g)
        beta[:], g[:] = np.nan, np.nan
    assert sorted(course._stops) == pytest.approx(np.exp(np.arange(8.0)[-DEFAULT.remembered :]))
    beta, g = ahead(course, np.exp(7.5))
    assert np.isfinite(beta).all()
    assert np.isfinite(g).all()


def test_rates_tell_before_the_line_does():
    """Of β = A + λ² S, whose rate in log variance is −λ² S, the line says too little or much."""
    course = Course()
    for v in (4.0, 1.0):
        course.note(v, A + SLOPE / v, G / v)
    course.note_rates(1.0, A + SLOPE - 1e-3 * SLOPE, 1e-3)
    course.note_rates(3.0, A, 1e-3)  # nothing was noted there
    beta, g = ahead(course, 0.9)
    moved = A + SLOPE + 2 * (0.9**-0.5 - 1) * SLOPE
    np.testing.assert_allclose(beta, np.where(moved * (A + SLOPE) > 0, moved, A + SLOPE))
    np.testing.assert_allclose(g, G + (0.9**-0.5 - 1) / 0.5 * 0.75 * G, rtol=1e-6)
    assert np.abs(ahead(course, 3.9)[0] - (A + SLOPE / 3.9)).max() < 0.01  # the line, there


def test_nobody_goes_farther_than_its_own_size():
    course = Course()
    for v in (4.0, 1.0):
        course.note(v, A + SLOPE / v, G)
    course.note_rates(1.0, A + SLOPE + 1e3 * np.sign(A + SLOPE), 1.0)  # as of a fit gone wrong
    beta, _ = ahead(course, 1.5)
    np.testing.assert_allclose(beta, 2 * (A + SLOPE))


def test_gradients_are_of_any_size():
    course = Course()
    for v in (1e-90, 2e-90):
        course.note(v, A, G * v**-0.5)
    np.testing.assert_allclose(ahead(course, 3e-90)[1], G * 3e-90**-0.5, rtol=1e-5)
