"""Marginal structural models and g-computation equal analyses by hand, zEpid and R's ltmle."""

import numpy as np
import pandas as pd
import pytest

from designs.conftest import PUBLISHED
from designs.test_sequential_trials import ROLES, simulate
from steropes import CoxRegression, DataError, LogisticRegression, Normal, SeparationError, Surv
from steropes.designs.target_trials.person_time import read_person_time
from steropes.designs.target_trials.sequential_trial_estimates import coefficients
from steropes.designs.time_varying import iterated_g_computation, marginal_structural_model
from steropes.designs.time_varying.marginal_structural_model import _Analysis
from steropes.designs.time_varying.stabilized_weights import StabilizedWeights
from steropes.models.estimators.fractional_logistic_regression import FractionalLogisticRegression


@pytest.fixture(scope="module")
def months():
    return simulate(n=200, seed=4)


@pytest.fixture(scope="module")
def longitudinal():
    """zEpid's people as person-time."""
    d = pd.read_csv(PUBLISHED / "longitudinal.csv", index_col=False)
    parts = [
        pd.DataFrame({"id": d["id"], "period": k, "treatment": d[f"A{k}"], "L": d[f"L{k}"],
                      "W": d["W"], "outcome": d[f"Y{k}"]})
        for k in (1, 2, 3)
    ]  # fmt: skip
    rows = pd.concat(parts).dropna(subset=["outcome"])
    before = rows.groupby("id")["outcome"].cumsum() - rows["outcome"]
    return rows[before == 0]


@pytest.fixture(scope="module")
def computed(longitudinal):
    return iterated_g_computation(
        longitudinal, **ROLES, covariates=["L"], bootstrap=0,
        strategies={"111": 1, "101": [1, 0, 1], "000": 0},
    )  # fmt: skip


def test_iterated_expectations_have_the_numbers_of_zepid_and_ltmle(computed):
    risks = computed.risks.set_index(["strategy", "time"])["risk"]
    wanted = {
        ("111", 3): 0.41409779, ("000", 3): 0.64645079, ("101", 3): 0.49169371,
        ("111", 2): 0.3349204, ("000", 2): 0.5122774,
    }  # fmt: skip
    for at, value in wanted.items():
        assert risks[at] == pytest.approx(value, abs=1e-7)


def test_targeted_risks_have_the_numbers_of_ltmle(longitudinal):
    """Treatment given the one before and L; errors of the influence function."""
    found = iterated_g_computation(
        longitudinal, **ROLES, covariates=["L"], method="tmle", horizons=[3],
        strategies={"111": 1, "000": 0},
    )  # fmt: skip
    risks = found.risks.set_index("strategy")["risk"]
    assert risks["111"] == pytest.approx(0.42165792, abs=1e-8)
    assert risks["000"] == pytest.approx(0.64593695, abs=1e-8)
    row = found.contrasts.query("measure == 'risk difference'").iloc[0]
    assert row["estimate"] == pytest.approx(-0.22427903, abs=1e-8)
    assert row["se"] == pytest.approx(0.05348105, abs=1e-8)
    assert "Targeted" in found.protocol.loc["Analysis plan", "emulation"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "weights"}, "method must be 'g-computation' or 'tmle'"),
        ({"bound": 0.1}, "are for method='tmle'"),
        ({"method": "tmle", "bound": 1.0}, "bound must be above 0 and below 1"),
        ({"method": "tmle", "censored": "lost"}, "has no model of losses"),
        ({"method": "tmle", "strategies": {"101": [1, 0, 1], "000": 0}}, "Nobody follows"),
    ],
)
def test_targeting_that_cannot_be_done_is_refused(longitudinal, settings, words):
    lost = longitudinal.assign(lost=0)
    last = ~lost["id"].duplicated(keep="last") & (lost["outcome"] == 0)
    lost.loc[last.to_numpy(), "lost"] = 1
    with pytest.raises(DataError, match=words):
        iterated_g_computation(lost, **ROLES, covariates=["L"], **settings)


def test_lags_add_the_history_to_the_models(longitudinal):
    """The case A3 + A2 + L3 of zEpid's tests has the lag of the treatment alone."""
    d = longitudinal.sort_values(["id", "period"])
    found = iterated_g_computation(d, **ROLES, covariates=["L"], lags=1, bootstrap=0, horizons=[2])
    wide = d[d["period"] == 1].merge(d[d["period"] == 2], on="id", how="left", suffixes=("1", "2"))
    wide = wide.fillna(0.0).assign(there=wide["outcome2"].notna())
    names = ["treatment2", "L2", "treatment1", "L1"]
    last = FractionalLogisticRegression().fit(
        wide.loc[wide["there"], names], wide.loc[wide["there"], "outcome2"]
    )
    for a, name in ((1.0, "always"), (0.0, "never")):
        q = last.predict(wide.assign(treatment1=a, treatment2=a)[names])
        y = np.where(wide["outcome1"] == 1, 1.0, q)
        first = FractionalLogisticRegression().fit(wide[["treatment1", "L1"]], y)
        risk = first.predict(wide.assign(treatment1=a)[["treatment1", "L1"]]).mean()
        own = found.risks.set_index("strategy")["risk"]
        assert own[name] == pytest.approx(risk, abs=1e-7)


