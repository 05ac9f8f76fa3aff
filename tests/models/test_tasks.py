"""Many fits as tasks, wherever joblib has them: the same numbers, and no work done twice."""

import subprocess
import sys
import threading
import time

import joblib
import numpy as np
import pandas as pd
import pytest

import steropes
from steropes import CrossValidation, Laplace
from steropes.fit import parallel_tasks as tasks
from steropes.fit.fit_checkpoints import Packing, ResultFolder
from steropes.models.inference import estimator_bootstrap


@pytest.fixture
def data(monkeypatch):
    monkeypatch.setattr(estimator_bootstrap, "DRAWS_PER_TASK", 4)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    y = (rng.random(120) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    return X, y


def test_draws_in_tasks_are_the_draws(data, tmp_path):
    X, y = data
    model = steropes.LogisticRegression(prior=Laplace(1.0)).fit(X, y)
    here = model.inference.bootstrap(10, random_state=1).coef
    with joblib.parallel_config(backend="threading", n_jobs=2):
        there = model.inference.bootstrap(10, random_state=1, store=tmp_path).coef
    np.testing.assert_allclose(there, here, atol=1e-3)
    assert len(list(tmp_path.glob("*.npz"))) == 3


def test_an_interrupted_bootstrap_goes_on(data, tmp_path, monkeypatch):
    X, y = data
    model = steropes.LogisticRegression(prior=Laplace(1.0)).fit(X, y)
    whole = model.inference.bootstrap(10, random_state=1, store=tmp_path / "a").coef
    calls, real = [], estimator_bootstrap.fit_draws

    def counted(*given):
        if len(calls) == 1:
            calls.append("stopped")
            raise KeyboardInterrupt
        calls.append("done")
        return real(*given)

    monkeypatch.setattr(estimator_bootstrap, "fit_draws", counted)
    with pytest.raises(KeyboardInterrupt):
        model.inference.bootstrap(10, random_state=1, store=tmp_path / "b")
    again = model.inference.bootstrap(10, random_state=1, store=tmp_path / "b").coef
    np.testing.assert_array_equal(again, whole)
    assert calls == ["done", "stopped", "done", "done"]
    other = model.inference.bootstrap(10, random_state=2, store=tmp_path / "b").coef  # other draws
    assert (other != whole).any()


def test_draws_that_select_anew_are_tasks_too(data):
    X, y = data
    cv = CrossValidation(3, random_state=1, search=[0.1, 1.0])
    model = steropes.LogisticRegression(prior=Laplace(), cv=cv).fit(X, y)
    here = model.inference.bootstrap(5, reselect=True, random_state=1)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        there = model.inference.bootstrap(5, reselect=True, random_state=1)
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
    assert len(list(tmp_path.iterdir())) == 10
    steropes.fit_many(estimator, X + 1, outcomes, store=tmp_path)
    assert len(list(tmp_path.iterdir())) == 20


STUDY = """
import os, sys
from pathlib import Path
import joblib, numpy as np, steropes
from steropes.fit.fit_checkpoints import ResultFolder

store, stop, wanted = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
rng = np.random.default_rng(0)
X = (rng.random((300, 12)) < 0.3) * 1.0
outcomes = {str(k): (rng.random(300) < 0.2 + 0.3 * X[:, k]).astype(int) for k in range(12)}
real, written = ResultFolder.save, []
def write(folder, file, result):
    real(folder, file, result)
    written.append(file.name)
    if len(written) == stop:
        os.kill(os.getpid(), 9)
ResultFolder.save = write
with joblib.parallel_config(backend="threading", n_jobs=2):
    many = steropes.fit_many(steropes.LogisticRegression(), X, outcomes, store=store)
    lasso = steropes.LogisticRegression(prior=steropes.Laplace(0.1), n_jobs=stop or 2)
    more = steropes.fit_many(lasso, X, outcomes, store=store)
np.savez(wanted, many=many["coef"], lasso=more["coef"], written=len(written))
"""


@pytest.mark.slow
def test_many_outcomes_after_a_kill(tmp_path):
    """Killed with its fourth outcome written: the rest is fitted, to the same bits."""

    def run(store, stop, out):
        done = subprocess.run([sys.executable, "-c", STUDY, tmp_path / store, str(stop), out])
        return done.returncode

    whole, again = tmp_path / "whole.npz", tmp_path / "again.npz"
    assert run("a", 0, whole) == 0
    assert run("b", 4, again) == -9
    assert not again.exists()
    assert len(list((tmp_path / "b").glob("*.npz"))) == 4
    assert run("b", 0, again) == 0
    with np.load(whole) as a, np.load(again) as b:
        assert (int(a["written"]), int(b["written"])) == (14, 10)
        for name in ("many", "lasso"):
            np.testing.assert_array_equal(a[name], b[name])


def test_interrupted_outcomes_go_on(data, tmp_path, monkeypatch):
    X, y = data
    outcomes = {str(k): np.roll(y, k) for k in range(6)}
    estimator, real, written = steropes.LogisticRegression(), ResultFolder.save, []

    def write(folder, file, result):
        if len(written) == stop:
            raise KeyboardInterrupt
        real(folder, file, result)
        written.append(file)

    monkeypatch.setattr(ResultFolder, "save", write)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        stop = -1
        whole = steropes.fit_many(estimator, X, outcomes, store=tmp_path / "a")
        stop = 10
        with pytest.raises(KeyboardInterrupt):
            steropes.fit_many(estimator, X, outcomes, store=tmp_path / "b")
        stop = -1
        # Threads and what is printed are no matter of the numbers.
        again = estimator.set_params(n_jobs=2, verbose=0)
        again = steropes.fit_many(again, X, outcomes, store=tmp_path / "b")
    pd.testing.assert_frame_equal(again, whole, check_exact=True)
    assert len(written) == 12


def test_each_result_is_written_when_it_is_there(tmp_path):
    """A task that takes long holds no other's result back."""
    first = threading.Event()

    def wait(common, task):
        if task == 0:
            assert first.wait(60)
        return task

    whole = Packing(lambda task: ({}, task), lambda arrays, facts: facts)
    folder = ResultFolder(tmp_path, whole)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        found = tasks.run_tasks(wait, None, range(6), folder, "key")
        waiting = threading.Thread(target=lambda: (_until(tmp_path, 5), first.set()))
        waiting.start()
        assert list(found) == [0, 1, 2, 3, 4, 5]
        waiting.join()


def _until(folder, count):
    for _ in range(6000):
        if len(list(folder.glob("*.npz"))) >= count:
            return
        time.sleep(0.01)


def test_blocks_stay_where_they_are(data, tmp_path, monkeypatch):
    """With a folder too, whatever joblib has been told: nothing is pickled or sent."""
    X, y = data
    monkeypatch.setattr(tasks, "_distributed", None)
    blocks = steropes.ShardedDesign.from_blocks([X[:50], X[50:]])
    estimator, outcomes = steropes.LogisticRegression(), {"a": y, "b": 1 - y}
    whole = steropes.fit_many(estimator, X, outcomes)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        found = steropes.fit_many(estimator, blocks, outcomes, store=tmp_path)
        model = steropes.LogisticRegression(prior=Laplace(1.0)).fit(blocks, y)
        draws = model.inference.bootstrap(5, random_state=1, store=tmp_path / "draws").coef
    np.testing.assert_allclose(found["coef"], whole["coef"], atol=1e-8)
    assert len(list(tmp_path.glob("*.npz"))) == 2
    one = steropes.LogisticRegression(prior=Laplace(1.0)).fit(X, y)
    np.testing.assert_allclose(draws, one.inference.bootstrap(5, random_state=1).coef, atol=1e-3)


def double(common, task):
    return common["x"][0] * task


def test_processes_get_the_data_once_as_a_file():
    with (
        joblib.parallel_config(backend="multiprocessing", n_jobs=2),
        tasks._distributed({"x": np.array([2.0])}) as put,
    ):
        place = put()
        assert isinstance(place, tasks._InFile)
        assert [tasks._run_task(double, place, t, (t,)) for t in (1, 2)] == [(1, 2.0), (2, 4.0)]
        assert list(tasks._worker_data) == [place.token]


def test_dask_workers_get_the_data_once():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, processes=False, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        assert tasks.has_parallel_backend()
        found = list(tasks.run_tasks(double, {"x": np.array([3.0])}, [1, 2, 3]))
    assert found == [3.0, 6.0, 9.0]


@pytest.mark.slow
def test_a_dask_worker_without_the_data_gets_them_from_another():
    distributed = pytest.importorskip("distributed")

    def doubled(common, task):  # in here, so that it goes to the workers by value
        import os
        import time

        time.sleep(0.3)  # time for the other worker to take its part
        return os.getpid(), 2 * common["x"][0] * task

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0",
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):  # fmt: skip
        found = list(tasks.run_tasks(doubled, {"x": np.array([3.0])}, list(range(8))))
    assert [value for _, value in found] == [6.0 * k for k in range(8)]
    assert len({process for process, _ in found}) == 2
