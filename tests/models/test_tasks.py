"""Many fits as tasks, wherever joblib has them: the same numbers, and no work done twice."""

import joblib
import numpy as np
import pytest

import steropes
from steropes import CrossValidation, Laplace
from steropes.fit import tasks
from steropes.models import resampling


@pytest.fixture
def data(monkeypatch):
    monkeypatch.setattr(resampling, "TOGETHER", 4)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    y = (rng.random(120) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    return X, y


def test_draws_in_tasks_are_the_draws(data, tmp_path):
    X, y = data
    model = steropes.LogisticRegression(prior=Laplace(1.0)).fit(X, y)
    here = model.bootstrap(10, random_state=1).coef
    with joblib.parallel_config(backend="threading", n_jobs=2):
        there = model.bootstrap(10, random_state=1, store=tmp_path).coef
    np.testing.assert_allclose(there, here, atol=1e-3)
    assert len(list(tmp_path.glob("*.joblib"))) == 3


def test_an_interrupted_bootstrap_goes_on(data, tmp_path, monkeypatch):
    X, y = data
    model = steropes.LogisticRegression(prior=Laplace(1.0)).fit(X, y)
    whole = model.bootstrap(10, random_state=1, store=tmp_path / "a").coef
    calls, real = [], resampling.fit_draws

    def counted(*given):
        if len(calls) == 1:
            calls.append("stopped")
            raise KeyboardInterrupt
        calls.append("done")
        return real(*given)

    monkeypatch.setattr(resampling, "fit_draws", counted)
    with pytest.raises(KeyboardInterrupt):
        model.bootstrap(10, random_state=1, store=tmp_path / "b")
    again = model.bootstrap(10, random_state=1, store=tmp_path / "b").coef
    np.testing.assert_array_equal(again, whole)
    assert calls == ["done", "stopped", "done", "done"]
    other = model.bootstrap(10, random_state=2, store=tmp_path / "b").coef  # other draws
    assert (other != whole).any()


def test_draws_that_select_anew_are_tasks_too(data):
    X, y = data
    cv = CrossValidation(3, random_state=1, search=[0.1, 1.0])
    model = steropes.LogisticRegression(prior=Laplace(), cv=cv).fit(X, y)
    here = model.bootstrap(5, reselect=True, random_state=1)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        there = model.bootstrap(5, reselect=True, random_state=1)
    np.testing.assert_array_equal(there.variance, here.variance)
    np.testing.assert_allclose(there.coef, here.coef, atol=1e-8)


def test_outcomes_in_tasks_are_the_outcomes(data, tmp_path):
    X, y = data
    rng = np.random.default_rng(2)
    outcomes = {str(k): np.where(rng.random(120) < 0.1, 1 - y, y) for k in range(10)}
    estimator = steropes.LogisticRegression()
    here = steropes.fit_many(estimator, X, outcomes)
    for _ in range(2):  # the second time from the folder
        with joblib.parallel_config(backend="threading", n_jobs=2):
            there = steropes.fit_many(estimator, X, outcomes, store=tmp_path)
        np.testing.assert_allclose(there["coef"], here["coef"], atol=1e-8)
    assert len(list(tmp_path.iterdir())) == 2
    steropes.fit_many(estimator, X + 1, outcomes, store=tmp_path)
    assert len(list(tmp_path.iterdir())) == 4


def double(common, task):
    return common["x"][0] * task


def test_processes_get_the_data_once_as_a_file():
    with (
        joblib.parallel_config(backend="multiprocessing", n_jobs=2),
        tasks._placed({"x": np.array([2.0])}) as place,
    ):
        assert isinstance(place, tasks._InFile)
        assert [tasks._do(double, place, t) for t in (1, 2)] == [2.0, 4.0]
        assert list(tasks._known) == [place.token]


def test_dask_workers_get_the_data_once():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, processes=False, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        assert tasks.spread_out()
        found = list(tasks.over_tasks(double, {"x": np.array([3.0])}, [1, 2, 3]))
    assert found == [3.0, 6.0, 9.0]
