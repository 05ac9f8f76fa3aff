"""Selection of covariates by their potential to confound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from sklearn.ensemble import RandomForestClassifier

import steropes
from steropes.designs import (
    Covariates,
    HighDimensionalPropensityScore,
    Matching,
    PropensityRules,
    PropensityWeights,
    balance_table,
    compare_selections,
    fit_scores,
)
from steropes.designs.controls import compare_errors
from steropes.designs.covariates import count_records, recurrence_levels
from steropes.errors import DataError

PUBLISHED = Path(__file__).parent / "published"


@pytest.fixture(scope="module")
def claims() -> tuple[pd.DataFrame, Covariates]:
    people = pd.read_csv(PUBLISHED / "claims_people.csv")
    records = pd.read_csv(PUBLISHED / "claims_records.csv.gz", dtype={"event_code": str})
    counts = count_records(
        records, people["person"], id="person", covariate="event_code", dimension="domain",
        count="records",
    )  # fmt: skip
    return people, counts


@pytest.fixture(scope="module")
def simulated() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return counts of 12 codes with one confounder and one instrument, and people."""
    rng = np.random.default_rng(3)
    n = 4000
    counts = pd.DataFrame(rng.poisson(0.4, (n, 12))).add_prefix("c")
    confounder, instrument = counts["c4"] > 0, counts["c7"] > 0
    p = 1 / (1 + np.exp(0.3 - 1.0 * confounder - 1.2 * instrument))
    people = pd.DataFrame({"drug": rng.binomial(1, p)})
    people["stroke"] = rng.binomial(1, np.where(confounder, 0.3, 0.1))
    for j in range(6):
        people[f"control {j}"] = rng.binomial(1, np.where(confounder, 0.25, 0.1))
    return counts, people


def test_bias_of_claims_agrees_with_autocovariateselection(
    claims: tuple[pd.DataFrame, Covariates],
) -> None:
    people, counts = claims
    chosen = HighDimensionalPropensityScore(k=10, per_dimension=100, min_people=10)
    chosen.fit(counts, people["treatment"], people["died"])
    assert chosen.levels_.columns["code"].nunique() == 228
    assert len(chosen.levels_.columns) == 241
    ranks = chosen.ranks().set_index("name")
    assert int(ranks["selected"].sum()) == 10
    assert_allclose(abs(ranks.loc["px_97116_once", "log_bias"]), 0.08791898, atol=5e-9)
    # Nobody with this code died; R takes the risk ratio to be zero, and this library corrects it.
    without = ranks.loc["dx_7295_once"]
    p1, p0 = without["target_share"], without["comparator_share"]
    assert_allclose(np.log((1 - p1) / (1 - p0)), 0.08857193, atol=5e-9)
    assert 0.08 < without["log_bias"] < 0.08857193


def test_protective_risk_ratios_are_taken_as_they_are_or_inverted() -> None:
    # P₁ = 0.3, P₀ = 0.2 and a risk ratio of one half.
    treatment = np.repeat([1, 0], 1000)
    code = np.r_[np.repeat([1, 0], [300, 700]), np.repeat([1, 0], [200, 800])]
    risk = np.zeros(2000, int)
    risk[np.flatnonzero(code)[:50]] = 1
    risk[np.flatnonzero(code == 0)[:300]] = 1
    for invert, expected in ((False, 0.05715841), (True, 0.0800427)):
        chosen = HighDimensionalPropensityScore(invert_protective=invert)
        ranks = chosen.fit(code[:, None], treatment, risk).ranks()
        assert_allclose(abs(ranks["log_bias"]), expected, atol=5e-8)


def test_a_confounder_without_which_nobody_has_the_outcome_is_first() -> None:
    rng = np.random.default_rng(0)
    X = rng.binomial(1, 0.3, (500, 6))
    treatment = rng.binomial(1, np.where(X[:, 2], 0.8, 0.3))
    outcome = X[:, 2] * rng.binomial(1, 0.5, 500)
    ranks = HighDimensionalPropensityScore().fit(X, treatment, outcome).ranks()
    assert ranks["name"].iloc[0] == "x2_once"
    assert np.isfinite(ranks["risk_ratio"]).all()


