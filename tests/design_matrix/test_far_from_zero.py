"""Years, dates, laboratory values: columns far from zero are centred whatever the storage."""

import numpy as np
import pytest
from scipy import sparse

from every_family import EVERY, case
from simulators import mixed_matrix
from steropes import LogisticRegression, Normal, PooledLogisticRegression, Surv, as_design
from steropes.design_matrix.column_storage import DenseBlock, SparseBlock

STORAGE = {"array": np.asarray, "csr": sparse.csr_array, "csc": sparse.csc_matrix}


def with_values(rng, n=200, p=5):
    X = mixed_matrix(rng, n, p)
    X[:, 1] = rng.normal(size=n)
    return X


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("storage", "mean"), [("array", 2e4), ("array", 1e7), ("csr", 2e3), ("csc", 1e7)]
)
@pytest.mark.parametrize("name", EVERY)
def test_a_shift_of_a_column_shifts_the_baseline_and_nothing_else(rng, name, mean, storage):
    X = with_values(rng)
    near = case(name, rng, X=X)
    moved = X.copy()
    moved[:, 1] += mean
    a, b = near.fit(), near.fit(STORAGE[storage](moved))
    assert a.converged_
    assert b.converged_
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-9 * mean)
    np.testing.assert_allclose(a.log_likelihood_, b.log_likelihood_, rtol=1e-9)


def test_mostly_full_columns_of_a_sparse_matrix_are_dense_and_the_others_stay_sparse(rng):
    X = (rng.random((300, 40)) < 0.1) * 1.0
    X[:, 7] = 2000 + rng.integers(0, 20, 300)
    X[:, 30] = 140 + rng.normal(size=300)
    X[:20, 30] = 0
    X[:, 35] *= rng.normal(size=300)
    design = as_design(sparse.csc_array(X))
    dense = [b for b in design.blocks if isinstance(b, DenseBlock)]
    assert sum(b.p for b in dense) == 2
    assert sum(b.p for b in design.blocks if isinstance(b, SparseBlock)) == 38


def test_full_columns_among_many_runs_are_centred_all_the_same(rng):
    X = (rng.random((400, 160)) < 0.2) * 1.0
    X[:, ::4] *= rng.normal(size=(400, 40))
    X[:, 3::4] = 2e4 + rng.normal(size=(400, 40))
    y = rng.integers(0, 2, 400)
    a = LogisticRegression(prior=Normal(0.1)).fit(X, y)
    b = LogisticRegression(prior=Normal(0.1)).fit(sparse.csr_array(X), y)
    assert a.converged_
    assert b.converged_
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-8)


def expanded(X, y, width, K, baseline, changes):
    """Rows of person-intervals with explicit, centred columns: what pooled models stand for."""
    rows, out = [], []
    for i in range(len(X)):
        last = int(np.ceil(y["time"][i] / width))
        for k in range(1, last + 1):
            extra = [X[i, j] * f(k) for j, f in changes]
            rows.append([f(k) for f in baseline] + list(X[i]) + extra)
            out.append(y["event"][i] == 1 and k == last)
    return np.array(rows), np.array(out) * 1


@pytest.mark.sampled
@pytest.mark.parametrize("baseline", [0, 1, 2, "interval"])
@pytest.mark.parametrize("changes", [{}, {0: 1}, {0: 2, 1: 1}, {0: np.sqrt}])
@pytest.mark.parametrize("storage", ["array", "csr"])
def test_pooled_models_with_years_agree_with_rows_of_person_intervals(
    rng, baseline, changes, storage
):
    n = 300
    X = np.column_stack([2000 + 5 * rng.normal(size=n), (rng.random(n) < 0.3) * 1.0])
    time = rng.exponential(3, n) + 0.01
    y = Surv(np.minimum(time, 4.0), time < 4.0)
    model = PooledLogisticRegression(
        interval=1.0, baseline=baseline, time_varying=changes or None
    ).fit(STORAGE[storage](X), y)
    assert model.converged_
    B = (
        [lambda k, d=d: float(k) ** d for d in range(1, baseline + 1)]
        if baseline != "interval"
        else [lambda k, j=j: float(k == j) for j in range(2, 5)]
    )
    functions = []
    for j, spec in changes.items():
        powers = range(1, 1 if callable(spec) else spec + 1)
        functions += [(j, spec)] if callable(spec) else []
        functions += [(j, lambda k, d=d: float(k) ** d) for d in powers]
    M, z = expanded(X, y, 1.0, 4, B, functions)
    # An independent Newton's method in orthogonalised columns.
    Q, R = np.linalg.qr(np.column_stack([np.ones(len(M)), M - M.mean(axis=0)]))
    g = np.zeros(Q.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-Q @ g))
        g += np.linalg.solve((Q.T * (p * (1 - p))) @ Q, Q.T @ (z - p))
    p = 1 / (1 + np.exp(-Q @ g))
    loglik = np.log(np.where(z == 1, p, 1 - p)).sum()
    np.testing.assert_allclose(model.log_likelihood_, loglik, rtol=1e-9)
    beta = np.linalg.solve(R, g)[1:]
    np.testing.assert_allclose(model.coef_, beta[len(B) :], rtol=1e-4, atol=1e-6)
    cov = np.linalg.inv(R.T @ ((Q.T * (p * (1 - p))) @ Q) @ R)
    se = np.sqrt(np.diag(cov))[1 + len(B) :]
    summary = model.summary()["se"].to_numpy()[-len(se) :]
    np.testing.assert_allclose(summary, se, rtol=1e-4)
    # The baseline is at X = 0, and predictions use it so.
    hazard = model.predict_hazard(X)
    np.testing.assert_allclose(hazard[0, 0], p[0], rtol=1e-5)
    shifted = PooledLogisticRegression(
        interval=1.0, baseline=baseline, time_varying=changes or None
    ).fit(X - [2000, 0], y)
    in_model = baseline == "interval" or not changes or (baseline == 2 and changes[0] in (1, 2))
    if in_model:  # otherwise a shift of the year is another model
        moved = shifted.predict_hazard(X - [2000, 0])
        np.testing.assert_allclose(moved[:5], hazard[:5], rtol=1e-5)


def test_a_centred_design_passed_in_predicts_as_the_plain_one(rng):
    X = with_values(rng)
    X[:, 1] += 100
    y = rng.integers(0, 2, 200)
    model = LogisticRegression().fit(X, y)
    np.testing.assert_allclose(
        model.predict_proba(as_design(X).centered()), model.predict_proba(X), rtol=1e-9
    )
