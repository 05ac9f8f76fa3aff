"""Robust errors are the default where weights are not whole numbers, as in R's coxph.

All functions that return errors name their kind and use the covariance of ``summary()``.
"""

import numpy as np
import pandas as pd
import pytest

from every_family import EVERY, case
from steropes import (
    CoxRegression,
    DataError,
    Laplace,
    Normal,
    Surv,
    compare_nested_fits,
    fit_many,
)

FAMILIES = [name for name in EVERY if name != "conditional exact"]
MEANS = ("linear", "logistic", "poisson", "gamma", "negative binomial", "multinomial")
BY_TIME = ("cox by step", "pooled change")  # effects that change with time
COX = ("cox", "cox by step", "cox strata")
FINE_GRAY = ("fine gray", "fine gray late")


def last(m):
    """The hypothesis about the last coefficient alone."""
    return np.eye(len(m.summary()))[[-1]]


def strata(c, rows=slice(None)):
    return {"strata": c.extras["strata"][rows]} if c.model is CoxRegression and c.extras else {}


UNIT = np.eye(1, 4, 3)  # a row that differs from zeros in the last column
# Functions with the families that have them; "-" for all but these. Each returns its table, and
# the standard error of the last coefficient where it can be read from that.
FUNCTIONS = {
    "linear combination": ("-", (), lambda m, c: m.inference.linear_combination(last(m))),
    "hypothesis": ("-", (), lambda m, c: m.inference.linear_hypothesis(last(m))),
    "tests of terms": ("-", BY_TIME, lambda m, c: m.inference.term_tests()),
    "tests of the model": ("-", (), lambda m, c: m.inference.model_tests()),
    "intervals": ("-", (), lambda m, c: m.confint()),
    "predictions": (
        "-", (*BY_TIME, "pooled"), lambda m, c: m.effects.predictions(UNIT, reference=0.0 * UNIT)
    ),
    "terms": (
        "-", (*BY_TIME, "multinomial"), lambda m, c: m.effects.terms(UNIT, return_se=True)[1]
    ),
    "average effects": ("+", MEANS, lambda m, c: m.effects.average(c.X)),
    "survival": ("+", COX, lambda m, c: m.curves.survival(c.X[:1], **strata(c, [0]))),
    "baseline": ("+", COX, lambda m, c: m.curves.baseline_hazard()),
    "standardized survival": (
        "+", COX, lambda m, c: m.curves.standardized_survival(c.X, **strata(c)).survival
    ),
    "time quantiles": (
        "+", (*COX, *FINE_GRAY),
        lambda m, c: m.curves.quantile(c.X[:1], 0.3, level=0.9, **strata(c, [0])),
    ),
    "proportionality": (
        "+", ("cox", "cox strata"), lambda m, c: m.checks.proportionality()
    ),
    "incidence": ("+", FINE_GRAY, lambda m, c: m.curves.incidence(c.X[:1])),
    "standardized incidence": (
        "+", FINE_GRAY, lambda m, c: m.curves.standardized_incidence(c.X).times_lost
    ),
    "thresholds": ("+", ("cumulative",), lambda m, c: m.alpha_summary()),
    "means": ("+", ("cumulative",), lambda m, c: m.predict_mean(c.X[:2], level=0.9)),
    "probabilities": ("+", ("cumulative",), lambda m, c: m.predict_cdf(c.X[:2], 0, level=0.9)),
    "quantiles": ("+", ("cumulative",), lambda m, c: m.predict_quantile(c.X[:2], level=0.9)),
}  # fmt: skip
ALWAYS = {"incidence": "robust", "standardized incidence": "robust", "proportionality": "model"}


def expected_kind(function, name, default):
    """The kind of errors that a function must name, with the default kind of the fit."""
    if function == "linear combination" and default == "model":
        return "profile"
    if function == "time quantiles" and name in FINE_GRAY:
        return "robust"
    return ALWAYS.get(function, default)


def error_of_last(function, found, coef):
    """The standard error of the last coefficient that a result implies; None if it has another."""
    if function == "hypothesis":
        return abs(coef) / np.sqrt(found["chisq"])
    if function == "terms":
        return found.iloc[0, -1]
    same = function in ("linear combination", "predictions")
    return found["se"].iloc[-1] if same else None


@pytest.mark.sampled
@pytest.mark.parametrize("name", [*FAMILIES, "multinomial"])
def test_all_functions_name_errors_and_use_those_of_the_summary(name, rng):
    c = case(name, rng, n=120, p=4)
    whole = rng.integers(1, 3, len(c.X)) * 1.0
    for weight, default in ((whole, "model"), (whole * 0.7, "robust")):
        m = c.make().fit(c.X, c.y, sample_weight=weight, **c.extras)
        own = m.summary().iloc[-1]
        for function, (sign, families, call) in FUNCTIONS.items():
            if (name in families) != (sign == "+"):
                continue
            found, kind = call(m, c), expected_kind(function, name, default)
            named = found.errors if isinstance(found, tuple) else found.attrs["errors"]
            assert named == kind, function
            shown = {"profile": "profile limits", "model": ""}.get(kind, "robust")
            assert shown in repr(found), function
            se = error_of_last(function, found, own["coef"])
            if se is not None and kind == default:
                np.testing.assert_allclose(se, own["se"], rtol=1e-9, err_msg=function)


