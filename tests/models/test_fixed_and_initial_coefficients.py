"""Coefficients that are given, and those that a fit starts from."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from every_family import EVERY, case
from steropes import (
    CoxRegression,
    CrossValidation,
    CumulativeProbabilityModel,
    DataError,
    Hierarchical,
    Jeffreys,
    Laplace,
    LogisticRegression,
    Normal,
    PoissonRegression,
    Surv,
)

CHANGING = ("cox by step", "pooled change")
PLAIN = [name for name in EVERY if name not in CHANGING]


def with_offset(c, j, value):
    """The same data with a column in the offset instead."""
    extras = dict(c.extras)
    extras["offset"] = extras.get("offset", 0.0) + c.X[:, j] * value
    return c.make, np.delete(c.X, j, axis=1), extras


@pytest.mark.sampled
@pytest.mark.parametrize("name", PLAIN)
def test_a_coefficient_that_is_given_is_an_offset(name, rng):
    storage = ("dense", "sparse", "frame")[PLAIN.index(name) % 3]
    c = case(name, rng)
    make, X, extras = with_offset(c, 1, 0.3)
    prior = Laplace([0.5, 0.02, 0.5, 0.1, 0.2], exclude=[0])
    names = [f"x{j}" for j in range(5)]
    given = {
        "dense": c.X, "sparse": sparse.csr_array(c.X), "frame": pd.DataFrame(c.X, columns=names),
    }[storage]  # fmt: skip
    fixed = {"x1": 0.3} if storage == "frame" else {1: 0.3}
    m = make(prior=prior).fit(given, c.y, **c.extras, fixed=fixed)
    other = make(prior=Laplace([0.5, 0.5, 0.1, 0.2], exclude=[0])).fit(X, c.y, **extras)
    assert m.converged_
    assert m.coef_[1] == 0.3
    np.testing.assert_allclose(np.delete(m.coef_, 1), other.coef_, atol=1e-7)
    np.testing.assert_allclose(m.log_likelihood_, other.log_likelihood_, rtol=1e-9)
    if name != "cumulative":
        new = m.linear_predictor(given)
        old = other.linear_predictor(X, offset=0.3 * c.X[:, 1])
        np.testing.assert_allclose(new, old, atol=1e-6)


@pytest.mark.sampled
@pytest.mark.parametrize("name", PLAIN)
def test_tables_and_intervals_are_of_the_others(name, rng):
    c = case(name, rng)
    make, X, extras = with_offset(c, 4, -0.2)
    m = make().fit(c.X, c.y, **c.extras, fixed={4: -0.2})
    other = make().fit(X, c.y, **extras)
    assert "x4" not in m.summary().index
    np.testing.assert_allclose(m.summary()["se"], other.summary()["se"], rtol=1e-5)
    np.testing.assert_allclose(m.vcov("robust"), other.vcov("robust"), rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(m.aic_, other.aic_, rtol=1e-9)
    a, b = (x.confint(["x0"], method="profile").to_numpy() for x in (m, other))
    np.testing.assert_allclose(a, b, rtol=1e-4)
    draws = m.inference.bootstrap(2, random_state=1)
    assert draws.coef.shape[1] == len(other.summary())
    assert "x4" not in str(m)
    assert m.coef_[4] == -0.2


def test_curves_have_the_given_coefficient_in(rng):
    c = case("cox", rng)
    make, X, extras = with_offset(c, 2, 0.4)
    m = make().fit(c.X, c.y, fixed={2: 0.4})
    other = make().fit(X, c.y, **extras)
    shift = 0.4 * c.X[:3, 2]
    np.testing.assert_allclose(
        m.predict_survival(c.X[:3], [1.0, 2.0]),
        other.predict_survival(X[:3], [1.0, 2.0], offset=shift), rtol=1e-6,
    )  # fmt: skip
    a = m.curves.survival(c.X[:3], [1.0, 2.0])
    b = other.curves.survival(X[:3], [1.0, 2.0], offset=shift)
    pd.testing.assert_frame_equal(a, b, rtol=1e-5)
    again = pickle.loads(pickle.dumps(m))
    np.testing.assert_array_equal(
        again.predict_survival(c.X[:3], [1.0]), m.predict_survival(c.X[:3], [1.0])
    )


def test_pooled_and_cumulative_predictions_have_it_in(rng):
    c = case("pooled", rng)
    make, X, extras = with_offset(c, 2, 0.4)
    m, other = make().fit(c.X, c.y, fixed={2: 0.4}), make().fit(X, c.y, **extras)
    shift = 0.4 * c.X[:3, 2]
    np.testing.assert_allclose(
        m.predict_hazard(c.X[:3]), other.predict_hazard(X[:3], offset=shift), rtol=1e-6
    )
    c = case("cumulative", rng)
    make, X, extras = with_offset(c, 2, 0.4)
    m, other = make().fit(c.X, c.y, fixed={2: 0.4}), make().fit(X, c.y, **extras)
    a = m.predict_mean(c.X[:3])
    b = other.predict_mean(X[:3], offset=0.4 * c.X[:3, 2])
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_it_goes_with_cross_validation_and_every_prior(rng):
    c = case("logistic", rng)
    make, X, extras = with_offset(c, 1, 0.3)
    cv = CrossValidation(3, search=[0.05, 0.5], random_state=1)
    for prior, fewer in (
        (Normal({f"x{j}": 1.0 for j in (0, 2, 3, 4)}), Normal()),
        (Hierarchical([0, 0, 0, 1, 1]), Hierarchical([0, 0, 1, 1])),
        (Hierarchical({"x0": "a", "x1": "a", "x2": "a"}), Hierarchical(["a", "a", None, None])),
    ):
        m = make(prior=prior, cv=cv).fit(c.X, c.y, fixed={1: 0.3})
        other = make(prior=fewer, cv=cv).fit(X, c.y, **extras)
        np.testing.assert_allclose(np.delete(m.coef_, 1), other.coef_, atol=1e-6)
        np.testing.assert_allclose(m.cv_results_["mean"], other.cv_results_["mean"], rtol=1e-6)
    m = make(prior=Jeffreys()).fit(c.X, c.y, fixed={1: 0.3})
    other = make(prior=Jeffreys()).fit(X, c.y, **extras)
    np.testing.assert_allclose(np.delete(m.coef_, 1), other.coef_, atol=1e-6)


def test_a_second_fit_forgets_what_was_given(rng):
    c = case("logistic", rng)
    m = c.make()
    m.fit(c.X, c.y, fixed={1: 0.3})
    assert len(m.fit(c.X, c.y).summary()) == 6


@pytest.mark.sampled
@pytest.mark.parametrize("name", [n for n in PLAIN if n != "linear"])
def test_a_fit_that_starts_at_its_end_is_there(name, rng):
    c = case(name, rng)
    first = c.fit(prior=Normal(0.5))
    again = c.make(prior=Normal(0.5)).fit(c.X, c.y, **c.extras, start_at=first.coef_)
    np.testing.assert_allclose(again.coef_, first.coef_, atol=1e-7)
    assert again.n_iter_ <= first.n_iter_
    there = c.make(prior=Normal(0.5)).fit(c.X, c.y, **c.extras, start_at={"x0": 5.0, 2: -5.0})
    np.testing.assert_allclose(there.coef_, first.coef_, atol=1e-6)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"fixed": {"age": 1.0}}, "'age', which is not a column"),
        ({"fixed": {7: 1.0}}, "position 7"),
        ({"fixed": {0: 1.0, "x0": 1.0}}, "'x0' twice"),
        ({"fixed": {0: np.inf}}, "must be finite"),
        ({"fixed": {0: "a"}}, "no number"),
        ({"fixed": [1.0, 2.0]}, "must map"),
        ({"fixed": {0: 1.0, 1: 1.0}}, "no coefficient left"),
        ({"start_at": [1.0]}, "each of the 2 columns"),
        ({"start_at": "warm"}, "must be an array"),
        ({"start_at": [np.nan, 1.0]}, "must be finite"),
        ({"start_at": [1e300, 1.0]}, "must be finite"),
        ({"start_at": np.ma.masked_array([1.0, 1.0], [1, 0])}, "start_at"),
        ({"start_at": np.array(["2020", "2021"], "M8[Y]")}, "dates or durations"),
        ({"start_at": pd.Series([1.0, 2.0], index=["x1", "age"])}, "'age', which is not a column"),
    ],
)
def test_what_makes_no_sense_is_refused(given, why, rng):
    X, y = rng.normal(size=(60, 2)), np.tile([0, 1], 30)
    with pytest.raises(DataError, match=why):
        LogisticRegression().fit(X, y, **given)


@pytest.mark.parametrize("family", ["poisson", "cox", "cumulative"])
def test_a_start_beyond_the_reach_of_exp_is_refused(family, rng):
    c = case(family, rng)
    with pytest.raises(DataError, match="start_at is too far off"):
        c.make(prior=Normal(1.0)).fit(c.X, c.y, **c.extras, start_at=np.full(5, 1e8))


def test_a_series_says_which_column_is_which(rng):
    X, y = rng.normal(size=(60, 2)), np.tile([0, 1], 30)
    frame = pd.DataFrame(X, columns=["a", "b"])
    m = LogisticRegression().fit(frame, y, fixed=pd.Series({"b": 0.5}))
    assert m.coef_[1] == 0.5
    start = pd.Series({"b": 600.0, "a": 0.0})
    with pytest.raises(DataError, match="too far off"):  # 600 times a million: it went to b
        PoissonRegression().fit(frame * [1.0, 1e6], y, start_at=start)
    assert PoissonRegression().fit(frame, y, start_at=start * 1e-3).converged_


def test_where_they_do_not_go_is_said(rng):
    X, y = rng.normal(size=(60, 2)), np.tile([0, 1], 30)
    with pytest.raises(DataError, match="leave start_at out"):
        LogisticRegression(prior=Laplace(), cv=3).fit(X, y, start_at=[0.0, 0.0])
    with pytest.raises(DataError, match="starts from zero"):
        LogisticRegression(prior=Laplace(), solver="ccd").fit(X, y, start_at=[0.0, 0.0])
    surv = Surv(rng.exponential(size=60), np.ones(60, int))
    with pytest.raises(DataError, match="cannot be combined with time_varying"):
        CoxRegression(time_varying={0: [0.5]}).fit(X, surv, fixed={1: 0.0})
    with pytest.raises(DataError, match="start_at is too far off"):
        CoxRegression().fit(X * 1e6, surv, start_at=[1e6, -1e6])


@pytest.mark.host
def test_coordinate_descent_leaves_fixed_coefficients_where_they_are(rng):
    X, y = rng.normal(size=(60, 2)), np.tile([0, 1], 30)
    m = LogisticRegression(prior=Laplace(), solver="ccd", tol=1e-6)
    assert m.fit(X, y, fixed={0: 0.5}).coef_[0] == 0.5


def test_the_cauchy_link_ends_near_where_it_starts(rng):
    X = rng.normal(size=(80, 2))
    y = np.round(X[:, 0] + rng.standard_cauchy(80), 0)
    m = CumulativeProbabilityModel(link="cauchit", prior=Normal(1.0)).fit(X, y)
    again = CumulativeProbabilityModel(link="cauchit", prior=Normal(1.0))
    again.fit(X, y, start_at=m.coef_)
    np.testing.assert_allclose(again.coef_, m.coef_, atol=1e-5)
