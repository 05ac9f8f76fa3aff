"""Scikit-learn's own checks, and life among its tools: clones, pickles, pipelines, searches."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.metrics import (
    accuracy_score,
    d2_tweedie_score,
    mean_poisson_deviance,
    r2_score,
)
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from simulators import FAMILIES, problem
from steropes import (
    CoxRegression,
    CrossValidation,
    CumulativeProbabilityModel,
    DataError,
    ElasticNet,
    FineGrayRegression,
    GammaRegression,
    Laplace,
    LinearRegression,
    LogisticRegression,
    NegativeBinomialRegression,
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

# What a model without a prior refuses: data that are separated, and a cross-validation of nothing.
SEPARATED = "no finite maximum|raised SeparationError"
NO_PRIOR = "cv needs a prior whose variance it chooses"
SEPARATED_DATA = (
    "check_estimators_overwrite_params",
    "check_dont_overwrite_parameters",
    "check_estimators_fit_returns_self",
    "check_readonly_memmap_input",
    "check_positive_only_tag_during_fit",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
    "check_pipeline_consistency",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_classifiers_classes",
    "check_non_transformer_estimators_n_iter",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_fit2d_1feature",
    "check_dict_unchanged",
    "check_fit2d_predict1d",
)
WEIGHTS_BY_CV = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)


def refusal(estimator, check):
    """The message of the error in a check that a model without a prior cannot pass, or None."""
    name = getattr(check, "func", check).__name__
    if estimator.prior is None and name in WEIGHTS_BY_CV:
        return NO_PRIOR
    if estimator.prior is None and isinstance(estimator, LogisticRegression):
        return SEPARATED if name in SEPARATED_DATA else None
    return None


@pytest.mark.sampled
@parametrize_with_checks(
    [
        LogisticRegression(prior=Laplace(1.0)),
        LogisticRegression(),
        LinearRegression(prior=Normal(1.0)),
        PoissonRegression(prior=Normal(1.0)),
        NegativeBinomialRegression(prior=Normal(1.0)),
    ]
)
@pytest.mark.filterwarnings("ignore")  # the checks themselves warn
def test_scikit_learn_check(estimator, check):
    refused = refusal(estimator, check)
    if refused is None:
        check(estimator)
    else:
        with pytest.raises((ValueError, AssertionError), match=refused):
            check(estimator)


@pytest.mark.slow  # the same classes with other priors
@parametrize_with_checks(
    [
        LogisticRegression(prior=Normal(1.0)),
        LinearRegression(),
        PoissonRegression(prior=Laplace(1.0)),
        PoissonRegression(),
        GammaRegression(prior=Laplace(1.0)),
        GammaRegression(),
        NegativeBinomialRegression(),
    ]
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_check_with_other_priors(estimator, check):
    test_scikit_learn_check(estimator, check)


# -- clones and pickles ----------------------------------------------------------------------------


def data(family, rng, n=100, p=4):
    X, y = problem(family, rng, n, p)
    return X, Surv(*y) if family == "cox" else y


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "prior",
    [
        None,
        Laplace(0.5, exclude=["x0"]),
        Normal([0.1, 1, 2, 3.0]),
        ElasticNet(1.0, 2.0, exclude=[1]),
    ],
)
def test_clones_have_the_same_parameters_and_no_fit(family, prior, rng):
    X, y = data(family, rng)
    model = MODELS[family](
        prior=prior, cv=CrossValidation(3, search=[0.5, 1.0], random_state=0) if prior else None
    )
    model.fit(X, y)
    again = clone(model)
    assert repr(again) == repr(model)
    assert not hasattr(again, "coef_")
    assert again.fit(X, y).coef_.tobytes() == model.coef_.tobytes()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_pickle_predicts_and_knows_its_summary(family, rng):
    X, y = data(family, rng)
    model = MODELS[family]().fit(X, y)
    table = model.summary()
    again = pickle.loads(pickle.dumps(model))
    assert again.predict(X).tobytes() == model.predict(X).tobytes()
    np.testing.assert_array_equal(again.summary(), table)
    assert len(pickle.dumps(model)) < 20_000  # without the data


def test_a_pickle_made_before_the_summary_says_what_to_do(rng):
    X, y = data("logistic", rng)
    again = pickle.loads(pickle.dumps(LogisticRegression().fit(X, y)))
    with pytest.raises(DataError, match=r"before pickling|fit again"):
        again.summary()


def test_a_pickle_works_in_a_new_process(rng, tmp_path):
    X, y = data("logistic", rng)
    model = LogisticRegression(prior=Laplace(1.0)).fit(X, y)
    (tmp_path / "m.pickle").write_bytes(pickle.dumps((model, X)))
    code = (
        "import pickle, sys; m, X = pickle.load(open(sys.argv[1], 'rb'));"
        "print(m.predict_proba(X)[:, 1].tobytes().hex())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "m.pickle")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert bytes.fromhex(run.stdout.strip()) == model.predict_proba(X)[:, 1].tobytes()


def test_errors_can_be_pickled(rng):
    X, y = data("logistic", rng)
    with pytest.raises(ValueError, match="do not identify") as caught:
        LogisticRegression().fit(np.column_stack([X, np.zeros(100)]), y)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.columns == ["x4"]


# -- pipelines and searches ------------------------------------------------------------------------


def test_pipelines(rng):
    import pandas as pd

    X, y = data("logistic", rng)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(site=rng.choice(["n", "s", "w"], 100))
    columns = ColumnTransformer(
        [("one", OneHotEncoder(), ["site"]), ("scale", StandardScaler(), list("abcd"))]
    )
    pipe = make_pipeline(columns, LogisticRegression(prior=Laplace(1.0))).fit(frame, y)
    assert pipe.score(frame, y) > 0.5
    assert pipe.predict_proba(frame).shape == (100, 2)


@pytest.mark.slow
@pytest.mark.host  # other processes fit on the CPU, with other last digits
@pytest.mark.parametrize("family", ["linear", "logistic", "poisson"])
def test_grid_search_over_priors_is_the_same_in_processes(family, rng):
    X, y = data(family, rng)
    grid = {"prior": [Laplace(v) for v in (0.01, 0.1, 1.0)]}
    fits = [
        GridSearchCV(MODELS[family](n_jobs=1), grid, cv=KFold(3), n_jobs=jobs).fit(X, y)
        for jobs in (1, 2)
    ]
    np.testing.assert_array_equal(
        fits[0].cv_results_["mean_test_score"], fits[1].cv_results_["mean_test_score"]
    )
    assert fits[0].best_params_ == fits[1].best_params_


@pytest.mark.usefixtures("eager_threads")
def test_threads_of_joblib_do_not_disturb_each_other(rng):
    from joblib import Parallel, delayed

    sets = [data("cox", np.random.default_rng(s), 400, 6) for s in range(6)]

    def fit(X, y):
        return CoxRegression(prior=Laplace(0.5), n_jobs=2).fit(X, y).coef_

    alone = [fit(X, y) for X, y in sets]
    together = Parallel(n_jobs=3, backend="threading")(delayed(fit)(X, y) for X, y in sets)
    for a, b in zip(alone, together, strict=True):
        assert a.tobytes() == b.tobytes()


def test_poisson_score_is_the_share_of_the_deviance(rng):
    X, y = problem("poisson", rng, 200, 3)
    w, t, o = rng.integers(0, 3, 200) * 1.0, rng.uniform(0.1, 9.0, 200), rng.normal(size=200)
    m = PoissonRegression(prior=Normal(1.0)).fit(X, y, sample_weight=w)
    expected = d2_tweedie_score(y, m.predict(X), sample_weight=w, power=1)
    np.testing.assert_allclose(m.score(X, y, w), expected, rtol=1e-10)
    m = PoissonRegression().fit(X, y, exposure=t, offset=o)
    mean, one = m.predict(X, exposure=t, offset=o), t * np.exp(o) * y.sum() / (t @ np.exp(o))
    left, whole = (mean_poisson_deviance(y, mu) for mu in (mean, one))
    found = m.score(X, y, exposure=t, offset=o)
    np.testing.assert_allclose(found, 1 - left / whole, rtol=1e-10)
    assert m.score(X, np.zeros(200)) == 0.0
    assert m.score(X, np.full(200, 3.0)) == 0.0


def test_cross_val_score_splits_survival_outcomes(rng):
    X, y = data("cox", rng)
    scores = cross_val_score(
        CoxRegression(), X, y, cv=4,
        scoring=lambda m, X, y: -float(np.corrcoef(m.predict(X), y["time"])[0, 1]),
    )  # fmt: skip
    assert scores.shape == (4,)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("family", [CoxRegression, FineGrayRegression])
def test_strata_and_offsets_are_routed_to_fits_and_scores(family, rng):
    X, y = data("cox", rng)
    site, offset = rng.integers(0, 2, len(y)), rng.normal(size=len(y))
    with config_context(enable_metadata_routing=True):
        m = family().set_fit_request(strata=True, offset=True)
        m.set_score_request(strata=True, offset=True)
        rows = {"strata": site, "offset": offset}
        found = cross_validate(m, X, y, cv=KFold(3), params=rows)["test_score"]
    for score, (train, test) in zip(found, KFold(3).split(X), strict=True):
        fit = family().fit(X[train], y[train], strata=site[train], offset=offset[train])
        there = {"strata": site[test], "offset": offset[test]}
        assert score == fit.validation.concordance(X[test], y[test], **there)


FAMILIES_WITH_OFFSETS = (
    LinearRegression, LogisticRegression, PoissonRegression, CumulativeProbabilityModel,
)  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES_WITH_OFFSETS)
def test_offsets_are_routed_to_scores_of_predictions(family, rng):
    name = family.__name__.removesuffix("Regression").lower()
    X, y = data(name if name in MODELS else "linear", rng)
    rows = {"offset": rng.normal(scale=2.0, size=len(y))}
    prior = None if family is CumulativeProbabilityModel else Normal()
    with config_context(enable_metadata_routing=True):
        m = family(prior=prior).set_fit_request(offset=True).set_score_request(offset=True)
        found = cross_validate(m, X, y, cv=KFold(3), params=rows)["test_score"]
    metric = {"Linear": r2_score, "Logistic": accuracy_score, "Poisson": None}.get(
        family.__name__.removesuffix("Regression"), r2_score
    )
    for score, (train, test) in zip(found, KFold(3).split(X), strict=True):
        fit = family(prior=prior).fit(X[train], y[train], offset=rows["offset"][train])
        there = rows["offset"][test]
        assert score == fit.score(X[test], y[test], offset=there)
        assert score != fit.score(X[test], y[test])
        if metric is not None:
            assert score == metric(y[test], fit.predict(X[test], offset=there))


@pytest.mark.parametrize("family", FAMILIES_WITH_OFFSETS)
def test_scores_have_the_offset_of_the_formula(family, rng):
    import pandas as pd

    x, o = rng.normal(size=(2, 80))
    y = (x + 2 * o + rng.normal(size=80) > 0).astype(float)
    frame = pd.DataFrame({"x": x, "o": o, "y": y})
    m = family.from_formula("y ~ x + offset(o)", frame)
    assert m.score(frame, y) == m.score(m.design_matrix(frame), y, offset=o)
    assert m.score(frame, y) != m.score(frame, y, offset=0 * o)


def test_scores_refuse_outcomes_in_another_order(rng):
    import pandas as pd

    X, y = data("logistic", rng)
    frame, y = pd.DataFrame(X, columns=list("abcd")), pd.Series(y)
    for family in FAMILIES_WITH_OFFSETS:
        m = family().fit(frame, y)
        with pytest.raises(DataError, match="X and y have the same row labels in different orders"):
            m.score(frame, y[::-1])


def test_scores_take_labels_of_any_type_and_refuse_other_labels(rng):
    X, y = data("logistic", rng)
    m = LogisticRegression().fit(X, y)
    share = accuracy_score(y, m.predict(X))
    for labels in (y.astype(object), y.astype(bool), y.astype(float)):
        assert m.score(X, labels) == share
    for labels in (y.astype(int).astype(str), y + 0.5):
        with pytest.raises(DataError, match="not like the model's classes"):
            m.score(X, labels)


def test_feature_names_come_from_the_table_and_only_from_there(rng):
    import pandas as pd

    X, y = data("logistic", rng)
    m = LogisticRegression(prior=Normal()).fit(pd.DataFrame(X, columns=list("abcd")), y)
    assert list(m.feature_names_in_) == list("abcd")
    assert list(m.summary().index) == ["intercept", *"abcd"]
    m.fit(X, y)
    assert not hasattr(m, "feature_names_in_")
    assert m.n_features_in_ == 4


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [-1, 1], [5, 7]])
def test_classes_are_of_any_kind(labels, rng):
    X, y = data("logistic", rng)
    reference = LogisticRegression().fit(X, y)
    m = LogisticRegression().fit(X, np.array(labels)[y])
    assert m.classes_.tolist() == sorted(labels)
    np.testing.assert_array_equal(m.coef_, reference.coef_)
    np.testing.assert_array_equal(m.predict(X), np.array(labels)[reference.predict(X)])


def test_log_probabilities_do_not_underflow():
    m = LogisticRegression(prior=Normal(1.0)).fit([[0.0], [1.0]], [0, 1])
    with np.errstate(divide="raise"):
        log_p = m.predict_log_proba([[1e5], [-1e5], [0.3]])
    assert np.isfinite(log_p).all()
    np.testing.assert_allclose(np.exp(log_p[2]), m.predict_proba([[0.3]])[0], rtol=1e-14)
