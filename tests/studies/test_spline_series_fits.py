"""Fits without a row for each month, against those with all rows."""

import dataclasses

import numpy as np
import pytest

import steropes
import steropes.designs.case_series.series_fits_and_profiles as series_fits
from steropes.designs.case_series.calendar_time_splines import month_of
from steropes.designs.case_series.sccs_model import fit_model
from steropes.designs.case_series.series_likelihood import log_likelihood
from steropes.designs.case_series.spline_series_fits import MonthlyFits, is_determined
from steropes.designs.case_series.spline_series_likelihood import (
    MonthlyLikelihood,
    monthly_likelihood,
)
from steropes.studies import case_series, case_series_settings, synthetic_database
from steropes.studies.sccs.specification.case_series_settings import Spline

SPLINES = {"season": Spline(5, True), "calendar": Spline(5, True)}
NUMBERS = ["log_rr", "lower", "upper", "p", "llr"]


@pytest.fixture(scope="module")
def series():
    settings = case_series_settings(exposure=1118084, outcome=192671, folds=5)
    return case_series(synthetic_database(500), dataclasses.replace(settings, **SPLINES))


@pytest.fixture(scope="module")
def intervals(series):
    return series.intervals


def of_rows(monkeypatch, intervals, settings):
    """Fit with a row for each month."""
    with monkeypatch.context() as patch:
        patch.setattr(series_fits, "monthly_likelihood", lambda part: None)
        return fit_model(intervals, settings)


def test_months_of_rows_follow_their_days(series, intervals):
    population = series.population
    starts = np.flatnonzero(np.diff(intervals.case, prepend=-1))
    case = intervals.case[starts]
    first = month_of(population.observed[case] + population.start[case])
    np.testing.assert_array_equal(intervals.month[starts], first)
    assert (np.diff(intervals.month)[np.diff(intervals.case) == 0] <= 1).all()


def test_likelihood_and_derivatives_are_those_of_all_rows(intervals):
    like = monthly_likelihood(intervals)
    assert like.terms.nnz < len(intervals) / 5
    beta = np.random.default_rng(0).normal(size=(len(intervals.columns), 3))
    ones = np.ones((len(like.events), 3))
    value, gradient, information = like.derivatives(beta, ones)
    step = 1e-5
    for k in range(3):
        expected, slopes = log_likelihood(intervals, beta[:, k])
        assert value[k] == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(gradient[:, k], slopes, atol=1e-9)
        for j in range(len(beta)):
            up, down = beta[:, k].copy(), beta[:, k].copy()
            up[j] += step
            down[j] -= step
            change = log_likelihood(intervals, down)[1] - log_likelihood(intervals, up)[1]
            np.testing.assert_allclose(information[k][j], change / (2 * step), atol=1e-5)


def test_weights_leave_cases_out(intervals):
    like = monthly_likelihood(intervals)
    beta = np.random.default_rng(1).normal(size=(len(intervals.columns), 1))
    some = np.arange(len(like.events)) % 3 > 0
    kept = np.flatnonzero(some[np.unique(intervals.case, return_inverse=True)[1]])
    value, gradient, _ = like.derivatives(beta, some[:, None].astype(float))
    expected, slopes = log_likelihood(intervals.take(kept), beta[:, 0])
    assert value[0] == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient[:, 0], slopes, atol=1e-9)


def test_a_start_at_which_a_case_has_no_rate_does_not_converge(intervals):
    like = monthly_likelihood(intervals)
    start = np.zeros((len(intervals.columns), 1))
    start[0] = 1500.0  # The rate of all other time is zero in double precision.
    zero, held = np.zeros_like(start), start > 0
    fit = MonthlyFits(like).solve(start, np.ones((len(like.events), 1)), zero, zero, held)
    assert not fit.converged.any()


@pytest.mark.parametrize("prior", ["laplace", pytest.param("normal", marks=pytest.mark.slow)])
def test_estimates_are_those_of_all_rows(series, intervals, prior, monkeypatch):
    settings = dataclasses.replace(series.settings, prior=prior)
    found = fit_model(intervals, settings)
    expected = of_rows(monkeypatch, intervals, settings)
    assert found.variance == expected.variance
    assert found.converged
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-9)
    numbers = found.estimates[NUMBERS], expected.estimates[NUMBERS]
    np.testing.assert_allclose(*(x.to_numpy(float) for x in numbers), rtol=1e-5, atol=1e-6)
    for name, table in found.profiles.items():
        both = table.merge(expected.profiles[name], on="log_rr")
        assert len(both) > 10
        np.testing.assert_allclose(both["log_likelihood_x"], both["log_likelihood_y"], rtol=1e-9)
        np.testing.assert_allclose(both["gradient_x"], both["gradient_y"], atol=1e-4)


