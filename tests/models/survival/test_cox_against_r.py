"""Cox regression against R's survival package: fits, curves, tests, robust covariances."""

import numpy as np
import pytest
from scipy import sparse

import steropes
from reference_numbers import data, numbers, reference

CASES = {
    "lung": ("lung", ["age", "sex", "karno", "loss"], None, None),
    "lung strata": ("lung", ["age", "karno", "loss"], "sex", None),
    "lung weights": ("lung", ["age", "sex", "karno", "loss"], None, "w"),
    "veteran": ("veteran", ["trt", "karno", "age", "prior"], None, None),
    "veteran strata": ("veteran", ["trt", "karno", "age", "prior"], "celltype", None),
    "heart": ("heart", ["age", "year", "surgery", "transplant"], None, None),
    "heart strata": ("heart", ["age", "year", "transplant"], "surgery", None),
}


def outcome(name):
    d = data(name)
    if name == "heart":
        return steropes.Surv(d["stop"], d["event"], d["start"])
    return steropes.Surv(d["time"], d["status"])


def fit(case, ties):
    name, columns, strata, weight = CASES[case]
    d = data(name)
    given = {"strata": d[strata]} if strata else {}
    if weight:
        given["sample_weight"] = d[weight]
    return steropes.CoxRegression(ties=ties).fit(d[columns], outcome(name), **given)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("case", CASES)
def test_fit_and_what_follows_from_it(case, ties):
    m = fit(case, ties)
    check = f"{case} {ties}"
    name, columns, strata, weight = CASES[case]
    d = data(name)
    assert m.converged_
    np.testing.assert_allclose(m.coef_, numbers(f"{check} coef"), rtol=1e-7, atol=1e-9)
    V = numbers(f"{check} vcov")
    np.testing.assert_allclose(m.vcov("model").to_numpy(), V, rtol=1e-6, atol=1e-12)
    assert m.log_likelihood_ == pytest.approx(float(numbers(f"{check} loglik")), rel=1e-10)
    c = m.validation.concordance(
        d[columns], outcome(name), sample_weight=d[weight] if weight else None,
        strata=d[strata] if strata else None,
    )  # fmt: skip
    assert c == pytest.approx(float(numbers(f"{check} concordance")), rel=1e-12)
    base = reference(f"{check} basehaz")
    ours = m.curves.baseline_hazard(level=None)
    # R numbers the strata in the order of their labels, and gives every time.
    labels = sorted(set(d[strata])) if strata else [None]
    for s, t, h in base[["stratum", "time", "hazard"]].to_numpy():
        mine = ours if not strata else ours[ours["stratum"] == labels[int(s) - 1]]
        got = mine["cumulative_hazard"][mine["time"] <= t].max() if (mine["time"] <= t).any() else 0
        assert got == pytest.approx(h, rel=2e-6)


@pytest.mark.sampled
@pytest.mark.parametrize("transform", ["km", "identity", "log", "rank"])
@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("case", CASES)
def test_proportionality_is_cox_zph(case, ties, transform):
    m = fit(case, ties)
    expected = reference(f"{case} {ties} zph {transform}")
    table = m.checks.proportionality(transform)
    assert list(table.index) == list(expected.index)
    assert list(table.columns) == ["chisq", "df", "p"]
    np.testing.assert_allclose(table.to_numpy(), expected.to_numpy(), rtol=1e-6, atol=1e-9)


@pytest.mark.sampled
@pytest.mark.parametrize("transform", ["km", "identity", "log", "rank"])
@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("case", ["lung", "heart", "veteran strata"])
def test_rows_without_weight_are_absent_from_the_test_too(case, ties, transform, rng):
    name, columns, strata, _ = CASES[case]
    d, y = data(name), outcome(name)
    w = (rng.random(len(d)) < 0.8) * rng.uniform(0.5, 2, len(d))
    m = steropes.CoxRegression(ties=ties)
    given = [{"strata": d[strata][at]} if strata else {} for at in (w >= 0, w > 0)]
    one = m.fit(d[columns], y, sample_weight=w, **given[0]).checks.proportionality(transform)
    m.fit(d[columns][w > 0], y[w > 0], sample_weight=w[w > 0], **given[1])
    two = m.checks.proportionality(transform)
    np.testing.assert_allclose(one.to_numpy(), two.to_numpy(), rtol=1e-6)


def test_proportionality_of_many_sparse_columns_is_that_of_dense_ones(rng):
    X = (rng.random((3000, 120)) < 0.1).astype(float)
    time = np.ceil(rng.exponential(np.exp(-X[:, :5].sum(axis=1)), 3000) * 200)
    y = steropes.Surv(time, rng.random(3000) < 0.8)
    tables = []
    for storage in (np.asarray, sparse.csc_array):
        m = steropes.CoxRegression().fit(storage(X), y, strata=np.arange(3000) % 3)
        tables.append(m.checks.proportionality().to_numpy())
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-6)
    assert tables[0][-1, 1] == 120
    assert (tables[0][:-1, 2] < 0.05).mean() < 0.15  # proportional as drawn


def test_proportionality_takes_a_function():
    m = fit("veteran", "efron")
    one, two = m.checks.proportionality("log"), m.checks.proportionality(np.log)
    np.testing.assert_allclose(one.to_numpy(), two.to_numpy(), rtol=1e-12)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("case", ["lung", "lung weights", "lung strata", "heart strata"])
def test_robust_covariance(case, ties):
    V = fit(case, ties).vcov("robust").to_numpy()
    np.testing.assert_allclose(V, numbers(f"{case} {ties} robust"), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_robust_covariance_of_clusters(ties):
    V = fit("lung", ties).vcov("robust", cluster=data("lung")["cl"]).to_numpy()
    np.testing.assert_allclose(V, numbers(f"lung cluster {ties} robust"), rtol=1e-6, atol=1e-12)
    V = fit("heart", ties).vcov("robust", cluster=data("heart")["id"]).to_numpy()
    np.testing.assert_allclose(V, numbers(f"heart cluster {ties} robust"), rtol=1e-6, atol=1e-12)


def test_step_functions_of_time():
    d = data("veteran")
    m = steropes.CoxRegression(time_varying={"karno": [60, 120]})
    m.fit(d[["trt", "age", "karno"]], outcome("veteran"))
    s = m.summary()
    assert list(s.index) == ["trt", "age", "karno@(0,60]", "karno@(60,120]", "karno@(120,inf)"]
    expected = reference("veteran steps coef")
    assert list(expected.index)[:2] == ["trt", "age"]
    np.testing.assert_allclose(m.coef_, numbers("veteran steps coef"), rtol=1e-7)
    np.testing.assert_allclose(m.vcov().to_numpy(), numbers("veteran steps vcov"), rtol=1e-6)


def test_survival_curves():
    d = data("veteran")
    m = steropes.CoxRegression().fit(d[["trt", "karno", "age"]], outcome("veteran"))
    new = np.array([[1.0, 40, 50], [2, 80, 60]])
    curves = m.predict_survival(new, [10, 50, 100, 200])
    np.testing.assert_allclose(curves, numbers("veteran curve").T, rtol=1e-7)
