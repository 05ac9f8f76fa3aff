"""No digit depends on threads, the pool's or BLAS's; and BLAS gets back what it had."""

from __future__ import annotations

import contextlib
import gc
import random
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

import steropes
from steropes import CrossValidation, Laplace, Normal
from steropes.backends import thread_pool
from steropes.backends.thread_pool import ThreadPool


def slow(monkeypatch, seed=0):
    """Chunks that begin after random delays, so that they end in every order."""
    true, dice = ThreadPool._map, random.Random(seed)

    def delayed(self, function, chunks):
        def late(*chunk):
            time.sleep(dice.choice([0.0, 0.0, 1e-4, 1e-3]))
            return function(*chunk)

        return true(self, late if self.n_threads > 1 else function, chunks)

    monkeypatch.setattr(ThreadPool, "_map", delayed)


@pytest.mark.slow
@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("seed", range(6))
def test_exact_conditional_fits_have_the_same_digits_whatever_the_threads(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    size = rng.integers(2, 25, 90)
    strata, p = np.repeat(np.arange(90), size), 70
    X = rng.normal(size=(len(strata), p))
    if seed % 2:
        X = sparse.csc_array(np.where(rng.random(X.shape) < 0.8, 0.0, X if seed == 1 else 1.0))
    y = (rng.random(len(strata)) < 0.4).astype(int)
    w = np.repeat(rng.choice([0.0, 1.0, 2.0], 90), size)
    cv = CrossValidation(3, search=[0.02, 0.1], random_state=1) if seed > 3 else None
    prior = Normal(1.0) if seed in (2, 3) else Laplace(0.05)
    slow(monkeypatch, seed)
    # BLAS's own threads come and go with others' fits, and must not matter.
    results = []
    for k, n_jobs in enumerate((1, 2, 3, 5, 2, 5)):
        with threadpool_limits(1 + k % 2, user_api="blas"):
            m = steropes.ConditionalLogisticRegression(
                prior=prior if cv is None else Laplace(), cv=cv, n_jobs=n_jobs
            ).fit(X, y, strata=strata, sample_weight=w)
            digits = [m.coef_, m.log_likelihood_, m.optimality_, m.n_iter_, m.predict(X)]
            if isinstance(prior, Normal):
                digits.append(m.vcov().to_numpy())
        results.append(b"".join(np.asarray(x).tobytes() for x in digits))
    assert len(set(results)) == 1


def where(*_):
    """Which thread takes a chunk, so slowly that others come."""
    time.sleep(1e-2)
    return threading.get_ident()


CHUNKS = [(i,) for i in range(16)]


def test_a_few_numbers_wake_no_thread(eager_threads, monkeypatch):
    pool, here = ThreadPool(2), threading.get_ident()
    assert len(set(pool.map(where, CHUNKS, 1000))) == 2
    monkeypatch.setattr(thread_pool, "FEW", 1001)
    assert set(pool.map(where, CHUNKS, 1000)) == {here}
    assert len(set(pool.map(where, CHUNKS))) == 2
    assert len(set(pool.map(where, CHUNKS, 1001))) == 2


def test_short_chunks_wake_no_thread(monkeypatch):
    """What the first takes says what the others will, where it is not known from before."""
    clock = iter(np.arange(1000.0))
    monkeypatch.setattr(thread_pool, "perf_counter", lambda: next(clock) * 1e-4)
    monkeypatch.setattr(thread_pool, "_pace", {})
    pool, here = ThreadPool(3), threading.get_ident()
    for short, worth, alone in ((2e-4, 0.0, True), (0.0, 2e-3, True), (0.0, 1e-3, False)):
        monkeypatch.setattr(thread_pool, "SHORT", short)
        monkeypatch.setattr(thread_pool, "WORTH", worth)
        thread_pool._pace.clear()
        monkeypatch.setattr(thread_pool, "LONG", 2e-4)
        seen = pool.map(where, CHUNKS)
        assert len(seen) == 16
        assert (set(seen) == {here}) == alone
    thread_pool._pace[where.__code__] = 3e-4  # long the last time: threads at once
    monkeypatch.setattr(thread_pool, "WORTH", np.inf)
    assert len(set(pool.map(where, CHUNKS))) > 1


@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_results_are_in_the_order_of_the_chunks_and_the_first_error_is_raised(n_jobs):
    pool, dice = ThreadPool(n_jobs), random.Random(n_jobs)

    def square(i):
        time.sleep(dice.choice([0.0, 1e-4, 1e-3]))
        if i in (57, 31, 60):
            raise ValueError(str(i))
        return i * i

    assert pool.map(square, [(i,) for i in range(30)]) == [i * i for i in range(30)]
    with pytest.raises(ValueError, match="31"):
        pool.map(square, [(i,) for i in range(90)])


def test_errors_do_not_keep_what_their_chunks_had(eager_threads):
    class Large:
        pass

    def work(i):
        mine = Large()
        held.append(weakref.ref(mine))
        time.sleep(1e-3)
        raise ValueError(str(i))

    held = []
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(ValueError):
            ThreadPool(2).map(work, [(i,) for i in range(9)])
        assert len(held) == 9
        assert not any(one() for one in held)
    finally:
        gc.enable()


def test_an_interrupt_leaves_the_other_chunks(eager_threads):
    here, done = threading.get_ident(), []

    def work(i):
        time.sleep(2e-3)
        done.append(i)
        if threading.get_ident() == here:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ThreadPool(2).map(work, [(i,) for i in range(200)])
    time.sleep(0.05)
    assert len(done) < 20


INTERRUPTED = """
import sys
from steropes.backends import thread_pool

thread_pool.SHORT, thread_pool.WORTH = 0.0, 0.0
pool, chunks = thread_pool.ThreadPool(3), [(i,) for i in range(16)]
pool.map(lambda i: i, chunks)

def at(left):
    def trace(frame, event, _):
        nonlocal left
        left -= event != "line"  # where the interpreter looks for none
        if left == 0:
            raise KeyboardInterrupt
        return trace
    return trace

k, done = 0, False
while not done:
    k += 1
    try:
        sys.settrace(at(k))
        pool.map(lambda i: i, chunks)
        done = True
    except KeyboardInterrupt:
        pass
    sys.settrace(None)
    assert not thread_pool._inside.pool, k
    assert pool.map(lambda i: i, chunks) == list(range(16)), k
print(k)
"""


def test_wherever_an_interrupt_comes_the_next_map_is_as_ever():
    """At any call and return: of `concurrent.futures` some leave a lock that nobody opens."""
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60
    )
    assert int(ran.stdout) > 60, ran.stderr


