"""Propensity weights: the numbers of WeightIt, PSweight and What If, and several groups."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression as LogisticModel
from sklearn.neighbors import KNeighborsClassifier

import steropes
from steropes import (
    CoxRegression,
    CumulativeProbabilityModel,
    DataError,
    LinearRegression,
    SeparationError,
    Surv,
)
from steropes.designs import (
    DoublyRobust,
    Matching,
    PropensityWeights,
    Trim,
    balance_table,
    covariate_balance,
)
from steropes.designs.propensity import propensity_weights, trim
from steropes.designs.propensity.estimated_propensity_weights import EstimatedWeights
from steropes.designs.propensity.weights_by_estimand import set_weights
from steropes.studies.comparative import StudyAnalysis

PROBIT = CumulativeProbabilityModel(link="probit")


@pytest.fixture(scope="module")
def fitted(lalonde, lalonde_covariates):
    """Weights of every estimand."""
    return {
        name: PropensityWeights(estimand=name).fit(lalonde_covariates, lalonde.treat)
        for name in ("ate", "att", "atu", "ato", "atm", "entropy")
    }


def difference(weights, y, treatment):
    """Estimate, robust error with weights as known, and with the estimated scores."""
    model = LinearRegression().fit(
        np.asarray(treatment, float)[:, None], y, sample_weight=weights.weights_
    )
    robust, stacked = (
        model.summary(kind="robust", weight_model=w)["se"].iloc[-1] for w in (None, weights)
    )
    return model.coef_[0], robust, stacked


# WeightIt 2.0.0 (entropy: PSweight 1.2.0) with glm's tolerance of 1e-8.
@pytest.mark.parametrize(
    ("estimand", "estimate", "stacked", "hc0", "sizes"),
    [
        ("ate", 224.6763083, 876.1932, 909.4777, (329.0078, 58.3267)),
        ("att", 1214.071221, 798.1546, 824.0517, (99.8154, 185)),
        ("atu", -186.9158991, 1130.9822, 1164.7005, (429, 31.3633)),
        ("ato", 1242.200631, 738.7490, 775.0973, (166.1014, 145.6359)),
        ("atm", 1119.521189, 758.4525, 772.5823, (147.3175, 154.1805)),
        ("entropy", 1166.183554, 733.8385, None, None),
    ],
)
def test_estimates_and_errors_in_lalonde(fitted, lalonde, estimand, estimate, stacked, hc0, sizes):
    weights = fitted[estimand]
    found = difference(weights, lalonde.re78, lalonde.treat)
    assert found[0] == pytest.approx(estimate, rel=1e-8)
    assert found[2] == pytest.approx(stacked, abs=6e-5)
    if sizes is not None:
        assert found[1] == pytest.approx(hc0, abs=6e-5)
        n = weights.effective_sample_size_
        assert (n["comparator"], n["target"]) == pytest.approx(sizes, abs=6e-5)


@pytest.fixture(scope="module")
def smokers(nhefs, nhefs_covariates):
    known = nhefs.wt82_71.notna().to_numpy()
    return nhefs[known], nhefs_covariates[known]


@pytest.mark.parametrize(
    ("estimand", "estimate", "stacked"),
    [
        ("ate", 3.44053542965, 0.4870726),
        ("att", 3.33625791, 0.4909591),
        ("atc", 3.47807370, 0.5208469),
        ("ato", 3.46114856, 0.4675004),
    ],
)
def test_weight_gain_in_nhefs(smokers, estimand, estimate, stacked):
    d, X = smokers
    weights = PropensityWeights(estimand=estimand).fit(X, d.qsmk)
    found = difference(weights, d.wt82_71, d.qsmk)
    assert found[0] == pytest.approx(estimate, rel=1e-7)
    assert found[2] == pytest.approx(stacked, abs=6e-8)
    if estimand == "ate":
        assert found[1] == pytest.approx(0.5254936, abs=6e-8)
        ends = weights.weights_.min(), weights.weights_.max()
        assert ends == pytest.approx((1.05374163, 16.70009435), rel=1e-7)
        stable = PropensityWeights(stabilized=True).fit(X, d.qsmk)
        ends = stable.weights_.min(), stable.weights_.max()
        assert ends == pytest.approx((0.33124893, 4.29766157), rel=1e-7)
        assert difference(stable, d.wt82_71, d.qsmk) == pytest.approx(found, rel=1e-9)


def test_weights_for_treatment_and_censoring_multiply(nhefs, nhefs_covariates):
    observed = nhefs.wt82_71.notna().to_numpy()
    treated = PropensityWeights().fit(nhefs_covariates, nhefs.qsmk).weights_
    with_treatment = nhefs_covariates.assign(qsmk=nhefs.qsmk)
    remain = PropensityWeights().fit(with_treatment, observed * 1).weights_
    d = nhefs[observed]
    model = LinearRegression().fit(
        d[["qsmk"]].astype(float), d.wt82_71, sample_weight=(treated * remain)[observed]
    )
    assert model.coef_[0] == pytest.approx(3.49649333, rel=1e-7)
    assert model.summary(kind="robust")["se"].iloc[-1] == pytest.approx(0.5256436, abs=6e-8)


@pytest.fixture(scope="module")
def deaths(nhefs):
    """Months until death or the end of 1992."""
    time = np.where(nhefs.death == 1, (nhefs.yrdth - 83) * 12 + nhefs.modth, 120)
    return Surv(time, nhefs.death)


@pytest.mark.parametrize(
    ("stabilized", "ties", "estimate", "robust", "stacked"),
    [
        (True, "efron", 0.00129388122, 0.134096045, None),
        (False, "breslow", 0.000980974177, 0.1334789, 0.114834263),
    ],
)
def test_hazard_ratios_depend_on_stabilisation(
    nhefs, nhefs_covariates, deaths, stabilized, ties, estimate, robust, stacked
):
    weights = PropensityWeights(stabilized=stabilized).fit(nhefs_covariates, nhefs.qsmk)
    model = CoxRegression(ties=ties)
    model.fit(nhefs[["qsmk"]].astype(float), deaths, sample_weight=weights.weights_)
    assert model.coef_[0] == pytest.approx(estimate, rel=1e-5)
    assert model.summary(kind="robust")["se"].iloc[0] == pytest.approx(robust, rel=1e-6)
    if stacked is not None:  # WeightIt's error leaves out a part of the weights' derivative.
        assert model.summary(weight_model=weights)["se"].iloc[0] == pytest.approx(stacked, rel=0.02)


def test_stacked_errors_of_hazard_ratios_are_derivatives(nhefs, nhefs_covariates, deaths):
    def hazard_ratio(s):
        balancing = PropensityWeights(model=steropes.LogisticRegression(tol=1e-11))
        weights = balancing.fit(nhefs_covariates, nhefs.qsmk, sample_weight=s)
        model = CoxRegression(ties="breslow", tol=1e-11)
        model.fit(nhefs[["qsmk"]].astype(float), deaths, sample_weight=weights.weights_)
        return model, weights

    model, weights = hazard_ratio(np.ones(len(nhefs)))
    own = np.asarray(model.checks.residuals("dfbeta"), float).reshape(-1, 1)
    influence = (own + weights.influences(own))[:, 0]
    error = model.summary(weight_model=weights)["se"].iloc[0]
    assert error == pytest.approx(np.sqrt(influence @ influence), rel=1e-9)
    h = 1e-3 * (np.arange(len(nhefs)) == 122)
    up, down = (hazard_ratio(1 + sign * h)[0].coef_[0] for sign in (1, -1))
    assert influence[122] == pytest.approx((up - down) / 2e-3, rel=1e-5)


# PSweight 1.2.0; its multinomial model is fitted to fewer digits.
@pytest.mark.parametrize(
    ("estimand", "estimates", "errors"),
    [
        ("ate", (-285.8750419, -219.2762614), (1656.968, 1412.405)),
        ("ato", (1057.579396, 581.9171522), (1057.229, 739.249)),
    ],
)
def test_three_groups(lalonde, estimand, estimates, errors):
    X = lalonde[["age", "educ", "married", "nodegree", "re74", "re75"]]
    weights = PropensityWeights(estimand=estimand).fit(X, lalonde.race)
    groups = pd.DataFrame({g: (lalonde.race == g) * 1.0 for g in ("hispan", "white")})
    model = LinearRegression().fit(groups, lalonde.re78, sample_weight=weights.weights_)
    assert tuple(model.coef_) == pytest.approx(estimates, rel=5e-6)
    found = model.summary(weight_model=weights)["se"].iloc[1:]
    assert tuple(found) == pytest.approx(errors, rel=2e-6)
    assert set(weights.balance_.groups) == {
        "hispan − black", "white − black", "white − hispan",
    }  # fmt: skip
    assert list(weights.effective_sample_size_) == ["black", "hispan", "white"]


@pytest.mark.parametrize("estimand", ["att", "ato", "atm", "entropy"])
def test_influences_with_three_groups_are_derivatives(lalonde, estimand):
    """The influence of a row is the change of the estimate with its weight, scores included."""
    X, y = lalonde[["age", "re74"]].to_numpy(), lalonde.re78.to_numpy()
    groups = [(lalonde.race == g).to_numpy() * 1.0 for g in ("white", "black")]

    def difference(s):
        model = steropes.MultinomialLogisticRegression(tol=1e-11)
        weights = EstimatedWeights(
            model.fit(X, lalonde.race, sample_weight=s), estimand, stabilized=False, focal="white"
        )
        w = [s * weights.values * group for group in groups]
        own = [v * (y - np.average(y, weights=v)) / v.sum() for v in w]
        means = [np.average(y, weights=v) for v in w]
        return means[0] - means[1], own[0] - own[1], weights

    _, own, weights = difference(np.ones(len(X)))
    influence = own + weights.influences(own[:, None])[:, 0]
    h = 1e-4 * (np.arange(len(X)) == 200)
    numerical = (difference(1 + h)[0] - difference(1 - h)[0]) / 2e-4
    assert influence[200] == pytest.approx(numerical, rel=1e-4)


def test_atm_of_three_groups_gives_the_least_score_to_its_own_group(lalonde):
    X = lalonde[["age", "educ", "re74"]]
    weights = PropensityWeights(estimand="atm").fit(X, lalonde.race)
    assert weights.weights_.max() == 1.0
    assert weights.score_.shape == (614, 3)


def test_scores_from_elsewhere_are_taken_as_known(fitted, lalonde, lalonde_covariates):
    own = fitted["ato"]
    given = PropensityWeights(estimand="ato").fit(
        lalonde_covariates, lalonde.treat, score=own.score_
    )
    np.testing.assert_allclose(given.weights_, own.weights_, rtol=1e-12)
    with pytest.raises(DataError, match="scores were given"):
        difference(given, lalonde.re78, lalonde.treat)
    forest = RandomForestClassifier(20, min_samples_leaf=20, random_state=0)
    frame = lalonde_covariates.drop(columns="race")
    other = PropensityWeights(model=forest).fit(frame, lalonde.treat)
    assert other.balance_.smd_after.notna().all()
    with pytest.raises(DataError, match="RandomForestClassifier"):
        difference(other, lalonde.re78, lalonde.treat)


def test_a_model_with_a_prior_has_no_stacked_errors(lalonde, lalonde_covariates):
    model = steropes.LogisticRegression(prior=steropes.Laplace(0.1))
    weights = PropensityWeights(model=model).fit(lalonde_covariates, lalonde.treat)
    with pytest.raises(DataError, match="prior"):
        difference(weights, lalonde.re78, lalonde.treat)


def test_trimming_leaves_people_out_and_truncation_does_not(fitted, lalonde, lalonde_covariates):
    plain = fitted["ate"]
    trimmed = PropensityWeights(trim=0.1).fit(lalonde_covariates, lalonde.treat)
    inside = (plain.score_ >= 0.1) & (plain.score_ <= 0.9)
    np.testing.assert_array_equal(trimmed.weights_, np.where(inside, plain.weights_, 0))
    difference(trimmed, lalonde.re78, lalonde.treat)  # whose errors have the weights of zero
    cut = PropensityWeights(truncate=0.99).fit(lalonde_covariates, lalonde.treat)
    largest = np.quantile(plain.weights_, 0.99)
    np.testing.assert_allclose(cut.weights_, np.minimum(plain.weights_, largest))
    difference(cut, lalonde.re78, lalonde.treat)


@pytest.mark.parametrize(
    "rule",
    [
        Trim(fraction=0.05, method="asymmetric"),
        Trim(equipoise=(0.25, 0.75)),
        Trim(fraction=0.02, method="reverse asymmetric", max_weight=8.0),
    ],
)
def test_trimming_follows_the_rules_of_trim(fitted, lalonde, lalonde_covariates, rule):
    plain = fitted["ate"]
    weights = PropensityWeights(trim=rule).fit(
        lalonde_covariates, lalonde.treat, score=plain.score_
    )
    kept = trim(plain.score_, lalonde.treat, rule, plain.weights_)[-1][1]
    np.testing.assert_array_equal(weights.weights_, np.where(kept, plain.weights_, 0))


def test_rules_of_trimming_are_for_two_groups_that_keep_people(lalonde):
    X = lalonde[["age", "educ"]]
    with pytest.raises(DataError, match="two groups"):
        PropensityWeights(trim=Trim(fraction=0.1)).fit(X, lalonde.race)
    with pytest.raises(DataError, match="nobody of a group"):
        PropensityWeights(trim=Trim(max_weight=1.0)).fit(X, lalonde.treat)


def test_survey_weights_are_repeated_rows(lalonde, lalonde_covariates):
    s = 1 + np.arange(len(lalonde)) % 2
    rows = np.repeat(np.arange(len(lalonde)), s)
    weighted = PropensityWeights().fit(lalonde_covariates, lalonde.treat, sample_weight=s)
    repeated = PropensityWeights().fit(lalonde_covariates.iloc[rows], lalonde.treat[rows])
    np.testing.assert_allclose(np.bincount(rows, repeated.weights_), weighted.weights_, rtol=1e-6)
    means = ["target_mean_after", "comparator_mean_after"]
    np.testing.assert_allclose(weighted.balance_[means], repeated.balance_[means], rtol=1e-6)


def test_settings_are_those_of_scikit_learn():
    weights = PropensityWeights(estimand="ato", trim=0.05, model=steropes.LogisticRegression())
    assert clone(weights).get_params()["trim"] == 0.05


def test_order_of_rows_and_units_do_not_matter(smokers):
    d, X = smokers
    plain = PropensityWeights().fit(X, d.qsmk)
    order = np.random.default_rng(0).permutation(len(d))
    other = PropensityWeights().fit(X.iloc[order] * 1000, d.qsmk.iloc[order])
    np.testing.assert_allclose(other.weights_, plain.weights_[order], rtol=1e-6)


class Odds(LogisticModel):
    """A model that gives odds instead of probabilities."""

    def predict_proba(self, X):
        return 2.0 + super().predict_proba(X)


class Single(LogisticModel):
    """A model that gives the probabilities of one group."""

    def predict_proba(self, X):
        return super().predict_proba(X)[:, 1:]


@pytest.mark.parametrize(
    ("settings", "fit", "message"),
    [
        ({"estimand": "all"}, {}, "estimand"),
        ({"trim": 0.5}, {}, "trim"),
        ({"truncate": 99}, {}, "truncate"),
        ({}, {"treatment": np.zeros(6)}, "one value only"),
        ({}, {"treatment": ["a", "b"] * 3}, "treatment"),
        ({}, {"treatment": [1, 2] * 3}, "1 for the target"),
        ({}, {"treatment": pd.Series([0, 1, 0, 1, None, 1])}, "treatment is missing in row 4"),
        ({}, {"treatment": [0, 1]}, "2 rows and X 6"),
        ({}, {"score": np.full(6, 1.5)}, "row 0"),
        ({}, {"score": np.full((6, 3), 1 / 3)}, "shape"),
        ({}, {"score": np.array([1, 0.5, 0.5, 0.5, 0.5, 0.5])}, "row 0 .* infinite"),
        ({"estimand": "att"}, {"treatment": ["a", "b", "c"] * 2}, "focal must be"),
        ({"estimand": "atu"}, {"treatment": ["a", "b", "c"] * 2}, "set estimand='att' and focal"),
        ({"focal": 0, "estimand": "att"}, {}, "focal is for three or more groups"),
        ({"focal": "a"}, {"treatment": ["a", "b", "c"] * 2}, "focal is for three or more groups"),
        ({"stabilized": True, "estimand": "ato"}, {}, "has no effect with estimand='ato'"),
        ({"stabilized": "yes"}, {}, "stabilized must be True or False"),
        ({"trim": "0.1"}, {}, "trim must be 0 or more"),
        ({"truncate": "0.9"}, {}, "truncate must be a quantile"),
        ({}, {"score": ["a"] * 6}, "score: row 0 .* not a number"),
        ({"model": steropes.LogisticRegression()}, {"score": [0.5] * 6}, "score replaces"),
        ({"model": KNeighborsClassifier()}, {"sample_weight": np.ones(6)}, "sample_weight=..."),
        ({"model": Odds()}, {}, "predict_proba of the model Odds .* row 0"),
        ({"model": Single()}, {}, "has the shape .6, 1., not .6, 2."),
    ],
)
def test_what_has_no_weights_is_refused(settings, fit, message):
    arguments = {"X": np.arange(6.0)[:, None] % 4, "treatment": [0, 1] * 3} | fit
    with pytest.raises(DataError, match=message):
        PropensityWeights(**settings).fit(**arguments)


def test_balance_is_that_of_the_table(fitted, lalonde, lalonde_covariates):
    weights = fitted["att"]
    direct = balance_table(lalonde_covariates, lalonde.treat, weights.weights_, estimand="att")
    pd.testing.assert_frame_equal(weights.balance_, direct)


@pytest.mark.parametrize("spelling", ["atc", "ATC", "atu", "ATU"])
def test_all_spellings_of_an_estimand_mean_the_same(lalonde, spelling):
    """In functions, objects, one call, and settings of studies."""
    score, treated = np.array([0.2, 0.7, 0.5, 0.4]), [1, 1, 0, 0]
    assert set_weights([0, 0, 0, 0], treated, spelling).tolist() == [1, 1, 1, 1]
    expected = propensity_weights(score, treated, "atu").tolist()
    assert propensity_weights(score, treated, spelling).tolist() == expected
    assert StudyAnalysis(1, estimand=spelling).estimand == "atu"
    X = lalonde[["age", "married"]]
    tables = [
        balance_table(X, lalonde["treat"], estimand=each)["smd_before"].tolist()
        for each in (spelling, "atc")
    ]
    assert tables[0] == tables[1]
    balance = covariate_balance(X, lalonde["treat"], np.ones(len(X)), estimand=spelling)
    assert balance.generalizability(spelling) == balance.generalizability("atu")


def test_other_names_of_estimands_are_refused():
    for refused in (
        lambda: set_weights([0, 0], [1, 0], "atx"),
        lambda: StudyAnalysis(1, estimand="atx"),
        lambda: PropensityWeights(estimand="atx").fit(np.ones((4, 1)), [1, 1, 0, 0]),
    ):
        with pytest.raises(DataError, match=r"must be one of .*atc.*, not 'atx'"):
            refused()


def test_a_column_that_separates_the_treatment_is_named_with_it():
    treated = np.arange(40) % 2
    X = pd.DataFrame({"age": np.arange(40) % 7, "rare": (np.arange(40) == 1) * 1})
    message = r"of the treatment.*'rare'.*\(the treatment is separated by them\)"
    for step in (PropensityWeights(), Matching()):
        with pytest.raises(SeparationError, match=message):
            step.fit(X, treated)
    with pytest.raises(DataError, match=message):
        DoublyRobust().fit(X, treated, X["age"] % 2)
