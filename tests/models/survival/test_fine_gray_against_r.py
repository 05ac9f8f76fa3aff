"""Fine-Gray regression against R's finegray and coxph."""

import numpy as np
import pytest

import steropes
from reference_numbers import data, numbers

X = ["age", "male", "mspike", "hgb"]
CASES = {"mgus2 1": ("mgus2", 1, False), "mgus2 2": ("mgus2", 2, False),
         "few 1": ("few", 1, False), "few strata 1": ("few", 1, True)}  # fmt: skip


def fit(case):
    name, cause, stratified = CASES[case]
    d = data(name)
    given = {"strata": d["stratum"].map({1: "b", 2: "c", 3: "a"})} if stratified else {}
    return steropes.FineGrayRegression(cause=cause).fit(
        d[X], steropes.Surv(d["time"], d["code"]), **given
    )


@pytest.mark.parametrize("case", CASES)
def test_fit_is_coxph_of_finegray(case):
    m = fit(case)
    assert m.converged_
    np.testing.assert_allclose(m.coef_, numbers(f"{case} coef"), rtol=1e-6, atol=1e-9)
    V = numbers(f"{case} vcov")
    np.testing.assert_allclose(m.vcov().to_numpy(), V, rtol=1e-6, atol=1e-12)
    assert m.log_likelihood_ == pytest.approx(float(numbers(f"{case} loglik")), rel=1e-9)


@pytest.mark.parametrize("case", ["mgus2 1", "mgus2 2", "few 1"])
def test_cumulative_incidence_is_that_of_survfit(case):
    new = np.array([[60.0, 0, 1, 13], [80, 1, 2, 12]])
    curves = fit(case).predict_cumulative_incidence(new, [12, 60, 120, 240])
    np.testing.assert_allclose(curves, numbers(f"{case} incidence").T, rtol=1e-6)
