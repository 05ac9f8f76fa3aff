"""Standardised differences by hand."""

from importlib import import_module
from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from tests.studies.test_tidied_covariates import made

from steropes.designs import covariate_balance
from steropes.designs.propensity import matched_weights
from steropes.errors import DataError

#                 target  target  target  target  comparator ×4
X = {1: [1, 1, 1, 0, 1, 0, 0, 0], 2: [1, 1, 0, 0, 1, 1, 0, 0]}
TREATED = np.array([1, 1, 1, 1, 0, 0, 0, 0])
EVERYBODY = np.ones(8)


def differences(x, treated=TREATED, weights=EVERYBODY, estimand="ate"):
    """The balance of dense columns with these weights, by covariate."""
    table = covariate_balance(made(x, len(treated)), treated, weights, estimand=estimand).table
    return table.set_index("covariate_id")


def test_the_formula_by_hand():
    table = differences(X)
    # 3/4 against 1/4: 0.5 / sqrt((0.1875 + 0.1875) / 2)
    assert table["target_mean_before"].tolist() == [0.75, 0.5]
    assert table["comparator_mean_before"].tolist() == [0.25, 0.5]
    expected = [0.5 / np.sqrt(0.1875), 0.0]
    assert table["smd_before"].to_numpy() == pytest.approx(expected, abs=1e-15)


def test_after_matching_only_the_matched_count():
    matched = np.array([1, 0, 0, 1, 1, 0, 0, 1])
    rows = np.flatnonzero(matched)
    after = differences(X, weights=matched, estimand=None)
    alone = {k: np.array(v)[rows] for k, v in X.items()}
    alone = differences(alone, TREATED[rows], np.ones(4), estimand=None)
    for column in ("target_mean", "comparator_mean", "smd"):
        pd.testing.assert_series_equal(
            after[f"{column}_after"], alone[f"{column}_before"], check_names=False
        )


def test_the_most_unequal_comes_first():
    assert list(differences({1: X[2], 2: X[1]}).index) == [2, 1]


def test_an_empty_arm_is_refused():
    with pytest.raises(DataError, match="an arm has nobody before adjustment"):
        differences(X, treated=np.ones(8))
    with pytest.raises(DataError, match="an arm has nobody after adjustment"):
        differences(X, weights=TREATED)


def test_a_score_is_compared_by_its_mean_and_variance():
    random = np.random.default_rng(3)
    # scores, measurements far from zero, 0/1, and a constant
    x = {
        1: random.integers(0, 4, 60),
        2: random.normal(2000, 3, 60),
        3: random.integers(0, 2, 60),
        4: np.full(60, 7.0),
    }
    treated = random.integers(0, 2, 60)
    table = differences(x, treated, np.ones(60))
    of_cohort_method = differences(x, treated, np.ones(60), estimand=None)
    for j, values in x.items():
        values = values.astype(np.float32).astype(float)
        one, zero = values[treated == 1], values[treated == 0]
        assert table.loc[j, "target_mean_before"] == pytest.approx(one.mean(), rel=1e-12)
        for found, ddof in ((table, int(j != 3)), (of_cohort_method, 0)):
            spread = np.sqrt((one.var(ddof=ddof) + zero.var(ddof=ddof)) / 2)
            expected = (one.mean() - zero.mean()) / spread if spread else 0.0
            assert found.loc[j, "smd_before"] == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_people_and_weights_must_agree():
    with pytest.raises(DataError, match="6 weights after for 8 people"):
        differences(X, weights=np.ones(6))


def test_any_table_of_covariates_gives_the_same_balance():
    rng = np.random.default_rng(3)
    x = (rng.random((60, 4)) < 0.4).astype(float)
    treated, weights = np.arange(60) % 2, rng.random(60)
    expected = (
        covariate_balance(made(dict(enumerate(x.T)), 60), treated, weights)
        .table["smd_after"]
        .to_numpy()
    )
    names = list("abcd")
    for table in (
        x,
        sp.csr_array(x),
        sp.coo_matrix(x),
        pd.DataFrame(x, columns=names),
        pl.DataFrame(x, names),
    ):
        found = covariate_balance(table, treated, weights).table
        np.testing.assert_allclose(found["smd_after"].to_numpy(), expected, rtol=1e-12)
        assert set(found["name"]) == (
            {"x0", "x1", "x2", "x3"} if not hasattr(table, "columns") else set(names)
        )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame({"a": ["x", "y"]}), "encode categories"),
        (
            pd.DataFrame({"a": [1.0, 0.0], "b": [0.0, np.nan]}),
            "covariate 'b' of row 1 is no finite",
        ),
        (np.zeros(2), r"shape \(2,\)"),
        (np.zeros((3, 1)), "3 rows of covariates for 2 people"),
    ],
)
def test_a_table_that_cannot_be_compared_is_rejected(table, message):
    with pytest.raises(DataError, match=message):
        covariate_balance(table, [0, 1], [1, 1])


