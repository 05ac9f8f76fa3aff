"""The minimiser of quadratic models on a device, by products, against the host's."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from device_use import DeviceUse
from every_family import EVERY, case
from steropes import CrossValidation, Laplace, Normal
from steropes.backends.pytorch.device_array import DeviceArray
from steropes.backends.pytorch.device_symmetric_matrix import TorchMatrix
from steropes.backends.pytorch.host_device_transfers import TRANSFERS, upload
from steropes.backends.pytorch.quadratic_minimiser import (
    DenseProducts,
    MinimiserPolicy,
    QuadraticMinimiser,
)
from steropes.backends.thread_pool import ThreadPool
from steropes.solve.optimality.optimality_certificate import violations
from steropes.solve.subproblem import (
    DenseReducedHessian,
    DeviceReducedHessian,
    LowRank,
    QuadraticModel,
)
from steropes.solve.subproblem.fixed_sign_minimum import MIN_PIVOT
from steropes.solve.subproblem.model_minimisation import ModelBatch
from tuning import tune_solver

pytestmark = pytest.mark.both_devices

DEVICE = torch.device(DeviceUse.name_in_torch)


def sent(x):
    return upload(x, DEVICE)


def recorded(monkeypatch, name):
    """The quadratic models of a cross-validation of a family: matrix, models and steps."""
    models, search = [], QuadraticModel._search

    def record(self, m, alone):
        step = search(self, m, alone)
        if self.shared.dense is not None:
            models.append((self.shared, m, step))
        return step

    monkeypatch.setattr(QuadraticModel, "_search", record)
    own = case(name, np.random.default_rng(5), n=150, p=12)
    own.fit(prior=Laplace(), cv=CrossValidation(3, search=[0.02, 0.2], random_state=0))
    monkeypatch.undo()
    return models


def minimise(shared, m, dtype=torch.float32):
    minimiser = QuadraticMinimiser(DenseProducts.of(np.array(shared.G), DEVICE, dtype))
    step = minimiser.minimise(
        shared.diagonal, shared.f, shared.Y, g=m.g, y=m.y, l1=m.l1, l2=m.l2, unit=m.unit,
        tolerance=m.tolerance, U=m.low.U, c=m.low.c,
    )  # fmt: skip
    return step, minimiser.products.count


def on_device(shared):
    """The same matrix in double precision on the device, with the same coordinates eliminated."""
    return DeviceReducedHessian(
        TorchMatrix(sent(np.array(shared.G, np.float64))), shared.free, ThreadPool(1)
    )


def values(shared, m, step):
    """The models' values after a step, (B,)."""
    product = shared.times(step) + m.low.product(step)
    y = m.y + step
    return (m.g * step + 0.5 * step * product + m.l1 * abs(y) + 0.5 * m.l2 * y**2).sum(axis=0)


def violation(shared, m, step):
    h = shared.diagonal[:, None] + m.l2 + m.low.diagonal()
    v = violations(m.slopes(shared, step), m.y + step, m.l1, np.zeros(1)) / m.unit
    return np.where(h > 0, v, 0.0).max(axis=0)


@pytest.mark.sampled
@pytest.mark.parametrize("name", EVERY)
def test_recorded_models_have_the_minima_of_the_host(monkeypatch, name):
    models = recorded(monkeypatch, name)
    assert models
    for shared, m, host in models[:12]:
        step, products = minimise(shared, m)
        # Single precision of G leaves some violation in models that need more.
        assert (violation(shared, m, step) <= np.maximum(m.tolerance, 1e-5)).all()
        gap = values(shared, m, step) - values(shared, m, host)
        start = values(shared, m, np.zeros_like(step))
        scale = np.maximum(start - values(shared, m, host), 0.0) + 1e-9 * abs(start)
        assert (gap <= 0.02 * scale).all()
        assert products <= 200
        own = on_device(shared)
        np.testing.assert_array_equal(own.f, shared.f)
        np.testing.assert_allclose(own.times(step), shared.times(step), atol=2e-5 * scale.max())
        compare_ridge(own, shared, m)


def compare_ridge(own, shared, m):
    """The same models with more ridge and without the ℓ1 penalty have the minimum of the host."""
    ridge = m.l2 + 0.01 * shared.whole.max()
    m = replace(m, l1=np.zeros_like(m.l1), l2=ridge)
    models = [QuadraticModel(x) for x in (own, shared)]
    device, host = (model._solve(m) for model in models)
    np.testing.assert_allclose(device, host, rtol=0, atol=1e-9 * abs(host).max())
    assert "dense" not in own.__dict__  # G has not been transferred