def test_many_outcomes_equal_single_ones_and_direct_counts(
    simulated: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    counts, people = simulated
    outcomes = people.drop(columns="drug")
    several = HighDimensionalPropensityScore(k=3).fit(counts, people["drug"], outcomes)
    one = HighDimensionalPropensityScore(k=3).fit(counts, people["drug"], people["stroke"])
    pd.testing.assert_frame_equal(several.ranks("stroke"), one.ranks())
    x, y = (counts["c4"] >= 1).to_numpy(), people["stroke"].to_numpy()
    t = people["drug"].to_numpy() == 1
    row = one.ranks().set_index("name").loc["c4_once"]
    ratio = y[x].mean() / y[~x].mean()
    p1, p0 = x[t].mean(), x[~t].mean()
    assert_allclose(row["risk_ratio"], ratio)
    assert_allclose(row["log_bias"], np.log((p1 * (ratio - 1) + 1) / (p0 * (ratio - 1) + 1)))
    from statsmodels.stats.contingency_tables import StratifiedTable

    tables = [
        np.array([[np.sum(s & x & (y == v)) for v in (1, 0)],
                  [np.sum(s & ~x & (y == v)) for v in (1, 0)]])
        for s in (t, ~t)
    ]  # fmt: skip
    statistic = StratifiedTable(tables).test_null_odds().statistic
    assert_allclose(row["z_outcome"] ** 2, statistic)


@pytest.mark.parametrize("library", [pl.DataFrame, pa.table])
def test_outcomes_keep_the_names_of_columns_and_series(
    simulated: tuple[pd.DataFrame, pd.DataFrame], library: Any
) -> None:
    counts, people = simulated
    table = library(people[["stroke", "control 1"]].to_dict("list"))
    found = HighDimensionalPropensityScore(k=3).fit(counts, people["drug"], table)
    assert found.outcomes_ == ["stroke", "control 1"]
    one = HighDimensionalPropensityScore(k=3).fit(counts, people["drug"], people["stroke"])
    pd.testing.assert_frame_equal(one.ranks("stroke"), found.ranks("stroke"))


def test_instruments_are_named_and_dropped_on_request(
    simulated: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    counts, people = simulated
    kept = HighDimensionalPropensityScore(rank_by="treatment")
    ranks = kept.fit(counts, people["drug"], people["stroke"]).ranks().set_index("name")
    assert ranks.loc["c7_once", "instrument"]
    assert ranks.loc["c7_once", "selected"]
    assert not ranks.loc["c4_once", "instrument"]
    dropped = HighDimensionalPropensityScore(rank_by="treatment", drop_instruments=True)
    dropped.fit(counts, people["drug"], people["stroke"])
    names = set(dropped.covariates().columns["name"])
    assert "c7_once" not in names
    assert "c4_once" in names


def test_levels_are_at_least_the_quantiles_of_people_with_the_code() -> None:
    rng = np.random.default_rng(1)
    counts = rng.poisson(1.5, (300, 5)) * rng.binomial(1, 0.6, (300, 5))
    levels = recurrence_levels(Covariates.of(counts), per_dimension=None)
    found = dict(zip(levels.columns["name"], levels.matrix().toarray().T, strict=True))
    for j in range(5):
        own = counts[:, j]
        for level, q in (("once", 0.0), ("sporadic", 0.5), ("frequent", 0.75)):
            expected = (own > 0) & (own >= np.quantile(own[own > 0], q))
            if f"x{j}_{level}" in found:
                np.testing.assert_array_equal(found[f"x{j}_{level}"], expected)
            else:
                assert any(
                    name.startswith(f"x{j}_") and np.array_equal(column, expected)
                    for name, column in found.items()
                )


def test_records_count_in_the_window_and_by_dimension() -> None:
    records = pd.DataFrame({
        "person": [1, 1, 1, 2, 9], "code": ["a", "a", "a", "a", "a"],
        "source": ["dx", "dx", "rx", "dx", "dx"],
        "day": pd.to_datetime(["2020-01-01", "2020-05-01", "2020-05-01", "2020-05-02",
                               "2020-05-01"]),
    })  # fmt: skip
    start = pd.to_datetime(["2020-05-01", "2020-05-01", "2020-05-01"])
    counts = count_records(
        records, [1, 2, 3], id="person", covariate="code", dimension="source", date="day",
        start=start, window=(-30, 0),
    )  # fmt: skip
    assert counts.columns["name"].tolist() == ["dx_a", "rx_a"]
    np.testing.assert_array_equal(counts.matrix().toarray(), [[1, 1], [0, 0], [0, 0]])


def test_most_prevalent_codes_of_each_dimension_fold_at_one_half() -> None:
    X = np.zeros((10, 3))
    X[:9, 0], X[:4, 1], X[:2, 2] = 1, 1, 1  # Prevalences 0.9, 0.4 and 0.2.
    levels = recurrence_levels(Covariates.of(X), per_dimension=2)
    assert levels.columns["name"].tolist() == ["x1_once", "x2_once"]


def test_selected_columns_are_covariates_of_comparisons_and_weights(
    simulated: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    counts, people = simulated
    chosen = HighDimensionalPropensityScore(k=4).fit(counts, people["drug"], people["stroke"])
    columns = chosen.covariates().beside(pd.DataFrame({"age": np.arange(4000) % 50}))
    model = steropes.LogisticRegression()
    weights = PropensityWeights(model=model).fit(columns, people["drug"])
    same = PropensityWeights(model=model).fit(columns.design(), people["drug"])
    np.testing.assert_array_equal(weights.weights_, same.weights_)
    other = PropensityWeights(model=RandomForestClassifier(5, min_samples_leaf=100, random_state=0))
    assert np.isfinite(other.fit(columns, people["drug"]).score_).all()
    assert Matching(model=model).fit(columns, people["drug"]).weights_.sum() > 0
    balance = balance_table(columns, people["drug"], weights.weights_)
    assert balance["smd_after"].abs().max() < 0.01
    found = steropes.compare_groups(
        people, treatment="drug", outcome="stroke", covariates=columns, model=model,
    )  # fmt: skip
    assert_allclose(found.weights["weights"], weights.weights_)
    crude, adjusted = found.effects.query("measure == 'risk ratio'")["estimate"]
    assert crude > 1.2
    assert 0.8 < adjusted < 1.15
    with pytest.raises(DataError, match="4,000 people and data has 3,999 rows"):
        steropes.compare_groups(
            people.iloc[1:], treatment="drug", outcome="stroke", covariates=columns
        )


def test_selections_are_compared_by_negative_controls(
    simulated: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    counts, people = simulated
    controls = people.filter(like="control")
    chosen = HighDimensionalPropensityScore(k=1).fit(counts, people["drug"], people["stroke"])
    found = compare_selections(
        {"none": None, "one": chosen.covariates(), "wrong": counts[["c7"]]}, people["drug"],
        controls, model=steropes.LogisticRegression(), balance=counts,
    ).set_index("selection")  # fmt: skip
    assert found.loc["one", "ease"] < found.loc[["none", "wrong"], "ease"].min() / 2
    assert found["columns"].tolist() == [0, 1, 1]
    estimates = found.attrs["estimates"].set_index(["selection", "control"])
    own = people.groupby("drug")["control 2"].mean()
    assert_allclose(estimates.loc[("none", "control 2"), "log_rr"], np.log(own[1] / own[0]))
    assert "smd" in pd.concat([found, found]).to_string()  # pandas compares what is in attrs
    with pd.option_context("display.max_columns", 4):
        assert "..." in str(found)
    with pytest.raises(DataError, match=r"controls, column 'control 0' must be true or false"):
        compare_selections({"none": None}, people["drug"], controls * 2)


def test_selections_by_control_and_scores_are_compared(
    simulated: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    counts, people = simulated
    controls = people.filter(like="control").iloc[:, :3]
    chosen = HighDimensionalPropensityScore(k=1).fit(counts, people["drug"], controls)
    model = steropes.LogisticRegression()
    score = PropensityWeights(model=model).fit(counts[["c4"]] > 0, people["drug"]).score_
    found = compare_selections(
        {"own": chosen.covariates, "score": score, "none": None}, people["drug"], controls,
        model=model,
    ).set_index("selection")  # fmt: skip
    assert found.loc["own", "columns"] == 1
    assert np.isnan(found.loc["score", "columns"])
    assert_allclose(found.loc["own", "ease"], found.loc["score", "ease"], rtol=1e-6)
    errors = compare_errors(found.attrs["estimates"], analysis="selection", draws=100)
    assert errors.loc["none", "ease"] > errors.loc["own", "ease"]
    assert_allclose(errors["ease"], found.loc[errors.index, "ease"], atol=1e-4)


def test_selected_covariates_keep_their_ids_for_scores_of_studies() -> None:
    rng = np.random.default_rng(0)
    found = Covariates.of(rng.binomial(1, 0.3, (400, 4)))
    ids = np.array([1002, 503410, 201826210, 201826410])
    found = replace(found, columns=found.columns.assign(covariate_id=ids, analysis_id=ids % 1000))
    treatment = rng.binomial(1, 0.3 + 0.3 * found.column(503410))
    chosen = HighDimensionalPropensityScore(k=2)
    chosen.fit(found, treatment, rng.binomial(1, 0.1 + 0.3 * found.column(503410)))
    selected = chosen.covariates()
    assert 503410 in selected.columns["covariate_id"].tolist()
    rules = PropensityRules(variance=0.1, exclude=(1002,))
    assert fit_scores(selected, treatment, rules).score.shape == (400,)


@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        ({"k": 0}, {}, "k must be"),
        ({"rank_by": "lasso"}, {}, "rank_by"),
        ({"correction": 0.0}, {}, "correction"),
        ({}, {"outcome": [0, 0, 0, 0]}, "same for everybody"),
        ({}, {"outcome": [0, 1, 2, 0]}, "row 2"),
        ({}, {"treatment": [1, 1, 1, 1]}, "one group only"),
        ({}, {"X": [[1.0], [-1.0], [0.0], [0.0]]}, "negative value"),
        ({"min_people": 3}, {}, "no code has 3 people"),
    ],
)
def test_bad_input_has_a_clear_error(
    settings: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    given = {"X": [[1.0], [1.0], [0.0], [0.0]], "treatment": [1, 0, 1, 0], "outcome": [0, 1, 1, 0]}
    with pytest.raises(DataError, match=message):
        HighDimensionalPropensityScore(**settings).fit(**{**given, **change})


def test_an_unknown_outcome_is_refused_and_the_plot_shows_the_foremost(
    simulated: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    counts, people = simulated
    chosen = HighDimensionalPropensityScore(k=3)
    chosen.fit(counts, people["drug"], people[["stroke", "control 1"]])
    with pytest.raises(DataError, match="'stroke', 'control 1', not None"):
        chosen.ranks()
    ax = chosen.plot("stroke", top=5)
    assert [label.get_text() for label in ax.get_yticklabels()][-1] == "c4_once"