def test_numbers_of_sets_in_place_of_weights_are_recognised():
    sets = np.array([0, 1, 2, -1, 0, 1, 2, -1])
    with pytest.raises(DataError, match=r"pass after=sets >= 0$"):
        covariate_balance(made(X, 8), TREATED, sets)
    with pytest.raises(DataError, match=r"0 or more$"):
        covariate_balance(made(X, 8), TREATED, sets - 0.5)


def test_many_entries_are_summed_in_parts(monkeypatch):
    rng = np.random.default_rng(4)
    x = {j: rng.integers(0, 2 + j % 3, 40) for j in range(9)}
    treated, weights = np.arange(40) % 2, rng.random(40)
    whole = covariate_balance(made(x, 40), treated, weights).table
    module = import_module("steropes.designs.covariates.weighted_moments")
    monkeypatch.setattr(module, "VALUES_AT_ONCE", 30)
    pd.testing.assert_frame_equal(whole, covariate_balance(made(x, 40), treated, weights).table)


SETS = {
    "five equal strata": (np.repeat(np.arange(5), 100), (30, 40, 50, 60, 70)),
    "strata of other sizes": (np.repeat(np.arange(4), (30, 60, 110, 300)), (10, 20, 50, 200)),
    "pairs": (np.repeat(np.arange(150), 2), (1,) * 150),
    "one to four comparators": (np.repeat(np.arange(120), 2 + np.arange(120) % 4), (1,) * 120),
}


@pytest.mark.parametrize("kind", SETS)
def test_variances_in_sets_are_those_of_random_arms_within_sets(kind):
    """Draw arms 2,000 times: differences of means vary as their variance says, up to 15 %."""
    rng = np.random.default_rng(6)
    sets, targets = SETS[kind]
    # Covariates that depend on the set, with 0/1 and other values, and the set itself.
    mean = np.linspace(0.1, 0.9, len(targets))[sets]
    x = np.column_stack([rng.random(len(sets)) < mean, rng.normal(2000 + 9 * mean, 3), sets])
    place = np.arange(len(sets)) - np.searchsorted(sets, sets)
    drawn = []
    for _ in range(2000):
        treated = np.empty(len(sets), dtype=int)
        treated[np.lexsort((rng.random(len(sets)), sets))] = place < np.array(targets)[sets]
        after = matched_weights(sets, treated) / len(targets)
        drawn.append((np.where(treated, after, -after)) @ x)
    table = covariate_balance(x, treated, after, sets=sets, estimand=None).table
    table = table.sort_values("covariate_id")
    difference = table["target_mean_after"] - table["comparator_mean_after"]
    spread = (difference / table["smd_after"]).to_numpy()[:2]
    said = table["smd_variance_after"].to_numpy()
    np.testing.assert_allclose(said[:2] * spread**2 / np.var(drawn, axis=0)[:2], 1, atol=0.15)
    assert said[2] < 1e-12  # a number that is the same within sets never differs


def test_variances_in_sets_count_all_assignments_of_one_set():
    """With one set of people the variance is that of all C(6, 2) choices of the target arm."""
    x = np.array([[3.0], [1.0], [4.0], [1.0], [5.0], [9.0]])
    found = []
    for pair in combinations(range(6), 2):
        treated = np.isin(np.arange(6), pair).astype(int)
        after, own = matched_weights(np.zeros(6, int), treated), np.zeros(6, int)
        line = covariate_balance(x, treated, after, sets=own).table.iloc[0]
        difference = line["target_mean_after"] - line["comparator_mean_after"]
        spread = difference / line["smd_after"] if difference else np.nan
        found.append((difference, line["smd_variance_after"] * spread**2))
    difference, variance = np.transpose(found)
    np.testing.assert_allclose(variance[difference != 0], np.mean(difference**2), rtol=1e-12)


def test_sets_with_one_arm_or_without_people_do_not_vary():
    sets, treated = np.array([0, 0, 0, 1, 1, -1]), np.array([1, 0, 0, 0, 0, 1])
    x = np.array([[1.0], [0.0], [1.0], [1.0], [0.0], [1.0]])
    after = matched_weights(sets, treated)
    found = covariate_balance(x, treated, after, sets=sets, estimand=None).table.iloc[0]
    # S² = 1/3 in the set with both arms, q₁ = 1 and q₀ = ½.
    spread = np.sqrt(found["smd_variance_after"] / ((1 + 0.25 / 2 - 0.25 / 3) / 3))
    assert found["target_mean_after"] - found["comparator_mean_after"] == pytest.approx(0.5)
    assert found["smd_after"] == pytest.approx(0.5 * spread)
    with pytest.raises(DataError, match="5 sets for 6 people"):
        covariate_balance(x, treated, after, sets=sets[:5])
