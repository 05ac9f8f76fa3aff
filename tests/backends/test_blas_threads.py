"""BLAS has one thread during fits, and gets back afterwards what it had."""

from __future__ import annotations

import inspect
import os
import random
import threading
import time
from importlib import import_module

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import steropes
from steropes import Normal, models
from steropes.backends import blas_threads as blas
from steropes.backends.blas_threads import single_threaded_blas
from steropes.backends.thread_pool import ThreadPool
from steropes.design_matrix import Design

OFFERED = [*(getattr(models, name) for name in models.__all__), steropes.CumulativeProbabilityModel]


MODELS = [x for x in OFFERED if inspect.isclass(x)]


def blas_threads():
    return {x["num_threads"] for x in threadpool_info() if x["user_api"] == "blas"}


@pytest.fixture
def two_blas_threads():
    """Two threads for BLAS, whatever the machine has, so that there is something to give back."""
    import_module("scipy.linalg")
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("BLAS takes no number of threads here")
        yield


def test_blas_is_given_back_when_users_overlap(two_blas_threads):
    """The first to leave must not free the other, nor the second keep what it found."""
    first, second = single_threaded_blas(), single_threaded_blas()
    first.__enter__()
    second.__enter__()
    assert blas_threads() == {1}
    first.__exit__(None, None, None)
    assert blas_threads() == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == {2}


@pytest.mark.usefixtures("eager_threads")
def test_blas_is_given_back_after_overlapping_fits(two_blas_threads, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (rng.random(60) < 0.5).astype(int)
    slow(monkeypatch)
    seen = []

    def fit(seed):
        time.sleep(0.002 * seed)
        for _ in range(3):
            seen.append(steropes.LogisticRegression(n_jobs=2, prior=Normal(1.0)).fit(X, y).coef_)

    together = [threading.Thread(target=fit, args=(seed,)) for seed in range(4)]
    for t in together:
        t.start()
    for t in together:
        t.join()
    assert blas_threads() == {2}
    assert all(np.array_equal(x, seen[0]) for x in seen)


def test_blas_is_held_whichever_thread_came_first(two_blas_threads):
    """threadpoolctl lets only the first thread that set a limit set another."""
    seen = []

    def hold():
        with single_threaded_blas():
            seen.append(blas_threads())
        seen.append(blas_threads())

    hold()
    other = threading.Thread(target=hold)
    other.start()
    other.join()
    hold()
    assert seen == [{1}, {2}] * 3
    with threadpool_limits(1, user_api="blas"):  # what the user sets counts as before
        assert blas_threads() == {1}


class PerThread:
    """A library with a number of threads for each thread, as MKL has it."""

    internal_api = "mkl"

    def __init__(self):
        self.own = threading.local()

    @property
    def num_threads(self):
        return vars(self.own).get("n", 4)

    def set_num_threads(self, n):
        self.own.n = n


def test_threads_with_numbers_of_their_own_are_all_held(monkeypatch):
    library = PerThread()
    assert blas._counts_by_thread(library)
    monkeypatch.setattr(blas, "_blas", blas._Blas())
    monkeypatch.setattr(blas._blas, "_shared", [])
    monkeypatch.setattr(blas._blas, "_by_thread", [library])
    monkeypatch.setattr("steropes.backends.thread_pool._pools", {})
    for n_jobs in (1, 3):
        seen = ThreadPool(n_jobs).map(lambda _: library.num_threads, [(i,) for i in range(20)])
        assert seen == [1] * 20
        assert library.num_threads == 4
    with single_threaded_blas():
        with single_threaded_blas():
            pass
        assert library.num_threads == 1
    assert library.num_threads == 4


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_blas_is_given_back_after_an_error(two_blas_threads, error):
    def fail(*_):
        raise error

    with pytest.raises(error), single_threaded_blas():
        fail()
    assert blas_threads() == {2}
    for n_jobs in (1, 2):
        with pytest.raises(error):
            ThreadPool(n_jobs).map(fail, [(0,), (1,)])
        assert blas_threads() == {2}


@pytest.mark.parametrize("when", ["enter", "leave"])
def test_an_interrupt_in_the_midst_is_made_good(two_blas_threads, monkeypatch, when):
    one = blas._blas
    true = getattr(one, when)

    def interrupted(user):
        if when == "enter":
            true(user)
        raise KeyboardInterrupt

    monkeypatch.setattr(one, when, interrupted)
    with pytest.raises(KeyboardInterrupt), single_threaded_blas():
        pass
    monkeypatch.undo()
    with single_threaded_blas():
        assert blas_threads() == {1}
    assert blas_threads() == {2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forgets_the_users_of_other_threads(two_blas_threads):
    inside, done = threading.Event(), threading.Event()

    def hold():
        with single_threaded_blas():
            inside.set()
            done.wait()

    other = threading.Thread(target=hold)
    other.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        with single_threaded_blas():
            pass
        os._exit(0 if blas_threads() == {2} else 1)
    done.set()
    other.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)
def test_whatever_a_model_offers_keeps_blas_to_one_thread(model):
    ours = [c for c in model.__mro__ if c.__module__.startswith("steropes")]
    offered = {name for c in ours for name in vars(c) if not name.startswith("_")}
    for name in offered:
        x = inspect.getattr_static(model, name)
        function = x.fget if isinstance(x, property) else x
        if inspect.isfunction(function):
            assert hasattr(function, "__wrapped__"), name


def test_predictions_and_covariances_have_one_blas_thread(two_blas_threads, monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    m = steropes.CoxRegression().fit(X, steropes.Surv(rng.random(40), np.ones(40)))
    seen = []
    matmul = Design.matmul

    def spy(self, *args):
        seen.append(blas_threads())
        return matmul(self, *args)

    monkeypatch.setattr(Design, "matmul", spy)
    for use in (
        lambda: m.linear_predictor(X),
        lambda: m.vcov("robust"),
        lambda: m.curves.baseline_hazard(level=None),
        lambda: m.predict_survival(X, [0.5]),
    ):
        seen.clear()
        use()
        assert seen
        assert all(n == {1} for n in seen)
    assert blas_threads() == {2}


def slow(monkeypatch, seed=0):
    """Chunks that begin after random delays, so that they end in every order."""
    true, dice = ThreadPool._map, random.Random(seed)

    def delayed(self, function, chunks):
        def late(*chunk):
            time.sleep(dice.choice([0.0, 0.0, 1e-4, 1e-3]))
            return function(*chunk)

        return true(self, late if self.n_threads > 1 else function, chunks)

    monkeypatch.setattr(ThreadPool, "_map", delayed)
