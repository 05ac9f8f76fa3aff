"""Survival of the smokers of What If, chapter 17, and further numbers of its methods in R."""

import numpy as np
import pandas as pd
import pytest

from designs.test_doubly_robust_references import splines, under_both
from designs.test_published_comparisons import months
from steropes import (
    CoxRegression,
    LinearRegression,
    LogisticRegression,
    PooledLogisticRegression,
    Surv,
    kaplan_meier,
)
from steropes.designs import DoublyRobust, PropensityWeights
from steropes.designs.effects import absolute_effect
from steropes.designs.time_varying import iterated_g_computation, parametric_g_formula

EVERY = np.arange(121)
TREATMENT = {"qsmk": [1.0, 0.0]}


@pytest.fixture(scope="module")
def treated(nhefs):
    return nhefs[["qsmk"]].astype(float)


@pytest.fixture(scope="module")
def deaths(nhefs):
    return Surv(months(nhefs), nhefs.death)


@pytest.fixture(scope="module")
def weights(nhefs, nhefs_covariates):
    """Stabilised weights of all 1,629 people."""
    found = PropensityWeights(stabilized=True).fit(nhefs_covariates, nhefs.qsmk)
    return found.weights_


@pytest.fixture(scope="module")
def quitters(nhefs, nhefs_covariates):
    """Covariates, treatment, weight gain and death of the 1,566 people with a known gain."""
    known = nhefs.wt82_71.notna().to_numpy()
    d = nhefs[known].reset_index(drop=True)
    return nhefs_covariates[known].reset_index(drop=True), d.qsmk, d.wt82_71, d.death


def pooled(X, y, w=None):
    """Fit the pooled logistic model of program 17.2, with 176,764 person-months."""
    model = PooledLogisticRegression(interval=1, baseline=2, time_varying={"qsmk": 2})
    return model.fit(X, y, sample_weight=w)


def test_pooled_survival_is_that_of_program_17_2(treated, deaths):
    model = pooled(treated, deaths)
    assert model.n_person_intervals_ == 176_764
    survival = model.predict_survival(pd.DataFrame(TREATMENT), EVERY)
    assert survival[:, 120] == pytest.approx((0.76178651, 0.82010567), abs=5e-9)


def test_weighted_survival_is_that_of_program_17_4(treated, deaths, weights):
    model = pooled(treated, deaths, weights)
    survival = model.predict_survival(pd.DataFrame(TREATMENT), EVERY)
    assert survival[:, 120] == pytest.approx((0.80666725, 0.80465165), abs=5e-9)
    assert survival[0, 120] - survival[1, 120] == pytest.approx(0.0020156, abs=5e-9)
    means = survival[:, :120].sum(axis=1)
    assert means == pytest.approx((107.93557943, 108.98360787), abs=1e-8)


def test_standardised_survival_is_that_of_program_17_5(treated, deaths, nhefs_covariates):
    X = nhefs_covariates.assign(qsmk=treated["qsmk"])
    model = pooled(X, deaths)
    survival = [model.predict_survival(X.assign(qsmk=a), [120]).mean() for a in (1.0, 0.0)]
    assert survival == pytest.approx((0.80702559, 0.80513975), abs=5e-9)


def test_weighted_kaplan_meier_curves_of_both_groups(treated, deaths, weights):
    found = []
    for a in (1, 0):
        own = (treated["qsmk"] == a).to_numpy()
        found.append(kaplan_meier(deaths[own], sample_weight=weights[own]).at([120])[0])
    assert found == pytest.approx((0.80657269, 0.80469261), abs=5e-9)


def test_risk_difference_with_the_weights_as_given(nhefs, weights):
    people = pd.DataFrame({"treated": nhefs.qsmk, "time": months(nhefs), "event": nhefs.death})
    found = absolute_effect(people, weights=weights, horizon=120)
    assert found.risk_difference == pytest.approx(-0.00188008198, rel=1e-7)
    assert found.risk_se == pytest.approx(0.0233465837, rel=1e-8)


def test_ties_by_breslow_change_the_hazard_ratio(treated, deaths, weights):
    model = CoxRegression(ties="breslow").fit(treated, deaths, sample_weight=weights)
    assert model.coef_[0] == pytest.approx(0.001344816, abs=5e-9)
    assert model.summary(kind="robust")["se"].iloc[0] == pytest.approx(0.133916597, abs=5e-9)


