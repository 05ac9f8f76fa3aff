"""Blocks on a cluster are blocks: the same bits, whoever has them and whoever is lost."""

import gc
import os
import signal
import threading
import time
from itertools import pairwise

import joblib
import numpy as np
import pandas as pd
import pytest

import steropes
from steropes import CrossValidation, DataError, Laplace, ShardedDesign, Surv
from steropes.fit import dask_transfer
from steropes.fit import parallel_tasks as tasks
from steropes.fit.shards.local_blocks import LocalBlocks
from steropes.models.cumulative import CumulativeProbabilityModel
from tuning import tune

distributed = pytest.importorskip("distributed")
CUTS = (0, 90, 200, 260, 400)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = (rng.random((400, 12)) < 0.3).astype(float)
    X[:, 0] = rng.normal(20, 5, 400)
    y = (rng.random(400) < 1 / (1 + np.exp(1 - X[:, 1] - X[:, 2]))).astype(int)
    return X, y


def blocks_of(X):
    return [X[a:b] for a, b in pairwise(CUTS)]


def cluster(workers, processes=False):
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=processes, dashboard_address=":0",
        silence_logs=50,
    )  # fmt: skip


def fit(design, y):
    return steropes.LogisticRegression(prior=Laplace(0.3)).fit(design, y)


def other_fits(design, y):
    """Models whose rows matter together: risk sets, and thresholds, across blocks."""
    rng = np.random.default_rng(1)
    time, cause = np.ceil(10 * rng.exponential(2 - y)), rng.integers(0, 3, len(y))
    models = (
        (steropes.CoxRegression(tol=1e-3), Surv(time, y)),
        (steropes.FineGrayRegression(prior=Laplace(0.3), tol=1e-3), Surv(time, cause)),
        (CumulativeProbabilityModel(tol=1e-3), time),
    )
    return [model.fit(design, outcome) for model, outcome in models]


@pytest.mark.parametrize(
    ("method", "change", "said"),
    [
        (
            "answer",
            lambda a: {k: np.ravel(v)[:1] for k, v in a.items()},
            "answered an array of shape",
        ),
        (
            "answer",
            lambda a: {k: np.asarray(v).astype(str) for k, v in a.items()},
            "no real numbers",
        ),
        (
            "answer",
            lambda a: {k: np.asarray(v) * np.nan for k, v in a.items()},
            "number of entries",
        ),
        (
            "answer",
            lambda a: {k: v * (1 + (k == "shape")) for k, v in a.items()},
            "a matrix of another size",
        ),
        ("transposed", lambda a: a[:1], "answered an array of shape"),
        ("products", lambda a: a[:1], "a block of 110 rows answered 1 rows"),
    ],
)
def test_an_answer_of_another_shape_is_refused_and_not_spread(
    data, monkeypatch, method, change, said
):
    """Before, one number of a faulty worker was added to all sums, or raised an error of NumPy."""
    X, y = data
    honest = LocalBlocks.call

    def faulty(self, asked, common, own):
        answers = list(honest(self, asked, common, own))
        return [*answers[:1], change(answers[1]), *answers[2:]] if asked == method else answers

    monkeypatch.setattr(LocalBlocks, "call", faulty)
    design = ShardedDesign.from_blocks(blocks_of(X))
    call = {
        "answer": lambda: fit(design, y),
        "transposed": lambda: design.rmatmul(np.ones((400, 1)), None),
        "products": lambda: design.matmul(np.ones((12, 1)), None),
    }[method]
    with pytest.raises(DataError, match=said):
        call()


def lie(factor):
    """Let this worker multiply its sums: a function that a real worker runs."""
    from steropes.fit.shards.row_block import RowBlock

    honest = RowBlock.answer

    def answer(self, *asked):
        sums = honest(self, *asked)
        own = ("loss", "gradient", "matrix")
        return {k: factor * v if k in own else v for k, v in sums.items()}

    RowBlock.answer = answer


@pytest.mark.slow
@pytest.mark.parametrize("factor", [2.0, 0.5, -1.0, np.nan])
def test_wrong_sums_of_a_real_worker_give_no_converged_fit(data, factor):
    """The optimum is certified by products with X, which such a worker answers honestly."""
    X, y = data
    with cluster(2, processes=True) as those, distributed.Client(those) as client:
        design = ShardedDesign.from_blocks(blocks_of(X), client=client)
        client.run(lie, factor, workers=[next(iter(client.scheduler_info()["workers"]))])
        if np.isnan(factor):
            with pytest.raises(DataError, match="not finite"):
                fit(design, y)
        else:
            with pytest.warns(UserWarning, match="KKT violation"):
                model = fit(design, y)
            assert not model.converged_


def test_tasks_have_arguments_that_show_no_rows(data, monkeypatch):
    """Older versions of Dask, such as 2024.8, log the arguments of tasks that fail."""
    X, y = data
    seen, submit = [], distributed.Client.submit

    def recorded(client, function, *args, **kwargs):
        seen.extend(map(repr, args))
        return submit(client, function, *args, **kwargs)

    with cluster(2) as found, distributed.Client(found) as client:
        monkeypatch.setattr(distributed.Client, "submit", recorded)
        fit(ShardedDesign.from_blocks(blocks_of(X), client=client), y)
    assert len(seen) > 8
    assert not any("array" in text for text in seen)


