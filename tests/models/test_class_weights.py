"""Weights of classes: equality with weights of rows and with scikit-learn, and refusals."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression as TheirLogistic
from sklearn.utils.class_weight import compute_class_weight

from steropes import (
    BrokenAdaptiveRidge,
    ConditionalLogisticRegression,
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
    PooledLogisticRegression,
    ShardedDesign,
    as_design,
    coefficient_path,
    fit_many,
    validate_by_group,
)

N = 240
MODELS = {"two": LogisticRegression, "three": MultinomialLogisticRegression}
SETTINGS = {
    "two": ["balanced", {"yes": 7.5}, {"no": 0.25, "yes": 3.0}],
    "three": ["balanced", {"mid": 7.5}, {"no": 0.25, "mid": 1.0, "yes": 3.0}],
}
CASES = [(kind, setting) for kind, all_of in SETTINGS.items() for setting in all_of]


def drawn(rng, kind, p=5):
    X = (rng.random((N, p)) < 0.4).astype(float)
    X[:, 0] = rng.normal(size=N)
    noise = X[:, 0] + X[:, 1] + rng.logistic(size=N)
    cuts = [2.0] if kind == "two" else [0.5, 2.0]
    labels = np.array(["no", "yes"] if kind == "two" else ["no", "mid", "yes"])
    return X, labels[np.searchsorted(cuts, noise)], rng.integers(0, 4, N) / 2.0


def by_hand(setting, y, w):
    """Row weights times those of scikit-learn's ``compute_class_weight``."""
    classes = np.unique(y)
    own = compute_class_weight(setting, classes=classes, y=y, sample_weight=w)
    return w * own[np.searchsorted(classes, y)]


def pair(kind, setting, X, y, w, **settings):
    """Fits with weights of classes and with the products as weights of rows."""
    a = MODELS[kind](class_weight=setting, **settings).fit(X, y, sample_weight=w)
    b = MODELS[kind](**settings).fit(X, y, sample_weight=by_hand(setting, y, w))
    return a, b


def same(a, b, tol=1e-10):
    np.testing.assert_allclose(a, b, rtol=tol, atol=tol)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("storage", "prior"),
    [
        (np.asarray, None),
        (sparse.csc_array, Laplace(0.3)),
        (pd.DataFrame, Normal(0.5)),
        (as_design, BrokenAdaptiveRidge()),
    ],
    ids=["dense, none", "sparse, lasso", "frame, ridge", "design, adaptive"],
)
@pytest.mark.parametrize(("kind", "setting"), CASES, ids=str)
def test_results_are_those_of_the_products_as_weights(kind, setting, prior, storage, rng):
    X, y, w = drawn(rng, kind)
    a, b = pair(kind, setting, storage(X), y, w, prior=prior)
    same(a.coef_, b.coef_)
    same(a.intercept_, b.intercept_)
    assert a.log_likelihood_ == pytest.approx(b.log_likelihood_, rel=1e-12)
    same(a.predict_proba(X), b.predict_proba(X))
    if prior is None:
        same(a.vcov(), b.vcov())
        same(a.vcov("robust"), b.vcov("robust"))
        assert a.null_log_likelihood_ == pytest.approx(b.null_log_likelihood_)
        assert a.bic_ == pytest.approx(b.bic_)


@pytest.mark.parametrize(("kind", "setting"), CASES, ids=str)
def test_a_ridge_is_that_of_scikit_learn(kind, setting, rng):
    X, y, w = drawn(rng, kind)
    w += 0.5
    own = MODELS[kind](class_weight=setting, prior=Normal(0.7), tol=1e-10)
    own.fit(X, y, sample_weight=w)
    theirs = TheirLogistic(C=0.7, class_weight=setting, solver="newton-cg", tol=1e-12, max_iter=999)
    theirs.fit(X, y, sample_weight=w)
    np.testing.assert_allclose(own.predict_proba(X), theirs.predict_proba(X), atol=1e-7)
    expected = theirs.coef_ if kind == "three" else theirs.coef_[0]
    np.testing.assert_allclose(own.coef_, expected, atol=1e-6)


@pytest.mark.parametrize("kind", MODELS)
def test_balanced_classes_have_the_same_total_weight(kind, rng):
    X, y, w = drawn(rng, kind)
    m = MODELS[kind](class_weight="balanced", prior=Normal(1.0)).fit(X, y, sample_weight=w)
    totals = [(m.class_weight_[k] * w[y == c]).sum() for k, c in enumerate(m.classes_)]
    np.testing.assert_allclose(totals, w.sum() / len(totals))
    assert MODELS[kind](prior=Normal(1.0)).fit(X, y).class_weight_.tolist() == [1.0] * len(totals)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    "cv", [CrossValidation(4, random_state=1), InformationCriterion("bic")], ids=["folds", "bic"]
)
def test_choosers_weigh_classes_once_from_all_rows(kind, cv, rng):
    X, y, w = drawn(rng, kind)
    a, b = pair(kind, "balanced", X, y, w, prior=Laplace(), cv=cv)
    same(a.cv_results_, b.cv_results_)
    same(a.coef_, b.coef_)


