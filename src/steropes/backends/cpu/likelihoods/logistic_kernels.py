"""The logistic loss and its slopes by row."""

from __future__ import annotations

from numba import njit

from ...kernel_cache import CACHE
from ..compilation.vectorised_exp_log import exp_negative, log1p_unit

__all__ = ["logistic_rows"]


@njit(cache=CACHE, nogil=True, error_model="numpy", fastmath={"contract"})
def logistic_rows(eta, w, y, slope, loss):
    """Compute slope = w (p − y) and loss = w (log(1 + e^η) − y η) for flat arrays.

    The slope is (1 − y) p − y (1 − p), which has all digits where p is close to y = 1.
    """
    for i in range(eta.shape[0]):
        x = eta[i]
        e = exp_negative(-abs(x))
        q = 1.0 / (1.0 + e)
        loss[i] = w[i] * (log1p_unit(e) + max(x, 0.0) - y[i] * x)
        r = e * q
        slope[i] = w[i] * ((1.0 - y[i]) * (q if x >= 0.0 else r) - y[i] * (r if x >= 0.0 else q))
