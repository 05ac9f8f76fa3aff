"""Sums over many rows are off by a few roundings, not by as many as there are rows.

Equal numbers are the worst case: the roundings of a plain running sum then all go the same way. The
bounds are in roundings of the sum of absolute values; plain sums of as many numbers miss them by a
factor of ten to ten thousand.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from steropes.backends.cpu import NO_DATA, CpuBackend, Lines
from steropes.backends.reductions_of_tall_arrays import reduce_rows, transposed_product
from steropes.likelihoods import (
    ConditionalPoissonLikelihood,
    CoxLikelihood,
    FineGrayLikelihood,
)
from steropes.likelihoods.cumulative import CumulativeLikelihood, Interval
from steropes.likelihoods.pooled_logistic_likelihood import PooledLogisticLikelihood

N = 300_000
HALF_ULP = 2.0**-53
ALIKE = [0.1, 1 / 3, 0.7]
BLOCKS = 400  # roundings of sums that are made in blocks
COMPENSATED = 20  # and of those whose errors are added up


def roundings(got, x) -> float:
    """Error of a sum over x, in roundings of the sum of |x|."""
    return abs(float(got) - math.fsum(x)) / (math.fsum(np.abs(x)) * HALF_ULP)


@pytest.mark.sampled
@pytest.mark.parametrize("B", [1, 4, 8, 12, 20])
@pytest.mark.parametrize("x", ALIKE)
def test_products_with_a_long_column_keep_their_digits(x, B):
    backend, R = CpuBackend(1), np.full((N, B), x)
    at = np.arange(N, dtype=np.int32)
    column = Lines(np.array([0]), np.array([N]), at, NO_DATA, N)
    rows = Lines(np.arange(N), np.arange(N) + 1, np.zeros(N, np.int32), NO_DATA, 1)
    for got in (
        backend.gather(column, R),
        backend.scatter(rows, R),
        transposed_product(np.ones((N, 1)), R),
    ):
        assert roundings(got[0, -1], R[:, -1]) < BLOCKS


@pytest.mark.sampled
@pytest.mark.parametrize("B", [1, 4, 64])
@pytest.mark.parametrize("x", ALIKE)
def test_sums_of_rows_keep_their_digits(x, B):
    backend, X = CpuBackend(1), np.full((N, B), x)
    for got in (reduce_rows(np.add, X), backend.column_sum(X), backend.sum_rows(_itself, X)[0]):
        assert roundings(got[-1], X[:, -1]) < BLOCKS


def _itself(x):
    return (x,)


@pytest.mark.sampled
@pytest.mark.parametrize("B", [1, 4, 12])
@pytest.mark.parametrize("x", ALIKE)
def test_running_sums_keep_their_digits(x, B):
    backend, X, ends = CpuBackend(1), np.full((N, B), x), np.array([0, 7, N])
    last = X[7:, -1]
    assert roundings(backend.scan(X, ends)[-1, -1], last) < COMPENSATED
    assert roundings(backend.scan(X, ends, True)[7, -1], last) < COMPENSATED
    assert roundings(backend.segment_sum(X, ends)[1, -1], last) < COMPENSATED
    middle = N // 2
    assert roundings(backend.scan(X, ends)[middle, 0], X[7 : middle + 1, 0]) < COMPENSATED


def two_groups(tied_days: int, ties: str):
    """Exact loss and score of Cox's model for one 0/1 column with coefficient b, on whole days.

    Everyone leaves on some day, in the same proportions every day, so that risk sets are counts.
    """
    rng = np.random.default_rng(5)
    x = (rng.random(N) < 0.5).astype(float)
    day = 1.0 + rng.integers(0, tied_days, N)
    event = rng.random(N) < 0.4
    b, loss, score = 0.37, [], []
    r = math.exp(b)
    at_risk = np.zeros(2)
    for g in range(tied_days, 0, -1):
        here = day == g
        at_risk += [np.count_nonzero(here & (x == 0)), np.count_nonzero(here & (x == 1))]
        tied = [np.count_nonzero(here & event & (x == v)) for v in (0, 1)]
        d = sum(tied)
        left = np.arange(d) / d if ties == "efron" else np.zeros(d)
        zero, one = at_risk[0] - left * tied[0], at_risk[1] - left * tied[1]
        loss.extend(np.log(zero + one * r))
        loss.append(-b * tied[1])
        score.extend(one * r / (zero + one * r))
        score.append(-float(tied[1]))
    return x, day, event, b, math.fsum(loss), math.fsum(score)


@pytest.mark.sampled
@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("tied_days", [1, 40])
@pytest.mark.parametrize("entry", [False, True])
@pytest.mark.parametrize("B", [1, 4])
def test_loss_and_score_of_cox_keep_their_digits(tied_days, ties, entry, B):
    x, day, event, b, loss, score = two_groups(tied_days, ties)
    entered = np.zeros(N) if entry else None
    model = CoxLikelihood(day, event, CpuBackend(1), entry=entered, ties=ties)
    column = x[model.order]
    eta = np.repeat((b * column)[:, None], B, axis=1)
    got, r = model.evaluate(eta, model.weigh(np.ones((N, B))))
    assert abs(got[-1] - loss) < COMPENSATED * HALF_ULP * loss
    assert abs(math.fsum(r[:, -1] * column) - score) < COMPENSATED * HALF_ULP * event.sum()


def test_loss_and_score_of_fine_gray_keep_their_digits():
    """Without competing events it is Cox's model by Breslow's method."""
    x, day, event, b, loss, score = two_groups(40, "breslow")
    model = FineGrayLikelihood(day, event.astype(int), CpuBackend(1))
    column = x[model.order]
    got, r = model.evaluate((b * column)[:, None], model.weigh(np.ones((N, 1))))
    assert abs(got[0] - loss) < COMPENSATED * HALF_ULP * loss
    assert abs(math.fsum(r[:, 0] * column) - score) < COMPENSATED * HALF_ULP * event.sum()


def test_one_large_stratum_of_counts_keeps_its_digits():
    y, x = np.zeros(N), np.arange(N) % 2
    y[::3] = 1.0
    model = ConditionalPoissonLikelihood(y, np.zeros(N, int), CpuBackend(1))
    b = 0.37
    got, _ = model.evaluate((b * x)[:, None].astype(float), model.weigh(np.ones((N, 1))))
    n, one = y.sum(), np.count_nonzero(x)
    loss = n * math.log(N - one + one * math.exp(b)) - b * float(y @ x)
    assert abs(got[0] - loss) < COMPENSATED * HALF_ULP * loss


def test_loss_and_baseline_of_a_pooled_model_keep_their_digits():
    last, event = np.full(N, 2), np.arange(N) % 10 == 0
    model = PooledLogisticLikelihood(np.zeros(N, int), last, event, np.zeros((2, 0)), CpuBackend(1))
    h, base = -1.3, np.array([0.2, 0.5])
    eta = np.concatenate([np.full(N, h), base])[:, None]
    got, r = model.evaluate(eta, np.ones((N, 1)))
    person = sum(math.log1p(math.exp(h + a)) for a in base)
    hits = np.count_nonzero(event)
    loss = N * person - hits * (h + base[1])
    assert abs(got[0] - loss) < COMPENSATED * HALF_ULP * N * person
    assert abs(model.loss(eta, np.ones((N, 1)))[0] - loss) < COMPENSATED * HALF_ULP * N * person
    p = [1 / (1 + math.exp(-h - a)) for a in base]
    slope = [N * p[0], N * p[1] - hits]
    np.testing.assert_allclose(r[-2:, 0], slope, rtol=0, atol=BLOCKS * HALF_ULP * N)


def test_loss_and_thresholds_of_a_cumulative_model_keep_their_digits():
    """At the thresholds of the marginal distribution, which are in no closed form off by much."""
    y = (np.arange(N) >= 0.3 * N).astype(float)
    used = np.ones(N, bool)
    model = CumulativeLikelihood(Interval(y, None), "logit", used, CpuBackend(1))
    point = model.begin(np.zeros(N), np.ones(N)).at(np.zeros(N))
    p = 0.3
    loss = -N * (p * math.log(p) + (1 - p) * math.log1p(-p))
    assert abs(point.loss - loss) < COMPENSATED * HALF_ULP * loss
    # The marginal distribution is the optimum: what is left of the decrement is rounding.
    assert point.unsettled < COMPENSATED * HALF_ULP * math.sqrt(N)
