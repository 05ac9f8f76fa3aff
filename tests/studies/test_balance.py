"""Standardised differences by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from steropes.errors import DataError
from steropes.studies import balance_table, standardized_differences

#                 target  target  target  target  comparator ×4
X = np.array([[1, 1, 1, 0, 1, 0, 0, 0], [1, 1, 0, 0, 1, 1, 0, 0]], dtype=float).T
TREATED = np.array([1, 1, 1, 1, 0, 0, 0, 0])


def test_the_formula_by_hand():
    table = standardized_differences(sparse.csc_array(X), TREATED)
    # 3/4 against 1/4: 0.5 / sqrt((0.1875 + 0.1875) / 2)
    assert table["target"].tolist() == [0.75, 0.5]
    assert table["comparator"].tolist() == [0.25, 0.5]
    assert table["smd"].to_numpy() == pytest.approx([0.5 / np.sqrt(0.1875), 0.0], abs=1e-15)


def test_weights_are_repeats():
    weights = np.array([1, 2, 0, 1, 3, 1, 1, 0])
    rows = np.repeat(np.arange(8), weights)
    weighted = standardized_differences(X, TREATED, weights)
    repeated = standardized_differences(X[rows], TREATED[rows])
    pd.testing.assert_frame_equal(weighted, repeated, rtol=1e-13)


def test_kinds_of_matrices_agree():
    expected = standardized_differences(X, TREATED)
    for kind in (sparse.csr_matrix, sparse.csc_array, pd.DataFrame):
        pd.testing.assert_frame_equal(standardized_differences(kind(X), TREATED), expected)


def test_without_spread_a_difference_is_zero_or_infinite():
    x = np.column_stack([TREATED, np.zeros(8), np.ones(8)])
    smd = standardized_differences(x, TREATED)["smd"].tolist()
    assert smd == [np.inf, 0.0, 0.0]


def test_after_matching_only_the_matched_count():
    matched = np.array([0, -1, -1, 1, 0, -1, -1, 1])
    table = balance_table(X, ["a", "b"], TREATED, matched)
    after = standardized_differences(X[matched >= 0], TREATED[matched >= 0])
    assert table.loc["a", "smd_after"] == after["smd"][0]
    assert table.loc["b", "target_after"] == after["target"][1]


def test_the_most_unequal_comes_first():
    table = balance_table(X[:, ::-1], ["even", "uneven"], TREATED, np.arange(8) // 2)
    assert list(table.index) == ["uneven", "even"]


def test_an_empty_arm_is_refused():
    with pytest.raises(DataError, match="an arm has no people"):
        standardized_differences(X, np.ones(8))


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array, pd.DataFrame])
def test_a_score_is_compared_by_its_mean_and_variance(storage):
    random = np.random.default_rng(3)
    # scores, measurements far from zero, the like below zero, 0/1, and a constant
    x = np.column_stack(
        (
            random.integers(0, 4, 60),
            random.normal(2000, 3, 60),
            random.normal(-1, 1, 60) * 1e-9,
            random.integers(0, 2, 60),
            np.full(60, 7.0),
        )
    ).astype(float)
    treated, weights = random.integers(0, 2, 60), random.integers(0, 3, 60)
    table = standardized_differences(storage(x), treated, weights)
    for j in range(x.shape[1]):
        one, zero = (np.repeat(x[treated == a, j], weights[treated == a]) for a in (1, 0))
        spread = np.sqrt((one.var() + zero.var()) / 2)
        expected = (one.mean() - zero.mean()) / spread if spread else 0.0
        assert table["target"][j] == pytest.approx(one.mean(), rel=1e-12)
        assert table["smd"][j] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_without_pairs_there_is_balance_before_only():
    table = balance_table(X, ["a", "b"], TREATED, np.full(8, -1))
    assert table["smd_before"].notna().all()
    assert table[[c for c in table if c.endswith("after")]].isna().all().all()


def test_people_and_rows_must_agree():
    with pytest.raises(DataError, match="6 people, but the covariates have 8 rows"):
        standardized_differences(X, TREATED[:6] * [1, 0, 1, 0, 1, 0])