def test_dynamic_strategies_are_functions_of_covariates(longitudinal):
    found = iterated_g_computation(
        longitudinal, **ROLES, covariates=["L"], bootstrap=3, horizons=[1],
        strategies={"if low": lambda rows: rows["L"] < 0, "never": 0},
    )  # fmt: skip
    d = longitudinal[longitudinal["period"] == 1]
    fit = LogisticRegression().fit(d[["treatment", "L"]], d["outcome"])
    planned = d.assign(treatment=(d["L"] < 0) * 1.0)[["treatment", "L"]]
    assert found.risks["risk"][0] == pytest.approx(fit.predict_proba(planned)[:, 1].mean())
    assert np.isfinite(found.contrasts["se"]).all()


def test_strategies_that_nobody_follows_fail_by_name(computed, longitudinal):
    checks = computed.diagnostics.set_index("diagnostic")["passed"]
    assert not checks["least share of followers of '101'"]
    assert checks["least share of followers of '111'"]
    with pytest.raises(DataError, match="Nobody follows the strategy 'high'"):
        iterated_g_computation(
            longitudinal.assign(A=longitudinal["treatment"]), **ROLES, covariates=["L", "A"],
            strategies={"high": lambda rows: 1 - rows["A"], "never": 0},
        )  # fmt: skip


def weights_by_hand(d):
    """Stabilised weights of treatment with logistic models by the treatment before."""
    d = d.reset_index(drop=True)
    before = d.groupby("id")["treatment"].shift().fillna(0)
    time = d.groupby("id").cumcount() + 1.0
    X = d.assign(t=time, t2=time**2)
    ratio = np.ones(len(d))
    for a in (0, 1):
        own = (before == a).to_numpy()
        p = []
        for names in (["age", "t", "t2"], ["age", "t", "t2", "x"]):
            fit = LogisticRegression().fit(X.loc[own, names], d.loc[own, "treatment"])
            q = fit.predict_proba(X.loc[own, names])[:, 1]
            p.append(np.where(d.loc[own, "treatment"] == 1, q, 1 - q))
        ratio[own] = p[0] / p[1]
    return X, pd.Series(ratio).groupby(d["id"]).cumprod().to_numpy()


def test_marginal_structural_model_is_a_weighted_regression(months):
    X, w = weights_by_hand(months)
    names = ["t", "t2", "treatment", "age"]
    wanted = LogisticRegression().fit(X[names], X["outcome"], sample_weight=w)
    errors = wanted.summary(cluster=X["id"])
    found = marginal_structural_model(months, **ROLES, baseline=["age"], confounders=["x"])
    row = found.effects.iloc[0]
    assert np.log(row["estimate"]) == pytest.approx(errors.loc["treatment", "coef"], rel=1e-6)
    assert row["se"] == pytest.approx(errors.loc["treatment", "se"], rel=1e-6)
    assert found.weights["largest"].max() == pytest.approx(w.max(), rel=1e-7)
    assert found.weights["at_risk"].sum() == len(months)
    assert found.positivity["treatment"].sum() == months["treatment"].sum()
    assert found.positivity["no_treatment"].sum() == (months["treatment"] == 0).sum()
    assert "intention to treat) is not estimated" in repr(found)


def test_stacked_errors_are_derivatives_in_the_weights_of_people(months):
    roles = {**ROLES, "baseline": ["age"], "confounders": ["x"], "censored": "censored"}
    found = marginal_structural_model(months, **roles, errors="stacked")
    rows = read_person_time(
        months, **ROLES, eligible=None, censored="censored",
        covariates=["age", "x"], measured={},
    )  # fmt: skip
    weighting = StabilizedWeights(rows, ("age",), ("x",), True, False, "logistic", True, None, 2)
    analysis = _Analysis(weighting, "logistic")
    w = weighting.weights()
    model = analysis.fit(w)
    influences = analysis.influences(model, w)
    one = int(influences["treatment"].abs().to_numpy().argmax())
    coef = []
    for h in (0.01, -0.01):
        own = (1 + h * (np.arange(rows.people) == one))[rows.person]
        coef.append(coefficients(analysis.fit(own * weighting.weights(own))))
    wanted = (coef[0] - coef[1]) / 0.02
    np.testing.assert_allclose(influences.iloc[one], wanted, rtol=2e-3, atol=1e-4)
    se = np.sqrt((influences["treatment"] ** 2).sum())
    assert found.effects["se"][0] == pytest.approx(se, rel=1e-9)
    with pytest.raises(DataError, match="logistic models by maximum likelihood"):
        marginal_structural_model(months, **roles, errors="stacked", model="cox")


