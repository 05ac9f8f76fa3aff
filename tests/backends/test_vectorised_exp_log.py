"""Polynomials for functions: the digits of the mathematical library, nearly to the last."""

from decimal import Decimal, localcontext

import numpy as np
from numba import njit

from steropes.backends.cpu import CpuBackend, CpuPolicy
from steropes.backends.cpu.compilation.vectorised_exp_log import exp_negative, log1p_unit

ULP = 2.0**-52


@njit
def both(x, t, e, log):
    for i in range(len(x)):
        e[i], log[i] = exp_negative(x[i]), log1p_unit(t[i])


def largest_error(got, wanted, digits=60):
    """Relative, by decimal numbers of many digits."""
    with localcontext() as context:
        context.prec = digits
        return float(
            max(abs(Decimal(float(g)) / w() - 1) for g, w in zip(got, wanted, strict=True))
        )


def test_within_units_of_the_last_place():
    rng = np.random.default_rng(0)
    x = -np.concatenate([10 ** rng.uniform(-20, np.log10(708), 800), [0.0, 707.9]])
    x = np.append(x, -np.log(2) * (np.arange(40) + 0.5))  # where the reduction turns
    t = np.concatenate([10 ** rng.uniform(-300, 0, 400), rng.random(len(x) - 401), [1.0]])
    e, log = np.empty(len(x)), np.empty(len(x))
    both(x, t, e, log)
    assert largest_error(e, [lambda a=a: Decimal(float(a)).exp() for a in x]) < ULP
    logs = [lambda a=a: (1 + Decimal(float(a))).ln() for a in t]
    assert largest_error(log, logs, 340) < 2 * ULP


def test_ends():
    x, t = np.array([0.0, -0.0, -750.0, -np.inf]), np.array([0.0, 1.0, 1e-300, 2.0**-1020])
    e, log = np.empty(4), np.empty(4)
    both(x, t, e, log)
    assert e.tolist() == [1.0, 1.0, 0.0, 0.0]
    np.testing.assert_allclose(log, np.log1p(t), rtol=1e-15)


def test_what_is_not_finite_is_no_loss():
    eta, one = np.array([[np.nan, np.inf, -np.inf, np.inf]]), np.ones((1, 4))
    y = np.array([[0.0, 0.0, 1.0, 1.0]])
    assert not np.isfinite(CpuBackend(1).logistic(eta, one, y)[0]).any()


def test_chunks_and_columns_are_all_rows():
    rng = np.random.default_rng(1)
    eta, w = rng.normal(size=(70, 3)) * 20, rng.random((70, 3))
    y = (rng.random((70, 1)) < 0.5) * 1.0  # a column is that of all replicates
    whole = CpuBackend(1).logistic(eta, w, y)
    chunks = CpuBackend(2, CpuPolicy(chunk_rows=16))
    for got, wanted in zip(chunks.logistic(eta[::1], w, y), whole, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-14)
    np.testing.assert_array_equal(CpuBackend(1).logistic(np.asfortranarray(eta), w, y)[1], whole[1])
