"""The solver has the same optima for rows in shards, however they are divided."""

import numpy as np
import pytest
from scipy import sparse

from simulators import indicators
from steropes.backends import get_backend
from steropes.design_matrix import as_design
from steropes.likelihoods import LinearLikelihood, LogisticLikelihood, PoissonLikelihood
from steropes.solve import Batch
from steropes.solve.data_term import LocalShard, LocalShards, LocalTerm, ShardedFamily, ShardedTerm
from steropes.solve.data_term.sharded.shard_messages import At, Request, Span, Value

BACKEND = get_backend("cpu", 1)
FAMILIES = {
    "linear": LinearLikelihood,
    "logistic": LogisticLikelihood,
    "poisson": PoissonLikelihood,
}


def data(name, rng, B, offset):
    X = indicators(rng, 300, 40).toarray()
    X[:, 0] = 1.0
    eta = X[:, 1:4] @ [0.9, -0.7, 0.6]
    y = {
        "linear": eta + rng.normal(size=300),
        "logistic": (rng.random(300) < 1 / (1 + np.exp(-eta))).astype(float),
        "poisson": rng.poisson(np.exp(eta - 0.5)).astype(float),
    }[name]
    w = rng.integers(0, 3, size=(300, B)).astype(float)
    return X, y, w, (rng.normal(size=(300, 1)) if offset else None)


def sharded(name, X, y, w, o, cuts=(0, 90, 205, 300)):
    parts = [slice(a, b) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    shards = [
        LocalShard(as_design(sparse.csc_array(X[s])), FAMILIES[name](y[s], BACKEND)) for s in parts
    ]
    whole = FAMILIES[name](y, BACKEND)
    family = ShardedFamily(False, whole.trust_radius, whole.dispersion, whole.score_of)
    B, ones = w.shape[1], np.ones(X.shape[1])
    together = LocalShards(shards, np.diff(cuts))
    return ShardedTerm(together, family, ones, BACKEND.pool, w, o, B, BACKEND.lanes(B))


def penalty():
    l1, l2 = np.full(40, 2.0), np.full(40, 0.3)
    l1[0] = l2[0] = 0.0
    return l1, l2


@pytest.mark.sampled
@pytest.mark.parametrize(("B", "offset"), [(1, True), (5, False)])
@pytest.mark.parametrize("name", FAMILIES)
def test_shards_end_where_one_machine_does(name, B, offset, rng):
    X, y, w, o = data(name, rng, B, offset)
    local = LocalTerm(as_design(sparse.csc_array(X)), FAMILIES[name](y, BACKEND), w, o, B)
    term = sharded(name, X, y, w, o)
    l1, l2 = penalty()
    ours, theirs = (Batch(t).solve(l1, l2, tol=1e-9) for t in (term, local))
    for a, b in zip(ours, theirs, strict=True):
        assert a.converged
        np.testing.assert_allclose(a.beta, b.beta, atol=1e-8)
        assert a.objective == pytest.approx(b.objective, rel=1e-12)
    whole = np.full(300, 2.0)
    for difference in (False, True):
        np.testing.assert_allclose(
            term.left_out_score(whole, difference), local.left_out_score(whole, difference), 1e-9
        )


def test_a_shard_that_has_forgotten_all_but_its_rows_changes_no_bit(rng):
    X, y, w, o = data("logistic", rng, 1, True)
    l1, l2 = penalty()
    fits = []
    for lost in (False, True):
        term = sharded("logistic", X, y, w, o)
        together = term.shards
        if lost:  # each request finds a shard that knows its weights and nothing else
            plain = together.ask

            def ask(request, together=together, plain=plain):
                for k, shard in enumerate(together.shards):
                    fresh = LocalShard(shard.design, shard.likelihood)
                    fresh._weights = shard._weights
                    together.shards[k] = fresh
                return plain(request)

            together.ask = ask
        fits.append(Batch(term).solve(l1, l2, tol=1e-9)[0])
    np.testing.assert_array_equal(fits[0].beta, fits[1].beta)


def test_a_path_in_shards_is_its_cold_starts(rng):
    X, y, w, o = data("poisson", rng, 2, False)
    l1, l2 = penalty()
    warm = Batch(sharded("poisson", X, y, w, o))
    for times in (4.0, 1.0, 2.0):
        path = warm.solve(times * l1, l2, tol=1e-10)
        cold = Batch(sharded("poisson", X, y, w, o)).solve(times * l1, l2, tol=1e-10)
        for a, b in zip(path, cold, strict=True):
            np.testing.assert_allclose(a.beta, b.beta, atol=1e-8)


def test_a_curvature_is_of_the_columns_that_stay_when_others_leave(rng):
    X, y, w, _ = data("logistic", rng, 5, False)
    w += 1.0
    local = LocalTerm(as_design(sparse.csc_array(X)), FAMILIES["logistic"](y, BACKEND), w, None, 5)
    found = []
    for term in (local, sharded("logistic", X, y, w, None)):
        term.join(np.arange(1, 9))
        beta = np.zeros((40, term.lanes))
        beta[1:7] = 0.3
        term.place(beta)
        curvature = term.curvature(0)
        beta[3:] = 0.0
        term.place(beta)
        # Four columns that are not zero at the point of the curvature are gone.
        term.active.set_columns(term.W[:2])
        found.append((curvature.matrix(), curvature.diagonal(), term.relative(curvature)))
    for here, there in zip(*found, strict=True):
        np.testing.assert_allclose(there, here)
    assert found[0][2].shape == (2, term.lanes)


def test_a_step_is_a_request_of_the_size_of_the_working_set(rng):
    X, y, w, o = data("logistic", rng, 1, False)
    term = sharded("logistic", X, y, w, o)
    term.join(np.array([3, 1]))
    at = At(term.key, term.W, np.zeros((2, 1)))
    for answer in term.shards.ask(Request(at, (Value(),))):
        assert {k: v.shape for k, v in answer.items()} == {
            "loss": (1,), "gradient": (2, 1), "entries": (),
        }  # fmt: skip


def test_the_span_of_a_direction_is_that_of_its_linear_predictors(rng):
    X, y, w, o = data("linear", rng, 1, True)
    term, s = sharded("linear", X, y, w, o), rng.normal(size=(3, 1))
    at = At(term.key, np.array([5, 2, 9]), s)
    answers = term.shards.ask(Request(at, (Span(),), aside=True))
    eta = X[:, [5, 2, 9]] @ s
    assert min(a["low"][0] for a in answers) == pytest.approx(eta.min())
    assert max(a["high"][0] for a in answers) == pytest.approx(eta.max())


def test_unused_replicates_are_released(rng):
    X, y, w, o = data("linear", rng, 1, False)
    term = sharded("linear", X, y, w, o)
    together = term.shards
    assert together.bind(w, None, 1) == term.key
    together.release(term.key)
    assert len(together.shards[0]._weights) == 1
    del term
    assert not together.shards[0]._weights
