"""Multinomial logistic regression: statsmodels, scikit-learn, certificates, and refusals."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse, stats
from sklearn import __version__ as sklearn_version
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression as TheirLogistic
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.fixes import parse_version

from reference import kkt
from simulators import mixed_matrix
from steropes import (
    BrokenAdaptiveRidge,
    CrossValidation,
    DataError,
    ElasticNet,
    GroupLaplace,
    InformationCriterion,
    Jeffreys,
    Laplace,
    LogisticRegression,
    MultinomialLogisticRegression,
    Normal,
    SeparationError,
    ShardedDesign,
    coefficient_path,
    fit_many,
)

N = 300
LABELS = np.array(["a", "b", "c"])


def classes(X, rng, K=3):
    B = np.zeros((K, X.shape[1]))
    B[:, :3] = 0.8 * rng.normal(size=(K, 3))
    P = np.exp(X @ B.T - (X @ B.T).mean(axis=0))
    P /= P.sum(axis=1, keepdims=True)
    return (P.cumsum(axis=1) < rng.random((len(X), 1))).sum(axis=1)


@pytest.fixture
def drawn(rng):
    X = mixed_matrix(rng, N, 6)
    X[:, 2] += 40.0  # far from zero, so that centring matters
    return X, LABELS[classes(X - X.mean(axis=0), rng)]


def residuals(m, X, y):
    """Derivatives of the loss in the linear predictors, (n, K)."""
    return m.predict_proba(X) - (np.asarray(y)[:, None] == m.classes_)


# -- the likelihood and the design -----------------------------------------------------------------


# -- agreement -------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array, sparse.csr_matrix, pd.DataFrame])
def test_without_a_prior_estimates_and_errors_are_those_of_statsmodels(storage, drawn):
    X, y = drawn
    m = MultinomialLogisticRegression().fit(storage(X), y)
    Z = sm.add_constant(X)
    Z[:, 3] -= 40.0  # statsmodels does not converge otherwise
    theirs = sm.MNLogit(np.searchsorted(LABELS, y), Z)
    theirs = theirs.fit(method="newton", tol=1e-12, maxiter=100, disp=0)
    np.testing.assert_allclose(m.coef_[1:].T, theirs.params[1:], atol=1e-7)
    own = m.intercept_[1:] + 40.0 * m.coef_[1:, 2]
    np.testing.assert_allclose(own, theirs.params[0], atol=1e-6)
    assert not m.coef_[0].any()
    assert m.intercept_[0] == 0.0
    assert m.log_likelihood_ == pytest.approx(theirs.llf, rel=1e-12)
    assert m.null_log_likelihood_ == pytest.approx(theirs.llnull, rel=1e-8)
    assert m.aic_ == pytest.approx(theirs.aic, rel=1e-10)
    se = m.summary()["se"].to_numpy()
    away = m.vcov().to_numpy()
    error = away[0, 0] + 80.0 * away[0, 4] + 1600.0 * away[4, 4]
    assert np.sqrt(error) == pytest.approx(theirs.bse[0, 0], rel=1e-4)
    np.testing.assert_allclose(se[2:].reshape(2, 6), theirs.bse[1:].T, rtol=1e-5)
    names = m.summary().index
    assert list(names[:3]) == ["b:intercept", "c:intercept", f"b:{m._names[0]}"]
    np.testing.assert_allclose(m.predict_proba(storage(X)), theirs.predict(), atol=1e-8)
    assert m.inference.model_tests()["chisq"]["likelihood ratio"] == pytest.approx(
        theirs.llr, rel=1e-6
    )


@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
def test_a_ridge_has_the_coefficients_of_scikit_learn(C, drawn):
    X, y = drawn
    X = X - X.mean(axis=0)
    m = MultinomialLogisticRegression(prior=Normal(C), tol=1e-10).fit(X, y)
    theirs = TheirLogistic(C=C, solver="newton-cg", tol=1e-12, max_iter=10**5).fit(X, y)
    np.testing.assert_allclose(m.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(m.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(m.coef_.sum(axis=0), 0.0, atol=1e-9)


def test_a_lasso_has_the_objective_of_scikit_learn(drawn):
    X, y = drawn
    X = X - X.mean(axis=0)
    C = 0.2
    m = MultinomialLogisticRegression(prior=Laplace(2 * C**2)).fit(X, y)
    lasso = (
        {"l1_ratio": 1.0}
        if parse_version(sklearn_version) >= parse_version("1.8")
        else {"penalty": "l1"}
    )
    theirs = TheirLogistic(C=C, solver="saga", tol=1e-9, max_iter=10**5, **lasso).fit(X, y)

    def objective(model):
        P = model.predict_proba(X)[np.arange(N), np.searchsorted(LABELS, y)]
        return -np.log(P).sum() + abs(model.coef_).sum() / C

    assert objective(m) <= objective(theirs) + 1e-9
    assert objective(m) == pytest.approx(objective(theirs), rel=1e-6)
    np.testing.assert_allclose(m.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("prior", [None, Laplace(0.3), Normal(0.5), ElasticNet(0.5, 0.5)], ids=str)
def test_two_classes_relative_to_the_first_are_logistic_regression(prior, drawn):
    X, y = drawn
    two = np.where(y == "a", "a", "b")
    a = MultinomialLogisticRegression(reference="a", prior=prior, tol=1e-10).fit(X, two)
    b = LogisticRegression(prior=prior, tol=1e-10).fit(X, two)
    np.testing.assert_allclose(a.coef_[1], b.coef_, atol=1e-8)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=1e-7)
    assert a.log_likelihood_ == pytest.approx(b.log_likelihood_)
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    assert a.score(X, two) == b.score(X, two)
    if prior is None:
        np.testing.assert_allclose(a.vcov(), b.vcov(), rtol=1e-6)
        np.testing.assert_allclose(a.vcov("robust"), b.vcov("robust"), rtol=1e-6)


def test_a_symmetric_ridge_of_two_classes_is_logistic_with_twice_the_variance(drawn):
    X, y = drawn
    two = np.where(y == "a", "a", "b")
    a = MultinomialLogisticRegression(prior=Normal(0.5), tol=1e-10).fit(X, two)
    b = LogisticRegression(prior=Normal(1.0), tol=1e-10).fit(X, two)
    np.testing.assert_allclose(a.coef_[1] - a.coef_[0], b.coef_, atol=1e-8)


# -- properties ------------------------------------------------------------------------------------


@pytest.mark.parametrize("reference", [None, "b"])
@pytest.mark.parametrize(
    "prior",
    [Laplace(0.05), Normal(0.1), ElasticNet(0.1, 0.5), Laplace(0.1, exclude=["x1"])],
    ids=str,
)
def test_the_certificate_holds_on_dense_x(prior, reference, drawn):
    X, y = drawn
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)])
    m = MultinomialLogisticRegression(prior=prior, reference=reference, tol=1e-9).fit(table, y)
    R = residuals(m, table, y)
    own = prior.separable(list(table))
    for k in range(3):
        violation = kkt(X.T @ R[:, k], m.coef_[k], own.l1, own.l2)
        if k == (1 if reference else 0):  # the reference of unpenalised coefficients
            free = (own.l1 == 0) & (own.l2 == 0) if reference is None else np.ones(6, bool)
            assert not m.coef_[k, free].any()
            violation = violation[~free]
        assert violation.max(initial=0.0) < 1e-5
    assert abs(R.sum(axis=0)).max() < 1e-6
    assert m.converged_


@pytest.mark.parametrize("prior", [None, Laplace(0.2), Normal(0.5)], ids=str)
def test_weights_are_repeated_rows_and_order_does_not_matter(prior, drawn, rng):
    X, y = drawn
    w = rng.integers(0, 3, N)
    rows = rng.permutation(np.repeat(np.arange(N), w))
    a = MultinomialLogisticRegression(prior=prior, tol=1e-10).fit(X, y, sample_weight=w)
    b = MultinomialLogisticRegression(prior=prior, tol=1e-10).fit(X[rows], y[rows])
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-7)
    assert a.log_likelihood_ == pytest.approx(b.log_likelihood_)
    assert a.score(X, y, w) == pytest.approx(b.score(X[rows], y[rows]))


def test_optima_of_a_symmetric_lasso_with_four_classes_have_the_same_probabilities(rng):
    X = mixed_matrix(rng, N, 8)
    y = classes(X, rng, K=4)
    a = MultinomialLogisticRegression(prior=Laplace(0.2), tol=1e-10).fit(X, y)
    rows = rng.permutation(N)
    b = MultinomialLogisticRegression(prior=Laplace(0.2), tol=1e-10).fit(X[rows], (3 - y)[rows])
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X)[:, ::-1], atol=1e-7)
    assert abs(a.coef_).sum() == pytest.approx(abs(b.coef_).sum(), rel=1e-8)


def test_probabilities_do_not_depend_on_the_reference_or_the_labels(drawn):
    X, y = drawn
    a = MultinomialLogisticRegression().fit(X, y)
    b = MultinomialLogisticRegression(reference="c").fit(X, y)
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-7)
    np.testing.assert_allclose(b.coef_, a.coef_ - a.coef_[2], atol=1e-6)
    renamed = np.where(y == "a", "z", y)
    c = MultinomialLogisticRegression(prior=Laplace(0.2), tol=1e-10).fit(X, renamed)
    d = MultinomialLogisticRegression(prior=Laplace(0.2), tol=1e-10).fit(X, y)
    np.testing.assert_allclose(c.coef_, d.coef_[[1, 2, 0]], atol=1e-7)


def test_held_out_scores_are_log_probabilities_of_other_fits(drawn):
    X, y = drawn
    rows = np.arange(N)
    folds = [(rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)]
    cv = CrossValidation(folds, search=[0.1], tol=1e-9)
    m = MultinomialLogisticRegression(prior=Laplace(), cv=cv).fit(sparse.csc_array(X), y)
    scores = []
    for train, test in folds:
        own = MultinomialLogisticRegression(prior=Laplace(0.1), tol=1e-10).fit(X[train], y[train])
        log_p = own.predict_log_proba(X[test])
        scores.append(log_p[np.arange(len(test)), np.searchsorted(LABELS, y[test])].sum())
    assert m.cv_results_["mean"].iloc[0] == pytest.approx(np.mean(scores), rel=1e-6)


def test_choosers_paths_and_draws_work_on_sparse_x(rng):
    X = (rng.random((N, 40)) < 0.2).astype(float)
    y = classes(2 * X, rng, K=5)  # an even number can have several optima
    S = sparse.csc_array(X)
    for cv in (5, InformationCriterion("bic")):
        m = MultinomialLogisticRegression(prior=Laplace(), cv=cv).fit(S, y)
        assert m.converged_
        assert m.variance_ in m.cv_results_["variance"].to_numpy()
    path = coefficient_path(MultinomialLogisticRegression(prior=Laplace()), S, y, [0.05, 0.5])
    own = MultinomialLogisticRegression(prior=Laplace(0.05)).fit(X, y)
    np.testing.assert_allclose(path.loc[0.05].to_numpy(), own.coef_.ravel(), atol=1e-6)
    assert list(path.columns[:2]) == ["0:x0", "0:x1"]
    draws = own.inference.bootstrap(10, random_state=1)
    assert list(draws.confint().index) == own._coefficient_names()


def test_an_adaptive_prior_reaches_its_fixed_point(drawn):
    X, y = drawn
    m = MultinomialLogisticRegression(prior=BrokenAdaptiveRidge()).fit(X, y)
    assert m.converged_
    assert (m.coef_ == 0).any()
    assert (m.coef_ != 0).any()


def test_profiles_and_hypotheses_are_likelihood_ratios(drawn):
    X, y = drawn
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)])
    m = MultinomialLogisticRegression().fit(table, y)
    got = m.inference.linear_hypothesis(["b:x0", "c:x0"], test="likelihood ratio")
    smaller = MultinomialLogisticRegression().fit(table.drop(columns="x0"), y)
    assert got["chisq"] == pytest.approx(2 * (m.log_likelihood_ - smaller.log_likelihood_))
    assert got["df"] == 2
    between = m.inference.linear_combination(
        [[0, 0, *np.eye(12)[0] - np.eye(12)[6]]], method="wald"
    )
    other = MultinomialLogisticRegression(reference="c").fit(table, y).summary()
    np.testing.assert_allclose(
        between[["coef", "se"]].iloc[0], other.loc["b:x0", ["coef", "se"]], rtol=1e-6
    )
    low, high = m.confint("b:x0", method="profile").iloc[0]
    for end in (low, high):
        held = m.inference.linear_hypothesis(["b:x0"], end, test="likelihood ratio")
        assert held["chisq"] == pytest.approx(stats.chi2.ppf(0.95, 1), rel=1e-4)


def test_terms_are_tested_in_all_classes_together(drawn, rng):
    X, y = drawn
    data = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)])
    data["group"] = rng.choice(["u", "v", "w"], N)
    data["y"] = y
    m = MultinomialLogisticRegression.from_formula("y ~ x0 * x2 + group", data)
    table = m.inference.term_tests("likelihood ratio")
    smaller = MultinomialLogisticRegression.from_formula("y ~ x0 * x2", data)
    chisq = 2 * (m.log_likelihood_ - smaller.log_likelihood_)
    assert table.loc[("group", "all"), "chisq"] == pytest.approx(chisq)
    assert table["df"].to_dict() == {
        ("x0", "all"): 4, ("x2", "all"): 4, ("group", "all"): 4, ("TOTAL", "all"): 10
    }  # fmt: skip
    without = MultinomialLogisticRegression.from_formula("y ~ x2 + group", data)
    chisq = 2 * (m.log_likelihood_ - without.log_likelihood_)
    assert table.loc[("x0", "all"), "chisq"] == pytest.approx(chisq)
    inside = MultinomialLogisticRegression().fit(data[["x0", "group"]], y).inference.term_tests()
    assert list(inside.index.get_level_values("term")) == ["x0", "group", "TOTAL"]
    assert inside.loc[("group", "all"), "df"] == 4


def test_robust_errors_are_sums_of_scores_of_rows_and_clusters(drawn, rng):
    X, y = drawn
    m = MultinomialLogisticRegression().fit(X, y)
    R = -residuals(m, X, y)
    Z = sm.add_constant(X)
    U = np.column_stack([R[:, 1:], *(R[:, [k]] * X for k in (1, 2))])
    A = m.vcov().to_numpy()
    np.testing.assert_allclose(m.vcov("robust"), A @ U.T @ U @ A, rtol=1e-4, atol=1e-8)
    group = rng.integers(0, 40, N)
    G = np.stack([U[group == g].sum(axis=0) for g in np.unique(group)])
    np.testing.assert_allclose(
        m.vcov("robust", cluster=group), A @ G.T @ G @ A, rtol=1e-4, atol=1e-8
    )
    assert Z.shape == (N, 7)


def test_tables_formulas_categories_and_copies(drawn, rng):
    X, y = drawn
    data = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)])
    data["group"] = pd.Categorical(rng.choice(["u", "v", "w"], N))
    data["y"] = y
    m = MultinomialLogisticRegression.from_formula("y ~ x0 + x2 + group", data)
    inside = MultinomialLogisticRegression().fit(data[["x0", "x2", "group"]], y)
    np.testing.assert_allclose(m.predict_proba(data), inside.predict_proba(data.drop(columns="y")[
        ["x0", "x2", "group"]
    ]), atol=1e-7)  # fmt: skip
    ordered = pd.Series(pd.Categorical(y, categories=["c", "a", "b"], ordered=True))
    assert list(MultinomialLogisticRegression().fit(X, ordered).classes_) == ["c", "a", "b"]
    for again in (pickle.loads(pickle.dumps(m)), copy.deepcopy(m)):
        np.testing.assert_array_equal(again.predict(data), m.predict(data))
    assert "b:x0" in str(m) or "MultinomialLogisticRegression" in str(m)
    assert m._repr_html_()
    other = clone(MultinomialLogisticRegression(reference="b"))
    assert other.reference == "b"
    table = fit_many(MultinomialLogisticRegression(), X, {"y": y})
    np.testing.assert_allclose(
        table["coef"], MultinomialLogisticRegression().fit(X, y).summary()["coef"]
    )


def test_without_intercepts_columns_are_not_centred(drawn):
    X, y = drawn
    X = X - X.mean(axis=0)
    m = MultinomialLogisticRegression(fit_intercept=False).fit(X, y)
    theirs = sm.MNLogit(np.searchsorted(LABELS, y), X).fit(method="newton", tol=1e-14, disp=0)
    np.testing.assert_allclose(m.coef_[1:].T, theirs.params, atol=1e-7)
    assert not m.intercept_.any()


def test_the_device_has_the_fit_of_the_host(drawn):
    pytest.importorskip("torch")
    X, y = drawn
    for prior in (None, Laplace(0.2)):
        a = MultinomialLogisticRegression(prior=prior, tol=1e-10).fit(X, y)
        b = MultinomialLogisticRegression(prior=prior, tol=1e-10, device="torch-cpu").fit(X, y)
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-8)
        draws = [m.inference.bootstrap(3, random_state=1).coef for m in (a, b)]
        np.testing.assert_allclose(draws[1], draws[0], atol=1e-6)


def test_rare_classes_and_draws_without_them(rng):
    X = rng.normal(size=(200, 3))
    y = rng.integers(0, 2, 200)
    y[:3] = 2
    m = MultinomialLogisticRegression(prior=Laplace(), cv=3).fit(X, y)
    assert m.converged_
    draws = MultinomialLogisticRegression().fit(X, y).inference.bootstrap(20, random_state=0)
    gone = np.isinf(draws.coef[:, 1])
    assert 0 < gone.sum() < 20  # the class is in no row of these draws
    y[1:3] = 0
    with pytest.raises(SeparationError, match=r"training rows of fold .* '2:intercept'"):
        MultinomialLogisticRegression(prior=Laplace(), cv=3).fit(X, y)


# -- refusals --------------------------------------------------------------------------------------


def test_separated_and_collinear_columns_are_named(drawn, rng):
    X, y = drawn
    table = pd.DataFrame({"x": X[:, 0] + rng.normal(size=N), "only": (y == "c") * 1.0})
    with pytest.raises(SeparationError, match="only"):
        MultinomialLogisticRegression().fit(table, y)
    twice = pd.DataFrame({"x": X[:, 2], "again": X[:, 2]})
    with pytest.raises(SeparationError, match="Collinear"):
        MultinomialLogisticRegression().fit(twice, y)
    with pytest.raises(SeparationError, match="constant"):
        MultinomialLogisticRegression().fit(pd.DataFrame({"x": X[:, 2], "zero": 0.0 * X[:, 0]}), y)


def test_what_a_multinomial_model_does_not_have_is_refused(drawn):
    X, y = drawn
    model = MultinomialLogisticRegression
    cases = [
        (model(), {"exposure": np.ones(N)}, "exposure"),
        (model(), {"strata": y}, "strata"),
        (model(solver="ccd"), {}, "newton"),
        (model(reference="d"), {}, "reference must be one of"),
        (model(prior=Jeffreys()), {}, "Jeffreys"),
        (model(prior=GroupLaplace([[0, 1]], 1.0)), {}, "GroupLaplace"),
        (model(), {"sample_weight": (y != "b") * 1.0}, "'b' of y has no rows"),
    ]
    for own, extras, words in cases:
        with pytest.raises(DataError, match=words):
            own.fit(X, y, **extras)
    with pytest.raises(DataError, match="blocks"):
        model().fit(ShardedDesign.from_blocks([X[:100], X[100:]]), y)
    with pytest.raises(DataError, match="one class only"):
        model().fit(X, np.zeros(N, int))
    with pytest.raises(DataError, match="continuous"):
        model().fit(X, X[:, 2])
    m = model().fit(X, y)
    with pytest.raises(DataError, match="linear predictor for each class"):
        m.linear_predictor(X)
    with pytest.raises(DataError, match="several coefficients"):
        m.effects.terms(X)
    with pytest.raises(DataError, match="robust"):
        m.vcov("HC3")
    with pytest.raises(DataError, match="features"):
        m.predict(X[:, :3])
    weights = {"negative": -np.ones(N), "3 entries": np.ones(3), "zero in every": np.zeros(N)}
    for words, weight in weights.items():
        with pytest.raises(DataError, match=words):
            m.score(X, y, sample_weight=weight)
    null = model.from_formula("y ~ 1", pd.DataFrame({"y": y}))
    with pytest.raises(DataError, match="no covariates to test"):
        null.inference.term_tests()


def test_a_changed_setting_does_not_change_the_fit(drawn):
    X, y = drawn
    m = MultinomialLogisticRegression(reference="b").fit(X, y)
    table = m.effects.predictions(X[:2])
    m.set_params(reference="c")
    pd.testing.assert_frame_equal(m.effects.predictions(X[:2]), table)


# The checks compare two fits to seven digits, under a prior of variance two million.
@pytest.mark.sampled
@parametrize_with_checks([MultinomialLogisticRegression(prior=Normal(1.0), tol=1e-10)])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_check(estimator, check):
    check(estimator)
