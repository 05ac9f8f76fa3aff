"""Half a symmetric matrix is sent, and comes back as all of it."""

import numpy as np
import pytest

from steropes.fit.shards.symmetric_packing import pack_symmetric, unpack_symmetric


@pytest.mark.parametrize("first", [0, 3, 6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_a_symmetric_matrix_are_packed_and_back(first, dtype):
    A = np.random.default_rng(0).normal(size=(6, 6)).astype(dtype)
    strip = (A + A.T)[first:]
    small = pack_symmetric({"matrix": strip, "other": np.ones(2)})
    assert small["matrix"].size == sum(range(first + 1, 7))
    back = unpack_symmetric(small)
    np.testing.assert_array_equal(back["matrix"], strip)
    assert back["matrix"].dtype == dtype
    assert set(back) == {"matrix", "other"}
    assert unpack_symmetric(pack_symmetric({"loss": A})) == {"loss": A}
