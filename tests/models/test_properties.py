"""Facts that hold for every family, design, weight, stratum and prior: drawn at random."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import reference
from simulators import FAMILIES, mixed_matrix, outcome
from steropes import (
    CoxRegression,
    DataError,
    ElasticNet,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    PoissonRegression,
    Surv,
)

MODELS = {
    "linear": LinearRegression,
    "logistic": LogisticRegression,
    "poisson": PoissonRegression,
    "cox": CoxRegression,
}
TOL = 1e-8


@st.composite
def cases(draw):
    """A data set, a prior and the arguments of a fit."""
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    family = draw(st.sampled_from(FAMILIES))
    n, p = draw(st.integers(8, 60)), draw(st.integers(1, 12))
    X = mixed_matrix(rng, n, p, draw(st.sampled_from([0.05, 0.3, 0.8])))
    # Cox's model is bounded by exp within a stratum; see test_extremes for what lies beyond.
    most = 2 if family == "cox" else 4
    X *= 10.0 ** rng.integers(-3, most, p) if draw(st.booleans()) else 1.0
    X[:, rng.random(p) < 0.1] = 0.0
    y = outcome(family, 0.5 * rng.normal(size=n), rng, ties=draw(st.booleans()))
    case = {"family": family, "X": X, "y": y, "rng": rng}
    w = rng.integers(0, 4, n).astype(float) if draw(st.booleans()) else np.ones(n)
    w[: min(4, n)] = 1.0
    if family == "logistic":
        y[:2] = [0, 1]
    if family == "poisson":
        y[0] = 1.0
    if family == "cox":
        y[1][0] = 1
        case["ties"] = draw(st.sampled_from(["efron", "breslow"]))
        case["strata"] = rng.integers(0, 3, n) if draw(st.booleans()) else None
        case["entry"] = y[0] - rng.exponential(3.0, n) - 1e-3 if draw(st.booleans()) else None
    case["w"] = w
    case["offset"] = rng.normal(size=n) if draw(st.booleans()) else None
    case["exclude"] = [0] if draw(st.booleans()) and p > 1 and X[:, 0].std() > 0 else []
    kind = draw(st.sampled_from(["laplace", "normal", "elastic"]))
    variance = 10.0 ** draw(st.integers(-3, 2))
    per = variance * 10.0 ** rng.uniform(-1, 1, p) if draw(st.booleans()) else variance
    case["prior"] = {
        "laplace": lambda: Laplace(per, exclude=case["exclude"]),
        "normal": lambda: Normal(per, exclude=case["exclude"]),
        "elastic": lambda: ElasticNet(per, 2 * variance, exclude=case["exclude"]),
    }[kind]()
    case["sparse"] = draw(st.booleans())
    return case


def fit(case, rows=slice(None), n_jobs=1, scale=1.0, **given_):
    """Fit the case on some of its rows; None where an excluded column is refused."""
    options = {"prior": case["prior"], "tol": TOL, "n_jobs": n_jobs}
    if case["family"] == "cox":
        options["ties"] = case["ties"]
    X, y = case["X"][rows] * scale, case["y"]
    keep = {k: case[k][rows] for k in ("offset", "strata") if case.get(k) is not None}
    keep["sample_weight"] = case["w"][rows]
    if case["family"] == "cox":
        entry = case["entry"]
        y = Surv(y[0][rows], y[1][rows], None if entry is None else entry[rows])
    else:
        y = y[rows]
    X = sparse.csc_array(X) if case["sparse"] else X
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return MODELS[case["family"]](**options).fit(X, y, **{**keep, **given_})


def try_fit(case, **options):
    """A fit, or None where an unpenalised column is separated or constant: that is refused."""
    try:
        return fit(case, **options)
    except ValueError as error:
        if case["exclude"] or "class" in str(error) or "finite maximum" in str(error):
            return None
        raise


def penalty(case):
    p = case["X"].shape[1]
    part = case["prior"].penalty([f"x{j}" for j in range(p)])
    return part.l1, part.l2


def objective(case, model):
    eta = case["X"] @ model.coef_ + getattr(model, "intercept_", 0.0)
    eta = eta if case["offset"] is None else eta + case["offset"]
    options = {k: case[k] for k in ("ties", "strata", "entry") if k in case}
    l1, l2 = penalty(case)
    loss, r = reference.loss(case["family"], eta, case["y"], case["w"], **options)
    return loss + l1 @ abs(model.coef_) + 0.5 * l2 @ model.coef_**2, r


@settings(max_examples=150, deadline=None)
@given(cases())
def test_the_certificate_holds_when_computed_from_dense_x(case):
    m = try_fit(case)
    if m is None:
        return
    assert m.converged_
    l1, l2 = penalty(case)
    options = {k: case[k] for k in ("ties", "strata", "entry") if k in case}
    violation = reference.certificate(
        case["family"], case["X"], case["y"], m, case["w"], case["offset"], l1, l2, **options
    )
    assert violation <= 20 * TOL  # rounding, and another size for columns without λ


@settings(max_examples=40, deadline=None)
@given(cases())
def test_nothing_near_the_optimum_is_better(case):
    m = try_fit(case)
    if m is None:
        return
    best, _ = objective(case, m)
    size = 1 / np.maximum(np.sqrt((case["X"] ** 2).sum(axis=0)), 1e-300)
    kept = m.coef_.copy()
    for _ in range(20):
        m.coef_ = kept + 1e-3 * size * case["rng"].normal(size=len(kept)) * (size < 1e200)
        assert objective(case, m)[0] >= best - 1e-9 * (1 + abs(best))


@settings(max_examples=40, deadline=None)
@given(cases())
def test_the_order_of_rows_does_not_matter(case):
    a = try_fit(case)
    if a is None:
        return
    by = case["rng"].permutation(len(case["X"]))
    b = fit(case, by)
    size = np.maximum(np.sqrt((case["X"] ** 2).sum(axis=0)), 1e-300)
    np.testing.assert_allclose(a.coef_ * size, b.coef_ * size, atol=1e-5)
    assert a.log_likelihood_ == pytest.approx(b.log_likelihood_, rel=1e-7, abs=1e-7)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_integer_weights_are_repeated_rows(case):
    if case.get("ties") == "efron":  # shares a tied time among rows, as R does
        case["ties"] = "breslow"
    a = try_fit(case)
    if a is None:
        return
    rows = np.repeat(np.arange(len(case["w"])), case["w"].astype(int))
    b = fit(case, rows, sample_weight=None)
    assert a.log_likelihood_ == pytest.approx(b.log_likelihood_, rel=1e-7, abs=1e-7)
    size = np.sqrt((case["X"] ** 2).sum(axis=0))
    np.testing.assert_allclose(a.coef_ * size, b.coef_ * size, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_rows_of_weight_zero_are_absent(case):
    a = try_fit(case)
    if a is None:
        return
    try:
        b = fit(case, np.flatnonzero(case["w"]))
    except DataError as error:
        raise AssertionError("the same rows, refused") from error
    size = np.sqrt((case["X"] ** 2).sum(axis=0))
    np.testing.assert_allclose(a.coef_ * size, b.coef_ * size, atol=1e-5)
    assert a.log_likelihood_ == pytest.approx(b.log_likelihood_, rel=1e-7, abs=1e-7)


@settings(max_examples=30, deadline=None)
@given(cases())
def test_threads_change_no_bit(case):
    a = try_fit(case, n_jobs=1)
    if a is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("steropes.backends.thread_pool.FEW", 0)  # as for large data
        b = fit(case, n_jobs=2)
    assert a.coef_.tobytes() == b.coef_.tobytes()
    assert a.log_likelihood_ == b.log_likelihood_
    assert a.optimality_ == b.optimality_


@settings(max_examples=30, deadline=None)
@given(cases(), st.sampled_from([2.0**-20, 2.0**30]))
def test_coefficients_scale_with_the_unit_of_a_column(case, unit):
    """Without a prior's own unit: variances move along with the columns."""
    prior = case["prior"]
    if isinstance(prior, ElasticNet):
        scaled = ElasticNet(
            np.asarray(prior.laplace_variance) / unit**2,
            np.asarray(prior.normal_variance) / unit**2,
            exclude=prior.exclude,
        )
    else:
        scaled = type(prior)(np.asarray(prior.variance) / unit**2, exclude=prior.exclude)
    a = try_fit(case)
    if a is None:
        return
    b = fit({**case, "prior": scaled}, scale=unit)
    np.testing.assert_allclose(b.coef_ * unit, a.coef_, rtol=1e-9, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(cases())
def test_the_labels_of_the_strata_do_not_matter(case):
    if case["family"] != "cox":
        return
    case["strata"] = np.arange(len(case["w"])) % 3
    a = try_fit(case)
    if a is None:
        return
    b = fit(case, strata=np.array(["west", "east", "zenith"])[case["strata"]])
    c = fit(case, strata=[(None, "b", 3.5)[s] or "none" for s in case["strata"]])
    for other in (b, c):  # The order of strata, and so that of sums, follows their labels.
        np.testing.assert_allclose(other.coef_, a.coef_, rtol=1e-11, atol=1e-13)