@pytest.mark.parametrize("kind", MODELS)
def test_draws_profiles_and_starts_are_those_of_weights(kind, rng):
    X, y, w = drawn(rng, kind)
    a, b = pair(kind, "balanced", X, y, w)
    same(
        a.inference.bootstrap(8, random_state=3).coef, b.inference.bootstrap(8, random_state=3).coef
    )
    name = a.summary().index[-1]
    same(a.inference.profile(name, [0.1, 0.9]), b.inference.profile(name, [0.1, 0.9]))
    again = pickle.loads(pickle.dumps(a))
    same(again.class_weight_, a.class_weight_)
    same(again.predict_proba(X), a.predict_proba(X))
    setting = {"no": 2.0}
    copied = clone(MODELS[kind](class_weight=setting))
    assert copied.get_params()["class_weight"] == setting
    if kind == "two":
        begun = clone(a).fit(X, y, sample_weight=w, start_at=a.coef_)
        same(begun.coef_, a.coef_, 1e-7)
        held = [m.fit(X, y, sample_weight=v, fixed={1: 0.5}, offset=0.1 * X[:, 2])
                for m, v in ((clone(a), w), (clone(b), by_hand("balanced", y, w)))]  # fmt: skip
        same(held[0].coef_, held[1].coef_)


def test_validations_are_those_of_weights(rng):
    X, y, w = drawn(rng, "two")
    a, b = pair("two", "balanced", X, y, w)
    same(a.validation.validate(5, random_state=2), b.validation.validate(5, random_state=2))
    same(
        a.validation.calibration_curve(n=5, random_state=2),
        b.validation.calibration_curve(n=5, random_state=2),
    )
    groups = np.arange(N) % 3
    setting = {"no": 1.0, "yes": 4.0}
    c = validate_by_group(LogisticRegression(class_weight=setting), X, y, groups)
    d = validate_by_group(
        LogisticRegression(), X, y, groups, sample_weight=np.where(y == "yes", 4.0, 1.0)
    )
    same(c.drop(columns="n"), d.drop(columns="n"))
    assert c["n"].tolist() == [N / 3] * 3


@pytest.mark.parametrize("prior", [Laplace(0.3), Normal(0.3)], ids=str)
def test_each_of_many_outcomes_has_weights_of_its_own_classes(prior, rng, tmp_path):
    X, y, _ = drawn(rng, "two")
    other = np.where(X[:, 2] + rng.random(N) > 0.9, 1.0, 0.0)
    other[:30] = np.nan
    model = LogisticRegression(class_weight="balanced", prior=prior)
    outcomes = {"a": (y == "yes").astype(float), "b": other}
    table = fit_many(model, X, outcomes).set_index("outcome")
    for name, outcome in outcomes.items():
        there = ~np.isnan(outcome)
        m = clone(model).fit(X[there], outcome[there])
        same(table.loc[name, "coef"], [m.intercept_, *m.coef_], 1e-6)
    stored = fit_many(model, X, outcomes, store=tmp_path).set_index("outcome")
    other = fit_many(LogisticRegression(prior=prior), X, outcomes, store=tmp_path)
    same(stored["coef"], table["coef"], 1e-6)
    assert abs(other.set_index("outcome")["coef"] - stored["coef"]).max() > 0.01


def test_formulas_paths_blocks_and_adaptive_priors_have_weights(rng):
    X, y, w = drawn(rng, "two")
    table = pd.DataFrame(X, columns=list("abcde")).assign(y=y)
    m = LogisticRegression.from_formula("y ~ a + b", table, class_weight="balanced")
    direct = LogisticRegression(class_weight="balanced").fit(X[:, :2], y)
    same(m.coef_, direct.coef_)
    a, b = pair("two", "balanced", X, y, w, prior=Jeffreys())
    same(a.coef_, b.coef_)
    blocks = ShardedDesign.from_blocks([X[:100], X[100:]])
    c, d = pair("two", "balanced", blocks, y, w, prior=Normal(0.4))
    same(c.coef_, d.coef_)
    same(c.coef_, pair("two", "balanced", X, y, w, prior=Normal(0.4))[0].coef_, 1e-7)
    model = LogisticRegression(prior=Laplace(), class_weight="balanced")
    path = coefficient_path(model, X, y, [0.1, 1.0], sample_weight=w)
    own = coefficient_path(
        clone(model).set_params(class_weight=None), X, y, [0.1, 1.0],
        sample_weight=by_hand("balanced", y, w),
    )  # fmt: skip
    same(path, own)


