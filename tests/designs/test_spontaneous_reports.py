"""Measures of disproportionality agree with R's packages and with simulation."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.designs.test_bias_correction import PUBLISHED

from steropes import DataError, LogisticRegression, Normal
from steropes.designs.surveillance import (
    GammaMixture,
    adjusted_disproportionality,
    disproportionality,
    fit_gamma_mixture,
    report_counts,
)

PAIR = {"observed": [6], "drug_total": [60], "event_total": [300], "total": [100_000]}


def test_measures_are_those_of_r():
    # PhViD 1.0.8 and openEBGM 0.9.1.
    found = disproportionality(pd.DataFrame(PAIR), GammaMixture(0.2, 0.1, 2, 4, 1 / 3)).iloc[0]
    expected = {
        "ror": "37.6591081", "ror_lower": "16.077285", "prr": "33.9931973",
        "prr_lower": "15.7767359", "ic": "3.25683307", "ic_lower": "1.8808441",
        "ic_upper": "4.1849106", "ebgm": "20.3817531", "eb05": "9.8035396",
    }  # fmt: skip
    for name, digits in expected.items():
        half = 0.51 * 10.0 ** -len(digits.split(".")[1])
        if name == "eb05":  # openEBGM's bisection stops early.
            half = 1e-7
        assert found[name] == pytest.approx(float(digits), abs=half), name
    prior = GammaMixture(0.2, 0.1, 2, 4, 1 / 3)
    assert prior.first_share([6], [0.18])[0] == pytest.approx(0.999972235, abs=5e-10)


def squashed(pairs, count, size, keep):
    """Replace pairs with a count by the means of bins, except those with most expected reports."""
    own = pairs[pairs["observed"] == count].sort_values("expected", kind="stable")
    bins = np.arange(len(own) - keep) // size
    means = own[: len(bins)].groupby(bins).agg(
        {"observed": "first", "expected": "mean", "weight": "sum"}
    )  # fmt: skip
    return pd.concat([pairs[pairs["observed"] != count], means, own[len(bins) :]])


# Hyperparameters in the documentation of openEBGM 0.9.1, by data squashing (first count, size of
# bins, pairs kept): α₁, β₁, α₂, β₂ and the share. The first were found by nlminb, the second by a
# genetic algorithm whose digits all count.
CAERS = [
    ([(1, 50, 100), (2, 10, 50)], [3.25374319, 0.39988512, 2.02611022, 1.90806892, 0.06534614],
     3e-5),
    ([(1, 100, 0), (2, 12, 100)], [3.06348827, 0.39108968, 2.04725750, 1.94530893, 0.06915639],
     3e-6),
]  # fmt: skip


def test_the_prior_of_the_caers_data_is_that_of_openebgm():
    pairs = report_counts(pd.read_csv(PUBLISHED / "caers_reports.csv.gz"), drug="product")
    assert len(pairs) == 17_189
    pairs["weight"] = 1
    priors = []
    for bins, published, tolerance in CAERS:
        some = pairs
        for count, size, keep in bins:
            some = squashed(some, count, size, keep)
        priors.append(fit_gamma_mixture(some["observed"], some["expected"], some["weight"]))
        assert astuple(priors[-1]) == pytest.approx(published, rel=tolerance)
    # From five starts nlminb stops elsewhere, 1.5e-5 below the maximum.
    stopped = [3.262411226, 0.400458489, 2.024114863, 1.906078498, 0.065234868]
    assert astuple(priors[0]) == pytest.approx(stopped, rel=0.003)
    # Reumofan Plus (2343) and "weight increased" (1317).
    row = pairs[(pairs["drug"] == 2343) & (pairs["event"] == 1317)]
    for prior in (priors[0], GammaMixture(*stopped)):
        found = disproportionality(row, prior).iloc[0]
        assert found["observed"] == 16
        assert found["expected"] == pytest.approx(0.406436, abs=5e-7)
        assert found["ebgm"] == pytest.approx(23.26, abs=0.005)
        assert found["eb05"] == pytest.approx(15.68, abs=0.006)


def test_posterior_agrees_with_quadrature():
    prior = GammaMixture(3.0, 0.5, 2.0, 2.0, 0.2)
    x = np.linspace(1e-6, 60, 600_001)
    from scipy.stats import gamma, poisson

    density = 0.2 * gamma.pdf(x, 3, scale=2) + 0.8 * gamma.pdf(x, 2, scale=0.5)
    density *= poisson.pmf(4, x * 0.7)
    density /= np.trapezoid(density, x)
    mean_log = np.trapezoid(np.log(x) * density, x)
    assert prior.geometric_mean([4], [0.7])[0] == pytest.approx(np.exp(mean_log), rel=1e-5)
    quantile = x[np.searchsorted(np.cumsum(density) * (x[1] - x[0]), 0.05)]
    assert prior.quantile(0.05, [4], [0.7])[0] == pytest.approx(quantile, abs=2e-4)


@pytest.mark.parametrize("truncated", [False, True])
def test_the_fitted_prior_is_that_of_the_simulation(truncated):
    rng = np.random.default_rng(2)
    n = 6000
    expected = rng.gamma(1, 3, n) + 0.2
    high = rng.random(n) < 0.15
    ratio = np.where(high, rng.gamma(6, 1 / 1.5, n), rng.gamma(8, 1 / 10, n))
    observed = rng.poisson(ratio * expected)
    keep = observed > 0 if truncated else np.full(n, True)
    prior = fit_gamma_mixture(observed[keep], expected[keep], truncation="mixture")
    assert prior.shape1 / prior.rate1 == pytest.approx(4.0, rel=0.15)
    assert prior.shape2 / prior.rate2 == pytest.approx(0.8, rel=0.05)
    assert prior.share == pytest.approx(0.15, abs=0.04)


def test_weights_stand_for_repeated_pairs():
    rng = np.random.default_rng(0)
    observed, expected = (
        rng.poisson(3, 60) + rng.poisson(8, 60) * (rng.random(60) < 0.3),
        np.ones(60) * 3,
    )
    weight = rng.integers(1, 4, 60)
    one = fit_gamma_mixture(observed, expected, weight)
    many = fit_gamma_mixture(np.repeat(observed, weight), np.repeat(expected, weight))
    assert one.shape1 / one.rate1 == pytest.approx(many.shape1 / many.rate1, rel=1e-3)


def test_reports_count_once_however_often_they_name_a_pair():
    reports = pd.DataFrame(
        {"report": [1, 1, 1, 2, 3, 3], "drug": ["a", "a", "b", "a", "b", "b"],
         "event": ["x", "x", "x", "y", "x", "y"]}
    )  # fmt: skip
    found = report_counts(reports).set_index(["drug", "event"])
    assert found.loc[("a", "x"), "observed"] == 1
    assert found.loc[("a", "x"), ["drug_total", "event_total", "total"]].tolist() == [2, 2, 3]
    assert found.loc[("b", "x"), "observed"] == 2
    shuffled = report_counts(reports.sample(frac=1, random_state=1)).set_index(["drug", "event"])
    pd.testing.assert_frame_equal(found, shuffled)


def test_a_report_names_every_pair_of_its_drugs_and_events():
    # Which drug is suspected of which event changes neither totals nor cells below zero.
    linked = pd.DataFrame({"report": [1, 2, 2, 3], "drug": list("aabc"), "event": list("xyxz")})
    found = report_counts(linked).set_index(["drug", "event"])
    assert found.loc[("a", "x"), ["observed", "drug_total", "event_total"]].tolist() == [2, 2, 2]
    assert found.loc[("b", "y"), "observed"] == 1
    disproportionality(found.reset_index())
    for given in (pl.from_pandas(linked), linked.astype("category"), linked.iloc[::-1]):
        pd.testing.assert_frame_equal(
            report_counts(given).astype(object),
            found.reset_index().astype(object),
        )
    names = {"drug": "observed", "event": "total"}
    again = report_counts(linked.rename(columns=names), drug="observed", event="total")
    pd.testing.assert_frame_equal(again, found.reset_index())


def test_ratios_of_empty_cells_are_not_made_up():
    found = disproportionality(
        pd.DataFrame({"observed": [0, 5], "drug_total": [9, 5], "event_total": [9, 9],
                      "total": [99, 99]})
    )  # fmt: skip
    assert found.loc[0, ["ror", "ror_lower", "prr"]].isna().all()
    assert np.isnan(found.loc[1, "ror"])
    assert found["ic"].notna().all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"observed": [61]}, "row 0"),
        ({"total": [200]}, "row 0"),
        ({"observed": [np.nan]}, "observed"),
    ],
)
def test_impossible_counts_are_refused(change, message):
    with pytest.raises(DataError, match=message):
        disproportionality(pd.DataFrame({**PAIR, **change}))


def test_bad_input_is_refused():
    with pytest.raises(DataError, match="lacks the column 'total'"):
        disproportionality(pd.DataFrame(PAIR).drop(columns="total"))
    with pytest.raises(DataError, match="too few"):
        fit_gamma_mixture([1, 2], [1, 1])
    with pytest.raises(DataError, match="expected must be positive"):
        fit_gamma_mixture([1] * 30, [0] * 30)
    with pytest.raises(DataError, match="whole numbers"):
        fit_gamma_mixture([1.5] * 30, [1] * 30)
    with pytest.raises(DataError, match="truncation must be 'parts' or 'mixture', not 'none'"):
        fit_gamma_mixture([1] * 30, [1] * 30, truncation="none")
    with pytest.raises(DataError, match="rate1 must be positive"):
        GammaMixture(1, 0, 1, 1, 0.5)
    with pytest.raises(DataError, match="'event'"):
        report_counts(pd.DataFrame({"report": [1], "drug": ["a"], "event": [None]}))


def co_reported(size=800, seed=2):
    """Reports in which B is often named beside A, which alone causes the rash."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(size):
        a = rng.random() < 0.3
        b = rng.random() < (0.7 if a else 0.1)
        drugs = [d for d, named in (("A", a), ("B", b), ("C", rng.random() < 0.3)) if named]
        events = ["rash"] if rng.random() < (0.4 if a else 0.05) else []
        events += ["fever"] if rng.random() < 0.2 else []
        rows += [(number, d, e) for d in drugs or ["D"] for e in events or ["other"]]
    return pd.DataFrame(rows, columns=["report", "drug", "event"])


