"""Published matched sets and series: numbers of R's survival 3.5, Epi and gnm.

The data are those of Breslow and Day (1980; bdendo of Epi), of the Diabetic Retinopathy Study
(retinopathy of survival) and of Harvey and Durbin (1986; Seatbelts of R).
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from steropes import (
    ConditionalLogisticRegression,
    ConditionalPoissonRegression,
    CoxRegression,
    Surv,
)

DATA = Path(__file__).parent / "data"


def test_endometrial_cancer_in_sets_of_five():
    table = pd.read_csv(DATA / "bdendo.csv")
    model = ConditionalLogisticRegression()
    model.fit(table[["est", "gall", "hyp"]], table["case"], strata=table["set"])
    expected = [2.1243878152, 1.2761075694, -0.0401078058]
    np.testing.assert_allclose(model.coef_, expected, atol=5e-10)
    errors = [0.4473236672, 0.4110315821, 0.3431251991]
    np.testing.assert_allclose(model.summary()["se"], errors, atol=5e-10)
    assert model.log_likelihood_ == pytest.approx(-78.86446808, abs=5e-9)


def test_retinopathy_of_two_eyes():
    table = pd.read_csv(DATA / "retinopathy.csv")
    y = Surv(table["futime"], table["status"])
    within = CoxRegression(ties="efron").fit(table[["trt"]], y, strata=table["id"])
    assert within.coef_[0] == pytest.approx(-0.9622758451, abs=5e-10)
    assert within.summary()["se"].iloc[0] == pytest.approx(0.2016127966, abs=5e-10)
    between = CoxRegression(ties="efron").fit(table[["trt"]], y)
    assert between.coef_[0] == pytest.approx(-0.7766374096, abs=5e-10)
    robust = between.summary(kind="robust", cluster=table["id"])
    assert robust["se"].iloc[0] == pytest.approx(0.1474608275, abs=5e-10)


def test_deaths_of_drivers_within_years():
    table = pd.read_csv(DATA / "seatbelts.csv")
    months = pd.get_dummies(table["month"], prefix="month", drop_first=True, dtype=float)
    X = pd.concat([table[["law"]], months], axis=1)
    model = ConditionalPoissonRegression().fit(X, table["drivers"], strata=table["year"])
    assert model.coef_[0] == pytest.approx(-0.2333339091, abs=5e-9)
    assert model.summary()["se"].iloc[0] == pytest.approx(0.0993034273, abs=5e-9)
