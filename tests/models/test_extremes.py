"""Inputs at the edge end in the right answer or a clear error."""

import numpy as np
import pytest
from scipy import optimize, sparse

import reference
from simulators import FAMILIES, problem
from steropes import (
    CoxRegression,
    DataError,
    FineGrayRegression,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    NotConvergedWarning,
    PoissonRegression,
    SeparationError,
    ShardedDesign,
    Surv,
)

MODELS = {
    "linear": LinearRegression,
    "logistic": LogisticRegression,
    "poisson": PoissonRegression,
    "cox": CoxRegression,
}


def data(family, rng, n=80, p=4):
    X, y = problem(family, rng, n, p)
    if family == "logistic":
        y[:2] = [0, 1]
    return X, Surv(*y) if family == "cox" else y


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [1e-150, 1e150])
@pytest.mark.parametrize("form", [np.asarray, sparse.csc_array])
def test_columns_in_units_of_1e150_fit_like_any_other(family, size, form, rng):
    X, y = data(family, rng)
    a = MODELS[family]().fit(form(X), y)
    b = MODELS[family]().fit(form(X * [size, 1, 1, 1 / size]), y)
    unit = np.array([size, 1, 1, 1 / size])
    np.testing.assert_allclose(b.coef_ * unit, a.coef_, rtol=1e-7, atol=1e-10)
    assert b.log_likelihood_ == pytest.approx(a.log_likelihood_, rel=1e-10)
    np.testing.assert_allclose(b.predict(X * unit), a.predict(X), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_penalised_column_of_1e150_has_a_certified_fit(family, rng):
    X, y = data(family, rng)
    for size in (1e150, 1e-150):
        m = MODELS[family](prior=Laplace(1.0)).fit(X * [size, 1, 1, 1], y)
        assert m.converged_
        assert np.isfinite(m.coef_).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_column_of_one_nonzero_is_fitted(family, rng):
    X, y = data(family, rng)
    X[:, 1] = 0
    X[11, 1] = 1
    m = MODELS[family](prior=Normal(1.0)).fit(sparse.csc_array(X), y)
    assert m.converged_
    dense = MODELS[family](prior=Normal(1.0)).fit(X, y)
    np.testing.assert_allclose(m.coef_, dense.coef_, atol=1e-9)


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("prior", [Laplace(0.5), Normal(0.5)])
def test_more_columns_than_rows(family, prior, rng):
    X, y = data(family, rng, 25, 300)
    m = MODELS[family](prior=prior).fit(X, y)
    assert m.converged_
    raw = (y["time"], y["event"]) if family == "cox" else y
    part = prior.penalty([f"x{j}" for j in range(300)])
    assert reference.certificate(family, X, raw, m, l1=part.l1, l2=part.l2) < 1e-6


@pytest.mark.parametrize("family", FAMILIES)
def test_more_columns_than_rows_without_penalty_are_refused(family, rng):
    X, y = data(family, rng, 10, 30)
    with pytest.raises(SeparationError):
        MODELS[family]().fit(X, y)


@pytest.mark.parametrize("family", ["linear", "poisson", "cox"])
def test_a_single_row(family):
    y = Surv([2.0], [1]) if family == "cox" else [2.0]
    m = MODELS[family](prior=Normal(1.0)).fit([[0.7]], y)
    assert m.coef_[0] == pytest.approx(0, abs=1e-7)  # the intercept, or nothing, explains it
    if family == "linear":
        assert m.intercept_ == pytest.approx(2.0)
    if family == "poisson":
        assert m.intercept_ == pytest.approx(np.log(2.0))


def test_a_single_row_of_one_class_is_refused():
    with pytest.raises(DataError, match="one class"):
        LogisticRegression(prior=Normal()).fit([[1.0]], [1])


@pytest.mark.parametrize("family", FAMILIES)
def test_duplicate_columns_share_the_effect_of_one(family, rng):
    X, y = data(family, rng)
    twice = np.column_stack([X, X[:, 0]])
    ridge = MODELS[family](prior=Normal(1.0)).fit(twice, y)
    assert ridge.converged_
    assert ridge.coef_[0] == pytest.approx(ridge.coef_[4], abs=1e-7)
    one = MODELS[family](prior=Laplace(1.0)).fit(X, y)
    lasso = MODELS[family](prior=Laplace(1.0)).fit(twice, y)
    assert lasso.converged_
    assert lasso.coef_[0] + lasso.coef_[4] == pytest.approx(one.coef_[0], abs=1e-6)
    assert lasso.log_likelihood_ == pytest.approx(one.log_likelihood_, abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_lasso_so_strong_that_nothing_enters(family, rng):
    X, y = data(family, rng)
    m = MODELS[family](prior=Laplace(1e-12)).fit(X, y)
    assert (m.coef_ == 0).all()
    assert m.converged_


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prior_so_weak_that_it_does_nothing(family, rng):
    X, y = data(family, rng)
    free = MODELS[family]().fit(X, y)
    for prior in (Laplace(1e20), Normal(1e20), Normal(np.inf)):
        weak = MODELS[family](prior=prior).fit(X, y)
        np.testing.assert_allclose(weak.coef_, free.coef_, atol=1e-6)


def test_poisson_offsets_that_overflow_exp():
    # exp(800) is infinite; the intercept brings it back
    y = np.array([1.0, 3.0, 2.0, 4.0])
    X = np.array([[0.0], [1.0], [0.0], [1.0]])
    m = PoissonRegression().fit(X, y, offset=np.full(4, 800.0))
    assert m.intercept_ + 800 == pytest.approx(np.log(1.5), abs=1e-7)
    assert m.coef_[0] == pytest.approx(np.log(3.5 / 1.5), abs=1e-7)


def test_logistic_offsets_far_out():
    y = np.array([0, 1, 0, 1, 1, 0])
    X = np.array([[0.0], [1.0], [1.0], [0.0], [1.0], [0.0]])
    a = LogisticRegression().fit(X, y)
    b = LogisticRegression().fit(X, y, offset=np.full(6, 500.0))
    assert b.coef_[0] == pytest.approx(a.coef_[0], abs=1e-6)
    assert b.intercept_ == pytest.approx(a.intercept_ - 500, abs=1e-6)


def test_cox_offsets_of_any_size_cancel(rng):
    X, y = data("cox", rng)
    a = CoxRegression().fit(X, y)
    b = CoxRegression().fit(X, y, offset=np.full(80, 1e4))
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-7)


def test_cox_offsets_further_apart_than_exp_reaches_are_refused():
    time, event = np.arange(1.0, 9.0), np.ones(8, int)
    x = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    offset = np.array([900.0, 0, 0, 0, 0, 0, 0, 0])  # the first to leave dwarfs all others
    with pytest.raises(DataError, match="offsets are further"):
        CoxRegression(prior=Normal(1.0)).fit(x[:, None], Surv(time, event), offset=offset)
    with pytest.raises(DataError, match="offsets are further"):
        PoissonRegression(fit_intercept=False).fit(x[:, None], x, offset=offset)


@pytest.mark.parametrize("rows", [20, 400])  # exactly, and by bins of event times
@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        CoxRegression(),
        CoxRegression(ties="breslow"),
        FineGrayRegression(),
    ],
)
def test_risk_sets_far_below_others_have_their_part(model, blocks, rows, rng):
    """Early events of rows at e^300, late ones of rows at e^-300: as good as two strata."""
    X, late = rng.normal(size=(2 * rows, 2)), np.arange(2 * rows) >= rows
    time = 1.0 + np.arange(2 * rows) // 2 * 2 + (rng.random(2 * rows) < 0.5)
    y = Surv(time, rng.random(2 * rows) < 0.7)
    given = ShardedDesign.from_blocks([X[: rows // 2], X[rows // 2 :]]) if blocks else X
    found = model.fit(given, y, offset=np.where(late, -300.0, 300.0))
    ties = getattr(model, "ties", "breslow")
    apart = CoxRegression(ties=ties).fit(X, y, strata=late)
    assert found.converged_
    assert found.n_iter_ < 20
    np.testing.assert_allclose(found.coef_, apart.coef_, rtol=1e-6)
    np.testing.assert_allclose(found.vcov(), apart.vcov(), rtol=1e-7)
    if blocks or not isinstance(model, CoxRegression):
        return
    np.testing.assert_allclose(found.vcov("robust"), apart.vcov("robust"), rtol=1e-7)
    with pytest.raises(DataError, match="differ by more than e\\^250"):
        found.curves.survival(X)


def test_an_optimum_that_exp_cannot_reach_is_not_called_one():
    """Risk sets e^-700 below the stratum's largest: said in the certificate, not passed over."""
    X = np.zeros((9, 2))
    X[:3, 0] = 10
    X[0, 1], X[6, 1] = -11.2, 983
    y = Surv([0.07, 0.85, 1.82, 0.16, 1.24, 1.59, 2.08, 0.35, 1.0], [1, 0, 1, 0, 1, 0, 1, 1, 1])
    with pytest.warns(NotConvergedWarning):
        m = CoxRegression(prior=Laplace(100.0), max_iter=20).fit(X, y)
    assert not m.converged_


def test_int64_indices_give_the_same_bits_as_int32(rng):
    X, y = data("logistic", rng)
    a = sparse.csc_array(X)
    b = sparse.csc_array(
        (a.data, a.indices.astype(np.int64), a.indptr.astype(np.int64)), shape=a.shape
    )
    fits = [LogisticRegression(prior=Laplace(1.0)).fit(x, y) for x in (a, b)]
    assert fits[0].coef_.tobytes() == fits[1].coef_.tobytes()


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_of_any_size(family, rng):
    """All weights times c and the variance divided by c² (λ times c) change nothing."""
    X, y = data(family, rng)
    a = MODELS[family](prior=Laplace(1.0)).fit(X, y)
    assert (a.coef_ != 0).any()
    for c in (1e-6, 1e8):
        b = MODELS[family](prior=Laplace(1.0 / c**2)).fit(X, y, sample_weight=np.full(80, c))
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-6)


def test_nearly_collinear_columns_reach_the_optimum(rng):
    X, y = data("logistic", rng, 200)
    X = np.column_stack([X, X[:, 2] + 1e-4 * rng.normal(size=200)])
    m = LogisticRegression(prior=Normal(100.0)).fit(X, y)
    assert m.converged_

    def objective(b):
        loss, r = reference.logistic(X @ b[1:] + b[0], y, 1.0)
        return loss + b[1:] @ b[1:] / 200, np.append(r.sum(), X.T @ r + b[1:] / 100)

    best = optimize.minimize(objective, np.zeros(6), jac=True, method="BFGS", tol=1e-10)
    assert objective(np.append(m.intercept_, m.coef_))[0] <= best.fun + 1e-9


@pytest.mark.parametrize("family", FAMILIES)
def test_too_few_steps_are_said_so_and_the_fit_is_kept(family, rng):
    X, y = data(family, rng)
    with pytest.warns(NotConvergedWarning, match="KKT violation"):
        m = MODELS[family](prior=Laplace(1.0), max_iter=1, tol=1e-14).fit(X, y)
    assert not m.converged_
    assert m.optimality_ > 1e-14
    assert m.coef_.shape == (4,)


@pytest.mark.parametrize("size", [1e-150, 1e-12, 1e15, 1e300])
def test_weights_far_from_one_are_refused(size, rng):
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 2, 50)
    with pytest.raises(DataError, match=r"sample_weight is .* on average"):
        LogisticRegression().fit(X, y, sample_weight=np.full(50, size))
    uneven = np.where(np.arange(50) < 25, 1.0, 1e-150)  # a few of no weight to speak of are fine
    m = LogisticRegression().fit(X, y, sample_weight=uneven)
    few = LogisticRegression().fit(X[:25], y[:25])
    np.testing.assert_allclose(m.coef_, few.coef_, atol=1e-6)


@pytest.mark.parametrize("prior", [None, Normal(1.0), Laplace(0.1, exclude=[0, 2])])
@pytest.mark.parametrize("level", [3.0, 1 / 3, -1e9])
def test_an_outcome_that_is_the_same_everywhere_is_fitted(prior, level, rng):
    X = data("linear", rng, n=200)[0]
    y = np.full(200, level) + 1e-16 * level * (np.arange(200) % 3)
    m = LinearRegression(prior=prior).fit(X, y)
    assert m.converged_
    np.testing.assert_allclose(m.predict(X), y, rtol=1e-12)
    offset = rng.normal(size=200)
    m = LinearRegression(prior=prior).fit(X, y + offset, offset=offset)
    assert m.converged_


@pytest.mark.parametrize("missing", [9999999.0, 1e20])
@pytest.mark.parametrize("prior", [None, Normal(1.0)])
def test_outcomes_of_rows_without_weight_are_not_looked_at(missing, prior, rng):
    X, y = data("linear", rng)
    w = np.where(np.arange(80) < 5, 0.0, 1.0)
    right = LinearRegression(prior=prior).fit(X[5:], y[5:])
    m = LinearRegression(prior=prior).fit(X, np.where(w == 0, missing, y), sample_weight=w)
    assert m.converged_
    np.testing.assert_allclose(m.coef_, right.coef_, rtol=1e-9)
    if prior is None:
        a, b = (x.inference.linear_hypothesis(["x1"], test="score") for x in (m, right))
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_the_score_test_of_a_column_beside_one_that_tells_nearly_all(rng):
    X = data("linear", rng, n=200)[0]
    y = 1e5 * X[:, 0] + rng.normal(size=200)
    m = LinearRegression().fit(X, y)
    Z = np.column_stack([np.ones(200), np.delete(X, 1, axis=1)])
    r = y - Z @ np.linalg.lstsq(Z, y)[0]
    x = X[:, 1] - Z @ np.linalg.lstsq(Z, X[:, 1])[0]
    expected = (x @ r) ** 2 / (x @ x) / (r @ r / 200)
    found = m.inference.linear_hypothesis(["x1"], test="score")
    assert found["chisq"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [1e-150, 1e-140, 1e150])
def test_intervals_and_tests_of_a_column_in_units_of_1e150_are_those_of_any_other(
    family, size, rng
):
    X, y = data(family, rng)
    a = MODELS[family]().fit(X, y)
    b = MODELS[family]().fit(X * [size, 1, 1, 1], y)
    for j in ("x0", "x1"):  # held, and beside what is held
        limits = b.confint([j], method="profile") * (size if j == "x0" else 1)
        np.testing.assert_allclose(limits, a.confint([j], method="profile"), rtol=1e-4)
        for test in ("likelihood ratio", "score"):
            ours, theirs = (m.inference.linear_hypothesis([j], test=test)["chisq"] for m in (a, b))
            assert ours == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize(("low", "high"), [(0.0, 300.0), (-300.0, 0.0), (200.0, 500.0)])
def test_a_poisson_fit_starts_where_offsets_that_are_far_apart_let_it(low, high):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), rng.poisson(3, 50) + 1.0
    offset = np.where(np.arange(50) % 2 == 0, low, high)
    m = PoissonRegression().fit(X, y, offset=offset)
    mu = m.predict(X, offset=offset)
    Z = np.column_stack([np.ones(50), X])
    violation = np.abs(Z.T @ (mu - y)) / np.sqrt(mu @ Z**2)
    assert m.converged_
    assert m.n_iter_ < 20
    assert violation.max() < 1e-7


@pytest.mark.parametrize("X", [np.eye(4)[:, 1:], np.arange(4.0)[:, None] ** [1, 2, 3]])
def test_offsets_too_far_apart_are_named_and_not_the_columns_of_x(X):
    offset = np.array([0.0, 300.0, 0.0, 300.0])
    with pytest.raises(
        SeparationError, match=r"offsets are so far apart \(0 in row 0, 300 in"
    ) as e:
        PoissonRegression().fit(X, [3, 2, 4, 5], offset=offset)
    assert e.value.columns
    with pytest.raises(SeparationError, match="Collinear"):
        PoissonRegression().fit(np.column_stack([X[:, 0], X[:, 0]]), [3, 2, 4, 5], offset=offset)
