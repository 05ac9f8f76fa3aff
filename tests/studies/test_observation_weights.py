"""Weights of event-dependent observation: the numbers of R, and sums over days."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad

from steropes import DataError
from steropes.designs.case_series.event_dependent_observation import (
    MODELS,
    CensorModel,
    _fit,
    _log_of_day,
    fit_censoring,
)
from steropes.studies.sccs.cases.case_population import Population


def population(start, end, events, *, observed=0, age=4000.0, known=True):
    n = len(start)
    case = np.repeat(np.arange(n), [len(e) for e in events])
    return Population(
        person=np.arange(n), observed=np.full(n, observed), start=np.array(start),
        end=np.array(end), age=np.full(n, age), end_known=np.full(n, known), outcome_case=case,
        outcome_day=np.concatenate(events).astype(int), attrition=pd.DataFrame(), prevalence=0.01,
        first_only=False,
    )  # fmt: skip


PARAMETERS = (-0.5, 0.3, 0.2, -1.0, 0.02, 0.4, -0.1)


# R 4, the functions of the SCCS package (Ghebremichael-Weldeselassie, Whitaker and Farrington)
# integrated with integrate(): age 3650 on day 0, observed from day 10 to 1000, of days 100–200 and
# 900–1000; not known and known end.
OF_R = {
    "weibull-age": ((10.3457093521, 90.4923957993), (12.6626754888, 87.8174149739)),
    "weibull-interval": ((14.0385923372, 64.0180921032), (23.9594765522, 91.8755881111)),
    "gamma-age": ((11.8370784949, 77.3948539808), (20.4912451096, 89.7347283508)),
    "gamma-interval": ((13.1635611525, 65.3946793737), (24.8268767202, 91.6704040673)),
}


@pytest.mark.parametrize("kind", MODELS)
def test_weights_are_those_of_r(kind):
    model = CensorModel(kind, PARAMETERS, 0.0)
    for known in (False, True):
        two = np.ones(2)
        w = model.weights(
            3650 * two, 10 * two, 1000 * two, np.full(2, known), np.array([100, 900]),
            np.array([200, 1000]),
        )  # fmt: skip
        np.testing.assert_allclose(w, OF_R[kind][int(known)], rtol=1e-7)


@pytest.mark.parametrize(
    ("scale", "shape"),
    [(-1.0, 1.6), (0.5, -0.5), (-3.0, 0.0)],  # a hump of months, a pole, a few days
)
def test_the_weight_of_years_is_the_sum_of_those_of_their_days(scale, shape):
    model = CensorModel("weibull-interval", (-4.0, scale, 0.0, -1.0, 0.0, shape, 0.0), 0.0)

    def weights(first, last):
        one = np.ones(len(first))
        known = np.zeros(len(first), bool)
        return model.weights(12_000 * one, 0 * one, 3999 * one, known, first, last)

    days = np.arange(4000)
    whole = weights(np.array([0]), np.array([3999]))
    assert weights(days, days).sum() == pytest.approx(whole[0], rel=2e-5)


@pytest.mark.parametrize("kind", MODELS)
def test_the_density_of_the_end_adds_up_to_one(kind):
    model = CensorModel(kind, PARAMETERS, 0.0)

    def density(end):
        return float(np.exp(model.log_density(np.array(11.0), 10.0, end, np.array(False))))

    assert quad(density, 11, 200, limit=500)[0] == pytest.approx(1, abs=1e-6)
    survival = np.exp(model.log_density(np.array(11.0), 10.0, 15.0, np.array(True)))
    assert quad(density, 15, 200, limit=500)[0] == pytest.approx(survival, abs=1e-6)


@pytest.mark.parametrize("kind", MODELS)
def test_what_is_fitted_are_probabilities_of_days(kind):
    """They add up to one, and no parameters make one larger, however near the event is."""
    t, start = np.array(11.0), np.array(10.0)
    end = 11.0 + np.arange(0.3, 80_000) / 365.25
    known = np.zeros(len(end), bool)
    log_p = _log_of_day(kind, np.array(PARAMETERS), t, start, end, known) - np.log(365.25)
    assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-6)
    for scale, shape in ((-9.0, -12.0), (-9.0, -3.0), (2.5, 6.0)):  # poles at the event, a peak
        p = np.array([-30.0, scale, 0.0, -5.0, 0.0, shape, 0.0])
        assert _log_of_day(kind, p, t, start, end, known).max() <= np.log(365.25) + 1e-9


def test_short_times_after_the_event_are_seen_as_such():
    rng = np.random.default_rng(2)
    n = 400
    end = rng.integers(200, 2000, n)
    day = (end * rng.random(n)).astype(int)
    soon = rng.random(n) < 0.5
    end = np.where(soon, np.minimum(day + rng.exponential(20, n).astype(int) + 1, end), end)
    p = population(np.zeros(n, int), end, [[d] for d in day], known=False)
    p = replace(p, end_known=rng.random(n) < 0.2, age=rng.uniform(5000, 20000, n))
    model = fit_censoring(p)
    assert np.exp(model.parameters[0]) * 365.25 == pytest.approx(20, rel=0.35)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", MODELS)
def test_the_fit_of_each_model_is_above_the_truth(kind):
    """Of what it is fitted to: a search that ends early takes the wrong model by AIC."""
    rng = np.random.default_rng(3)
    n, truth = 400, np.array([np.log(20 / 365.25), 0.0, 0.0, -1.0, 0.0, 0.0, 0.0])
    age = rng.uniform(30, 70, n)
    event = age + rng.uniform(0.1, 5, n)
    if kind.endswith("age"):
        truth[[1, 5]] = np.log([80, 6])
        late = 80 * ((event / 80) ** 6 + rng.exponential(size=n)) ** (1 / 6)
    else:
        truth[1] = np.log(4)
        late = event + rng.exponential(4, n)
    end = np.where(rng.random(n) < 0.27, event + rng.exponential(20 / 365.25, n), late)
    known, end = end > event + 6, np.minimum(end, event + 6) + 1 / 365.25
    fitted = _fit(kind, event, age, end, known)
    at_truth = 14 - 2 * _log_of_day(kind, truth, event, age, end, known).sum()
    assert 14 - 2 * _log_of_day(
        kind, np.array(fitted.parameters), event, age, end, known
    ).sum() == pytest.approx(fitted.aic)
    assert fitted.aic < at_truth + 1


def test_everybody_is_left_at_the_event():
    """Also where nearly all that ends late ends at once: the shape is small."""
    p = np.array([-3.0, 1.0, 0.0, -2.0, 0.0, np.log(0.02), 0.0])
    t, end = np.array(40.0), 40.0 + 0.5 / 365.25
    for kind in ("weibull-interval", "gamma-interval"):
        one = np.exp(_log_of_day(kind, p, t, np.array(35.0), end, np.array(False))) / 365.25
        left = np.exp(_log_of_day(kind, p, t, np.array(35.0), end, np.array(True)))
        assert one + left == pytest.approx(1, abs=1e-9)


def test_observation_that_nothing_ends_has_no_weights():
    with pytest.raises(DataError, match="nothing ended by the event"):
        fit_censoring(population([0], [99], [[5]]))
