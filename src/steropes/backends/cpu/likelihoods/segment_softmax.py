"""Softmax within segments of rows, the shares of rows in the total rate of a stratum."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..compilation.kernel_compiler_options import ORDERED
from ..sums.compensated_sums import sum_of, two_sum

__all__ = ["segment_softmax"]


@njit(**ORDERED)
def segment_softmax(eta, w, pointers, scale, lse, out, s0, s1):
    """Compute lse[s] = log Σ w e^η and, unless ``out`` is empty, the scaled shares.

    out_i = scale_s w_i e^η_i / Σ_segment w e^η. Rows of weight zero are absent for any η.
    Both results are zero if the scale is zero. Without rows, lse is −∞ and the shares are zero.
    """
    shares = out.shape[0] > 0
    for s in range(s0, s1):
        lo, hi = pointers[s], pointers[s + 1]
        for b in range(eta.shape[1]):
            lse[s, b] = 0.0
            if scale[s, b] == 0.0:
                if shares:
                    for i in range(lo, hi):
                        out[i, b] = 0.0
                continue
            top = -np.inf
            for i in range(lo, hi):
                if w[i, b] > 0.0 and eta[i, b] > top:
                    top = eta[i, b]
            total, lost = 0.0, 0.0
            if shares:
                for i in range(lo, hi):
                    x = w[i, b] * np.exp(eta[i, b] - top) if w[i, b] > 0.0 else 0.0
                    out[i, b] = x
                    total, error = two_sum(total, x)
                    lost += error
                total = sum_of(total, lost)
                factor = scale[s, b] / total if total != 0.0 else 0.0
                for i in range(lo, hi):
                    out[i, b] *= factor
            else:
                for i in range(lo, hi):
                    if w[i, b] > 0.0:
                        total, error = two_sum(total, w[i, b] * np.exp(eta[i, b] - top))
                        lost += error
                total = sum_of(total, lost)
            lse[s, b] = top + np.log(total)
