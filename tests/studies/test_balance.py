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


def test_covariates_that_are_not_0_1_are_refused():
    with pytest.raises(DataError, match="column 1 is not 0/1"):
        standardized_differences(X * [1, 7], TREATED)
