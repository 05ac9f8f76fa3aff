"""Minima of quadratic models agree with an independent dense solver."""

import numpy as np
import pytest

from steropes.backends.thread_pool import ThreadPool
from steropes.solve.subproblem import DenseReducedHessian, LowRank, QuadraticModel, quadratic_model
from steropes.solve.subproblem import model_minimisation as search_module
from steropes.solve.subproblem.conjugate_gradients import support_steps
from steropes.solve.subproblem.coordinate_sweeps import SingleSweeps
from steropes.solve.subproblem.preconditioners.tiled_cholesky import Cholesky
from steropes.solve.subproblem.subproblem_constants import SubproblemPolicy


def by_descent(H, g, beta, l1, l2, sweeps=20_000):
    """Cyclic coordinate descent on one model, to rounding."""
    d = np.zeros(len(g))
    for _ in range(sweeps):
        largest = 0.0
        for j in range(len(g)):
            h = H[j, j] + l2[j]
            z = h * (beta[j] + d[j]) - (g[j] + H[j] @ d + l2[j] * (beta[j] + d[j]))
            to = np.sign(z) * max(abs(z) - l1[j], 0.0) / h
            largest = max(largest, abs(to - beta[j] - d[j]))
            d[j] = to - beta[j]
        if largest < 1e-14:
            break
    return d


