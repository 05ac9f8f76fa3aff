"""Entries read and written by kernels without asking whether their number is negative."""

import numpy as np
import pytest
from numba import njit

from steropes.backends.cpu.compilation import unchecked_indexing
from steropes.backends.cpu.compilation.unchecked_indexing import entry, put


@njit
def _doubled(x, at, out):
    for k in range(len(at)):
        put(out, entry(at, k), 2 * entry(x, entry(at, k)))


@pytest.mark.sampled
@pytest.mark.parametrize("index", [np.int32, np.int64, np.uint16])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("step", [1, 3])
def test_entries_are_those_of_numpy(rng, index, dtype, step):
    x = (10 * rng.normal(size=60)).astype(dtype)[::step]  # with steps it is not contiguous
    at = rng.permutation(len(x)).astype(index)[: len(x) // 2]
    out = np.zeros(60, dtype)[::step]
    _doubled(x, at, out)
    expected = np.zeros(len(x), dtype)
    expected[at] = 2 * x[at]
    np.testing.assert_array_equal(out, expected)


def test_what_is_written_is_of_the_arrays_type(rng):
    out = np.zeros(3, np.float32)
    _doubled(np.array([0.1, 0.2, 0.3]), np.array([2, 0]), out)
    np.testing.assert_array_equal(out, np.array([0.2, 0.0, 0.6], np.float32))


def test_without_the_compiler_a_negative_number_is_an_error():
    x = np.arange(3.0)
    with pytest.raises(IndexError, match="entry -1"):
        unchecked_indexing._read(x, -1)
    with pytest.raises(IndexError, match="entry -2"):
        unchecked_indexing._write(x, np.int32(-2), 1.0)
    np.testing.assert_array_equal(x, np.arange(3.0))
