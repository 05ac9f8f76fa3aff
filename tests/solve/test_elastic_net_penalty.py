"""The separable penalty of a batch."""

from dataclasses import replace

import numpy as np

from steropes.backends.thread_pool import ThreadPool
from steropes.solve.elastic_net_penalty import ElasticNetPenalty


def penalty_of(rng, p, B):
    return ElasticNetPenalty.of(rng.random(p), rng.random((p, B)), rng.uniform(1, 2, p), B, B)


def test_penalties_within_the_working_set_follow_it(rng):
    penalty = penalty_of(rng, 9, 3)
    for W in (np.array([4, 1]), np.array([4, 2]), np.array([4, 2, 8]), np.array([], int)):
        for _ in range(2):
            l1, l2 = penalty.within(W)
            np.testing.assert_array_equal(l1, penalty.l1[W])
            np.testing.assert_array_equal(l2, penalty.l2[W])
    doubled = replace(penalty, l1=2 * penalty.l1)
    np.testing.assert_array_equal(doubled.within(W)[0], 2 * penalty.l1[W])


def test_the_value_is_that_of_the_formula_whatever_the_threads(rng):
    p, B = 30_000, 12
    penalty, beta = penalty_of(rng, p, B), rng.normal(size=(p, B))
    W = np.arange(p)
    found = [penalty.value(beta, W, pool) for pool in (None, ThreadPool(1), ThreadPool(3))]
    for value in found:
        np.testing.assert_array_equal(value, found[0])
    expected = (penalty.l1 * np.abs(beta) + 0.5 * penalty.l2 * beta**2).sum(axis=0)
    np.testing.assert_allclose(found[0], expected, rtol=1e-12)


def test_a_value_that_overflows_is_infinite():
    """Terms that are finite overflow in their sum; the line search shortens the step."""
    one = np.ones((4, 1))
    penalty = ElasticNetPenalty(one, 1e300 * one, np.zeros(4, bool))
    for beta in (1.2e4, 1e200):
        assert penalty.value(beta * one, np.arange(4)) == np.inf