def test_weights_have_the_means_and_the_marginal_odds_ratio_of_chapter_12(quitters):
    W, a, _, death = quitters
    plain = PropensityWeights().fit(W, a).weights_
    stable = PropensityWeights(stabilized=True).fit(W, a).weights_
    assert (plain.mean(), stable.mean()) == pytest.approx((1.99628, 0.99884), abs=5e-6)
    model = LogisticRegression().fit(a.to_frame().astype(float), death, sample_weight=stable)
    row = model.summary(kind="robust").loc["qsmk"]
    assert (row["coef"], row["se"]) == pytest.approx((0.03011981, 0.15732182), abs=1e-8)


def test_censoring_weights_have_the_robust_error_of_chapter_12(nhefs, nhefs_covariates):
    observed = nhefs.wt82_71.notna().to_numpy()
    first = PropensityWeights().fit(nhefs_covariates, nhefs.qsmk).weights_
    with_treatment = nhefs_covariates.assign(qsmk=nhefs.qsmk)
    remain = PropensityWeights().fit(with_treatment, observed * 1).weights_
    d = nhefs[observed]
    model = LinearRegression().fit(
        d[["qsmk"]].astype(float), d.wt82_71, sample_weight=(first * remain)[observed]
    )
    row = model.summary(kind="robust").loc["qsmk"]
    assert (row["coef"], row["se"]) == pytest.approx((3.49649333, 0.52564358), abs=1e-8)


def test_means_of_chapter_13_and_the_coefficient_of_the_treatment(quitters):
    W, a, gain, _ = quitters
    X = W.assign(qsmk=a, product=a * W.smokeintensity)
    model = LinearRegression().fit(X, gain)
    means = [
        model.predict(W.assign(qsmk=t, product=t * W.smokeintensity)).mean() for t in (1.0, 0.0)
    ]
    assert means == pytest.approx((5.27358732, 1.75621312), abs=5e-9)
    row = LinearRegression().fit(W.assign(qsmk=a), gain).summary().loc["qsmk"]
    assert (row["coef"], row["se"]) == pytest.approx((3.46262182, 0.43845426), abs=1e-8)


def test_weights_that_are_not_normalised_are_augmentation_of_zeros(quitters):
    W, a, gain, _ = quitters
    score = LogisticRegression().fit(W, a).predict_proba(W)[:, 1]
    zeros = np.zeros((len(a), 2))
    found = DoublyRobust(method="aipw").fit(W, a, gain, score=score, means=zeros)
    row = found.effects_.query("measure == 'mean difference'").iloc[0]
    assert row["estimate"] == pytest.approx(3.42401228, abs=5e-9)


def test_g_computation_of_deaths_is_that_of_ltmle(quitters):
    """One period, with the product of treatment and intensity."""
    W, a, _, death = quitters
    d = W.assign(id=np.arange(len(a)), period=0, quit=a, death=death)
    roles = {"id": "id", "period": "period", "treatment": "quit", "outcome": "death"}
    formula = "smokeintensity * quit + " + " + ".join(W)
    simulated = parametric_g_formula(
        d, **roles, baseline=list(W), models={"death": formula}, copies=1, bootstrap=0
    )
    assert simulated.contrasts["estimate"][0] == pytest.approx(-0.00317589946, abs=1e-9)
    # Iterated expectations have no product with the treatment.
    iterated = iterated_g_computation(d, **roles, covariates=list(W), bootstrap=0)
    plain = parametric_g_formula(d, **roles, baseline=list(W), copies=1, bootstrap=0)
    assert iterated.risks["risk"].to_numpy() == pytest.approx(plain.risks["risk"], abs=1e-8)


def test_iptw_and_g_formula_of_the_sample_have_the_numbers_of_zepid(zepid_sample):
    d = zepid_sample.copy()
    for name in ("age0", "cd40"):
        d[[f"{name}'", f"{name}''"]] = splines(d[name])
    d = d[d.dead.notna()].reset_index(drop=True)
    W, a, dead = d.drop(columns=["art", "dead"]), d.art, d.dead.to_numpy()
    means = under_both(LogisticRegression(), W, a, dead)
    assert (means[:, 0] - means[:, 1]).mean() == pytest.approx(-0.07570369, abs=5e-9)
    w = PropensityWeights(stabilized=True).fit(W, a).weights_
    model = LinearRegression().fit(a.to_frame().astype(float), dead, sample_weight=w)
    row = model.summary(kind="robust").loc["art"]
    assert (row["coef"], row["se"]) == pytest.approx((-0.08166424, 0.03810629), abs=1e-8)
