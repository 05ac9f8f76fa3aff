"""Models without covariates, from formulas: the numbers of R 4.2.2 (survival 3.5-3, MASS)."""

import numpy as np
import pandas as pd
import pytest

from steropes import (
    ConditionalLogisticRegression,
    CoxRegression,
    CumulativeProbabilityModel,
    DataError,
    FineGrayRegression,
    Jeffreys,
    Laplace,
    LinearRegression,
    LogisticRegression,
    PoissonRegression,
    PooledLogisticRegression,
    Surv,
    aalen_johansen,
)

DATA = pd.DataFrame(
    {
        "t": [4, 3, 1, 1, 2, 2, 3, 5, 6, 6], "e": [1, 0, 1, 1, 0, 1, 1, 0, 1, 0],
        "k": [0, 2, 1, 0, 3, 1, 1, 2, 0, 1], "y": [1, 0, 0, 1, 1, 0, 1, 0, 0, 1],
        "z": np.array([5, -3, 0, 8, -6, 2, -1, 4, -7, 1]) / 10, "g": [1, 1, 1, 2, 2, 2, 1, 2, 1, 2],
        "c": [1, 0, 2, 1, 0, 2, 1, 0, 1, 0],
    }
)  # fmt: skip


def close(a, b, rtol=1e-8):
    np.testing.assert_allclose(np.asarray(a, float), b, rtol=rtol)


def test_cox_is_coxph():
    m = CoxRegression.from_formula("Surv(t, e) ~ 1", DATA)
    close([m.log_likelihood_, m.null_log_likelihood_, m.aic_], [-10.450452223] * 2 + [20.900904446])
    martingale = [
        0.24722222222, -0.50277777778, 0.84444444444, 0.84444444444, -0.33611111111,
        0.66388888889, 0.49722222222, -0.75277777778, -0.25277777778, -1.25277777778,
    ]  # fmt: skip
    close(m.checks.residuals("martingale"), martingale)
    curve = m.curves.survival(m.design_matrix(DATA.iloc[:2]), times=[1, 2, 3, 4, 6])
    survival = [0.80968409698, 0.71454370766, 0.60484819017, 0.47105624414, 0.28571005452]
    se = [0.12103539375, 0.13923646250, 0.15509191818, 0.16869369036, 0.17571713210]
    close(curve[["survival", "se"]].iloc[5:], np.column_stack([survival, se]))
    assert m.summary().empty
    assert m.vcov().shape == (0, 0)
    assert m.validation.concordance(m.design_matrix(DATA), Surv(DATA["t"], DATA["e"])) == 0.5
    by = CoxRegression.from_formula("Surv(t, e) ~ strata(g) + offset(z)", DATA)
    close(by.log_likelihood_, -5.6227286735)


def test_rates_odds_and_means_are_those_of_glm_and_lm():
    m = PoissonRegression.from_formula("k ~ offset(z)", DATA)
    close(m.summary()[["coef", "se"]], [[-0.034288388828, 11**-0.5]], rtol=1e-7)
    close([m.log_likelihood_, m.aic_], [-15.955226122, 33.910452244])
    m = LogisticRegression.from_formula("y ~ 0 + offset(z)", DATA)
    close(m.log_likelihood_, -6.6333015165)
    m = LinearRegression.from_formula("z ~ 1", DATA)
    close([m.log_likelihood_, m.aic_, m.bic_], [-6.2436592862, 16.4873185724, 17.0924887584])
    assert m.predict(m.design_matrix(DATA)) == pytest.approx(np.full(10, DATA["z"].mean()))


def test_thresholds_are_those_of_polr():
    m = CumulativeProbabilityModel.from_formula("k ~ 1", DATA)
    se = [0.69006555934, 0.69006555934, 1.05409255339]
    close(m.alpha_summary()[["alpha", "se"]].T, [np.log([3 / 7, 7 / 3, 9]), se])
    close(m.log_likelihood_, -12.798542258)
    assert m.predict_quantile(m.design_matrix(DATA))[0] == 1.0


def test_other_families():
    m = ConditionalLogisticRegression.from_formula("y ~ strata(g)", DATA)
    close(m.log_likelihood_, -4.605170186)
    m = PooledLogisticRegression.from_formula("Surv(t, e) ~ 1", DATA, interval=2, baseline=0)
    at_risk, events = 10 + 6 + 3, 6  # persons who begin an interval, and who have the event in one
    close(m.intercept_, np.log(events / (at_risk - events)))
    m = FineGrayRegression.from_formula("Surv(t, c) ~ 1", DATA)
    X = m.design_matrix(DATA.iloc[:1])
    curve = m.curves.incidence(X, times=[2.0, 4.0])
    close(curve["incidence"], m.predict_cumulative_incidence(X, [2.0, 4.0])[0])
    theirs = aalen_johansen(Surv(DATA["t"], DATA["c"])).at([2.0, 4.0])[1]
    close(curve["incidence"], theirs, rtol=0.1)  # 1 − exp(−Λ) is not the product limit


@pytest.mark.parametrize(
    "given",
    [
        {"prior": Laplace()},
        {"prior": Jeffreys()},
        pytest.param({"solver": "ccd"}, marks=pytest.mark.host),
    ],
)
def test_settings_that_have_nothing_to_act_on(given):
    m = CoxRegression.from_formula("Surv(t, e) ~ 1", DATA, **given)
    close(m.log_likelihood_, -10.450452223)


def test_what_has_no_meaning_without_covariates_is_refused():
    m = CoxRegression.from_formula("Surv(t, e) ~ 1", DATA)
    with pytest.raises(DataError, match="is the null model"):
        m.inference.model_tests()
    with pytest.raises(DataError, match="no covariates"):
        m.checks.proportionality()
    with pytest.raises(DataError, match="expecting 0 features"):
        m.predict(DATA[["z"]].to_numpy())
    assert not m.predict(DATA[["z"]]).any()  # data, of which the formula names no column
    with pytest.raises(DataError, match="nothing to choose"):
        CoxRegression.from_formula("Surv(t, e) ~ 1", DATA, prior=Laplace(), cv=3)
    with pytest.raises(DataError, match="X has no columns"):  # which is a mistake more often
        CoxRegression().fit(DATA[[]], Surv(DATA["t"], DATA["e"]))
    with pytest.raises(DataError, match="a model without covariates is '~ 1'"):
        CoxRegression.from_formula("Surv(t, e) ~", DATA)
    m = CumulativeProbabilityModel.from_formula("k ~ 1", DATA)
    assert "KKT violation" in str(m).splitlines()[-1]  # and no empty table
    with pytest.raises(DataError, match="no covariates"):
        m.checks.parallelism(m.design_matrix(DATA), DATA["k"])
