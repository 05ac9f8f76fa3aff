"""The parametric g-formula has its reductions, the numbers of What If, and those of ICE."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from designs.test_sequential_trials import ROLES
from steropes import DataError, LogisticRegression, SeparationError
from steropes.designs.time_varying import iterated_g_computation, parametric_g_formula


def simulate(n, seed, K=3, plan=None):
    """Person-time with a confounder that treatment changes; with a plan the true mean risk too."""
    rng = np.random.default_rng(seed)
    age = rng.normal(size=n)
    x, a, alive, risk = np.zeros(n), np.zeros(n), np.ones(n), 0.0
    there, parts = np.ones(n, bool), []
    for t in range(K):
        x = 0.6 * x - 0.5 * a + 0.3 * age + rng.normal(size=n)
        a = (rng.random(n) < expit(-0.3 + 1.0 * a + 0.8 * x)) * 1.0
        if plan is not None:
            a = plan(x) * 1.0
        hazard = expit(-2.2 + 0.7 * x + 0.2 * age - 0.5 * a)
        risk += float((alive * hazard).mean())
        alive = alive * (1 - hazard)
        y = rng.random(n) < hazard
        frame = {"id": np.arange(n), "period": t, "age": age, "x": x, "treatment": a, "outcome": y}
        parts.append(pd.DataFrame(frame)[there])
        there = there & ~y
    if plan is not None:
        return risk
    return pd.concat(parts, ignore_index=True).astype({"outcome": int})


SETTINGS = {"covariates": ["x"], "baseline": ["age"], "bootstrap": 0}


@pytest.fixture(scope="module")
def months():
    return simulate(4000, seed=1)


@pytest.fixture(scope="module")
def found(months):
    return parametric_g_formula(
        months, **ROLES, **SETTINGS, horizons=[3],
        strategies={"always": 1, "if high": lambda rows: rows["x"] > 0, "as it was": None,
                    "never": 0},
    )  # fmt: skip


def risks_of(result):
    return result.risks.set_index("strategy")["risk"]


def test_risks_are_the_true_ones_and_those_of_iterated_expectations(months, found):
    """Also under a dynamic strategy; the standard errors of these risks are about 0.01."""
    plans = {"always": 1, "if high": lambda rows: rows["x"] > 0, "never": 0}
    iterated = iterated_g_computation(
        months, **ROLES, covariates=["x", "age"], strategies=plans, horizons=[3], bootstrap=0
    )
    rules = {"always": lambda x: x == x, "if high": lambda x: x > 0, "never": lambda x: x != x}
    for name, rule in rules.items():
        own = risks_of(found)[name]
        assert own == pytest.approx(simulate(200_000, seed=2, plan=rule), abs=0.03)
        assert own == pytest.approx(risks_of(iterated)[name], abs=0.015)


def test_the_natural_course_is_near_the_observed_risk(months, found):
    observed = months.groupby("id")["outcome"].max().mean()
    assert risks_of(found)["as it was"] == pytest.approx(observed, abs=0.01)
    assert found.diagnostics["passed"].iloc[-1]
    assert "models of the covariates" in repr(found)
    curved = months.assign(x=months["x"] ** 2)
    curved["outcome"] = ((curved["x"] < 0.3) & (curved["period"] > 0)).astype(int)
    first = curved["outcome"].groupby(curved["id"]).cumsum() - curved["outcome"] == 0
    wrong = parametric_g_formula(
        curved[first], **ROLES, **SETTINGS, copies=1, models={"outcome": "age", "x": "age"}
    )
    assert "add products" in wrong.diagnostics["note"].iloc[-1]


def test_one_period_is_standardisation(months):
    d = months[months["period"] == 0]
    found = parametric_g_formula(d, **ROLES, **SETTINGS, copies=1)
    fit = LogisticRegression().fit(d[["age", "x", "treatment"]], d["outcome"])
    for a, name in ((1.0, "always"), (0.0, "never")):
        X = d.assign(treatment=a)[["age", "x", "treatment"]]
        assert risks_of(found)[name] == pytest.approx(fit.predict_proba(X)[:, 1].mean(), abs=1e-9)


def test_without_covariates_risks_are_crude(months):
    """Saturated hazards by period and current treatment."""
    found = parametric_g_formula(
        months, **ROLES, bootstrap=0, copies=1, lags=0,
        models={"outcome": "treatment * (period + I(period**2))"},
    )  # fmt: skip
    hazard = months.groupby(["treatment", "period"])["outcome"].mean().unstack()
    for a, name in ((1.0, "always"), (0.0, "never")):
        own = found.risks.loc[found.risks["strategy"] == name, "risk"].to_numpy()
        np.testing.assert_allclose(own, 1 - np.cumprod(1 - hazard.loc[a]), atol=1e-7)


def test_treatment_and_confounder_with_feedback_have_no_effect_as_in_what_if():
    """What If, table 20.1, with the means of Y over 100 as risks: 0.60 under all strategies."""
    means = {(0, 0): 84, (0, 1): 52, (1, 0): 76, (1, 1): 44}
    people = {(0, 0, 0): 600, (0, 0, 1): 400, (0, 1, 0): 600, (0, 1, 1): 2400,
              (1, 0, 0): 1200, (1, 0, 1): 800, (1, 1, 0): 400, (1, 1, 1): 1600}  # fmt: skip
    rows = [
        (a0, x, a1, k < n * means[a0, x] // 100)
        for (a0, x, a1), n in people.items()
        for k in range(n)
    ]
    wide = pd.DataFrame(rows, columns=["a0", "x", "a1", "y"]).astype(int)
    wide["id"] = np.arange(len(wide))
    first = pd.DataFrame(
        {"id": wide["id"], "period": 0, "x": 0, "treatment": wide["a0"], "outcome": 0}
    )
    second = pd.DataFrame({"id": wide["id"], "period": 1, "x": wide["x"], "treatment": wide["a1"],
                           "outcome": wide["y"]})  # fmt: skip
    d = pd.concat([first, second])
    plans = {"11": 1, "10": [1, 0], "01": [0, 1], "00": 0}
    found = parametric_g_formula(
        d, **ROLES, covariates=["x"], strategies=plans, horizons=[2], bootstrap=0, copies=3,
        models={"outcome": "x * lag1_treatment", "x": "lag1_treatment"},
    )  # fmt: skip
    assert found.risks["risk"].to_numpy() == pytest.approx(0.6, abs=0.004)
    crude = d[d["period"] == 1].groupby("treatment")["outcome"].mean()
    assert abs(crude[1] - crude[0]) > 0.05


def test_labels_and_flags_are_simulated(months):
    d = months.assign(
        level=pd.cut(months["x"], [-9, -0.5, 0.5, 9], labels=["low", "mid", "high"]).astype(str),
        ill=(months["x"] + np.random.default_rng(0).normal(size=len(months)) > 1) * 1,
    )
    found = parametric_g_formula(
        d,
        **ROLES,
        covariates=["level", "ill"],
        baseline=["age"],
        bootstrap=2,
        copies=1,
        horizons=[3],
    )
    whole = parametric_g_formula(d, **ROLES, **SETTINGS, horizons=[3])
    for name in ("always", "never"):
        assert risks_of(found)[name] == pytest.approx(risks_of(whole)[name], abs=0.03)
    assert np.isfinite(found.contrasts["se"]).all()
    assert found.diagnostics["passed"].all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"covariates": ["age"], "baseline": []}, "'age' never changes"),
        ({"covariates": [], "baseline": ["x"]}, "'x' is a baseline column but changes"),
        ({"covariates": ["x"], "baseline": ["x"]}, "both a baseline column and a covariate"),
        ({"models": {"z": "x"}}, "models has 'z'"),
        ({"copies": 0}, "copies must be a whole number from 1"),
        ({"bootstrap": 1}, "0 or a number of draws"),
        ({"horizons": [4]}, "from 1 to 3"),
        ({"strategies": {"always": 1}}, "two or more"),
        ({"strategies": {"a": [1], "b": 0}}, "for each of 3 periods"),
        ({"measured": {"x": "late"}}, "measured after the treatment"),
        ({"covariates": ["x", "mean_x"]}, "Rename the column 'mean_x'"),
    ],
)
def test_faults_are_named(months, settings, words):
    d = months[months["id"] < 300]
    d = d.assign(late=d["period"] + 1, mean_x=d["x"])
    with pytest.raises(DataError, match=words):
        parametric_g_formula(d, **ROLES, **{**SETTINGS, **settings})


def test_models_without_an_optimum_and_data_without_outcomes_are_refused(months):
    d = months[months["id"] < 300]
    with pytest.raises(SeparationError, match="model of 'outcome' has no finite maximum"):
        parametric_g_formula(
            d.assign(sure=d["outcome"]), **ROLES, covariates=["x", "sure"], bootstrap=0
        )
    with pytest.raises(DataError, match="Nobody has the outcome"):
        parametric_g_formula(d.assign(outcome=0), **ROLES, **SETTINGS)