@pytest.mark.slow
def test_the_number_of_workers_changes_no_bit(data):
    X, y = data
    design = ShardedDesign.from_blocks(blocks_of(X))
    here, others = fit(design, y), other_fits(design, y)
    for workers in (1, 2):
        with cluster(workers) as those, distributed.Client(those) as client:
            design = ShardedDesign.from_blocks(blocks_of(X), client=client)
            there = fit(design, y)
            np.testing.assert_array_equal(there.coef_, here.coef_)
            assert there.optimality_ == here.optimality_
            traffic = there._problem.design.blocks.traffic
            assert traffic.made == 4
            if workers == 2:  # a worker that has lost its blocks is given them again
                from steropes.fit.shards import dask_worker_blocks as dask

                lost = list(dask._worker_blocks)[-1]
                del dask._worker_blocks[lost]
                np.testing.assert_array_equal(fit(design, y).coef_, here.coef_)
                assert traffic.made == 5
            for one, other in zip(other_fits(design, y), others, strict=True):
                np.testing.assert_array_equal(one.coef_, other.coef_)
                assert one.optimality_ == other.optimality_ <= one.tol


def test_blocks_leave_the_workers_when_nobody_uses_their_design(data):
    from steropes.fit.shards import dask_worker_blocks as dask

    X, y = data
    with cluster(1) as those, distributed.Client(those) as client:
        before = set(dask._worker_blocks)
        design = ShardedDesign.from_blocks(blocks_of(X), client=client)
        model = fit(design, y)
        own = set(dask._worker_blocks) - before
        assert own
        del design, model
        gc.collect()
        for _ in range(200):
            if not own & set(dask._worker_blocks):
                break
            time.sleep(0.02)
        assert not own & set(dask._worker_blocks)


def test_collections_are_taken_in_their_partitions(data):
    array = pytest.importorskip("dask.array")
    X, y = data
    with cluster(1) as those, distributed.Client(those) as client:
        collection = array.from_array(X, chunks=(100, 12))
        design = ShardedDesign.from_dask(collection, client)
        assert design.rows == [100] * 4
        one = steropes.LogisticRegression(prior=Laplace(0.3)).fit(X, y)
        np.testing.assert_allclose(fit(design, y).coef_, one.coef_, atol=1e-9)
        with pytest.raises(DataError, match="rechunk"):
            ShardedDesign.from_dask(array.from_array(X, chunks=(100, 4)), client)
        with pytest.raises(DataError, match="folder"):
            ShardedDesign.from_blocks([X], client=client, folder="somewhere")


@pytest.mark.slow
@pytest.mark.parametrize("lost", [1, 2])
def test_a_fit_goes_on_when_workers_die(data, lost):
    X, y = data
    cv = CrossValidation(4, random_state=1)
    model = steropes.LogisticRegression(prior=Laplace(), cv=cv)
    here = model.fit(ShardedDesign.from_blocks(blocks_of(X)), y).coef_
    with cluster(2, processes=True) as those, distributed.Client(those) as client:
        design = ShardedDesign.from_blocks(blocks_of(X), client=client)
        victims = list(client.run(os.getpid).values())[:lost]

        def kill():
            time.sleep(1.0)
            for victim in victims:
                os.kill(victim, signal.SIGKILL)

        threading.Thread(target=kill).start()
        there = model.fit(design, y)
        np.testing.assert_array_equal(there.coef_, here)
        assert there._problem.design.blocks.traffic.made > 4


def test_what_was_asked_while_no_worker_was_there_is_asked_again(data, monkeypatch):
    """Dask forgets, for those that come later, that others than the one asked would do."""
    tune(monkeypatch, dask_transfer, "TRANSFER", poll_seconds=0.2)
    X, y = data
    here = fit(ShardedDesign.from_blocks(blocks_of(X)), y).coef_
    with cluster(1) as those, distributed.Client(those) as client:
        design = ShardedDesign.from_blocks(blocks_of(X), client=client)
        fit(design, y)
        those.scale(0)
        while client.scheduler_info()["workers"]:
            time.sleep(0.01)
        threading.Timer(1.0, those.scale, [1]).start()
        np.testing.assert_array_equal(fit(design, y).coef_, here)


def test_a_cluster_without_workers_is_said_to_be_so(data, monkeypatch):
    tune(monkeypatch, dask_transfer, "TRANSFER", worker_timeout=0.1, poll_seconds=0.1)
    X, _ = data
    with (
        cluster(0) as those,
        distributed.Client(those) as client,
        pytest.raises(RuntimeError, match="no workers"),
    ):
        ShardedDesign.from_blocks(blocks_of(X), client=client)


def test_outcomes_go_on_when_the_data_went_with_a_worker(data, monkeypatch):
    """Dask keeps one copy of what is sent to all; without it they are sent anew."""
    X, y = data
    outcomes = {str(k): np.roll(y, k) for k in range(6)}
    here = steropes.fit_many(steropes.LogisticRegression(), X, outcomes)
    with cluster(2) as those, distributed.Client(those) as client:
        real, sent = client.scatter, []

        def scatter(*args, **more):
            (future,) = real(*args, **more)
            sent.append(future)
            if len(sent) == 1:
                raise OSError("a worker is gone")
            if len(sent) == 2:
                tasks._worker_data.clear()  # workers are threads here
                client.cancel([future], force=True)
                while any(future.key in worker.data for worker in those.workers.values()):
                    time.sleep(0.01)
            return [future]

        monkeypatch.setattr(client, "scatter", scatter)
        with joblib.parallel_config(backend="dask"):
            there = steropes.fit_many(steropes.LogisticRegression(), X, outcomes)
        assert len(sent) == 3
        pd.testing.assert_frame_equal(there, here, rtol=1e-8)
    assert not tasks._worker_data


def test_a_cluster_of_one_thread_fits_many(data):
    X, y = data
    with cluster(1) as those, distributed.Client(those), joblib.parallel_config(backend="dask"):
        there = steropes.fit_many(steropes.LogisticRegression(), X, {"a": y})
    here = steropes.fit_many(steropes.LogisticRegression(), X, {"a": y})
    pd.testing.assert_frame_equal(there, here, rtol=1e-8)
