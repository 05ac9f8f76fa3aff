"""The estimator as scikit-learn and users hold it: input, refusals, copies, memory."""

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone

import steropes
from person_intervals import simulate
from steropes import DataError, Laplace, PooledLogisticRegression, SeparationError, Surv


def fitted(X, y, **kw):
    settings = {"interval": 1, "time_varying": {1: 1}, "prior": Laplace(0.1), "tol": 1e-10}
    return PooledLogisticRegression(**{**settings, **kw}).fit(X, y)


def wide(index):
    def convert(X):
        C = sparse.csc_array(X)
        C.indices, C.indptr = C.indices.astype(index), C.indptr.astype(index)
        return C

    return convert


KINDS = {
    "csr": sparse.csr_array,
    "csc matrix": sparse.csc_matrix,
    "int64": wide(np.int64),
    "int32": wide(np.int32),
    "coo": sparse.coo_array,
    "pandas": lambda X: pd.DataFrame(X, columns=list("abcd")),
    "polars": lambda X: pl.DataFrame(X, schema=list("abcd")),
    "design": steropes.as_design,
}


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_of_matrix_gives_the_same_fit_and_stays_as_it_was(kind):
    X, y = simulate(200)
    before = X.copy(), y.copy()
    given = KINDS[kind](X)
    model = fitted(given, y)
    np.testing.assert_allclose(model.coef_, fitted(X, y).coef_, atol=1e-8)
    np.testing.assert_allclose(
        model.predict_survival(given, [1, 3]), fitted(X, y).predict_survival(X, [1, 3]), atol=1e-8
    )
    assert (before[0] == X).all()
    assert (y == before[1]).all()


def test_columns_are_named_by_the_frame():
    X, y = simulate(200)
    frame = pd.DataFrame(X, columns=["age", "sex", "drug", "dose"])
    model = PooledLogisticRegression(
        interval=1, time_varying={"drug": 2, "age": np.sqrt}, prior=Laplace(1, exclude=["drug:t"])
    ).fit(frame, y)
    assert list(model.summary().index) == [
        "intercept", "t", "t^2", "age", "sex", "drug", "dose", "age:sqrt(t)", "drug:t", "drug:t^2",
    ]  # fmt: skip
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.coef_.shape == (7,)
    assert model.intercept_ == model.baseline_coef_["intercept"]
    with pytest.raises(DataError, match="drug"):
        model.predict(frame[["age", "drug", "sex", "dose"]])


def test_scikit_survival_outcomes_and_slices():
    X, y = simulate(200)
    other = np.empty(200, [("status", bool), ("days", float)])
    other["status"], other["days"] = y["event"] == 1, y["time"]
    np.testing.assert_array_equal(fitted(X, other).coef_, fitted(X, y).coef_)
    assert fitted(X[:150], y[:150]).n_person_intervals_ < fitted(X, y).n_person_intervals_


def test_clone_and_pickle():
    X, y = simulate(200)
    model = fitted(X, y, baseline=[np.log, np.sqrt], prior=None)
    np.testing.assert_array_equal(clone(model).fit(X, y).coef_, model.coef_)
    assert clone(model).get_params()["time_varying"] == {1: 1}
    table = model.summary()
    copy = pickle.loads(pickle.dumps(model))
    pd.testing.assert_frame_equal(copy.summary(), table)
    np.testing.assert_array_equal(copy.predict_survival(X, [2]), model.predict_survival(X, [2]))


@pytest.mark.usefixtures("eager_threads")
def test_the_fit_does_not_depend_on_threads_or_on_earlier_fits():
    X, y = simulate(3000, seed=8)
    one, four = fitted(X, y, n_jobs=1), fitted(X, y, n_jobs=4)
    np.testing.assert_array_equal(one._beta, four._beta)
    four.set_params(baseline="interval", time_varying=None, interval=2).fit(X, y)
    assert not hasattr(four, "intercept_")
    four.set_params(baseline=2, time_varying={1: 1}, interval=1).fit(X, y)
    np.testing.assert_array_equal(one._beta, four._beta)


def test_free_intercepts_name_the_interval_that_has_none():
    X, y = simulate(300, seed=1)
    y["event"][(y["time"] > 2) & (y["time"] <= 3)] = 0
    with pytest.raises(SeparationError, match=r"no event in interval 3, \(2, 3\].*Merge") as error:
        PooledLogisticRegression(interval=1, baseline="interval").fit(X, y)
    assert error.value.columns == ["t=3"]
    PooledLogisticRegression(breaks=[0, 1, 3, 4, 5, 6, 7, 8], baseline="interval").fit(X, y)
    with pytest.raises(SeparationError, match=r"No one is at risk at the start of interval 8"):
        PooledLogisticRegression(breaks=[0, 1, 3, 4, 5, 6, 7, 8, 9, 10], baseline="interval").fit(
            X, y
        )
    with pytest.raises(SeparationError, match=r"Everyone at risk has the event in interval 2"):
        PooledLogisticRegression(interval=1, baseline="interval").fit(
            X[:4], Surv([1, 1, 2, 2], [1, 0, 1, 1])
        )


@pytest.mark.parametrize("weight", [1.0, 1e11])
@pytest.mark.parametrize("baseline", [0, 2, "interval"])
def test_where_everyone_has_the_event_the_baseline_is_refused_without_a_warning(baseline, weight):
    X, time = simulate(30, seed=1)[0], np.full(30, 0.5)
    with pytest.raises(SeparationError):
        PooledLogisticRegression(interval=1, baseline=baseline).fit(
            X, Surv(time, np.ones(30)), sample_weight=weight
        )


