"""Cases for the CUDA backend; `test_cuda.py` runs them with Numba's simulator on."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest
from kernel_cases import check, check_grams, random_case
from numba import config
from scipy import sparse
from strict_arrays import StrictArray, StrictBackend

import steropes
from steropes.backends import cuda
from steropes.backends.cpu import NO_DATA, Lines
from steropes.backends.cuda import CudaBackend
from steropes.backends.cuda import backend as backend_module
from tuning import tune_solver

assert config.ENABLE_CUDASIM, "these cases need NUMBA_ENABLE_CUDASIM=1 before Numba is imported"

N, P = 60, 8


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    monkeypatch.setattr(cuda, "CudaBackend", StrictBackend)


def simulate(family, seed=1):
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [rng.normal(size=N), 3.0 + rng.normal(size=N), rng.random((N, P - 2)) < 0.35]
    ).astype(float)
    X[:, 4] *= rng.uniform(0.5, 2.0, N)
    eta = 0.6 * X[:, 0] - 0.8 * X[:, 2] + 0.5 * X[:, 4]
    data = {"sample_weight": rng.choice([0.5, 1.0, 2.0], N), "offset": 0.2 * rng.normal(size=N)}
    if family == "linear":
        y = eta + rng.normal(size=N)
    elif family == "logistic":
        y = (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int)
    elif family == "poisson":
        y = rng.poisson(np.exp(eta))
        data["exposure"] = rng.uniform(0.5, 2.0, N)
    else:
        time = np.ceil(rng.exponential(np.exp(-eta)) * 5) / 5
        event = rng.random(N) < 0.7
        entry = time * rng.choice([0.0, 0.5], N) if "entry" in family else None
        y = steropes.Surv(time, event, entry)
        if "strata" in family:
            data["strata"] = rng.choice(["b", "a"], N)
    return X, y, data


MODELS = {
    "linear": steropes.LinearRegression,
    "logistic": steropes.LogisticRegression,
    "poisson": steropes.PoissonRegression,
    "cox": steropes.CoxRegression,
    "cox strata": steropes.CoxRegression,
    "cox strata entry": steropes.CoxRegression,
}


def both(family, X=None, **settings):
    """The same model fitted on either device."""
    X0, y, data = simulate(family)
    X = X0 if X is None else X(X0)
    return [
        MODELS[family](device=device, n_jobs=1, **settings).fit(X, y, **data)
        for device in ("cpu", "cuda")
    ]


def assert_same(cpu, gpu):
    np.testing.assert_allclose(gpu.coef_, cpu.coef_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(gpu.log_likelihood_, cpu.log_likelihood_, rtol=1e-10)
    if hasattr(cpu, "intercept_"):
        np.testing.assert_allclose(gpu.intercept_, cpu.intercept_, atol=1e-8)
    assert gpu.converged_
    assert gpu.optimality_ <= gpu.tol


@pytest.mark.parametrize("B", [1, 3])
@pytest.mark.parametrize("valued", [False, True])
@pytest.mark.parametrize("n", [1, 40])
def test_every_kernel_is_its_definition(n, valued, B):
    check(StrictBackend(1), random_case(5, n, 9, 0.4, valued, False), B)


def test_gram_in_parts(monkeypatch):
    """Dense copies of a few lines at a time, and runs of groups that reach over them."""
    monkeypatch.setattr(backend_module, "DENSE", 40)
    check_grams(StrictBackend(1), random_case(6, 40, 9, 0.4, True, False))


@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize("prior", [steropes.Laplace(0.05), steropes.Normal(0.3)], ids=str)
def test_fit_is_the_cpu_s(family, prior):
    cpu, gpu = both(family, sparse.csc_array, prior=prior, tol=1e-9)
    assert_same(cpu, gpu)


@pytest.mark.parametrize("family", ["logistic", "cox strata entry"])
def test_maximum_likelihood_with_standard_errors(family):
    cpu, gpu = both(family, tol=1e-9)
    assert_same(cpu, gpu)
    np.testing.assert_allclose(gpu.summary(), cpu.summary(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("family", MODELS)
def test_profile_likelihoods_and_their_intervals(family):
    """Held columns are arrays of the host, and the likelihood that they go to is the device's."""
    cpu, gpu = both(family, tol=1e-9)
    some = ["x0", "x2"]
    for table in (
        lambda m: m.confint(some, method="profile"),
        lambda m: m.profile(some, points=[-0.2, 0.1]).select_dtypes(float),
    ):
        np.testing.assert_allclose(table(gpu), table(cpu), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_survival_inference(ties):
    cpu, gpu = both("cox strata entry", ties=ties, tol=1e-9)
    for table in (
        lambda m: m.vcov("robust"),
        lambda m: m.baseline_hazard_.select_dtypes(float),
        lambda m: m.test_proportionality().astype(float),
    ):
        np.testing.assert_allclose(table(gpu), table(cpu), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("family", ["exact", "breslow", "poisson"])
def test_matched_sets(family):
    rng = np.random.default_rng(2)
    X, strata = rng.normal(size=(40, 4)), np.repeat(np.arange(10), 4)
    prior = steropes.Laplace(2.0)
    if family == "poisson":
        y = rng.poisson(np.exp(X[:, 0]))
        models = [
            steropes.ConditionalPoissonRegression(prior=prior, device=device)
            for device in ("cpu", "cuda")
        ]
    else:
        y = (np.argsort(np.argsort(-X[:, 0].reshape(10, 4), axis=1), axis=1) < 2).ravel()
        y[::7] = ~y[::7]
        models = [
            steropes.ConditionalLogisticRegression(method=family, prior=prior, device=device)
            for device in ("cpu", "cuda")
        ]
    cpu, gpu = (model.fit(X, y.astype(int), strata=strata) for model in models)
    assert cpu.coef_.any()
    assert_same(cpu, gpu)
    for kind in ("martingale", "score"):
        np.testing.assert_allclose(gpu.residuals(kind), cpu.residuals(kind), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("family", ["logistic", "cox strata"])
def test_descent_on_columns(family, monkeypatch):
    """As working sets too wide for a Gram matrix have it."""
    tune_solver(monkeypatch, "hessian", min_wide_columns=3, max_matrix_columns=3)
    cpu, gpu = both(family, prior=steropes.Laplace(0.05), tol=1e-9)
    assert_same(cpu, gpu)


def test_copies_on_the_device_live_as_long_as_their_originals():
    backend = StrictBackend(1)
    case = random_case(7, 40, 9, 0.4, True, False)
    lines = backend.lines(case.lines)
    assert backend.lines(case.lines.take([1, 2])).indices is lines.indices
    pointers = np.array([0, 3, 40])
    backend.segment_sum(backend.asarray(np.ones((40, 1))), pointers)
    assert backend._sent
    assert backend._cuts
    del case, pointers
    assert not backend._sent
    assert not backend._cuts


def test_pickled_model_predicts_the_same():
    _, gpu = both("cox strata", prior=steropes.Normal(0.3))
    X = np.eye(P)
    before = gpu.predict_survival(X, [1.0, 2.0], strata=["a"] * P)
    again = pickle.loads(pickle.dumps(gpu))
    np.testing.assert_array_equal(again.predict_survival(X, [1.0, 2.0], strata=["a"] * P), before)


def test_jeffreys_prior_of_counts():
    rng = np.random.default_rng(3)
    X, strata = rng.normal(size=(40, 2)), np.repeat(np.arange(10), 4)
    y = rng.poisson(np.exp(X[:, 0]))
    cpu, gpu = (
        steropes.ConditionalPoissonRegression(prior=steropes.Jeffreys(), device=device).fit(
            X, y, strata=strata
        )
        for device in ("cpu", "cuda")
    )
    assert_same(cpu, gpu)


class HostPickler(pickle.Pickler):
    """Refuses what is of the device: it could not be read where there is none."""

    def reducer_override(self, x):
        cls = x if isinstance(x, type) else type(x)
        if issubclass(cls, StrictArray | CudaBackend) or cls.__module__.startswith("cupy"):
            raise AssertionError(f"{cls.__name__} in a pickle")
        return NotImplemented


@pytest.mark.parametrize(
    ("family", "cv"), [*((family, None) for family in MODELS), ("logistic", 2), ("cox strata", 2)]
)
def test_what_is_kept_after_a_fit_is_on_the_host(family, cv):
    X, y, data = simulate(family)
    prior = steropes.Normal(0.3) if cv is None else steropes.Laplace(exclude=["x0"])
    if cv is not None:
        cv = steropes.CrossValidation(cv, search=[0.05], random_state=0, tol=1e-6)
    m = MODELS[family](device="cuda", n_jobs=1, prior=prior, cv=cv).fit(X, y, **data)
    if cv is None:
        m.summary()
    stream = io.BytesIO()
    HostPickler(stream).dump(m)
    again = pickle.loads(stream.getvalue())
    np.testing.assert_array_equal(again.linear_predictor(X), m.linear_predictor(X))


def test_more_places_than_32_bits_count():
    """n × width beyond 2³¹, with few entries: the rows come out sorted all the same."""
    n, width = 70_000, 40_000
    rows = np.array([0, 5, 53_687, 53_688, n - 1])
    numbers = np.array([0, 7, width // 2, width - 2, width - 1])  # one in each row, from late on
    lines = Lines(np.arange(5), np.arange(1, 6), rows[::-1].astype(np.int32), NO_DATA, n)
    position = np.arange(n, dtype=np.int32)
    backend = StrictBackend(1)
    got = backend.to_rows([(lines, numbers)], position, n, width)
    starts, ends, indices = (backend.to_host(x) for x in (got.starts, got.ends, got.indices))
    np.testing.assert_array_equal(np.flatnonzero(ends > starts), rows)
    np.testing.assert_array_equal(indices[starts[rows]], numbers[::-1])


@pytest.mark.parametrize("family", ["cox", "cox strata"])
def test_far_offsets(family):
    """exp(η) overflows unless it is shifted, each stratum by its own."""
    X, y, data = simulate(family)
    prior, near = steropes.Normal(0.3), steropes.CoxRegression
    far = np.where(data["strata"] == "a", 900.0, -900.0) if "strata" in data else np.full(N, 900.0)
    moved = {**data, "offset": data["offset"] + far}
    cpu = near(prior=prior).fit(X, y, **data)
    gpu = near(prior=prior, device="cuda").fit(X, y, **moved)
    assert_same(cpu, gpu)


def test_extremes():
    """More columns than rows, an empty one, rows of weight zero, strata without events."""
    rng = np.random.default_rng(4)
    X = (rng.random((12, 20)) < 0.3).astype(float)
    X[:, 5] = 0.0
    y = steropes.Surv(np.r_[np.arange(1.0, 11.0), 3.0, 3.0], np.r_[np.ones(10), 0, 0])
    given = {"strata": np.r_[np.arange(10) % 2, 2, 2], "sample_weight": np.r_[0, 0, np.ones(10)]}
    cpu, gpu = (
        steropes.CoxRegression(prior=steropes.Laplace(2.0), device=device).fit(
            sparse.csr_array(X), y, **given
        )
        for device in ("cpu", "cuda")
    )
    assert cpu.coef_.any()
    assert_same(cpu, gpu)


def test_mixed_blocks():
    """Indicator, valued, dense and constant columns in one design."""
    from steropes.design import Design, as_design

    def mixed(X):
        return Design([*as_design(sparse.csc_array(X[:, 1:])).blocks, *as_design(X[:, :1]).blocks])

    cpu, gpu = both("logistic", mixed, prior=steropes.Laplace(0.1), tol=1e-9)
    assert_same(cpu, gpu)


@pytest.mark.parametrize("family", ["linear", "logistic", "poisson", "cox strata"])
def test_cross_validation(family):
    cv = steropes.CrossValidation(2, search=[0.01, 0.1], random_state=0, tol=1e-8)
    cpu, gpu = both(family, sparse.csc_array, prior=steropes.Laplace(), cv=cv, tol=1e-9)
    assert gpu.variance_ == cpu.variance_
    np.testing.assert_allclose(gpu.cv_results_, cpu.cv_results_, rtol=1e-7)
    assert_same(cpu, gpu)


def test_same_digits_every_time():
    first, again = (both("cox strata", prior=steropes.Normal(0.3))[1] for _ in range(2))
    np.testing.assert_array_equal(first.coef_, again.coef_)


def test_with_numpy_itself_in_place_of_cupy(monkeypatch):
    monkeypatch.setattr(cuda, "CudaBackend", CudaBackend)
    cpu, gpu = both("cox strata", sparse.csc_array, prior=steropes.Laplace(0.05), tol=1e-9)
    assert_same(cpu, gpu)