def test_models_of_weights_may_have_a_prior(months):
    roles = {**ROLES, "confounders": ["x", "same"]}
    apart = months.assign(same=9.0 * months["treatment"])
    with pytest.raises(SeparationError, match="weight_model"):
        marginal_structural_model(apart, **roles)
    model = LogisticRegression(prior=Normal(0.01))
    found = marginal_structural_model(apart, **roles, weight_model=model)
    assert found.weights["largest"].max() < 100
    with pytest.raises(DataError, match="weights='cox'"):
        marginal_structural_model(months, **roles, once=True, weights="cox", weight_model=model)


def test_weights_of_a_first_treatment_come_from_cox_models(months):
    started = months.groupby("id")["treatment"].cummax()
    d = months.assign(treatment=started).reset_index(drop=True)
    risk = (d.groupby("id")["treatment"].shift().fillna(0) == 0).to_numpy()
    p = []
    for names in (["age"], ["age", "x"]):
        own = d[risk]
        y = Surv(own["period"], own["treatment"], own["period"] - 1)
        fit = CoxRegression().fit(own[names], y)
        steps = fit.curves.baseline_hazard(level=None).set_index("time")["hazard"]
        h = steps.reindex(own["period"]).fillna(0).to_numpy()
        none = np.exp(-h * np.exp(own[names].to_numpy() @ fit.coef_))
        q = np.ones(len(d))
        q[risk] = np.where(own["treatment"] == 1, 1 - none, none)
        p.append(q)
    w = pd.Series(p[0] / p[1]).groupby(d["id"]).cumprod().to_numpy()
    y = Surv(d["period"], d["outcome"], d["period"] - 1)
    wanted = CoxRegression().fit(d[["treatment", "age"]], y, sample_weight=w)
    found = marginal_structural_model(
        d, **ROLES, baseline=["age"], confounders=["x"], once=True, weights="cox", model="cox"
    )
    assert np.log(found.effects["estimate"].iloc[0]) == pytest.approx(wanted.coef_[0], rel=1e-6)
    assert found.weights["largest"].max() == pytest.approx(w.max(), rel=1e-7)


def test_bootstrap_gives_errors_of_everything(months):
    found = marginal_structural_model(
        months, **ROLES, censored="censored", baseline=["age"], confounders=["x"], bootstrap=2
    )
    assert np.isfinite(found.contrasts["se"]).all()
    assert found.effects["errors"].iloc[0] == "bootstrap of people, 2 draws"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"baseline": ["x"], "confounders": ["age"]}, "'x' is a baseline column but changes"),
        ({"confounders": []}, "confounders must name"),
        ({"confounders": ["x"], "once": True}, "some people stop"),
        ({"confounders": ["x"], "weights": "cox"}, "once=True"),
        ({"confounders": ["x"], "measured": {"x": "late"}}, "measured after the treatment"),
    ],
)
def test_faults_of_marginal_structural_models_are_named(months, settings, message):
    d = months.assign(late=months["period"] + 1)
    with pytest.raises(DataError, match=message):
        marginal_structural_model(d, **ROLES, **settings)


def test_outcomes_of_one_treatment_alone_are_refused(months):
    d = months.assign(outcome=months["outcome"] * months["treatment"])
    with pytest.raises(SeparationError, match="treatment = 0 has the outcome"):
        marginal_structural_model(d, **ROLES, confounders=["x"])


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        (lambda d: d, {"strategies": {"always": 1}}, "two or more"),
        (lambda d: d, {"strategies": {"a": [1], "b": 0}}, "for each of 3 periods"),
        (lambda d: d, {"strategies": {"a": lambda rows: rows["L"], "b": 0}}, "0 or 1 for each"),
        (lambda d: d, {"horizons": [9]}, "from 1 to 3"),
        (lambda d: d.assign(period=d["period"] + d["id"]), {}, "begin in different periods"),
    ],
)
def test_faults_of_strategies_are_named(longitudinal, change, settings, message):
    with pytest.raises(DataError, match=message):
        iterated_g_computation(change(longitudinal), **ROLES, covariates=["L"], **settings)
