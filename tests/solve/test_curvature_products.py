"""Products with Hessians equal those of the matrices, for every kind of curvature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import steropes as st
from steropes.design_matrix import as_design
from steropes.likelihoods.hessian_structures import OperatorCurvature, ProfiledCurvature
from steropes.models.fitting.row_arguments import FitInputs
from steropes.solve.data_term.device_column_hessian import DeviceColumns
from steropes.solve.subproblem import ColumnwiseReducedHessian

NONE = st.Laplace(1.0)


def _families(rng, n):
    group = np.sort(rng.integers(0, n // 4, n))
    time = np.round(rng.exponential(size=n), 1) + 0.1  # with ties
    event = rng.random(n) < 0.4
    strata = rng.integers(0, 3, n)
    y = rng.normal(size=n).round(1)
    count = rng.poisson(1.0, n)
    return {
        "logistic": (st.LogisticRegression, count > 0, {}),
        "cox": (st.CoxRegression, st.Surv(time, event), {}),
        "efron": (lambda **k: st.CoxRegression(ties="efron", **k), st.Surv(time, event), {}),
        "cox by strata": (st.CoxRegression, st.Surv(time, event), {"strata": strata}),
        "entry": (st.CoxRegression, st.Surv(time, event, entry=time * rng.random(n)), {}),
        "fine-gray": (
            st.FineGrayRegression, st.Surv(time, event * rng.integers(1, 3, n)), {}
        ),
        "fine-gray by strata": (
            st.FineGrayRegression, st.Surv(time, event * rng.integers(1, 3, n)),
            {"strata": strata},
        ),
        "conditional poisson": (st.ConditionalPoissonRegression, count, {"strata": group}),
        "conditional logistic": (
            st.ConditionalLogisticRegression, (rng.random(n) < 0.4).astype(int), {"strata": group}
        ),
        "cumulative": (st.CumulativeProbabilityModel, y, {}),
    }  # fmt: skip


def _term_of(family, weighted, rng, device="cpu"):
    """The data term of a family at a random point."""
    n, k = 240, 12
    X = sparse.random(n, k, 0.3, format="csc", random_state=2)
    X = sparse.hstack([X, rng.normal(size=(n, 1))]).tocsc()
    make, y, given = _families(rng, n)[family]
    model, weights = make(prior=NONE, device=device, n_jobs=1), None
    if weighted:
        weights = rng.integers(0, 3, n).astype(float)
        if family == "conditional logistic":  # has those of whole strata
            weights = weights[given["strata"]]
    problem = model._make_problem(as_design(X), FitInputs(y, weights, strata=given.get("strata")))
    batch = problem.batch()
    batch.term.join(rng.permutation(batch.term.p))
    beta = np.zeros((batch.term.p, 1))
    beta[:, 0] = 0.3 * rng.normal(size=batch.term.p)
    batch.start_at(beta)
    return batch.term


FAMILIES = list(_families(np.random.default_rng(0), 40))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("weighted", [False, True])
def test_products_equal_those_with_the_matrix(family, weighted, rng):
    at = _term_of(family, weighted, rng).curvature(0)
    H = at.matrix()
    matrix = ColumnwiseReducedHessian(at.by_columns(), np.zeros(len(H), bool))
    size = np.sqrt(np.abs(np.diag(H)).max())
    np.testing.assert_allclose(matrix.times(np.eye(len(H))) / size, H / size, atol=1e-9)
    # Descent goes by what is nowhere less curved.
    own = matrix.columns
    V = np.eye(len(H))
    upper = np.array([[V[i] @ _upper(own, V[j]) for j in range(len(H))] for i in range(len(H))])
    np.testing.assert_allclose(np.diag(upper), own.h, rtol=1e-9, atol=1e-9 * size**2)
    assert np.linalg.eigvalsh(upper - H)[0] > -1e-9 * size**2


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("accuracy", ["near", "exact"])
def test_products_on_a_device_equal_those_of_the_host(family, accuracy):
    device, host = (
        _term_of(family, True, np.random.default_rng(3), name).curvature(0, accuracy=accuracy)
        for name in ("torch-cpu", "cpu")
    )
    expected, found = host.by_columns(), device.by_columns()
    own = device.curvature
    if not isinstance(own, OperatorCurvature | ProfiledCurvature):  # those are on the host
        assert isinstance(found, DeviceColumns)
        assert found.minimiser is not None
        assert found.only(np.arange(2)).pool.n_threads == 1  # those of the fit, not all cores
    one = np.eye(len(expected.h))
    size = expected.h.max()
    np.testing.assert_allclose(found.times(one), expected.times(one), rtol=0, atol=1e-9 * size)
    np.testing.assert_allclose(found.h, expected.h, rtol=1e-9, atol=1e-12 * size)


def _upper(own, x):
    """X' diag(v) X x − c m m'x."""
    z = own._predictor(x) * own.v
    out = np.empty(own.k)
    own._transposed_product(z, out)
    return out - own.c * own.m * (own.m @ x)
