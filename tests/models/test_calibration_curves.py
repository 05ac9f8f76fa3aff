"""Smooth calibration curves: a calibrated model, a refit by splines, and overfitted models."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from steropes import (
    ConditionalLogisticRegression,
    CoxRegression,
    CumulativeProbabilityModel,
    DataError,
    FineGrayRegression,
    LinearRegression,
    LogisticRegression,
    Normal,
    PoissonRegression,
    Surv,
)
from steropes.models.validation.calibration_curves import KNOTS, natural_spline_columns

RNG = np.random.default_rng(61)
N = 250
X = RNG.normal(size=(N, 3)) + np.array([0.0, 0.0, 4.0])
Y = RNG.binomial(1, 1 / (1 + np.exp(-X[:, 0])))
TIME, EVENT = RNG.exponential(np.exp(-X[:, 0])), (RNG.random(N) < 0.8) * 1


def test_splines_are_linear_beyond_the_knots():
    knots = np.array([-1.0, 0.0, 2.0])
    x = np.array([-4.0, -3.0, -2.0, 3.0, 4.0, 5.0])
    bent = natural_spline_columns(x, knots)[:, 1]
    np.testing.assert_array_equal(bent[:3], 0)
    np.testing.assert_allclose(bent[3] - 2 * bent[4] + bent[5], 0, atol=1e-12)


def test_the_curve_is_that_of_statsmodels_on_the_same_spline():
    m = LogisticRegression().fit(X, Y)
    table = m.validation.calibration_curve(n=3, points=7, random_state=0)
    eta = m.linear_predictor(X)
    knots = np.quantile(eta, KNOTS)
    fit = sm.Logit(Y, sm.add_constant(natural_spline_columns(eta, knots))).fit(disp=False)
    at = np.log(table["predicted"] / (1 - table["predicted"])).to_numpy()
    expected = fit.predict(sm.add_constant(natural_spline_columns(at, knots)))
    np.testing.assert_allclose(table["apparent"], expected, rtol=1e-5)
    ends = np.quantile(1 / (1 + np.exp(-eta)), [0.05, 0.95])
    np.testing.assert_allclose(table["predicted"].iloc[[0, -1]], ends, rtol=1e-3)
    np.testing.assert_allclose(table["corrected"], table["apparent"] - table["optimism"])


@pytest.mark.parametrize("family", ["logistic", "cox"])
def test_optimism_flattens_the_curve_of_an_overfitted_model(family):
    many = np.column_stack([X, RNG.normal(size=(N, 25))])
    if family == "logistic":
        table = LogisticRegression().fit(many, Y).validation.calibration_curve(n=30, random_state=1)
    else:
        m = CoxRegression().fit(many, Surv(TIME, EVENT))
        table = m.validation.calibration_curve(0.5, n=30, random_state=1)
    first, last = table.iloc[0], table.iloc[-1]
    assert first["corrected"] > first["apparent"]
    assert last["corrected"] < last["apparent"]


def test_a_cox_model_predicts_the_risks_of_its_own_curve():
    w = RNG.integers(1, 3, N).astype(float)
    m = CoxRegression().fit(X, Surv(TIME, EVENT), sample_weight=w)
    table = m.validation.calibration_curve(0.7, n=2, points=5, random_state=0)
    risk = 1 - m.predict_survival(X, [0.7])[:, 0]
    ends = np.quantile(np.repeat(risk, w.astype(int)), [0.05, 0.95])
    np.testing.assert_allclose(table["predicted"].iloc[[0, -1]], ends, rtol=1e-2)
    # The model is right, so that the curve is near the diagonal.
    assert np.abs(table["apparent"] - table["predicted"]).max() < 0.1


@pytest.mark.sampled
@pytest.mark.parametrize("link", ["logit", "probit", "loglog", "cloglog", "cauchit"])
def test_a_cumulative_model_predicts_that_a_value_is_exceeded(link):
    y = np.round(X[:, 0] + RNG.logistic(size=N), 1)
    m = CumulativeProbabilityModel(link=link).fit(X, y)
    table = m.validation.calibration_curve(value=0.5, n=2, points=5, random_state=0)
    risk = np.quantile(m.predict_exceedance(X, 0.5), [0.05, 0.95])
    np.testing.assert_allclose(table["predicted"].iloc[[0, -1]], risk, rtol=1e-2)
    # Observed risks are those of a logistic regression of the exceedance.
    eta = m.linear_predictor(X)
    knots = np.quantile(eta, KNOTS)
    columns = sm.add_constant(natural_spline_columns(eta, knots))
    fit = sm.Logit(y > 0.5, columns).fit(disp=False)
    near = np.abs(m.predict_exceedance(X, 0.5) - table["predicted"][2]).argmin()
    np.testing.assert_allclose(table["apparent"][2], fit.predict(columns[[near]])[0], atol=0.02)


def test_a_fine_gray_model_predicts_the_incidence_of_its_own_curve():
    cause = EVENT * RNG.integers(1, 3, N)
    m = FineGrayRegression(cause=2).fit(X, Surv(TIME, cause))
    table = m.validation.calibration_curve(0.7, n=2, points=5, random_state=0)
    risk = np.quantile(m.predict_cumulative_incidence(X, [0.7])[:, 0], [0.05, 0.95])
    np.testing.assert_allclose(table["predicted"].iloc[[0, -1]], risk, rtol=1e-2)
    eta = m.linear_predictor(X)
    knots = np.quantile(eta, KNOTS)
    again = FineGrayRegression(cause=2).fit(natural_spline_columns(eta, knots), Surv(TIME, cause))
    observed = again.predict_cumulative_incidence(natural_spline_columns(eta, knots), [0.7])[:, 0]
    risk = m.predict_cumulative_incidence(X, [0.7])[:, 0]
    by = np.argsort(risk)
    expected = np.interp(table["predicted"], risk[by], observed[by])
    np.testing.assert_allclose(table["apparent"], expected, atol=5e-3)


def test_means_of_linear_and_poisson_models_are_those_of_statsmodels():
    count = RNG.poisson(np.exp(0.5 * X[:, 0]))
    m = PoissonRegression().fit(X, count)
    found = m.validation.calibration_curve(n=2, points=5, random_state=0)
    eta, at = m.linear_predictor(X), np.log(found["predicted"].to_numpy())
    knots = np.quantile(eta, KNOTS)
    columns = [sm.add_constant(natural_spline_columns(x, knots)) for x in (eta, at)]
    fit = sm.GLM(count, columns[0], family=sm.families.Poisson()).fit()
    np.testing.assert_allclose(found["apparent"], fit.predict(columns[1]), rtol=1e-5)

    value = X[:, 0] + RNG.normal(size=N)
    m = LinearRegression().fit(X, value)
    found = m.validation.calibration_curve(n=2, points=5, random_state=0)
    eta, at = m.predict(X), found["predicted"].to_numpy()
    knots = np.quantile(eta, KNOTS)
    columns = [sm.add_constant(natural_spline_columns(x, knots)) for x in (eta, at)]
    fit = sm.OLS(value, columns[0]).fit()
    np.testing.assert_allclose(found["apparent"], fit.predict(columns[1]), rtol=1e-5)


@pytest.mark.parametrize("family", ["linear", "logistic", "cox"])
def test_weights_repeat_rows(family):
    w = RNG.integers(0, 4, N)
    r = np.repeat(np.arange(N), w)
    model, y, time = {
        "linear": (LinearRegression(), X[:, 0] + X[:, 1] ** 2, None),
        "logistic": (LogisticRegression(), Y, None),
        "cox": (CoxRegression(ties="breslow"), Surv(TIME, EVENT), 0.5),
    }[family]
    given = {"time": time, "n": 2, "points": 5, "random_state": 0}
    expected = model.fit(X[r], y[r]).validation.calibration_curve(**given)
    found = model.fit(X, y, sample_weight=w).validation.calibration_curve(**given)
    for name in ("predicted", "apparent"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)


def test_what_has_no_curve_is_refused():
    y = Surv(TIME, EVENT)
    separated = LogisticRegression(prior=Normal(1e6)).fit(X, X[:, 0] > 0)
    with pytest.raises(DataError, match="risks are 0 or 1 up to rounding"):
        separated.validation.calibration_curve(n=2)
    with pytest.raises(DataError, match="time must hold numbers"):
        CoxRegression().fit(X, y).validation.calibration_curve("late")
    with pytest.raises(DataError, match="value contains NaN"):
        CumulativeProbabilityModel().fit(X, TIME).validation.calibration_curve(value=np.nan)
    with pytest.raises(DataError, match="not for this ConditionalLogistic"):
        ConditionalLogisticRegression().fit(
            X, Y, strata=np.arange(N) // 5
        ).validation.calibration_curve()
    with pytest.raises(DataError, match="value is required"):
        CumulativeProbabilityModel().fit(X, TIME).validation.calibration_curve()
    with pytest.raises(DataError, match="value is required"):
        LinearRegression().fit(X, TIME).validation.calibration_curve(value=1.0)
    with pytest.raises(DataError, match="without strata"):
        CoxRegression().fit(X, y, strata=np.arange(N) % 2).validation.calibration_curve(1.0)
    with pytest.raises(DataError, match="without offset"):
        LogisticRegression().fit(X, Y, offset=X[:, 1]).validation.calibration_curve()
    with pytest.raises(DataError, match="time is required"):
        CoxRegression().fit(X, y).validation.calibration_curve()
    with pytest.raises(DataError, match="time is required"):
        LogisticRegression().fit(X, Y).validation.calibration_curve(1.0)
    with pytest.raises(DataError, match="points must be"):
        LogisticRegression().fit(X, Y).validation.calibration_curve(points=1)


@pytest.mark.slow
def test_draws_without_larger_values_or_earlier_events_do_not_count():
    """Of two rows with the value, every seventh draw has none."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 2)), rng.integers(0, 5, 100).astype(float)
    y[:2] = 9
    m = CumulativeProbabilityModel().fit(X, y)
    assert np.isfinite(m.validation.calibration_curve(value=6, n=30, points=3, random_state=0)).all(
        axis=None
    )
    time, event = rng.exponential(size=100), np.zeros(100, int)
    event[np.argsort(time)[[3, 60, 70, 80]]] = 1
    m = CoxRegression(prior=Normal(0.1)).fit(X, Surv(time, event))
    curve = m.validation.calibration_curve(np.sort(time)[5], n=30, points=3, random_state=0)
    assert np.isfinite(curve[["predicted"]]).all(axis=None)
    with pytest.raises(DataError, match=r"event by time 0\.01\d* is 0 or 1 for everybody"):
        m.validation.calibration_curve(np.sort(time)[1], n=3)


def test_a_risk_of_zero_is_refused_by_the_label_of_its_value():
    rng = np.random.default_rng(0)
    labels = ["mild", "moderate", "severe"]
    y = pd.Categorical.from_codes(rng.integers(0, 3, 60), labels, ordered=True)
    m = CumulativeProbabilityModel().fit(rng.normal(size=(60, 2)), y)
    with pytest.raises(DataError, match=r"values above 'severe' is 0 or 1 .* Choose a value"):
        m.validation.calibration_curve(value="severe", n=3)
