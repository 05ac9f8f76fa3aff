"""Numbers of distinct labels."""

import numpy as np
import pytest

from steropes.data.group_checks_and_counts import count_distinct


@pytest.mark.parametrize("values", [[], [3], [2, 2], [5, 1, 5, 3], [2**63, 2**63 + 1]])
def test_distinct_values_are_those_of_a_set(values):
    assert count_distinct(np.array(values, np.uint64)) == len(set(values))
