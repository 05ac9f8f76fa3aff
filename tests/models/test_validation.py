"""Validation by bootstrap and by group: loops over refits, and statsmodels' recalibration."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize
from scipy.special import log_softmax
from scipy.stats import spearmanr
from sklearn.metrics import d2_tweedie_score, roc_auc_score

from steropes import (
    Censored,
    ConditionalLogisticRegression,
    CoxRegression,
    CrossValidation,
    CumulativeProbabilityModel,
    DataError,
    FineGrayRegression,
    GammaRegression,
    Laplace,
    LinearRegression,
    LogisticRegression,
    MultinomialLogisticRegression,
    NegativeBinomialRegression,
    PoissonRegression,
    SeparationError,
    Surv,
    validate_by_group,
)
from steropes.infer.bootstrap_draws import Draws
from steropes.models.families.family import ValidationData
from steropes.models.families.performance_measures import performance
from steropes.models.validation.internal_validation import validation_data

RNG = np.random.default_rng(31)
N = 150
X = pd.DataFrame(RNG.normal(size=(N, 4)), columns=list("abcd")).assign(c=lambda x: x["c"] + 5)
ETA = 0.8 * X["a"].to_numpy()
Y = RNG.binomial(1, 1 / (1 + np.exp(-ETA)))
TIME, EVENT = RNG.exponential(np.exp(-ETA)), (RNG.random(N) < 0.8) * 1
WEIGHT = RNG.integers(0, 3, N).astype(float)
OFFSET = 0.3 * RNG.normal(size=N)
FAMILIES = {
    "linear": (LinearRegression, ETA + RNG.normal(size=N)),
    "logistic": (LogisticRegression, Y),
    "poisson": (PoissonRegression, RNG.poisson(np.exp(ETA))),
    "gamma": (GammaRegression, RNG.gamma(2.0, np.exp(ETA))),
    "negative_binomial": (NegativeBinomialRegression, RNG.poisson(RNG.gamma(2, np.exp(ETA) / 2))),
    "cox": (CoxRegression, Surv(TIME, EVENT)),
    "fine_gray": (FineGrayRegression, Surv(TIME, EVENT * RNG.integers(1, 3, N))),
    "cumulative": (CumulativeProbabilityModel, np.round(ETA + RNG.logistic(size=N), 1)),
}
STRATIFIED = ("cox", "fine_gray")
STRATA = np.array(["u", "v"])[np.arange(N) % 2]


@pytest.mark.parametrize(
    "family",
    # Each draw has a dispersion of its own, whose refits take longer than all others.
    [pytest.param(f, marks=pytest.mark.slow) if f == "negative_binomial" else f for f in FAMILIES],
)
def test_optimism_is_that_of_refits_to_the_draws(family):
    model, y = FAMILIES[family]
    extra = {"strata": STRATA} if family in STRATIFIED else {}
    given = {"sample_weight": WEIGHT, "offset": OFFSET, **extra}
    m = model().fit(X, y, **given)
    table = m.validation.validate(4, random_state=7)
    # The same by refits with the weights of the draws.
    seed = int(np.random.default_rng(7).integers(2**63))
    draws = Draws(WEIGHT, None, 4, np.random.default_rng(seed))
    codes = (STRATA == "v").astype(int) if family in STRATIFIED else None
    data = ValidationData(model._family, model(), validation_data(m, m._problem).y, codes, OFFSET)
    apparent = performance(data, m.linear_predictor(X, OFFSET), WEIGHT)
    gaps = []
    for k in range(4):
        w = draws.one(k)
        eta = model().fit(X, y, **{**given, "sample_weight": w}).linear_predictor(X, OFFSET)
        a, b = (performance(data, eta, v) for v in (w, WEIGHT))
        gaps.append({name: a[name] - b[name] for name in a})
    expected = pd.DataFrame(gaps).mean()
    assert list(table.index) == list(apparent)
    np.testing.assert_allclose(table["apparent"], list(apparent.values()), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(table["optimism"], expected[table.index], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(table["corrected"], table["apparent"] - table["optimism"])
    assert (table["draws"] == 4).all()
    # A maximum likelihood fit is calibrated in its own data.
    np.testing.assert_allclose(apparent["slope"], 1.0, rtol=1e-5)


def test_measures_are_those_of_scikit_learn_and_statsmodels():
    eta = 0.5 * X["a"].to_numpy() + 0.2 * X["b"].to_numpy() + 0.3
    data = ValidationData(LogisticRegression._family, LogisticRegression(), Y.astype(float))
    ours = performance(data, eta, np.ones(N))
    theirs = sm.Logit(Y, sm.add_constant(eta)).fit(disp=False)
    np.testing.assert_allclose([ours["intercept"], ours["slope"]], theirs.params, rtol=1e-6)
    gain = 1 - np.exp(-theirs.llr / N)
    np.testing.assert_allclose(ours["r2"], gain / (1 - np.exp(2 * theirs.llnull / N)), rtol=1e-6)
    np.testing.assert_allclose(ours["auc"], roc_auc_score(Y, eta))
    np.testing.assert_allclose(ours["brier"], ((Y - 1 / (1 + np.exp(-eta))) ** 2).mean())


def test_a_given_dispersion_is_that_of_recalibration(rng):
    """The fit has the largest likelihood at this dispersion, so its apparent slope is one."""
    X = rng.normal(size=(200, 2))
    y = rng.negative_binomial(1, 1 / (1 + np.exp(0.3 + X[:, 0])))
    model = NegativeBinomialRegression(dispersion=3.0).fit(X, y)
    measures = model.validation.validate(2, random_state=1)["apparent"]
    np.testing.assert_allclose(measures[["intercept", "slope"]], [0.0, 1.0], atol=1e-6)


def test_concordance_is_the_method_s():
    m = CoxRegression().fit(X, Surv(TIME, EVENT), strata=STRATA, sample_weight=WEIGHT)
    found = m.validation.validate(2, random_state=0).loc["concordance", "apparent"]
    expected = m.validation.concordance(X, Surv(TIME, EVENT), strata=STRATA, sample_weight=WEIGHT)
    np.testing.assert_allclose(found, expected)


def test_with_cv_each_draw_chooses_its_variance():
    cv = CrossValidation(3, search=[0.01, 0.1, 1.0], random_state=0)
    m = LogisticRegression(prior=Laplace(), cv=cv).fit(X, Y)
    again = m.validation.validate(4, random_state=1)
    once = m.validation.validate(4, reselect=False, random_state=1)
    np.testing.assert_array_equal(again["apparent"], once["apparent"])
    assert not np.array_equal(again["optimism"], once["optimism"])


def test_whole_clusters_are_drawn_and_fixed_coefficients_stay():
    cluster = np.arange(N) // 5
    m = LogisticRegression().fit(X, Y, fixed={"a": 0.8})
    table = m.validation.validate(5, cluster=cluster, random_state=1)
    apparent = performance(
        ValidationData(
            LogisticRegression._family, LogisticRegression(), Y.astype(float), offset=ETA
        ),
        m.linear_predictor(X), np.ones(N),
    )  # fmt: skip
    np.testing.assert_allclose(table["apparent"], list(apparent.values()), rtol=1e-6)


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
def test_a_group_is_predicted_by_the_others(family):
    model, y = FAMILIES[family]
    group = np.array(list("abc"))[np.arange(N) % 3]
    extra = {"strata": STRATA} if family in STRATIFIED else {}
    given = {"sample_weight": WEIGHT, "offset": OFFSET, **extra}
    table = validate_by_group(model(), X, y, group, **given)
    rest, own = group != "b", group == "b"
    m = model().fit(X[rest], y[rest], **{k: v[rest] for k, v in given.items()})
    known = OFFSET[own]
    eta, counted = (
        m.linear_predictor(X[own], known),
        {"sample_weight": WEIGHT[own], "offset": known},
    )
    line = table.loc["b"]
    assert line["n"] == WEIGHT[own].sum()
    if family == "logistic":
        auc = roc_auc_score(Y[own], eta, sample_weight=WEIGHT[own])
        np.testing.assert_allclose(line["auc"], auc)
    if family == "cumulative":
        again = model().fit((eta - known)[:, None], y[own], **counted)
        np.testing.assert_allclose(line["slope"], again.coef_[0], rtol=1e-6)
    elif family not in STRATIFIED:
        again = model().fit((eta - known)[:, None], y[own], **counted)
        np.testing.assert_allclose(
            line[["intercept", "slope"]].to_numpy(float),
            [again.intercept_, again.coef_[0]],
            rtol=1e-6,
        )
    else:
        k = {name: v[own] for name, v in given.items()}
        np.testing.assert_allclose(
            line["concordance"], m.validation.concordance(X[own], y[own], **k)
        )


def test_a_group_without_weight_has_no_measures():
    group = np.arange(N) % 3
    table = validate_by_group(LogisticRegression(), X, Y, group, sample_weight=(group > 0) * 1.0)
    assert table.loc[0, "n"] == 0
    assert table.loc[0].iloc[1:].isna().all()
    assert table.loc[[1, 2]].notna().all(axis=None)


def test_measures_of_cumulative_models_are_those_of_scipy_and_all_pairs():
    eta, y = 0.5 * X["a"].to_numpy(), FAMILIES["cumulative"][1]
    w = WEIGHT.astype(int)
    data = ValidationData(CumulativeProbabilityModel._family, CumulativeProbabilityModel(), y)
    found = performance(data, eta, WEIGHT)
    rows = np.repeat(np.arange(N), w)  # a weight of 2 equals the row given twice
    np.testing.assert_allclose(found["spearman"], spearmanr(y[rows], eta[rows])[0])
    above = y[rows][:, None] > y[rows]
    right = (eta[rows][:, None] > eta[rows]) + 0.5 * (eta[rows][:, None] == eta[rows])
    np.testing.assert_allclose(found["concordance"], (above * right).sum() / above.sum())
    fit = CumulativeProbabilityModel().fit(eta[:, None], y, sample_weight=WEIGHT)
    null = fit.null_log_likelihood_
    gain = 1 - np.exp(2 * (null - fit.log_likelihood_) / w.sum())
    np.testing.assert_allclose(found["r2"], gain / (1 - np.exp(2 * null / w.sum())))
    # Ordered categories that are not numbers are read as in the fit.
    names = pd.Categorical.from_codes(Y + (y > 2), ["low", "middle", "high"], ordered=True)
    tables = [
        validate_by_group(CumulativeProbabilityModel(), X, outcome, STRATA)
        for outcome in (names, Y + (y > 2))
    ]
    pd.testing.assert_frame_equal(*tables)


def test_the_explained_deviance_of_a_gamma_model_is_that_of_scikit_learn():
    eta, y = 0.5 * X["a"].to_numpy(), FAMILIES["gamma"][1]
    data = ValidationData(GammaRegression._family, GammaRegression(), y)
    expected = d2_tweedie_score(y, np.exp(eta), power=2)
    np.testing.assert_allclose(performance(data, eta, np.ones(N))["r2"], expected)


def test_labels_of_classes_may_be_text():
    names = np.array(["no", "yes"])[Y]
    group = np.arange(N) % 2
    pd.testing.assert_frame_equal(
        validate_by_group(LogisticRegression(), X, names, group),
        validate_by_group(LogisticRegression(), X, Y, group),
    )


def test_what_has_no_measures_is_refused():
    code = Surv(TIME, EVENT)
    with pytest.raises(DataError, match="not for this ConditionalLogisticRegression"):
        ConditionalLogisticRegression().fit(X, Y, strata=np.arange(N) // 5).validation.validate(2)
    with pytest.raises(DataError, match="without censoring"):
        CumulativeProbabilityModel().fit(X, Censored(Y - 0.5, Y + 0.5)).validation.validate(2)
    varying = CoxRegression(time_varying={"a": [0.5]})
    with pytest.raises(DataError, match="constant effects"):
        varying.fit(X, code).validation.validate(2)
    with pytest.raises(DataError, match="constant effects"):
        validate_by_group(varying, X, code, STRATA)
    with pytest.raises(DataError, match="there is only 0"):
        validate_by_group(LogisticRegression(), X, Y, np.zeros(N, int))
    gap = np.where(np.arange(N) == 3, np.nan, 1.0 * Y)
    with pytest.raises(DataError, match="without group a failed: y contains NaN"):
        validate_by_group(LinearRegression(), X, gap, np.where(np.arange(N) < 10, "b", "a"))


def test_a_class_of_one_group_is_named_with_and_without_offsets(rng):
    X, group = rng.normal(size=(90, 2)), np.repeat(["u", "v", "w"], 30)
    y = np.where(group == "v", rng.integers(0, 3, 90), rng.integers(0, 2, 90))
    for offset in (None, np.zeros((90, 3))):
        with pytest.raises(DataError, match="class 2 is in the group v only"):
            validate_by_group(MultinomialLogisticRegression(), X, y, group, offset=offset)


def test_a_class_with_weight_in_one_group_only_is_named(rng):
    X, group = rng.normal(size=(90, 2)), np.repeat(list("uvw"), 30)
    y = rng.integers(0, 3, 90)
    y[:3] = 2
    weight = np.where((group != "u") & (y == 2), 0.0, 1.0)
    for model in (LogisticRegression, MultinomialLogisticRegression):
        own = np.where(y == 2, 1, 0) if model is LogisticRegression else y
        with pytest.raises(DataError, match=r"class \d is in the group u only"):
            validate_by_group(model(), X, own, group, sample_weight=weight)


def test_the_group_whose_other_rows_are_separated_is_named(rng):
    X = rng.normal(size=(40, 1))
    with pytest.raises(SeparationError, match=r"without group 0 failed: .* 'x0'") as error:
        validate_by_group(LogisticRegression(), X, X[:, 0] > 0, np.arange(40) % 2)
    assert "x0" in error.value.columns


def test_a_validation_by_group_refuses_rows_in_another_order(rng):
    X, y = pd.DataFrame(rng.normal(size=(40, 2))), pd.Series(rng.integers(0, 2, 40))
    given = {"groups": pd.Series(np.arange(40) % 2), "offset": pd.Series(np.zeros(40))}
    for name in ("y", "groups", "offset"):
        other = {"y": y, **given}
        other[name] = other[name][::-1]
        with pytest.raises(DataError, match=f"X and {name} have the same row labels in different"):
            validate_by_group(LogisticRegression(), X, **other)


@pytest.mark.parametrize("family", ["linear", "logistic", "poisson", "gamma"])
def test_r2_is_relative_to_intercept_and_offset(family):
    offset = 2.0 * np.random.default_rng(3).normal(size=N)
    families = {
        "linear": sm.families.Gaussian(),
        "logistic": sm.families.Binomial(),
        "poisson": sm.families.Poisson(),
        "gamma": sm.families.Gamma(sm.families.links.Log()),
    }
    model, y = FAMILIES[family]
    y = y + offset if family == "linear" else y
    y = np.round(y * np.exp(offset)) + (family == "gamma") if family in ("poisson", "gamma") else y
    m = model().fit(X, y, offset=offset)
    groups = np.arange(N) % 2
    by_group = validate_by_group(model(), X, y, groups, offset=offset)["r2"]
    other = model().fit(X[groups == 1], y[groups == 1], offset=offset[groups == 1])
    for found, rows, fitted in (
        (m.validation.validate(2, random_state=0).loc["r2", "apparent"], slice(None), m),
        (by_group.iloc[0], groups == 0, other),
    ):
        eta = fitted.linear_predictor(X, offset)[rows]
        settings = {"endog": y[rows], "family": families[family]}
        null = sm.GLM(exog=np.ones(len(eta)), offset=offset[rows], **settings).fit(tol=1e-12)
        if family in ("linear", "gamma"):
            mean = eta if family == "linear" else np.exp(eta)
            expected = 1 - families[family].deviance(y[rows], mean) / null.deviance
        else:
            columns = sm.add_constant(eta - offset[rows])
            own = sm.GLM(exog=columns, offset=offset[rows], **settings).fit(tol=1e-12)
            gain = -np.expm1(-2 / len(eta) * (own.llf - null.llf))
            expected = gain / -np.expm1(2 / len(eta) * null.llf)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_r2_of_classes_is_relative_to_intercepts_and_offsets():
    rng = np.random.default_rng(3)
    offset, y = 2.0 * rng.normal(size=(N, 3)), rng.integers(0, 3, N)
    own = rng.normal(size=(N, 3))
    m = MultinomialLogisticRegression().fit(X, y, offset=offset)
    found = performance(validation_data(m, m._problem), own + offset, np.ones(N))

    def loss(a):
        eta = offset + a[2] * own + [0.0, *a[:2]]
        return -log_softmax(eta, axis=1)[np.arange(N), y].mean()

    null = minimize(lambda a: loss([*a, 0.0]), [0.0, 0.0], tol=1e-10).fun
    best = minimize(loss, np.zeros(3), tol=1e-10)
    expected = np.expm1(2 * (best.fun - null)) / np.expm1(-2 * null)
    np.testing.assert_allclose(found["r2"], expected, rtol=1e-5)
    np.testing.assert_allclose(found["slope"], best.x[2], rtol=1e-4)
    np.testing.assert_allclose(m.validation.validate(2).loc["slope", "apparent"], 1.0, rtol=1e-5)
    groups = np.where(y == 2, np.arange(N) % 2, np.arange(N) % 3)  # one group lacks a class
    table = validate_by_group(MultinomialLogisticRegression(), X, y, groups, offset=offset)
    assert table["r2"].isna().tolist() == [False, False, True]


@pytest.mark.slow
@pytest.mark.parametrize("call", ["validate", "calibration_curve"])
def test_repeated_cross_validations_show_their_progress(call, capsys):
    """Nobody asked for them; with an explicit setting a silent model is silent."""
    model = LogisticRegression(prior=Laplace(), cv=3, random_state=1).fit(X, Y)

    def shown(**given):
        getattr(model.validation, call)(n=3, random_state=1, **given)
        return capsys.readouterr().err

    text = shown()
    assert "cross-validations of the draws (reselect=False leaves them out): 100%" in text
    assert "measures of the draws" in text
    assert not shown(reselect=False)
    assert not shown(reselect=True)
    model.verbose = 1
    assert "bootstrap: 100%" in shown(reselect=False)
    assert "reselect=False" not in shown()