def test_optima_do_not_depend_on_the_information_at_the_start(intervals, monkeypatch):
    fits = MonthlyFits(monthly_likelihood(intervals))
    p, computed = len(intervals.columns), []
    start, ones = np.zeros((p, 2)), np.ones((len(fits.likelihood.events), 2))
    l1 = np.repeat(np.where(np.arange(p) < 2, 0.0, 1.0)[:, None], 2, axis=1)
    given = l1, 0.1 * np.ones((p, 2)), np.zeros((p, 2), bool)
    found = fits.solve(start, ones, *given)
    assert found.converged.all()
    for factor in (0.02, 1.0, 50.0):
        other = fits.solve(start, ones, *given, factor * found.information)
        assert other.converged.all()
        np.testing.assert_allclose(other.beta, found.beta, rtol=0, atol=1e-8)
    monkeypatch.setattr(MonthlyLikelihood, "information", lambda *_: computed.append(1))
    fits.solve(found.beta, ones, *given, found.information)
    assert not computed


def test_a_window_without_events_has_the_limit_of_all_rows(series, intervals, monkeypatch):
    inside = intervals.X[:, [0]].toarray().ravel()
    events = np.where(inside, 0, intervals.events)
    changed = dataclasses.replace(intervals, events=events)
    settings = dataclasses.replace(series.settings, variance=0.1)
    found, expected = fit_model(changed, settings), of_rows(monkeypatch, changed, settings)
    line, other = (m.estimates.iloc[0] for m in (found, expected))
    assert line["log_rr"] == -np.inf
    assert line["upper"] == pytest.approx(other["upper"], rel=1e-6)
    assert np.isfinite(line["upper"])


def test_a_window_with_one_event_has_an_estimate(series, intervals):
    """The fold that holds the event out does not determine the window's coefficient."""
    inside = np.flatnonzero(intervals.X[:, [0]].toarray().ravel() & (intervals.events > 0))
    events = intervals.events.copy()
    events[inside[1:]] = 0
    found = fit_model(dataclasses.replace(intervals, events=events), series.settings)
    assert found.status == "OK"
    assert np.isfinite(found.estimates["log_rr"].iloc[0])


def test_windows_that_separate_the_outcome_together_are_reported(series, intervals, monkeypatch):
    """In one fold both coefficients go to minus infinity, but their difference is finite."""
    exposed = intervals.X[:, [0, 1]].toarray().astype(bool)
    any_of_both, cases = exposed.any(1), len(np.unique(intervals.case))
    case = np.unique(intervals.case, return_inverse=True)[1]
    inside = np.column_stack([np.bincount(case, x, minlength=cases) for x in exposed.T])
    both = np.flatnonzero((inside > 0).all(1))
    always, once = both[:6], both[6]
    kept = ~np.isin(case, always) | any_of_both
    events = np.where(any_of_both, 0, intervals.events)
    events[np.isin(case, both[:7])] = 0
    for k, one in enumerate(always):
        events[np.flatnonzero((case == one) & exposed[:, k % 2] & ~exposed[:, 1 - k % 2])[0]] = 1
    events[np.flatnonzero((case == once) & exposed[:, 0])[0]] = 1
    kept &= np.bincount(case, events * kept, minlength=cases)[case] > 0
    changed = dataclasses.replace(intervals, events=events).take(np.flatnonzero(kept))
    assert monthly_likelihood(changed) is not None
    settings = dataclasses.replace(series.settings, prior="normal")
    found, expected = fit_model(changed, settings), of_rows(monkeypatch, changed, settings)
    assert "the coefficients of 'exposure', 'pre-exposure' go to infinity" in expected.status
    assert found.status == expected.status


def test_a_lasso_fit_satisfies_the_optimality_conditions(intervals):
    like = monthly_likelihood(intervals)
    p = len(intervals.columns)
    l1 = np.zeros((p, 4))
    l1[intervals.X.shape[1] :] = [[0.0, 1.0, 5.0, 1e3]]
    zero = np.zeros((p, 4))
    ones = np.ones((len(like.events), 4))
    found = MonthlyFits(like).solve(zero, ones, l1, zero, zero > 1)
    assert found.converged.all()
    slack = np.abs(found.gradient) - l1
    assert (slack <= 1e-7).all()
    np.testing.assert_allclose(np.where(found.beta != 0, slack, 0.0), 0.0, atol=1e-7)
    assert (found.beta[intervals.X.shape[1] :, 3] == 0).all()


