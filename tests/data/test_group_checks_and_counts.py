"""Numbers of distinct labels, and the order of groups."""

import numpy as np
import pytest

from steropes.data.group_checks_and_counts import check_groups, count_distinct


@pytest.mark.parametrize("values", [[], [3], [2, 2], [5, 1, 5, 3], [2**63, 2**63 + 1]])
def test_distinct_values_are_those_of_a_set(values):
    assert count_distinct(np.array(values, np.uint64)) == len(set(values))


def test_labels_of_signed_and_unsigned_integers_are_sorted_exactly():
    labels = np.array([np.int64(2**53 + 1), np.uint64(2**53), np.int64(-1)], object)
    codes, in_order = check_groups(labels, 3)  # As floats the first two are equal.
    assert in_order == [-1, 2**53, 2**53 + 1]
    assert codes.tolist() == [2, 1, 0]