def test_an_exit_in_a_helper_is_told_and_the_helper_stays(eager_threads):
    pool, here = ThreadPool(2), threading.get_ident()

    def leave(_):
        time.sleep(1e-2)
        if threading.get_ident() != here:
            raise SystemExit

    with pytest.raises(SystemExit):
        pool.map(leave, CHUNKS)
    assert len(set(pool.map(where, CHUNKS))) == 2


def test_helpers_who_are_busy_elsewhere_are_not_waited_for(eager_threads):
    held, free = threading.Event(), threading.Event()
    pool = ThreadPool(7)  # whose threads nobody else has

    def hold(_):
        held.set()
        free.wait(30)

    other = threading.Thread(target=pool.map, args=(hold, [(i,) for i in range(8)]))
    other.start()
    held.wait(30)
    time.sleep(0.05)
    try:
        assert pool.map(lambda i: i, CHUNKS) == list(range(16))
        assert not free.is_set()
    finally:
        free.set()
        other.join()


ENDING = """
import threading
from steropes.backends import thread_pool

thread_pool.SHORT, thread_pool.WORTH = 0.0, 0.0
chunks = [(i,) for i in range(16)]

def late():
    threading.main_thread().join()
    print(thread_pool.ThreadPool(4).map(lambda i: i, chunks) == list(range(16)), flush=True)

threading.Thread(target=late).start()
"""


def test_a_thread_that_outlives_the_main_one_works_without_helpers():
    ran = subprocess.run(
        [sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=120
    )
    assert ran.stdout.strip() == "True", ran.stderr


def test_at_a_limit_of_threads_there_are_fewer_helpers(eager_threads, monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    pool = ThreadPool(11)  # whose threads nobody else has
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        assert set(pool.map(where, CHUNKS)) == {threading.get_ident()}
    assert len(set(pool.map(where, CHUNKS))) > 1


def test_chunks_of_chunks_stay_in_their_thread(eager_threads):
    pool = ThreadPool(3)

    def outer(_):
        own = threading.get_ident()
        return set(pool.map(where, CHUNKS)) == {own}

    assert all(pool.map(outer, CHUNKS[:6]))
    assert len(set(pool.map(where, CHUNKS))) > 1  # and it can have helpers again