def test_weight_zero_makes_an_interval_without_events():
    X, y = simulate(300, seed=1)
    w = np.where((y["time"] > 2) & (y["time"] <= 3) & (y["event"] == 1), 0, 1)
    with pytest.raises(SeparationError, match="no event in interval 3"):
        PooledLogisticRegression(interval=1, baseline="interval").fit(X, y, sample_weight=w)
    with pytest.raises(DataError, match="no events"):
        fitted(X, y).fit(X, y, sample_weight=(y["event"] == 0).astype(float))


def test_cross_validation_of_free_intercepts_needs_two_events_each():
    X, y = simulate(300, seed=1)
    inside = np.flatnonzero((y["time"] > 2) & (y["time"] <= 3) & (y["event"] == 1))
    y["event"][inside[1:]] = 0
    settings = {"breaks": [0, 1, 2, 3, 5, 8], "baseline": "interval", "prior": Laplace()}
    PooledLogisticRegression(**settings).fit(X, y)
    with pytest.raises(DataError, match=r"interval 3.*there is one"):
        PooledLogisticRegression(**settings, cv=3).fit(X, y)
    y["event"][inside[1:3]] = 1
    model = PooledLogisticRegression(**settings, cv=3, random_state=0).fit(X, y)
    assert (model.cv_results_["mean"] > -300).all()  # no fold lost an interval's events
    cut = [(np.setdiff1d(np.arange(300), inside), inside)]
    cv = steropes.CrossValidation(cut, search=[0.1])
    with pytest.raises(DataError, match=r"Split 0.*interval 3"):
        PooledLogisticRegression(**settings, cv=cv).fit(X, y)


def test_separated_and_collinear_columns_are_named():
    X, y = simulate(200)
    X = np.column_stack([X, np.ones(200), y["event"] == 1])
    with pytest.raises(SeparationError, match="x4"):
        PooledLogisticRegression(interval=1).fit(X[:, :5], y)
    with pytest.raises(SeparationError, match=r"no finite maximum.*'x1'"):
        PooledLogisticRegression(interval=1).fit(X[:, [0, 5]], y)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"interval": None}, "either interval"),
        ({"breaks": [0, 1]}, "either interval"),
        ({"solver": "ccd"}, "newton"),
        ({"device": "gpu"}, "cpu"),
        ({"baseline": "spline"}, "'interval'"),
        ({"baseline": -1}, "at least 0"),
        ({"baseline": 1.5}, "whole number"),
        ({"baseline": lambda t: 1 / (t - 1)}, "not finite at t = 1"),
        ({"baseline": lambda t: t[:2]}, "one value"),
        ({"time_varying": {"y": 1}}, "'y'"),
        ({"time_varying": {7: 1}}, "4 columns"),
        ({"time_varying": {0: 1, "x0": 2}}, "twice"),
        ({"time_varying": {0: "linear"}}, "degree"),
        ({"prior": Laplace(1, exclude=["x0:t"])}, "x0:t"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_settings_that_make_no_sense_are_refused(settings, match):
    X, y = simulate(60)
    with pytest.raises(DataError, match=match):
        PooledLogisticRegression(**{"interval": 1, **settings}).fit(X, y)


def test_what_the_family_has_no_use_for_is_refused():
    X, y = simulate(60)
    with pytest.raises(DataError, match="strata"):
        fitted(X, y).fit(X, y, strata=np.zeros(60))
    with pytest.raises(DataError, match="exposure"):
        fitted(X, y).fit(X, y, exposure=np.ones(60))
    with pytest.raises(DataError, match="survival outcome"):
        fitted(X, y).fit(X, y["time"])
    with pytest.raises(DataError, match="'t'"):
        fitted(pd.DataFrame(X, columns=["t", "b", "c", "d"]), y)
    with pytest.raises(DataError, match="no event"):
        fitted(X, Surv(y["time"], np.zeros(60)))
    with pytest.raises(DataError, match="no event"):  # the events are after the last break
        PooledLogisticRegression(breaks=[0, 1]).fit(X[:2], Surv([2, 3], [1, 1]))


def peak_of(K, n=4000, p=300):
    """Bytes that NumPy holds at most during a fit where people stay for up to K intervals."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((n, p), density=0.05, format="csc", rng=rng)
    X.data[:] = 1.0
    design = steropes.as_design(X)
    y = Surv(np.ceil((1 + np.arange(n)) * (K / n)), np.arange(n) % 7 == 0)
    model = PooledLogisticRegression(
        interval=1, baseline=0, time_varying=1, prior=Laplace(0.01 / K**2), n_jobs=2
    )
    tracemalloc.start()
    model.fit(design, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.n_person_intervals_ == n * (K + 1) // 2
    return peak


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_intervals():
    """A double for each person-interval would be 16 MB at K = 1000; the peak hardly moves."""
    peak_of(5)
    few, many = peak_of(10), peak_of(1000)
    assert many - few < 4e6


@pytest.mark.parametrize("far", [-100.0, -40.0, 30.0, 40.0])
@pytest.mark.parametrize("baseline", ["interval", 1])
def test_a_far_offset_is_taken_back_in_every_interval(far, baseline):
    """Or else one interval alone has information at the start, where all changes are alike."""
    rng = np.random.default_rng(3)
    x, time = rng.normal(size=(300, 1)), rng.integers(1, 9, 300)
    y = Surv(time, rng.random(300) < 0.4)
    settings = {"interval": 4.0, "baseline": baseline, "time_varying": {0: 1}}
    near = PooledLogisticRegression(**settings).fit(x, y)
    m = PooledLogisticRegression(**settings).fit(x, y, offset=np.full(300, far))
    np.testing.assert_allclose(m.coef_, near.coef_, rtol=1e-6)
    taken = np.full(2, far) if baseline == "interval" else [far, 0.0]
    np.testing.assert_allclose(m.baseline_coef_, near.baseline_coef_ - taken, rtol=1e-6)