def draw(rng, k, B, free=0):
    """A model with correlated columns; ``free`` columns have no penalty."""
    Z = rng.normal(size=(3 * k, k)) + 0.7 * rng.normal(size=(3 * k, 1))
    shared = DenseReducedHessian(Z.T @ Z, np.arange(k) < free, ThreadPool(1))
    g = 40.0 * rng.normal(size=(k, B))
    l1 = np.where(np.arange(k) < free, 0.0, 60.0)[:, None] * np.ones((k, B))
    m = ModelBatch(
        g=g, y=np.zeros((k, B)), l1=l1, l2=np.ones((k, B)), unit=np.ones((k, B)),
        low=LowRank(rng.normal(size=(1, k, B)), np.ones((1, B))), tolerance=np.full(B, 1e-4),
    )  # fmt: skip
    return Z, shared, m


@pytest.mark.parametrize("free", [0, 2])
def test_minima_satisfy_the_optimality_conditions(rng, free):
    _, shared, m = draw(rng, 50, 4, free)
    step, _ = minimise(shared, m)
    assert (violation(shared, m, step) <= 1.01 * m.tolerance).all()
    assert 0 < (step != 0).sum() < step.size


def test_a_correlated_model_takes_few_products(rng):
    """Steps are shortened by their own products, and their length needs no eigenvalue."""
    _, shared, m = draw(rng, 200, 3)
    m = replace(m, tolerance=np.full(3, 1.0), low=LowRank.none(200, 3))
    step, products = minimise(shared, m)
    assert (violation(shared, m, step) <= 1.01 * m.tolerance).all()
    assert products <= 35, products


@pytest.mark.parametrize("rounds", [1, 2])
def test_every_round_lowers_each_model(rng, rounds):
    _, shared, m = draw(rng, 80, 4, 2)
    found = []
    for n in (rounds, rounds + 1):
        products = DenseProducts.of(np.array(shared.G), DEVICE, torch.float64)
        arrays = {x: getattr(m, x) for x in ("g", "y", "l1", "l2", "unit", "tolerance")}
        step = QuadraticMinimiser(products, MinimiserPolicy(max_rounds=n)).minimise(
            shared.diagonal, shared.f, shared.Y, U=m.low.U, c=m.low.c, **arrays
        )
        found.append(values(shared, m, step))
    assert (found[1] < found[0]).all()


def test_unpenalised_columns_are_solved_however_loose_the_tolerance(rng):
    """Their violation may be the smaller one before they are eliminated."""
    _, shared, m = draw(rng, 30, 3, 2)
    m = replace(m, tolerance=np.full(3, 1e6), low=LowRank.none(30, 3))
    step, products = minimise(shared, m)
    slopes = m.slopes(shared, step)
    assert products == 0
    assert abs(slopes[shared.f]).max() < 1e-12 < abs(m.slopes(shared, 0 * step)[shared.f]).min()
    assert not np.delete(step, shared.f, axis=0).any()


def test_a_kept_factor_serves_the_eliminated_coordinates_that_it_was_made_for(rng):
    _, shared, m = draw(rng, 50, 1)
    m = replace(m, l1=0.0 * m.l1, l2=1.0 + 0.0 * m.l2, low=LowRank.none(50, 1))
    matrix = on_device(shared).matrix
    for count in (0, 2):
        free = np.arange(50) < count
        device = DeviceReducedHessian(matrix, free, ThreadPool(1))
        host = DenseReducedHessian(np.array(shared.G), free, ThreadPool(1))
        steps = [QuadraticModel(x)._solve(m) for x in (device, host)]
        np.testing.assert_allclose(steps[0], steps[1], rtol=0, atol=1e-10 * abs(steps[1]).max())


