"""Residuals, validation and held-out scores of multinomial models."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse
from sklearn.linear_model import LogisticRegression as TheirLogistic
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from simulators import mixed_matrix
from steropes import (
    CrossValidation,
    CumulativeProbabilityModel,
    DataError,
    Laplace,
    LogisticRegression,
    MultinomialLogisticRegression,
    Normal,
    plots,
    validate_by_group,
)
from steropes.design_matrix import null_design
from steropes.infer.multinomial_performance import log_odds_of_class
from steropes.models.families.family import ValidationData
from steropes.models.families.performance_measures import performance

N, P = 300, 4
LABELS = np.array(["a", "b", "c"])


def measured(codes, eta, weight):
    data = ValidationData(
        MultinomialLogisticRegression._family, MultinomialLogisticRegression(), codes
    )
    return performance(data, eta, weight)


@pytest.fixture
def drawn(rng):
    X = mixed_matrix(rng, N, P)
    eta = X @ rng.normal(size=(P, 3))
    share = np.exp(eta - eta.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    return X, LABELS[(share.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1)]


# -- residuals -------------------------------------------------------------------------------------


def test_residuals_are_those_of_the_probabilities(drawn, rng):
    X, y = drawn
    w, offset = rng.integers(1, 3, N), rng.normal(size=(N, 3))
    table = pd.DataFrame(X, rng.permutation(N), columns=[f"x{j}" for j in range(P)])
    m = MultinomialLogisticRegression(tol=1e-10)
    m.fit(table, y, sample_weight=w, offset=offset, fixed={"b:x3": 0.2})
    p = m.predict_proba(table, offset)
    expected = (y[:, None] == LABELS) - p
    response = m.checks.residuals("response")
    np.testing.assert_allclose(response, expected, atol=1e-12)
    assert response.columns.tolist() == LABELS.tolist()
    assert response.index.tolist() == table.index.tolist()
    np.testing.assert_allclose(
        m.checks.residuals("pearson"), expected / np.sqrt(p * (1 - p)), rtol=1e-9
    )
    assert w @ m.checks.residuals() ** 2 == pytest.approx(-2 * m.log_likelihood_)
    score = m.checks.residuals("score")
    np.testing.assert_allclose(score["c:x1"], expected[:, 2] * X[:, 1], atol=1e-10)
    np.testing.assert_allclose(score["b:intercept"], expected[:, 1], atol=1e-10)
    assert "b:x3" not in score
    np.testing.assert_allclose(w @ score, 0.0, atol=1e-5)
    change = m.checks.residuals("dfbeta", ["b:x0"])
    np.testing.assert_allclose(
        change.to_numpy()[:, 0],
        (w[:, None] * score) @ m.vcov().loc[:, "b:x0"],
        rtol=1e-6,
        atol=1e-9,
    )
    np.testing.assert_allclose(
        m.checks.residuals("dfbetas", ["b:x0"]), change / m.summary().loc["b:x0", "se"], rtol=1e-6
    )


def test_the_change_by_a_row_is_near_that_of_a_fit_without_it(drawn):
    X, y = drawn
    m = MultinomialLogisticRegression(tol=1e-10).fit(X, y)
    change = m.checks.residuals("dfbeta")
    i = 7
    without = MultinomialLogisticRegression(tol=1e-10).fit(np.delete(X, i, 0), np.delete(y, i))
    actual = m.summary()["coef"] - without.summary()["coef"]
    np.testing.assert_allclose(change.iloc[i], actual, atol=0.1 * np.abs(actual).max() + 1e-3)


def test_residuals_that_do_not_exist_are_refused(drawn):
    X, y = drawn
    m = MultinomialLogisticRegression(prior=Laplace(0.1)).fit(X, y)
    assert m.checks.residuals("score").shape == (N, 2 + 3 * P)
    with pytest.raises(DataError, match="covariance matrix"):
        m.checks.residuals("dfbeta")
    with pytest.raises(DataError, match="kind must be one of"):
        m.checks.residuals("martingale")
    with pytest.raises(DataError, match="leave params out"):
        m.checks.residuals("response", "b:x0")


# -- measures --------------------------------------------------------------------------------------


def test_measures_are_those_of_scikit_learn(drawn, rng):
    X, y = drawn
    m = MultinomialLogisticRegression(prior=Normal(0.05)).fit(X, y)
    p = m.predict_proba(X)
    codes, w = np.searchsorted(LABELS, y), rng.integers(1, 4, N).astype(float)
    own = measured(codes, np.log(p), w)
    assert own["auc"] == pytest.approx(
        np.mean([roc_auc_score(codes == k, p[:, k], sample_weight=w) for k in range(3)])
    )
    assert own["log_loss"] == pytest.approx(log_loss(y, p, sample_weight=w))
    truth = (y[:, None] == LABELS) * 1.0
    assert own["brier"] == pytest.approx(np.average(((p - truth) ** 2).sum(axis=1), weights=w))
    assert own["slope"] > 1.05  # the ridge shrinks


def test_the_slope_maximises_the_likelihood(drawn):
    _, y = drawn
    rng = np.random.default_rng(1)
    codes = np.searchsorted(LABELS, y)
    eta = rng.normal(size=(N, 3)) + 1.5 * (y[:, None] == LABELS)
    slope = measured(codes, eta, np.ones(N))["slope"]

    def best(s):
        fit = MultinomialLogisticRegression(tol=1e-10).fit(null_design(N), y, offset=s * eta)
        return fit.log_likelihood_

    at = [best(s) for s in (slope - 1e-3, slope, slope + 1e-3)]
    assert at[1] > max(at[0], at[2])


def test_measures_of_two_classes_are_those_of_logistic_regression(drawn):
    X, y = drawn
    two = np.where(y == "a", "a", "b")
    a = MultinomialLogisticRegression(tol=1e-10).fit(X, two).validation.validate(4, random_state=1)
    b = LogisticRegression(tol=1e-10).fit(X, two).validation.validate(4, random_state=1)
    for name in ("auc", "r2", "slope"):
        np.testing.assert_allclose(a.loc[name], b.loc[name], rtol=1e-4)
    measured = a.columns[:-1]
    np.testing.assert_allclose(a.loc["brier", measured], 2 * b.loc["brier", measured], rtol=1e-4)
    c = MultinomialLogisticRegression(tol=1e-10).fit(X, two)
    d = LogisticRegression(tol=1e-10).fit(X, two)
    curves = [
        c.validation.calibration_curve(value="b", n=3, points=5, random_state=2),
        d.validation.calibration_curve(n=3, points=5, random_state=2),
    ]
    np.testing.assert_allclose(*curves, rtol=1e-4, atol=1e-6)


def test_a_perfect_or_constant_predictor_has_no_slope():
    codes = np.arange(30) % 3
    perfect = measured(codes, 5.0 * (codes[:, None] == np.arange(3)), np.ones(30))
    assert perfect["auc"] == 1.0
    assert np.isnan(perfect["slope"])
    constant = measured(codes, np.zeros((30, 3)), np.ones(30))
    assert constant["auc"] == 0.5
    assert np.isnan(constant["slope"])
    lacking = measured(codes % 2, np.zeros((30, 3)), np.ones(30))
    assert np.isnan(lacking["auc"])


def test_the_log_odds_of_a_class_have_no_cancellation():
    eta = np.array([[800.0, 0.0, -5.0], [0.0, 800.0, 1.0]])
    np.testing.assert_allclose(
        log_odds_of_class(eta, 0), [800.0 - np.log(1 + np.exp(-5.0)), -800.0]
    )


def test_groups_are_validated_with_fits_without_them(drawn):
    X, y = drawn
    groups = np.repeat(["u", "v"], N // 2)
    offset = np.column_stack([np.zeros(N), X[:, 0], -X[:, 1]])
    model = MultinomialLogisticRegression(class_weight={"b": 2.0}, prior=Normal(1.0))
    table = validate_by_group(model, X, y, groups, offset=offset)
    here = groups == "v"
    fit = model.fit(X[~here], y[~here], offset=offset[~here])
    p, w = fit.predict_proba(X[here], offset[here]), np.where(y[here] == "b", 2.0, 1.0)
    assert table.loc["v", "log_loss"] == pytest.approx(log_loss(y[here], p, sample_weight=w))
    assert table["n"].tolist() == [N / 2, N / 2]
    with pytest.raises(DataError, match="is in the group u only"):
        validate_by_group(model, X, y, np.where(y == "a", "u", "v"))


def test_a_calibration_curve_needs_a_class(drawn):
    X, y = drawn
    m = MultinomialLogisticRegression().fit(X, y)
    curve = m.validation.calibration_curve(value="c", n=2, points=5, random_state=0)
    p = m.predict_proba(X)[:, 2]
    np.testing.assert_allclose(
        curve["predicted"].iloc[[0, -1]], np.quantile(p, [0.05, 0.95]), atol=0.02
    )
    with pytest.raises(DataError, match="value is required"):
        m.validation.calibration_curve()
    with pytest.raises(DataError, match="one of the classes 'a', 'b', 'c', not 'd'"):
        m.validation.calibration_curve(value="d")


def test_a_calibration_curve_of_ordered_categories_takes_labels(drawn):
    X, y = drawn
    ordered = pd.Series(pd.Categorical(y, ["c", "a", "b"], ordered=True))
    m = CumulativeProbabilityModel().fit(X, ordered)
    by_label = m.validation.calibration_curve(value="a", n=2, points=4, random_state=0)
    by_position = m.validation.calibration_curve(value=1, n=2, points=4, random_state=0)
    pd.testing.assert_frame_equal(by_label, by_position)
    with pytest.raises(DataError, match="one of the ordered categories 'c', 'a', 'b', not 'd'"):
        m.validation.calibration_curve(value="d")


# -- predictions with errors -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["model", "robust"])
def test_prediction_tables_of_two_classes_are_those_of_logistic_regression(kind, drawn):
    X, y = drawn
    two = np.where(y == "a", "a", "b")
    a = MultinomialLogisticRegression(tol=1e-10).fit(sparse.csc_array(X), two, fixed={"b:x2": 0.1})
    b = LogisticRegression(tol=1e-10).fit(X, two, fixed={"x2": 0.1})
    for scale, extra in (("linear", {}), ("response", {}), ("ratio", {"reference": X[3:4]})):
        own = a.effects.predictions(X[:7], scale, 0.9, kind=kind, **extra).xs("b", level="class")
        expected = b.effects.predictions(X[:7], scale, 0.9, kind=kind, **extra)
        np.testing.assert_allclose(own, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "settings", [{}, {"prior": Normal(0.5)}, {"fit_intercept": False}], ids=str
)
def test_errors_of_probabilities_are_those_of_the_delta_method(settings, drawn, rng):
    X, y = drawn
    new = pd.DataFrame(X[:3], list("uvw"), columns=[f"x{j}" for j in range(P)])
    offset = rng.normal(size=(3, 3))
    m = MultinomialLogisticRegression(tol=1e-10, **settings)
    m.fit(pd.DataFrame(X, columns=new.columns), y)
    table = m.effects.predictions(new, "response", offset=offset)
    p = m.predict_proba(new, offset)
    np.testing.assert_allclose(table["estimate"], p.ravel())
    assert table.index[4] == ("v", "b")
    names = m.summary().index

    def probabilities(theta):
        coef, intercept = np.zeros((3, P)), np.zeros(3)
        for name, value in zip(names, theta, strict=True):
            label, column = name.split(":")
            k = "abc".index(label)
            if column == "intercept":
                intercept[k] = value
            else:
                coef[k, int(column[1:])] = value
        eta = new.to_numpy() @ coef.T + intercept + offset
        e = np.exp(eta)
        return e / e.sum(axis=1, keepdims=True)

    theta = m.summary()["coef"].to_numpy()
    steps = 1e-5 * np.eye(len(theta))
    J = np.stack([(probabilities(theta + h) - probabilities(theta - h)) / 2e-5 for h in steps], -1)
    V = m.vcov().to_numpy()
    se = np.sqrt(np.einsum("nkp,pq,nkq->nk", J, V, J))
    np.testing.assert_allclose(table["se"], se.ravel(), rtol=1e-6)
    np.testing.assert_allclose(
        np.log(table["upper"] / (1 - table["upper"])) - np.log(p / (1 - p)).ravel(),
        1.959964 * se.ravel() / (p * (1 - p)).ravel(),
        rtol=1e-5,
    )


def test_tables_that_do_not_exist_are_refused(drawn):
    X, y = drawn
    m = MultinomialLogisticRegression().fit(X, y)
    for words, extra in (
        ("scale must be", {"scale": "observation"}),
        ("reference goes with", {"scale": "response", "reference": X[:1]}),
        ("reference must be one row", {"reference": X[:2]}),
        ("leave offset out", {"reference": X[:1], "offset": np.zeros((N, 3))}),
    ):
        with pytest.raises(DataError, match=words):
            m.effects.predictions(X, **extra)
    with pytest.raises(DataError, match="Laplace prior"):
        MultinomialLogisticRegression(prior=Laplace(0.1)).fit(X, y).effects.predictions(X)


@pytest.mark.parametrize("variable", ["u", "site"])
def test_partial_effects_have_a_line_for_each_value_and_class(variable, drawn, rng):
    _, y = drawn
    data = pd.DataFrame({"u": rng.normal(size=N), "site": rng.choice(["r", "s"], N), "y": y})
    m = MultinomialLogisticRegression.from_formula("y ~ u + site", data)
    values = [0.0, 1.0, 2.0] if variable == "u" else ["r", "s"]
    table = m.effects.partial(variable, values, "response")
    assert table[variable].tolist() == np.repeat(values, 3).tolist()
    at = {"u": data["u"].median(), "site": data["site"].mode()[0]}
    new = pd.DataFrame({**at, variable: values})
    np.testing.assert_allclose(table["estimate"], m.predict_proba(new).ravel())
    ax = plots.partial_effect(m, variable, values)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["b", "c"]


# -- held-out scores -------------------------------------------------------------------------------


def of_scikit_learn(name, y, p):
    if name in ("deviance", "neg_log_loss"):
        return -log_loss(y, p) * (2 if name == "deviance" else 1)
    if name == "brier":
        return -np.mean((((y[:, None] == LABELS) - p) ** 2).sum(axis=1))
    if name == "accuracy":
        return accuracy_score(y, LABELS[p.argmax(axis=1)])
    return roc_auc_score(y, p, multi_class="ovr")


@pytest.mark.parametrize(
    "name", ["deviance", "auc", "brier", "accuracy", "neg_log_loss", "roc_auc_ovr"]
)
def test_folds_are_scored_as_by_scikit_learn(name, drawn):
    X, y = drawn
    rows = np.arange(N)
    folds = [(rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)]
    cv = CrossValidation(folds, search=[0.05], tol=1e-9, scoring=name)
    m = MultinomialLogisticRegression(prior=Normal(), cv=cv).fit(sparse.csc_array(X), y)
    scores = []
    for train, test in folds:
        theirs = TheirLogistic(C=0.05, solver="newton-cg", tol=1e-10, max_iter=999)
        p = theirs.fit(X[train], y[train]).predict_proba(X[test])
        scores.append(of_scikit_learn(name, y[test], p))
    assert m.cv_results_["mean"].iloc[0] == pytest.approx(np.mean(scores), rel=1e-6)


def test_scores_that_need_two_classes_are_refused(drawn):
    X, y = drawn
    for name, words in (("roc_auc", "cannot score a fold"), ("mse", "not defined for Multinomial")):
        with pytest.raises(DataError, match=words):
            MultinomialLogisticRegression(
                prior=Normal(), cv=CrossValidation(3, scoring=name, random_state=0)
            ).fit(X, y)


# -- average effects -------------------------------------------------------------------------------


def test_average_effects_are_those_of_statsmodels(drawn):
    X, y = drawn
    X = X + 1e-3 * np.random.default_rng(0).normal(size=X.shape)  # no zeros and ones
    m = MultinomialLogisticRegression(tol=1e-11).fit(X, y)
    theirs = sm.MNLogit(np.searchsorted(LABELS, y), sm.add_constant(X))
    theirs = theirs.fit(method="newton", tol=1e-13, disp=0).get_margeff()
    for storage in (np.asarray, sparse.csc_array, pd.DataFrame):
        if storage is pd.DataFrame:
            m = MultinomialLogisticRegression(tol=1e-11).fit(pd.DataFrame(X), y)
        table = m.effects.average(storage(X))
        np.testing.assert_allclose(table["effect"], theirs.margeff.ravel(), atol=1e-7)
        np.testing.assert_allclose(table["se"], theirs.margeff_se.ravel(), rtol=1e-5)
        np.testing.assert_allclose(table["effect"].groupby(level=0).sum(), 0.0, atol=1e-10)


def test_average_effects_of_two_classes_are_those_of_logistic_regression(drawn, rng):
    X, y = drawn
    data = pd.DataFrame(X[:, :2], columns=["u", "v"])
    data["v"] = rng.normal(size=N)
    data["site"] = rng.choice(["r", "s", "t"], N)
    data["one"] = rng.integers(0, 2, N)
    data["y"] = np.where(y == "a", "a", "b")
    w = rng.integers(1, 4, N)
    formula = "y ~ u + rcs(v, 4) + site * one"
    a = MultinomialLogisticRegression.from_formula(formula, data, tol=1e-10)
    b = LogisticRegression.from_formula(formula, data, tol=1e-10)
    table = a.effects.average(data, sample_weight=w, kind="robust")
    expected = b.effects.average(data, sample_weight=w, kind="robust")
    own = table.xs("b", level="class")
    assert own.index.tolist() == expected.index.tolist()
    np.testing.assert_allclose(own["effect"], expected["effect"], atol=1e-8)
    np.testing.assert_allclose(own["se"], expected["se"], rtol=1e-5)
    plain = data[["u", "v", "site", "one"]]
    c = MultinomialLogisticRegression(tol=1e-10).fit(plain, data["y"], fixed={"b:u": 0.3})
    d = LogisticRegression(tol=1e-10).fit(plain, data["y"], fixed={"u": 0.3})
    some = ["site", "one", "v"]
    own = c.effects.average(plain, some).xs("b", level="class")
    np.testing.assert_allclose(own["effect"], d.effects.average(plain, some)["effect"], atol=1e-8)


def test_average_effects_that_do_not_exist_are_refused(drawn):
    X, y = drawn
    m = MultinomialLogisticRegression().fit(X, y)
    with pytest.raises(DataError, match="There is no variable 'z'"):
        m.effects.average(X, "z")
    with pytest.raises(DataError, match="Laplace prior"):
        MultinomialLogisticRegression(prior=Laplace(0.1)).fit(X, y).effects.average(X)