def test_a_later_change_of_the_mapping_changes_no_result(rng):
    X, y, _ = drawn(rng, "two")
    setting = {"yes": 3.0}
    m = LogisticRegression(class_weight=setting).fit(X, y)
    before = m.inference.bootstrap(3, random_state=0).coef
    setting["yes"] = 100.0
    assert m.class_weight_.tolist() == [1.0, 3.0]
    same(m.inference.bootstrap(3, random_state=0).coef, before)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("equal", "class_weight must be 'balanced' or a mapping"),
        ([1.0, 2.0], "class_weight must be 'balanced' or a mapping"),
        ({"maybe": 2.0}, "'maybe', which is not a class of y; the classes are '"),
        ({"yes": -1.0}, "class_weight has -1.0 for the class 'yes'"),
        ({"yes": np.nan}, "class_weight has nan for the class 'yes'"),
        ({"yes": np.inf}, "class_weight has inf for the class 'yes'"),
        ({"yes": "2"}, "class_weight has '2' for the class 'yes'"),
        ({"yes": True}, "class_weight has True for the class 'yes'"),
        ({"yes": 1e250}, "sample_weight times class_weight is .* on average"),
    ],
)
@pytest.mark.parametrize("kind", MODELS)
def test_bad_settings_are_refused(kind, setting, words, rng):
    X, y, _ = drawn(rng, kind)
    with pytest.raises(DataError, match=words):
        MODELS[kind](class_weight=setting).fit(X, y)


@pytest.mark.parametrize("kind", MODELS)
def test_classes_without_weight_are_refused(kind, rng):
    X, y, _ = drawn(rng, kind)
    with pytest.raises(DataError, match=r"one class only|'yes' of y has no rows with a positive"):
        MODELS[kind](class_weight={"yes": 0.0}).fit(X, y)
    with pytest.raises(DataError, match="the class 'yes' has none with a positive weight"):
        MODELS[kind](class_weight="balanced").fit(X, y, sample_weight=(y != "yes") * 1.0)
    with pytest.raises(DataError, match="zero in every row"):
        MODELS[kind](class_weight=dict.fromkeys(np.unique(y), 0.0)).fit(X, y)


def test_models_of_sets_and_times_have_no_weights_of_classes():
    for model in (ConditionalLogisticRegression, PooledLogisticRegression):
        with pytest.raises(TypeError, match="class_weight"):
            model(class_weight="balanced")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kind", "storage", "prior"),
    [
        ("two", sparse.csc_array, Normal(exclude=["x1"])),
        ("two", pd.DataFrame, Laplace(lower=-0.2)),
        ("two", as_design, GroupLaplace({"x1": "g", "x2": "g"})),
        ("three", sparse.csc_array, Normal(exclude=["x1"])),
        ("three", pd.DataFrame, Laplace(lower=-0.2)),
        ("three", as_design, ElasticNet(1.0, 1.0)),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_weights_offsets_fixed_values_priors_and_folds_combine(kind, storage, prior, rng):
    X, y, w = drawn(rng, kind)
    names = [f"x{j}" for j in range(5)]
    offset = 0.3 * (X[:, 3] if kind == "two" else np.column_stack([0 * X[:, 3], X[:, 3], X[:, 2]]))
    fixed = {"x4": 0.4} if kind == "two" else {"no:x4": 0.4, "yes:x4": -0.1}
    cv = CrossValidation(3, search=[0.05, 0.5], random_state=2)
    settings = {"prior": prior, "cv": cv, "tol": 1e-9}
    given = storage(X) if storage is not pd.DataFrame else pd.DataFrame(X, columns=names)
    m = MODELS[kind](class_weight="balanced", **settings)
    m.fit(given, y, sample_weight=w, offset=offset, fixed=fixed)
    product = by_hand("balanced", y, w)
    b = MODELS[kind](**settings).fit(X, y, sample_weight=product, offset=offset, fixed=fixed)
    same(m.cv_results_, b.cv_results_, 1e-6)
    same(m.coef_, b.coef_, 1e-7)
    assert m.converged_
    classes = m.classes_.tolist()
    R = product[:, None] * (m.predict_proba(given, offset) - (y[:, None] == m.classes_))
    same(R.sum(axis=0), 0.0, 1e-5)
    if kind == "three":
        assert m.coef_[classes.index("no"), 4] == 0.4
    else:
        assert m.coef_[4] == 0.4