def model(rng, k, B, correlated=0.5):
    Z = rng.normal(size=(4 * k, k)) + correlated * rng.normal(size=(4 * k, 1))
    G = Z.T @ Z
    sigma = rng.uniform(0.8, 1.2, (k, B))
    g = rng.normal(size=(k, B)) * np.sqrt(np.diag(G))[:, None]
    beta = np.where(rng.random((k, B)) < 0.3, rng.normal(size=(k, B)) * 0.1, 0.0)
    l1 = np.full((k, B), 1.5 * np.sqrt(k))
    l2 = np.full((k, B), 0.3)
    return G, sigma, g, beta, l1, l2


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("k", "B", "free"), [(7, 1, 1), (30, 3, 0), (150, 4, 2), (20, 1, 20)])
def test_each_replicate_ends_at_its_own_minimum(k, B, free, dtype, rng):
    G, sigma, g, beta, l1, l2 = model(rng, k, B)
    l1[:free] = l2[:free] = 0.0
    at = np.arange(k) < free
    step = QuadraticModel(DenseReducedHessian(G.astype(dtype), at, ThreadPool(1))).minimize(
        sigma, g, beta, l1, l2, np.ones((k, B)), np.full(B, 1e-9)
    )
    for b in range(B):
        H = sigma[:, b] * G * sigma[:, [b]]
        best = by_descent(H, g[:, b], beta[:, b], l1[:, b], l2[:, b])
        np.testing.assert_allclose(step[:, b], best, atol=1e-9 if dtype == np.float64 else 1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("B", [1, 2, 10, 19, 30])
@pytest.mark.parametrize("free", [0, 2])
def test_changes_of_a_panel_are_propagated_to_all_other_slopes(dtype, B, free, rng):
    k, a, b = 200, 40, 104
    G = model(rng, k, 1)[0].astype(dtype)
    shared = DenseReducedHessian(G, np.isin(np.arange(k), [50, 120][:free]), ThreadPool(2))
    delta = np.where(rng.random((b - a, B)) < 0.3, rng.normal(size=(b - a, B)), 0.0)
    delta[:, 0] = 0.0  # one replicate rests
    delta[:, -1] *= 1e-30
    delta[10:30] = 0.0
    moves = np.zeros((k, B))
    moves[a:b] = delta
    moves[shared.f] = 0.0  # nobody is told of those that are eliminated, nor they of others
    expected = np.where(np.isin(np.arange(k), shared.f)[:, None], 0.0, shared.times(moves))
    expected[a:b] = 0.0
    s = np.zeros((k, B))
    shared.propagate_updates(a, b, delta, s)
    size = np.abs(expected).max(axis=0)
    size[size == 0] = 1.0
    np.testing.assert_allclose(s / size, expected / size, atol=2e-6)
    shared.propagate_updates(a, b, delta, s)  # it is added
    np.testing.assert_allclose(s / size, 2 * expected / size, atol=4e-6)
    assert not s[a:b].any()
    before = s.copy()
    shared.propagate_updates(0, k, np.ones((k, B)), s)  # there is nobody else
    np.testing.assert_array_equal(s, before)


@pytest.mark.parametrize("free", [0, 2])
def test_a_long_single_model_ends_at_the_minimum_of_a_short_one(free, rng, monkeypatch):
    G, sigma, g, beta, l1, l2 = model(rng, 600, 1)  # of two panels
    l1[:free] = l2[:free] = 0.0
    run, swept = SingleSweeps.run, []
    monkeypatch.setattr(SingleSweeps, "run", lambda *given: (swept.append(1), run(*given)))

    def minimum(long):
        swept.clear()
        policy = SubproblemPolicy(min_panel_columns=long)
        shared = DenseReducedHessian(G, np.arange(600) < free, ThreadPool(2), policy)
        step = QuadraticModel(shared).minimize(
            sigma, g, beta, l1, l2, np.ones((600, 1)), np.full(1, 1e-9), None, True
        )
        return step, len(swept)

    short, by_itself = minimum(601)
    long, by_none = minimum(600)
    assert by_itself > 0 == by_none
    np.testing.assert_allclose(long, short, atol=1e-9)


@pytest.mark.parametrize("B", [1, 3])
def test_entries_beyond_the_matrix_are_ignored(B, rng):
    G, sigma, g, beta, l1, l2 = model(rng, 40, B)
    l1[0] = l2[0] = 0.0
    wide = np.full((40, 57), np.nan)
    wide[:, :40] = G
    steps = [
        QuadraticModel(DenseReducedHessian(rows, np.arange(40) < 1, ThreadPool(1))).minimize(
            sigma, g, beta, l1, l2, np.ones((40, B)), np.full(B, 1e-9)
        )
        for rows in (G, wide)
    ]
    np.testing.assert_allclose(steps[1], steps[0], rtol=1e-12)


@pytest.mark.parametrize("good", [True, False])
def test_a_support_step_returns_the_changes_of_all_slopes(good, rng):
    """With the inverse one iteration is enough; without, as many as are allowed."""
    k, B = 30, 3
    G, _, _, _, _, l2 = model(rng, k, B)
    support = rng.random((k, B)) < 0.6
    low = LowRank(rng.normal(size=(2, k, B)), rng.uniform(0.1, 1.0, (2, B)))
    matrices = [
        G + np.diag(l2[:, b]) + np.einsum("m,mi,mj->ij", low.c[:, b], *[low.U[:, :, b]] * 2)
        for b in range(B)
    ]

    def inverse(r, some):
        z = r / np.diag(G)[:, None]
        for i, b in enumerate(some if good else []):
            at = np.flatnonzero(support[:, b])
            z[:, i] = 0.0
            z[at, i] = np.linalg.solve(matrices[b][np.ix_(at, at)], r[at, i])
        return z

    residual, none = rng.normal(size=(k, B)), np.zeros((k, B))
    shared = DenseReducedHessian(G, np.zeros(k, bool), ThreadPool(1))
    p, Hp, iterations = support_steps(
        shared, low, l2, support, residual, none + 1e-9, inverse, np.full(B, 0.2)
    )
    assert not p[~support].any()
    assert iterations == 1 if good else iterations > 1
    for b in range(B):
        np.testing.assert_allclose(Hp[:, b], matrices[b] @ p[:, b], atol=1e-9 * np.abs(Hp).max())
        if good:
            at = support[:, b]
            np.testing.assert_allclose(Hp[at, b], residual[at, b], atol=1e-9)


def test_replicates_whose_step_is_solved_leave_the_others_alone(rng):
    """One replicate needs no step and one is exact at once; the third continues alone."""
    k = 30
    G, _, _, _, _, l2 = model(rng, k, 3)
    shared, support = (
        DenseReducedHessian(G, np.zeros(k, bool), ThreadPool(1)),
        np.ones((k, 3), bool),
    )
    residual = rng.normal(size=(k, 3))
    residual[:, 0] = 0.0
    none, asked = np.zeros((k, 3)), []

    def inverse(r, some):
        asked.append(list(some))
        z = r / np.diag(G)[:, None]
        for i in np.flatnonzero(some == 1):
            z[:, i] = np.linalg.solve(G + np.diag(l2[:, 1]), r[:, i])
        return z

    low = LowRank.none(k, 3)
    share = np.full(3, 0.2)
    p, Hp, iterations = support_steps(shared, low, l2, support, residual, none, inverse, share)
    assert iterations > 2
    assert asked[:2] == [[0, 1, 2], [1, 2]]
    assert asked[-1] == [2]
    assert not p[:, 0].any()
    for b in (1, 2):
        H = G + np.diag(l2[:, b])
        np.testing.assert_allclose(Hp[:, b], H @ p[:, b], atol=1e-9 * np.abs(Hp).max())
    alone, _, _ = support_steps(
        shared, LowRank.none(k, 1), l2[:, 2:], support[:, 2:], residual[:, 2:], none[:, 2:],
        lambda r, some: r / np.diag(G)[:, None], share[2:],
    )  # fmt: skip
    np.testing.assert_allclose(p[:, 2:], alone, rtol=1e-9)


def test_near_the_minimum_one_newton_step_is_solved_through_and_ends_the_search(rng, monkeypatch):
    k, B, done = 60, 3, []
    G, sigma, g, beta, l1, l2 = model(rng, k, B)
    unit, tolerance, free = l1.copy(), np.full(B, 1e-9), np.zeros(k, bool)
    best = beta + QuadraticModel(DenseReducedHessian(G, free, ThreadPool(1))).minimize(
        sigma, g, beta, l1, l2, unit, tolerance
    )
    # From near there, what is zero staying so.
    start = best * (1 + 1e-3 * rng.uniform(0.5, 1.0, (k, B)) / 50)
    D = start - beta
    g = g + sigma * (G @ (sigma * D))
    for name in ("_sweep", "_newton"):
        inner = getattr(search_module.Minimiser, name)

        def noted(self, *given, inner=inner, name=name):
            done.append(name)
            return inner(self, *given)

        monkeypatch.setattr(search_module.Minimiser, name, noted)
    monkeypatch.setattr(search_module.Minimiser, "_exactly_solvable", lambda self, lanes: False)
    step = QuadraticModel(DenseReducedHessian(G, free, ThreadPool(1))).minimize(
        sigma, g, start, l1, l2, unit, np.full(B, 1e-6)
    )
    assert done.count("_newton") == 1
    assert done[-1] == "_newton"
    np.testing.assert_allclose(start + step, best, atol=1e-5)


def test_a_model_with_nothing_but_its_free_columns_to_move_is_solved(rng):
    """All others are held at zero by their penalty: the part that is looked at is those alone."""
    G, sigma, _, _, _, _ = model(rng, 7, 1)
    g, zero = np.full((7, 1), 3.0), np.zeros((7, 1))
    l1 = np.where(np.arange(7) < 1, 0.0, 1e3)[:, None]
    step = QuadraticModel(DenseReducedHessian(G, np.arange(7) < 1, ThreadPool(1))).minimize(
        sigma, g, zero, l1, zero, np.ones((7, 1)), np.array([1e-8])
    )
    assert step[0, 0] == pytest.approx(-3.0 / (sigma[0, 0] ** 2 * G[0, 0]))
    assert not step[1:].any()


def test_low_rank_terms_are_part_of_the_model(rng):
    k, B = 25, 2
    G, sigma, g, beta, l1, l2 = model(rng, k, B)
    U, c = rng.normal(size=(2, k, B)), rng.uniform(1.0, 5.0, (2, B))
    step = QuadraticModel(DenseReducedHessian(G, np.zeros(k, bool), ThreadPool(1))).minimize(
        sigma, g, beta, l1, l2, np.ones((k, B)), np.full(B, 1e-9), LowRank(U, c)
    )
    for b in range(B):
        H = sigma[:, b] * G * sigma[:, [b]] + (U[:, :, b].T * c[:, b]) @ U[:, :, b]
        best = by_descent(H, g[:, b], beta[:, b], l1[:, b], l2[:, b])
        np.testing.assert_allclose(step[:, b], best, atol=1e-9)


def test_a_model_that_few_coordinates_matter_to_is_solved_over_all(rng):
    """Coordinates outside of the first search join it where they violate their conditions."""
    k, B = 120, 3
    G, sigma, g, beta, l1, l2 = model(rng, k, B, correlated=0.5)
    policy = SubproblemPolicy(near_share=5.0)  # no slope includes a coordinate at first
    step = QuadraticModel(
        DenseReducedHessian(G, np.zeros(k, bool), ThreadPool(1), policy)
    ).minimize(sigma, g, 0 * beta, l1, l2, np.ones((k, B)), np.full(B, 1e-8))
    for b in range(B):
        H = sigma[:, b] * G * sigma[:, [b]]
        best = by_descent(H, g[:, b], 0 * beta[:, b], l1[:, b], l2[:, b])
        np.testing.assert_allclose(step[:, b], best, atol=1e-8)


def test_sweeps_alone_and_newton_steps_end_at_one_minimum(monkeypatch, rng):
    G, sigma, g, beta, l1, l2 = model(rng, 80, 3, correlated=0.8)
    arguments = (sigma, g, beta, l1, l2, np.ones((80, 3)), np.full(3, 1e-7))
    both = QuadraticModel(DenseReducedHessian(G, np.zeros(80, bool), ThreadPool(1))).minimize(
        *arguments
    )
    monkeypatch.setattr(search_module.Minimiser, "_newton", lambda self, live, violation: None)
    monkeypatch.setattr(search_module.Minimiser, "_minimise_exactly", lambda self, lanes: None)
    shared = DenseReducedHessian(
        G, np.zeros(80, bool), ThreadPool(1), SubproblemPolicy(max_rounds=20_000)
    )
    sweeps = QuadraticModel(shared).minimize(*arguments)
    np.testing.assert_allclose(both, sweeps, atol=1e-7)


@pytest.mark.parametrize("n", [1, 5, 255, 256, 257, 700])
def test_a_factor_in_tiles_is_a_factor(n, rng):
    A = rng.normal(size=(n, n + 5))
    A = A @ A.T + n * np.eye(n)
    factors = [Cholesky(A.copy(), ThreadPool(jobs)) for jobs in (1, 2, 3)]
    R = rng.normal(size=(n, 3))
    Z = R.copy()
    factors[0].forward(Z)
    factors[0].backward(Z)
    np.testing.assert_allclose(Z, np.linalg.solve(A, R), rtol=1e-9, atol=1e-12)
    bits = {f.L.tobytes() for f in factors}
    assert len(bits) == 1


def test_a_coefficient_without_curvature_goes_to_zero_under_a_penalty():
    # A column whose ones are all held out: only the penalty has a say.
    G = np.array([[31.0, 0.0], [0.0, 0.0]])
    model = QuadraticModel(DenseReducedHessian(G, np.array([True, False]), ThreadPool(1)))
    g, beta, l1 = np.array([[-6.2], [0.0]]), np.array([[1000.0], [-7.5]]), np.array([[0.0], [0.1]])
    zero = np.zeros((2, 1))
    step = model.minimize(np.ones((2, 1)), g, beta, l1, zero, np.ones((2, 1)), np.array([1e-9]))
    np.testing.assert_allclose(step[:, 0], [0.2, 7.5], rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_factor_grows_by_many_rows_as_if_it_had_had_them_from_the_start(dtype, rng):
    n, first, m = 900, 310, 300  # rows behind go in several stripes
    Z = rng.normal(size=(2 * n, n)).astype(dtype)
    A = Z.T @ Z / (2 * n)
    whole = Cholesky(A[:, :m].copy(), ThreadPool(1)).L
    grown = []
    for threads in (1, 2):
        factor = Cholesky(A[:first, :m].copy(), ThreadPool(threads))
        room = A[:, :m].copy()
        room[:first] = factor.L
        factor.append(room, first)
        grown.append(factor.L)
    np.testing.assert_array_equal(grown[0], grown[1])
    np.testing.assert_allclose(
        np.tril(grown[0]), np.tril(whole), atol=1e-12 if dtype == np.float64 else 1e-4
    )


def test_steps_of_one_replicate_share_the_factor_of_a_ridge(rng, monkeypatch):
    k, factored = 12, []
    G, sigma, g, beta, _, l2 = model(rng, k, 1)
    l2, zero = np.abs(l2) + 0.5, np.zeros((k, 1))
    unit, tolerance, inner = np.ones((k, 1)), np.array([1e-10]), quadratic_model.cholesky_factor

    def counted(H):
        factored.append(len(H))
        return inner(H)

    monkeypatch.setattr(quadratic_model, "cholesky_factor", counted)
    ridge = QuadraticModel(DenseReducedHessian(G, np.zeros(k, bool), ThreadPool(1)))
    S = np.diag(sigma[:, 0])
    for count, (slope, own) in enumerate(
        [(g, l2), (2.0 * g, l2), (g + 1.0, l2), (g, 3.0 * l2)], start=1
    ):
        step = ridge.minimize(sigma, slope, beta, zero, own, unit, tolerance)
        H = S @ G @ S + np.diag(own[:, 0])
        np.testing.assert_allclose(step, -np.linalg.solve(H, slope + own * beta), rtol=1e-8)
        assert len(factored) == (1 if count < 4 else 2)
    low = LowRank(rng.normal(size=(1, k, 1)), np.array([[0.7]]))
    step = ridge.minimize(sigma, g, beta, zero, l2, unit, tolerance, low)
    u = low.U[0, :, 0]
    H = S @ G @ S + np.diag(l2[:, 0]) + 0.7 * np.outer(u, u)
    np.testing.assert_allclose(step, -np.linalg.solve(H, g + l2 * beta), rtol=1e-8)
