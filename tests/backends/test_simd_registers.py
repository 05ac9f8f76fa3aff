"""Products with replicates in registers are those of NumPy, for any storage of the replicates."""

import numpy as np
import pytest
from scipy import sparse

from steropes.backends.cpu import CpuBackend, Lines


def _lines(X, valued):
    X = X.tocsr()
    data = X.data.astype(float) if valued else np.empty(0)
    return Lines(
        X.indptr[:-1].astype(np.int64), X.indptr[1:].astype(np.int64), X.indices, data, X.shape[1]
    )


@pytest.mark.sampled
@pytest.mark.parametrize("B", [1, 4, 8, 24])
@pytest.mark.parametrize("valued", [False, True])
@pytest.mark.parametrize("way", ["contiguous", "shifted", "transposed", "single", "frozen"])
def test_products_with_blocks_of_replicates(B, valued, way):
    rng = np.random.default_rng(B)
    n, p = 53, 31
    X = sparse.random_array((n, p), density=0.3, rng=rng, format="csr")
    X.data[:] = rng.normal(size=X.nnz) if valued else 1.0
    backend, lines = CpuBackend(), _lines(X, valued)

    def stored(D):
        if way == "shifted":  # in the middle of a cache line
            whole = np.empty(D.size + 1)
            whole[1:] = D.ravel()
            return whole[1:].reshape(D.shape)
        if way == "transposed":
            return np.asfortranarray(D)
        if way == "frozen":
            D.flags.writeable = False
        return D.astype(np.float32) if way == "single" else D

    D, R = stored(rng.normal(size=(p, B))), stored(rng.normal(size=(n, B)))
    np.testing.assert_allclose(backend.gather(lines, D), X @ np.asarray(D, float), atol=1e-13)
    np.testing.assert_allclose(backend.scatter(lines, R), X.T @ np.asarray(R, float), atol=1e-13)