@pytest.mark.parametrize(("free", "low"), [(0, 0.0), (2, 1.0)])
def test_ridge_models_are_solved_on_the_device(rng, free, low):
    _, shared, m = draw(rng, 50, 1 if not low else 3, free)
    own = on_device(shared)
    ridge = np.where(np.arange(50) < free, 0.0, 1.0)[:, None] * np.ones(m.g.shape)
    m = replace(m, l1=0.0 * m.l1, l2=ridge, low=replace(m.low, c=low * m.low.c))
    models = [QuadraticModel(x) for x in (own, shared)]
    for _ in range(2):  # the second time with the kept factor of a single replicate
        device, host = (model._solve(m) for model in models)
        np.testing.assert_allclose(device, host, rtol=0, atol=1e-10 * abs(host).max())
        m = replace(m, g=-0.5 * m.g)
    before = TRANSFERS.bytes_down
    models[0]._solve(m)
    assert TRANSFERS.bytes_down - before <= 8 * m.g.size + 16
    assert "dense" not in own.__dict__


def test_singular_ridge_models_are_not_solved(rng):
    Z, shared, m = draw(rng, 50, 1)
    Z[:, 1] = Z[:, 0]
    matrix = TorchMatrix(sent(Z.T @ Z))
    arrays = {"g": m.g, "y": m.y, "l2": 0.0 * m.l2, "U": m.low.U[:0], "c": m.low.c[:0]}
    none = shared.f, shared.Y
    assert matrix.solve(*none, **arrays, min_pivot=MIN_PIVOT, keep=True) is None


def test_a_matrix_on_the_device_grows_by_rows(rng):
    Z = rng.normal(size=(40, 12))
    G = Z.T @ Z
    late = np.where(np.arange(12)[:, None] < 5, np.nan, G)  # earlier rows are not computed
    matrix = TorchMatrix(sent(G[:5, :5]))
    grown = matrix.grown(DeviceArray(sent(late)))
    np.testing.assert_array_equal(grown.to_host(), G)
    np.testing.assert_array_equal(grown.rows(np.array([1, 7])), G[[1, 7]])
    np.testing.assert_array_equal(grown.diagonal, np.diag(G))


@pytest.mark.parametrize("free", [0, 2])
def test_steps_on_a_support_solve_its_system(rng, free):
    _, shared, m = draw(rng, 50, 3, free)
    m = replace(m, y=np.where(rng.random(m.y.shape) < 0.3, m.g, 0.0))
    arrays = {x: getattr(m, x) for x in ("g", "y", "l1", "l2", "unit", "tolerance")}
    step = on_device(shared).minimiser.support_step(
        shared.diagonal, shared.f, shared.Y, residual=1e-3, U=m.low.U, c=m.low.c, **arrays
    )
    support = (m.y != 0) | (m.l1 == 0)
    assert not step[~support].any()
    start = m.g + m.l2 * m.y + m.l1 * np.sign(m.y)
    left = start + shared.times(step) + m.low.product(step) + m.l2 * step
    h = shared.diagonal[:, None] + m.l2 + m.low.diagonal()
    size = [np.sqrt((np.where(support, x, 0.0) ** 2 / h).sum(axis=0)) for x in (left, start)]
    assert (size[0] <= 0.1 * size[1]).all()


def test_a_hessian_in_bfloat16_has_the_minimum_of_the_rounded_matrix(rng):
    _, shared, m = draw(rng, 50, 4)
    rounded = torch.from_numpy(shared.G).to(torch.bfloat16).double().numpy()
    step, _ = minimise(shared, m, torch.bfloat16)
    own = DenseReducedHessian(rounded, np.zeros(50, bool), ThreadPool(1))
    assert (violation(own, m, step) <= m.tolerance + 1e-3).all()


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["logistic", "cox"])
@pytest.mark.parametrize("prior", [Laplace(), Normal()])
def test_fits_whose_models_are_minimised_on_the_device_are_those_of_the_cpu(
    monkeypatch, rng, name, prior
):
    tune_solver(monkeypatch, "subproblem", min_device_columns=1)
    used = []
    for method in ("minimise", "solve"):
        whole = getattr(TorchMatrix, method)
        monkeypatch.setattr(
            TorchMatrix, method, lambda *a, w=whole, m=method, **k: used.append(m) or w(*a, **k)
        )
    own = case(name, rng, n=300, p=30)
    cv = CrossValidation(4, search=[0.02, 0.2], random_state=0, tol=1e-8)
    host, device = (own.fit(prior=prior, cv=cv, tol=1e-9, device=d) for d in ("cpu", "torch-cpu"))
    assert ("minimise" if isinstance(prior, Laplace) else "solve") in used
    assert device.variance_ == host.variance_
    np.testing.assert_allclose(device.coef_, host.coef_, rtol=0, atol=1e-8)
    assert device.converged_
