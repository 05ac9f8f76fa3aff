"""The twins of the Triton kernels against the CPU backend's kernels."""

import numpy as np
import pytest
import torch
from kernel_cases import close, pointers_of, random_case

from steropes.backends import get_backend
from steropes.backends.cpu.likelihoods import conditional_bernoulli
from steropes.backends.pytorch.device_array import DeviceArray
from steropes.backends.pytorch.device_risk_sweeps import DeviceRiskSweeps
from steropes.backends.pytorch.device_segment_sums import Segments, softmax_twin
from steropes.backends.pytorch.kernels import (
    conditional_likelihood_kernels as conditional_recursion,
)
from steropes.backends.pytorch.kernels import gram_matrix_kernels as gram_panels
from steropes.backends.pytorch.kernels import logistic_losses
from steropes.backends.pytorch.kernels import running_sum_kernels as chunked_scans
from steropes.backends.pytorch.kernels import segment_sum_kernels as segment_reductions
from steropes.backends.pytorch.kernels import sparse_product_kernels as gather_products
from steropes.likelihoods import CoxLikelihood

CPU = get_backend("cpu", 1)


def send(x):
    return torch.from_numpy(np.ascontiguousarray(x))


def lines_of(case):
    lines = case.lines
    return [send(x) for x in (lines.starts, lines.ends, lines.indices, lines.data)]


@pytest.mark.parametrize("valued", [False, True])
@pytest.mark.parametrize("B", [1, 12])
def test_gather_equals_a_dense_product(B, valued):
    case = random_case(1, 70, 30, 0.4, valued, False)
    starts, ends, indices, data = lines_of(case)
    D = case.rng.normal(size=(30, B))
    for kind in (torch.int32, torch.uint16):
        found = gather_products.gather_twin(starts, ends, indices.to(kind), data, send(D))
        close(found.numpy(), case.dense @ D)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [1, 50, 700])
def test_scan_equals_the_scan_of_the_cpu(rng, n, reverse):
    pointers = pointers_of(rng, n)
    x = rng.normal(size=(n, 3))
    layout = chunked_scans.ScanLayout(send(pointers), n, reverse)
    close(chunked_scans.scan(send(x), layout).numpy(), CPU.scan(x, pointers, reverse))


def test_a_segment_of_a_scan_has_the_digits_that_it_has_alone(rng):
    x = rng.normal(size=(300, 2))
    x[:100] *= 1e12
    layout = chunked_scans.ScanLayout(torch.tensor([0, 100, 300]), 300)
    alone = chunked_scans.scan(send(x[100:]), chunked_scans.ScanLayout(torch.tensor([0, 200]), 200))
    assert torch.equal(chunked_scans.scan(send(x), layout)[100:], alone)


def test_segment_reductions_equal_those_of_the_cpu(rng):
    n, pointers = 900, np.array([0, 0, 5, 700, 700, 900])
    x, w = rng.normal(size=(n, 4)), (rng.random((n, 4)) < 0.5).astype(float)
    scale = rng.random((5, 4)) * (rng.random((5, 4)) < 0.7)
    edges = send(pointers[:-1]), send(pointers[1:])
    close(segment_reductions.reduce_twin(send(x), *edges).numpy(), CPU.segment_sum(x, pointers))
    largest = segment_reductions.reduce_twin(send(x), *edges, True).numpy()
    np.testing.assert_array_equal(largest, CPU.segment_max(x, pointers))
    segments = Segments(pointers, torch.device("cpu"))
    for shares in (True, False):
        found = softmax_twin(send(x), send(w), segments, send(scale), shares)
        for a, b in zip(found, CPU.segment_softmax(x, w, pointers, scale, shares), strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("valued", [False, True])
def test_the_product_of_panels_is_the_gram_matrix(valued):
    case = random_case(2, 70, 30, 0.4, valued, False)
    v = case.rng.random(70)
    exact = (case.dense * v[:, None]).T @ case.dense
    Z, weighted = gram_panels.panel_twin(*lines_of(case), 30, send(v), torch.float64)
    close(gram_panels.product_of_panels(weighted, Z).numpy(), exact)
    Z, weighted = gram_panels.panel_twin(*lines_of(case), 30, send(v), torch.bfloat16)
    rough = gram_panels.product_of_panels(weighted, Z).numpy()
    bound = (np.abs(case.dense) * v[:, None]).T @ np.abs(case.dense)
    limit = 2.0**-8 if not valued else 3 * 2.0**-8  # X itself is rounded as well
    assert (np.abs(rough - exact) <= limit * bound).all()


@pytest.mark.parametrize("B", [1, 3])
def test_conditional_recursion_equals_that_of_the_cpu(monkeypatch, rng, B):
    monkeypatch.setattr(conditional_recursion, "STATES", 500)  # several slabs
    pointers = np.concatenate([[0], np.cumsum(rng.integers(1, 30, 25))])
    n = int(pointers[-1])
    eta, w = 5.0 * rng.normal(size=(n, B)), 2.0 * (rng.random((n, B)) < 0.8)
    case = (rng.random(n) < 0.5).astype(np.int8)
    loss, out = np.empty((25, B)), np.empty((n, B))
    conditional_bernoulli.evaluate(eta, w, case, pointers, loss, out, 0, 25)
    sets = conditional_recursion.MatchedSets(send(case), send(pointers), torch.device("cpu"))
    both = conditional_recursion.conditional(send(eta), send(w), sets)
    for found, wanted in zip(both, (loss, out), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("strata", [False, True])
@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_risk_set_sweeps_equal_those_of_the_cpu(rng, ties, strata):
    n, B = 400, 3
    time, event = rng.integers(1, 40, n).astype(float), rng.random(n) < 0.5
    codes = rng.integers(0, 9, n) if strata else None
    likelihood = CoxLikelihood(time, event, CPU, None, codes, ties)
    w = (rng.random((n, B)) < 0.9).astype(float)
    bound, eta = likelihood.weigh(w), rng.normal(size=(n, B))
    risk = likelihood.risk
    place, shares = (
        (risk.place, risk.event_start) if likelihood.by_event else (risk.place_own, None)
    )
    sweeps = DeviceRiskSweeps(
        n, risk.strata_start, risk.groups_start, risk.tied_start, risk.tied_end, place, shares,
        torch.device("cpu"),
    )  # fmt: skip
    arrays = [None if x is None else DeviceArray(send(x)) for x in (bound.share, bound.fraction)]
    weights = DeviceArray(send(w))
    found = sweeps.evaluate(DeviceArray(send(eta)), weights, *arrays)
    for a, b in zip(found, likelihood.evaluate(eta, bound), strict=True):
        close(a.tensor.numpy(), b)
    assert sweeps.evaluate(DeviceArray(send(eta + 600.0)), weights, *arrays) is None


@pytest.mark.parametrize("columns", [1, 2])
def test_logistic_losses_equal_those_of_the_cpu(rng, columns):
    eta = 30.0 * rng.normal(size=(50, 2))
    w, y = rng.random((50, 2)), rng.integers(0, 2, (50, columns)).astype(float)
    found = logistic_losses.logistic_losses(send(eta), send(w), send(y))
    for a, b in zip(found, CPU.logistic(eta, w, np.repeat(y, 2 // columns, 1)), strict=True):
        close(a.numpy(), b)