def test_tests_of_likelihoods_say_that_they_take_weights_as_rows(rng):
    c = case("logistic", rng, n=120, p=4)
    weight = rng.uniform(0.5, 2.0, len(c.X))
    m = c.make().fit(c.X, c.y, sample_weight=weight)
    smaller = c.make().fit(c.X[:, :2], c.y, sample_weight=weight)
    tests = m.inference.model_tests()
    wald = m.inference.linear_hypothesis(np.eye(5)[1:], kind="robust")
    assert tests.loc["wald", "chisq"] == wald["chisq"]
    assert "likelihood-ratio" in tests.attrs["note"]
    tables = [
        m.inference.term_tests("likelihood ratio"),
        m.inference.linear_hypothesis("x0", test="score"),
        m.inference.linear_combination("x0 - x1", method="profile"),
        m.summary(kind="profile"),
        m.summary(kind="model"),
        compare_nested_fits(smaller, m),
    ]
    for table in tables:
        assert "whole numbers" in table.attrs["note"]
        assert "model errors" in repr(table) or "profile limits" in repr(table)
    assert m.summary(kind="bootstrap").attrs["errors"] == "bootstrap"


def test_profile_limits_under_a_prior_are_explained_in_print(rng):
    c = case("logistic", rng, n=120, p=4)
    m = c.make(prior=Laplace(0.01, exclude=["x0"])).fit(c.X, c.y)
    assert "none under a prior" in repr(m.summary(kind="profile"))
    assert m.inference.debiased_lasso("x1").summary().attrs["errors"] == "model"
    weighted = c.make(prior=m.prior).fit(c.X, c.y, sample_weight=rng.uniform(0.5, 2.0, 120))
    found = weighted.inference.debiased_lasso("x1")
    assert "robust errors" in repr(found.summary())
    assert found.confint().attrs["errors"] == "robust"
    assert weighted.inference.linear_combination("x0").attrs["errors"] == "profile"


def test_errors_of_many_outcomes_are_named(rng):
    c = case("logistic", rng, n=120, p=4)
    y = (c.y == "yes") * 1
    table = fit_many(c.make(), c.X, {"a": y, "b": 1 - y}, sample_weight=np.full(120, 0.7))
    assert table.attrs["errors"] == "robust"
    assert "robust errors" in repr(table)
    alone = c.make().fit(c.X, y, sample_weight=np.full(120, 0.7)).summary()
    np.testing.assert_allclose(table["se"].to_numpy()[:5], alone["se"], rtol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"ties": "efron"}, marks=pytest.mark.slow),
        {"ties": "breslow", "time_varying": {0: [1.5]}},
        pytest.param({"ties": "efron", "prior": Normal(1.0)}, marks=pytest.mark.slow),
    ],
)
def test_robust_errors_of_cox_curves_are_those_of_changed_weights(settings, rng):
    """The influence of a row is the derivative in the logarithm of its weight."""
    n, at = 18, [0.5, 1.5, 2.5]
    X = np.column_stack([np.arange(n) % 2, rng.normal(size=n)])
    time = np.repeat([0.5, 1.0, 1.5, 2.0, 2.5, 3.0], 3)
    y = Surv(time, np.arange(n) % 5 > 0, np.where(np.arange(n) % 4 < 2, 0.0, time * 0.4))
    stratum, w = np.arange(n) // 2 % 2, rng.uniform(0.3, 2.0, n)
    w[3] = 0.0

    def fit(w):
        model = CoxRegression(tol=1e-11, n_jobs=1, **settings)
        return model.fit(X, y, sample_weight=w, strata=stratum)

    def results(m, kind=None):
        single = m.curves.survival(X[:3], at, strata=stratum[:3], kind=kind)
        tables = m.curves.standardized_survival(X, at, by=0, strata=stratum, kind=kind)
        areas = tables.restricted_mean_differences
        return [(single, "survival"), (tables.survival, "survival"), (areas, "difference")]

    def values(m):
        events = m.curves.expected_events(X, y, strata=stratum)
        return np.concatenate([events, *(table[name] for table, name in results(m, "model"))])

    model, h, squares = fit(w), 1e-4, 0.0
    for i in np.flatnonzero(w):
        up, down = w.copy(), w.copy()
        up[i], down[i] = w[i] * (1 + h), w[i] * (1 - h)
        squares += ((values(fit(up)) - values(fit(down))) / (2 * h)) ** 2
    _, se = model.curves.expected_events(X, y, strata=stratum, return_se=True)
    kinds = {
        kind: model.curves.expected_events(X, y, strata=stratum, return_se=True, kind=kind)[1]
        for kind in ("robust", "model")
    }
    np.testing.assert_array_equal(kinds["robust"], se)
    assert not np.allclose(kinds["model"], se, rtol=1e-3)
    with pytest.raises(DataError, match="set return_se=True"):
        model.curves.expected_events(X, y, strata=stratum, kind="robust")
    ours = np.concatenate([se, *(table["se"] for table, _ in results(model))])
    np.testing.assert_allclose(ours, np.sqrt(squares), rtol=1e-6, atol=1e-11)
    one = X[:1], at, 0.95, stratum[:1]
    clustered = model.curves.survival(*one, cluster=np.arange(n))
    pd.testing.assert_frame_equal(clustered, model.curves.survival(*one), rtol=1e-12)