@pytest.fixture(scope="module")
def with_age(series):
    settings = dataclasses.replace(series.settings, age=Spline(4), variance=0.1)
    return case_series(synthetic_database(500), settings)


def test_the_likelihood_with_a_spline_of_age_is_that_of_all_rows(with_age):
    intervals = with_age.intervals
    like = monthly_likelihood(intervals)
    assert like.births > 10
    assert like.terms.nnz + len(like.splines) < len(intervals) / 2
    beta = np.random.default_rng(0).normal(size=(len(intervals.columns), 1))
    value, gradient, _ = like.derivatives(beta, np.ones((len(like.events), 1)))
    expected, slopes = log_likelihood(intervals, beta[:, 0])
    assert value[0] == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient[:, 0], slopes, atol=1e-9)


def test_estimates_with_a_spline_of_age_are_those_of_all_rows(with_age, monkeypatch):
    expected = of_rows(monkeypatch, with_age.intervals, with_age.settings)
    numbers = with_age.model.estimates[NUMBERS], expected.estimates[NUMBERS]
    np.testing.assert_allclose(*(x.to_numpy(float) for x in numbers), rtol=1e-5, atol=1e-6)


def test_days_of_birth_that_few_share_need_all_rows(with_age):
    intervals = with_age.intervals
    apart = dataclasses.replace(intervals, birth=intervals.birth + intervals.case)
    assert monthly_likelihood(apart) is None


def test_the_final_fit_is_certified_from_all_rows(series):
    model = series.model.estimator
    assert isinstance(model, steropes.SelfControlledCaseSeries)
    assert model.converged_


def test_the_covariance_without_an_estimator_is_that_of_the_estimator(with_age):
    settings = dataclasses.replace(with_age.settings, prior="normal")
    fits = fit_model(with_age.intervals, settings).fits
    assert fits.maximum().estimator is None
    assert fits.maximum().information is not None
    expected = fits.estimator().vcov()
    found = fits.covariance()
    assert list(found) == list(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_collinear_columns_are_left_to_the_estimator(intervals):
    like = monthly_likelihood(intervals)
    ones = np.ones((len(like.events), 1))
    p = len(intervals.columns)
    _, _, at = like.slopes(np.zeros((p, 1)), ones)
    information = like.information(at, ones, np.zeros(1, int))[0]
    squares = like.squares(at)[:, 0]
    assert is_determined(np.zeros(p), information, squares)
    twice = np.append(np.arange(p), 0)
    assert not is_determined(np.zeros(p + 1), information[np.ix_(twice, twice)], squares[twice])
    rounding = np.diag(np.where(np.arange(p) == 1, 1e-12, np.diag(information)))
    assert not is_determined(np.zeros(p), rounding, squares)


def test_columns_of_splines_are_those_of_their_array(with_age):
    columns = with_age.intervals.splines
    dense = with_age.intervals.time
    rng = np.random.default_rng(0)
    beta, values = rng.normal(size=dense.shape[1]), rng.normal(size=len(dense))
    np.testing.assert_allclose(columns.matmul(beta), dense @ beta, atol=1e-12)
    np.testing.assert_allclose(columns.rmatmul(values), values @ dense, atol=1e-9)
    np.testing.assert_array_equal(columns.take(values > 0).dense(), dense[values > 0])
    for j in range(dense.shape[1]):
        np.testing.assert_array_equal(columns.column(j), dense[:, j])
    same = (dense[1:] == dense[:-1]).all(1)
    assert (np.diff(columns.key())[~same] != 0).all()


def test_an_estimator_is_fitted_if_the_gradient_of_all_rows_is_not_zero(with_age, monkeypatch):
    def moved(intervals, beta):
        value, gradient = log_likelihood(intervals, beta)
        return value, gradient + 1.0

    settings = with_age.settings
    assert fit_model(with_age.intervals, settings).fits.maximum().estimator is None
    monkeypatch.setattr(series_fits, "log_likelihood", moved)
    assert fit_model(with_age.intervals, settings).fits.maximum().estimator is not None