def test_adjustment_takes_the_effect_of_co_reported_drugs_off():
    reports = co_reported()
    before = reports.copy()
    found = adjusted_disproportionality(reports)
    pd.testing.assert_frame_equal(reports, before)
    assert found.loc["B, rash", "ror"] > 3
    assert found.loc["B, rash", "lower"] < 1 < found.loc["B, rash", "upper"]
    assert found.loc["A, rash", "lower"] > 3
    # The fit of one event, by hand.
    drugs = pd.crosstab(reports["report"], reports["drug"]).clip(upper=1)
    y = reports.groupby("report")["event"].agg(lambda e: "rash" in set(e)).astype(int)
    model = LogisticRegression(prior=Normal(1.0)).fit(drugs, y)
    own = found[found["event"] == "rash"].set_index("drug")["adjusted_or"]
    np.testing.assert_allclose(
        own, np.exp(pd.Series(model.coef_, drugs.columns)[own.index]), rtol=1e-6
    )
    # A weak prior agrees with maximum likelihood, and events are independent of each other.
    free = adjusted_disproportionality(
        reports, events=["rash"], estimator=LogisticRegression(prior=Normal(1e6))
    )
    assert set(free["event"]) == {"rash"}
    assert free.loc["A, rash", "adjusted_or"] > found.loc["A, rash", "adjusted_or"]
    assert "Adjusted odds ratio (95% CI)" in found.paper_table().columns
    assert found.head(3).plot().get_xlabel().startswith("Adjusted odds ratio")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"events": ["cough"]}, "no report names 'cough'"),
        ({"min_reports": 10_000}, "No drug has 10000 reports"),
        ({"min_reports": 0}, "min_reports must be"),
        ({"drug": "medicine"}, "no column 'medicine'"),
    ],
)
def test_bad_input_of_adjustment_is_refused(options, message):
    with pytest.raises(DataError, match=message):
        adjusted_disproportionality(co_reported(50), **options)
