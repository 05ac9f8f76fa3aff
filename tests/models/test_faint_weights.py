"""Weights that leave a coefficient without information are refused, not "converged" at zero."""

import numpy as np
import pytest

from every_family import EVERY, case
from steropes import DataError, LogisticRegression, Normal, PoissonRegression, SeparationError


def events(c):
    """Rows whose weight the information hangs on."""
    if c.y.dtype.names:
        return c.y["event"] == 1
    return c.y == "yes" if c.y.dtype.kind == "U" else c.y > 0


EVENTS = [f for f in EVERY if f not in ("linear", "cumulative", "conditional exact")]


@pytest.mark.sampled
@pytest.mark.parametrize("light", [1e-12, 1e-17, 1e-30, 1e-200])
@pytest.mark.parametrize("family", EVENTS)
def test_events_that_weigh_nothing_are_refused(family, light, rng):
    c = case(family, rng, p=2)
    w = np.where(events(c), light, 1.0)
    with pytest.raises((DataError, SeparationError)):
        c.make().fit(c.X, c.y, sample_weight=w, **c.extras)


@pytest.mark.parametrize("family", EVERY)
def test_a_column_of_rows_that_weigh_nothing_is_refused_by_name(family, rng):
    c = case(family, rng, p=2)
    sets = np.arange(len(c.X)) // 5
    light = sets % 4 == 0  # whole sets, as the exact method wants it
    X = np.column_stack([c.X, light * rng.normal(size=len(c.X))])
    with pytest.raises((DataError, SeparationError), match="'x2"):
        c.make().fit(X, c.y, sample_weight=np.where(light, 1e-20, 1.0), **c.extras)


@pytest.mark.parametrize("family", EVERY)
def test_some_rows_that_weigh_nothing_are_as_good_as_absent(family, rng):
    c = case(family, rng, p=2)
    light = np.arange(len(c.X)) // 5 % 4 == 0
    if "cox" in family:
        c.settings["ties"] = "breslow"  # Efron's method counts the tied events, however light
    a = c.make().fit(c.X, c.y, sample_weight=np.where(light, 1e-20, 1.0), **c.extras)
    b = c.make().fit(c.X, c.y, sample_weight=np.where(light, 0.0, 1.0), **c.extras)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-6)


def test_a_prior_says_what_such_events_do_not(rng):
    c = case("cox", rng, p=2)
    m = c.make(prior=Normal()).fit(c.X, c.y, sample_weight=np.where(events(c), 1e-20, 1.0))
    np.testing.assert_allclose(m.coef_, 0.0, atol=1e-9)


def test_the_same_light_weight_for_all_is_refused_as_before(rng):
    X, y = rng.normal(size=(40, 1)), rng.integers(0, 2, 40)
    with pytest.raises(DataError, match="on average"):
        LogisticRegression().fit(X, y, sample_weight=np.full(40, 1e-30))


def test_light_weights_of_rows_without_events_are_none_of_our_business(rng):
    X, y = rng.normal(size=(200, 1)), rng.poisson(1.0, 200)
    w = np.where(y > 0, 1.0, 1e-3)
    assert PoissonRegression().fit(X, y, sample_weight=w).converged_
