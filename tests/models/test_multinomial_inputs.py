"""Offsets, fixed and initial coefficients and limits of multinomial models."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import minimize

from simulators import mixed_matrix
from steropes import (
    BrokenAdaptiveRidge,
    CrossValidation,
    DataError,
    ElasticNet,
    Laplace,
    LogisticRegression,
    MultinomialLogisticRegression,
    Normal,
    SeparationError,
)

N, P = 300, 5
LABELS = np.array(["a", "b", "c"])


@pytest.fixture
def drawn(rng):
    X = mixed_matrix(rng, N, P)
    offset = rng.normal(size=(N, 3))
    eta = X @ rng.normal(size=(P, 3)) * 0.7 + offset
    share = np.exp(eta - eta.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    X[:, 2] += 40.0  # far from zero, so that centring matters
    y = LABELS[(share.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1)]
    return X, y, offset


def loss(coef, intercept, X, y, offset, w=1.0):
    """Minus the log-likelihood."""
    eta = X @ coef.T + intercept + offset
    top = eta.max(axis=1)
    own = eta[np.arange(N), np.searchsorted(LABELS, y)]
    return float(np.sum(w * (np.log(np.exp(eta - top[:, None]).sum(axis=1)) + top - own)))


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array, pd.DataFrame])
@pytest.mark.parametrize("held", [{}, {"b:x0": 0.4, "c:x2": -0.3, "c:x1": 0.0}], ids=["", "fixed"])
def test_estimates_maximise_the_likelihood_with_offsets_and_fixed_values(storage, held, drawn, rng):
    X, y, offset = drawn
    w = rng.integers(0, 3, N) + 0.5
    given = pd.DataFrame(X, columns=[f"x{j}" for j in range(P)]) if storage is pd.DataFrame else X
    m = MultinomialLogisticRegression(tol=1e-10)
    m.fit(given if storage is pd.DataFrame else storage(X), y, sample_weight=w, offset=offset,
          fixed=held or None)  # fmt: skip
    mean = X.mean(axis=0)
    free = np.array([[f"{c}:x{j}" not in held for j in range(P)] for c in "bc"])
    start = np.array([[held.get(f"{c}:x{j}", 0.0) for j in range(P)] for c in "bc"])

    def of(theta):
        coef = start.copy()
        coef[free] = theta[2:]
        return np.vstack([np.zeros(P), coef]), np.append(0.0, theta[:2])

    best = minimize(
        lambda theta: loss(*of(theta), X - mean, y, offset, w), np.zeros(2 + free.sum()), tol=1e-9
    )
    coef, intercept = of(best.x)
    np.testing.assert_allclose(m.coef_, coef, atol=2e-4)
    np.testing.assert_allclose(m.intercept_, intercept - coef @ mean, atol=2e-2)
    assert m.log_likelihood_ == pytest.approx(-best.fun, rel=1e-9)
    for name, value in held.items():
        assert m.coef_["abc".index(name[0]), int(name[-1])] == value
        assert name not in m.summary().index
    P_hat = m.predict_proba(X if storage is not pd.DataFrame else given, offset)
    R = w[:, None] * (P_hat - (y[:, None] == LABELS))
    np.testing.assert_allclose(R.sum(axis=0), 0.0, atol=1e-6)
    gradient = R.T @ X
    np.testing.assert_allclose(gradient[1:][free], 0.0, atol=2e-5)
    names = list(m.summary().index)
    again = pickle.loads(pickle.dumps(m))
    np.testing.assert_array_equal(again.coef_, m.coef_)
    assert list(again.summary().index) == names


@pytest.mark.parametrize("prior", [None, Laplace(0.3), Normal(0.5), BrokenAdaptiveRidge()], ids=str)
def test_two_classes_with_an_offset_are_logistic_regression(prior, drawn):
    X, y, offset = drawn
    two = np.where(y == "a", "a", "b")
    a = MultinomialLogisticRegression(reference="a", prior=prior, tol=1e-10)
    b = LogisticRegression(prior=prior, tol=1e-10)
    a.fit(X, two, offset=offset[:, :2], fixed={"b:x0": 0.5})
    b.fit(X, two, offset=offset[:, 1] - offset[:, 0], fixed={"x0": 0.5})
    np.testing.assert_allclose(a.coef_[1], b.coef_, atol=1e-8)
    assert a.log_likelihood_ == pytest.approx(b.log_likelihood_)
    np.testing.assert_allclose(
        a.decision_function(X, offset[:, :2]),
        b.decision_function(X, offset[:, 1] - offset[:, 0]),
        atol=1e-7,
    )
    assert a.score(X, two, offset=offset[:, :2]) == b.score(
        X, two, offset=offset[:, 1] - offset[:, 0]
    )
    if prior is None:
        np.testing.assert_allclose(a.vcov(), b.vcov(), rtol=1e-6)
        np.testing.assert_allclose(a.vcov("robust"), b.vcov("robust"), rtol=1e-6)
        assert a.null_log_likelihood_ == pytest.approx(b.null_log_likelihood_)


def test_an_offset_of_a_row_cancels_and_columns_are_found_by_label(drawn):
    X, y, offset = drawn
    m = MultinomialLogisticRegression(tol=1e-10).fit(X, y, offset=offset)
    shifted = MultinomialLogisticRegression(tol=1e-10).fit(X, y, offset=offset + X[:, :1] * 5)
    np.testing.assert_allclose(shifted.coef_, m.coef_, atol=1e-7)
    table = pd.DataFrame(offset, columns=LABELS)[["c", "a", "b"]]
    named = MultinomialLogisticRegression(tol=1e-10).fit(X, y, offset=table)
    np.testing.assert_allclose(named.coef_, m.coef_, atol=1e-9)
    np.testing.assert_array_equal(named.predict_proba(X, table), named.predict_proba(X, offset))
    assert (m.predict(X, offset) != m.predict(X)).any()


def test_a_fixed_coefficient_is_an_offset(drawn):
    X, y, offset = drawn
    fixed = MultinomialLogisticRegression(prior=Normal(0.5), tol=1e-10)
    fixed.fit(
        X,
        y,
        offset=offset,
        fixed={f"{c}:x1": v for c, v in zip("abc", (0.1, 0.2, -0.4), strict=True)},
    )
    rest = MultinomialLogisticRegression(prior=Normal(0.5), tol=1e-10).fit(
        np.delete(X, 1, axis=1), y, offset=offset + X[:, [1]] * [0.1, 0.2, -0.4]
    )
    np.testing.assert_allclose(np.delete(fixed.coef_, 1, axis=1), rest.coef_, atol=1e-8)
    assert fixed.coef_[:, 1].tolist() == [0.1, 0.2, -0.4]


def test_profiles_draws_and_hypotheses_know_fixed_coefficients(drawn):
    X, y, offset = drawn
    m = MultinomialLogisticRegression().fit(X, y, offset=offset, fixed={"b:x0": 0.4})
    low, high = m.confint("c:x1", method="profile").iloc[0]
    assert low < m.coef_[2, 1] < high
    held = MultinomialLogisticRegression().fit(
        X, y, offset=offset, fixed={"b:x0": 0.4, "c:x1": low}
    )
    assert 2 * (m.log_likelihood_ - held.log_likelihood_) == pytest.approx(3.8415, rel=1e-3)
    assert m.inference.bootstrap(3, random_state=0).coef.shape == (3, 2 + 2 * P - 1)
    assert m.inference.linear_hypothesis("b:x1 = c:x1")["df"] == 1
    assert m.inference.term_tests().loc[("x0", "all"), "df"] == 1
    with pytest.raises(DataError, match="'b:x0' is fixed at"):
        m.confint("b:x0")


def test_folds_have_offsets_and_fixed_coefficients(drawn):
    X, y, offset = drawn
    rows = np.arange(N)
    folds = [(rows[rows % 2 != k], rows[rows % 2 == k]) for k in range(2)]
    cv = CrossValidation(folds, search=[0.1], tol=1e-9)
    held = {"a:x0": 0.2}
    m = MultinomialLogisticRegression(prior=Laplace(), cv=cv)
    m.fit(sparse.csc_array(X), y, offset=offset, fixed=held)
    scores = []
    for train, test in folds:
        own = MultinomialLogisticRegression(prior=Laplace(0.1), tol=1e-10)
        own.fit(X[train], y[train], offset=offset[train], fixed=held)
        log_p = own.predict_log_proba(X[test], offset[test])
        scores.append(log_p[np.arange(len(test)), np.searchsorted(LABELS, y[test])].sum())
    assert m.cv_results_["mean"].iloc[0] == pytest.approx(np.mean(scores), rel=1e-6)


def test_a_start_shortens_the_fit_and_leaves_its_result(drawn):
    X, y, _ = drawn
    for prior in (None, Normal(0.3)):
        m = MultinomialLogisticRegression(prior=prior, tol=1e-10).fit(X, y)
        moved = m.coef_ + 3.0 if prior is None else m.coef_
        again = MultinomialLogisticRegression(prior=prior, tol=1e-10).fit(X, y, start_at=moved)
        np.testing.assert_allclose(again.coef_, m.coef_, atol=1e-7)
        assert again.n_iter_ < m.n_iter_
    named = MultinomialLogisticRegression().fit(X, y, start_at={"b:x0": 0.3}, fixed={"c:x0": 0.1})
    plain = MultinomialLogisticRegression().fit(X, y, fixed={"c:x0": 0.1})
    np.testing.assert_allclose(named.coef_, plain.coef_, atol=1e-6)


@pytest.mark.parametrize(
    "prior",
    [
        Laplace(0.3, lower=-0.1),
        Normal(0.3, upper=[0.2, 0.1, 0.3, np.inf, 0.0]),
        ElasticNet(1.0, 1.0, lower={"x1": -0.1}, exclude=["x3"]),
    ],
    ids=str,
)
def test_limits_hold_in_each_class_with_a_certificate(prior, drawn):
    X, y, offset = drawn
    for held in (None, {"c:x4": -0.2}):
        m = MultinomialLogisticRegression(prior=prior, tol=1e-9)
        m.fit(X, y, offset=offset, fixed=held)
        assert m.converged_
        R = m.predict_proba(X, offset) - (y[:, None] == LABELS)
        own = prior.separable([f"x{j}" for j in range(P)])
        ends = prior.group_penalty([f"x{j}" for j in range(P)])
        inside = (m.coef_ >= ends.lower) & (m.coef_ <= ends.upper)
        assert np.delete(inside, 14 if held else [], axis=None).all()
        for k in range(3):
            slope = X.T @ R[:, k] + own.l2 * m.coef_[k]
            for j in range(P):
                if held and (k, j) == (2, 4):
                    continue
                if k == 0 and own.l1[j] == own.l2[j] == 0:  # the reference class
                    continue
                b, l1 = m.coef_[k, j], own.l1[j]
                low = slope[j] + (l1 if b > 0 else -l1)  # one-sided derivatives of the objective
                high = slope[j] + (l1 if b >= 0 else -l1)
                assert low <= 1e-5 or b == ends.lower[j]
                assert high >= -1e-5 or b == ends.upper[j]
    two = np.where(y == "a", "a", "b")
    a = MultinomialLogisticRegression(prior=prior, reference="a", tol=1e-10).fit(X, two)
    b = LogisticRegression(prior=prior, tol=1e-10).fit(X, two)
    np.testing.assert_allclose(a.coef_[1], b.coef_, atol=1e-8)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"fixed": {"x0": 0.1}}, "fixed has 'x0', which is no coefficient: a column has one for"),
        ({"fixed": {0: 0.1}}, "fixed has 0, which is no coefficient"),
        (
            {"fixed": {"a:x0": 0.1}},
            "the reference class 'a' are zero; choose another by reference=",
        ),
        ({"fixed": {"b:x0": "1"}}, "which is no number"),
        ({"start_at": [1.0]}, r"start_at must have the shape of coef_, \(3, 5\)"),
        ({"start_at": {"x0": 0.1}}, "start_at has 'x0', which is no coefficient"),
        ({"offset": np.zeros(N)}, r"the shape \(300, 3\), a column for each class"),
        ({"offset": np.full((N, 3), np.nan)}, "offset contains NaN"),
        (
            {"offset": pd.DataFrame(np.zeros((N, 3)), columns=list("abd"))},
            "name them by the classes",
        ),
    ],
)
def test_arguments_of_another_form_are_refused(given, words, drawn):
    X, y, _ = drawn
    with pytest.raises(DataError, match=words):
        MultinomialLogisticRegression().fit(X, y, **given)


def test_a_start_is_refused_with_a_cross_validation(drawn):
    X, y, _ = drawn
    with pytest.raises(DataError, match="leave start_at out"):
        MultinomialLogisticRegression(prior=Laplace(), cv=3).fit(X, y, start_at=np.zeros((3, P)))


def test_the_intercept_absorbs_an_offset_of_a_class_of_any_size(drawn):
    X, y, offset = drawn
    m = MultinomialLogisticRegression().fit(X, y, offset=offset)
    shift = np.array([0.0, 800.0, -500.0])
    far = MultinomialLogisticRegression().fit(X, y, offset=offset + shift)
    assert far.converged_
    np.testing.assert_allclose(far.coef_, m.coef_, atol=1e-6)
    np.testing.assert_allclose(m.intercept_ - far.intercept_, shift, atol=1e-4)
    other = MultinomialLogisticRegression(reference="b").fit(X, y, offset=offset + shift)
    np.testing.assert_allclose(other.coef_ - other.coef_[0], m.coef_, atol=1e-6)


def test_offsets_of_a_class_too_far_apart_are_named_and_not_the_columns_of_x(drawn):
    X, y, offset = drawn
    offset[:, 1] += np.where(np.arange(N) % 2 == 0, 800.0, -800.0)
    with pytest.raises(SeparationError, match=r"offsets are so far apart .*column 1 less column 0"):
        MultinomialLogisticRegression().fit(X, y, offset=offset)
