"""Fits with a coefficient held where columns are far from zero beside their spread."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from steropes import (
    CoxRegression,
    CumulativeProbabilityModel,
    DataError,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    NotConvergedWarning,
    PoissonRegression,
    PooledLogisticRegression,
    Surv,
)
from steropes.infer.profile_fits import ProfileFits

FAMILIES = {
    "poisson": PoissonRegression,
    "logistic": LogisticRegression,
    "linear": LinearRegression,
}
UNITS = {"years": 1.0, "days": 365.25, "seconds": 365.25 * 86400}
TESTS = ("wald", "score", "likelihood ratio")


def calendar(family, rng, n=300, base=0.0):
    """Counts that rise with the calendar year, of which the intercept at year 0 is −200 or so."""
    year, x = rng.integers(2005, 2021, n).astype(float), rng.normal(size=n)
    eta = base + 0.1 * (year - 2012) + 0.3 * x
    if family == "poisson":
        return year, x, rng.poisson(np.exp(eta)).astype(float)
    if family == "logistic":
        return year, x, (eta + rng.logistic(size=n) > 0).astype(float)
    return year, x, eta + rng.normal(size=n)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_intercept_beside_a_calendar_year_is_tested_as_from_a_centred_year(family, unit, seed):
    year, x, y = calendar(family, np.random.default_rng(seed))
    far = FAMILIES[family]().fit(np.column_stack([year * UNITS[unit], x]), y)
    near = FAMILIES[family]().fit(np.column_stack([year - 2012.0, x]), y)
    for test in TESTS:
        for value in (0.0, -100.0):
            found = far.inference.linear_hypothesis("intercept", value, test=test)
            expected = near.inference.linear_hypothesis([[1.0, -2012.0, 0.0]], value, test=test)
            np.testing.assert_allclose(found.chisq, expected.chisq, rtol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_summary_by_profile_has_the_likelihood_ratio_of_an_intercept_far_from_zero(family, rng):
    year, x, y = calendar(family, rng, base=1.0)
    model = FAMILIES[family]().fit(np.column_stack([year, x]), y)
    table = model.summary(kind="profile")
    ratio = model.inference.linear_hypothesis("intercept", test="likelihood ratio").chisq
    np.testing.assert_allclose(table["z" if "z" in table else "t"]["intercept"] ** 2, ratio)
    for end in table.loc["intercept", ["lower", "upper"]]:
        fall = model.inference.linear_hypothesis("intercept", end, test="likelihood ratio").chisq
        np.testing.assert_allclose(fall, stats.chi2.ppf(0.95, 1), rtol=1e-5)
    assert "note" not in table.attrs


@pytest.mark.parametrize("prior", [Normal(1.0, exclude=[0]), Laplace(0.5, exclude=[0])])
def test_under_a_prior_on_others_the_ratio_is_that_of_a_fit_without_intercept(prior, rng):
    year, x, y = calendar("poisson", rng)
    X = np.column_stack([year, x])
    model = PoissonRegression(prior=prior).fit(X, y)
    without = PoissonRegression(prior=prior, fit_intercept=False).fit(X, y)
    of = [m.log_likelihood_ - prior.separable(["a", "b"]).value(m.coef_) for m in (model, without)]
    found = model.inference.linear_hypothesis("intercept", test="likelihood ratio").chisq
    np.testing.assert_allclose(found, 2 * (of[0] - of[1]), rtol=1e-6)


def test_a_narrow_span_of_years_has_finite_limits(rng):
    """They were infinite where all linear predictors but those moved along stay in bounds."""
    year, x = rng.integers(2015, 2018, 300).astype(float), rng.normal(size=300)
    y = rng.poisson(np.exp(0.05 * (year - 2016) + 0.3 * x))
    model = PoissonRegression().fit(np.column_stack([year, x]), y)
    limits = model.confint("intercept", method="profile").loc["intercept"]
    wald = model.confint("intercept").loc["intercept"]
    np.testing.assert_allclose(limits, wald, rtol=0.05)
    points = model.inference.profile("intercept")
    assert points["point"].iloc[0] < limits["lower"] < limits["upper"] < points["point"].iloc[-1]
    held = model.inference.profile("intercept", [float(limits["upper"])])
    fall = model.log_likelihood_ - held["log_likelihood"][0]
    np.testing.assert_allclose(fall, stats.chi2.ppf(0.95, 1) / 2, rtol=1e-5)


def test_nearly_collinear_columns_have_finite_profile_intervals(rng):
    n = 400
    x = rng.normal(size=n)
    X = np.column_stack([x, x + 1e-3 * rng.normal(size=n), rng.normal(size=n)])
    time = rng.exponential(np.exp(-0.5 * x))
    for model in (
        LogisticRegression().fit(X, (x + rng.logistic(size=n) > 0).astype(int)),
        PoissonRegression().fit(X, rng.poisson(np.exp(0.5 * x))),
        CoxRegression().fit(X, Surv(time, np.ones(n, int))),
    ):
        limits, wald = model.confint([-3], method="profile"), model.confint([-3])
        np.testing.assert_allclose(limits, wald, rtol=0.05)
        table = model.summary(kind="profile")
        for name in ("x0", "x1"):
            ratio = model.inference.linear_hypothesis(name, test="likelihood ratio").chisq
            np.testing.assert_allclose(table["z"][name] ** 2, ratio, rtol=1e-4, atol=1e-6)


def test_a_baseline_of_time_is_held_beside_a_calendar_year(rng):
    year, x = rng.integers(2005, 2021, 300).astype(float), rng.normal(size=300)
    y = Surv(rng.integers(1, 5, 300), rng.random(300) < 0.5)
    far = PooledLogisticRegression(interval=1.0, baseline=1)
    far.fit(np.column_stack([year, x]), y)
    near = PooledLogisticRegression(interval=1.0, baseline=1)
    near.fit(np.column_stack([year - 2012.0, x]), y)
    for test in TESTS:
        found = far.inference.linear_hypothesis("intercept", 1.0, test=test).chisq
        expected = near.inference.linear_hypothesis(
            [[1.0, 0.0, -2012.0, 0.0]], 1.0, test=test
        ).chisq
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    table = far.summary(kind="profile")
    assert np.isfinite(table).all(axis=None)


@pytest.fixture
def stopping(monkeypatch):
    """Let fits that hold a coefficient at some values stop early."""

    def begin(at_value):
        whole = ProfileFits.fit

        def at(self, columns, values):
            found = whole(self, columns, values)
            short = [at_value(j, v.value) for j, v in zip(columns, found, strict=True)]
            return [
                replace(v, f=v.f - 1e4, converged=False) if s else v
                for v, s in zip(found, short, strict=True)
            ]

        monkeypatch.setattr(ProfileFits, "fit", at)

    return begin


def test_a_test_whose_fit_stopped_early_is_missing_and_named(stopping, rng):
    year, x, y = calendar("poisson", rng)
    data = pd.DataFrame({"year": year, "dose": x})
    model = PoissonRegression().fit(data, y)
    expected = model.summary(kind="profile")
    stopping(lambda j, value: j == 2 and value == 0.0)
    with pytest.warns(NotConvergedWarning, match=r"coefficient of 'dose' held at zero .* \(NaN\)"):
        table = model.summary(kind="profile")
    assert table.loc["dose", ["z", "p"]].isna().all()
    pd.testing.assert_frame_equal(table.drop(columns=["z", "p"]), expected.drop(columns=["z", "p"]))
    pd.testing.assert_frame_equal(table.drop(index="dose"), expected.drop(index="dose"))
    assert "'dose'" in table.attrs["note"]
    assert "prior" not in table.attrs["note"]


def test_points_whose_fits_stopped_early_are_missing_and_named(stopping, rng):
    year, x, y = calendar("logistic", rng)
    model = LogisticRegression().fit(np.column_stack([year, x]), y)
    expected = model.inference.profile("x1", [0.1, 0.2, 0.3])
    stopping(lambda j, value: value == 0.2)
    with pytest.warns(NotConvergedWarning, match="profile of 'x1' at 0.2 stopped"):
        table = model.inference.profile("x1", [0.1, 0.2, 0.3])
    assert table["log_likelihood"].isna().tolist() == [False, True, False]
    assert table["gradient"].isna().tolist() == [False, True, False]
    pd.testing.assert_frame_equal(table.iloc[[0, 2]], expected.iloc[[0, 2]])


@pytest.mark.sampled
@pytest.mark.parametrize("family", ["poisson", "logistic", "cox", "pooled", "cumulative"])
def test_hypotheses_that_exp_cannot_hold_are_refused(family, rng):
    X = rng.normal(size=(100, 2))
    if family in FAMILIES:
        model = FAMILIES[family]().fit(X, rng.integers(0, 2, 100).astype(float))
    elif family == "cox":
        model = CoxRegression().fit(X, Surv(rng.exponential(size=100), np.ones(100, int)))
    elif family == "cumulative":
        model = CumulativeProbabilityModel().fit(X, rng.poisson(2.0, 100))
    else:
        y = Surv(rng.integers(1, 5, 100), rng.integers(0, 2, 100))
        model = PooledLogisticRegression(interval=1.0, baseline=0).fit(X, y)
    equation = np.zeros((1, len(model.summary())))
    equation[0, -2:] = 1.0
    for hypothesis in ("x0", equation):
        for test in ("score", "likelihood ratio"):
            with pytest.raises(DataError, match=r"that exp overflows|without a finite optimum"):
                model.inference.linear_hypothesis(hypothesis, 1e300, test=test)


def test_the_intercepts_profile_of_columns_far_from_zero_warns_of_nothing(rng):
    z = rng.normal(size=200)
    model = PoissonRegression().fit((z + 1e5)[:, None], rng.poisson(np.exp(z)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.summary(kind="profile")
