"""Predictors and variances of pooled logistic models in each interval that a person begins at risk.

Only some people at a time have an array over all intervals, in operations of the backend's ``xp``,
which serve devices. The host's kernels loop over the intervals of one person instead
(`steropes.backends.cpu.likelihoods.pooled_logistic_kernels`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..backends.protocols import Array, Backend
from .likelihood_constants import CHUNK_SIZES

__all__ = ["PersonIntervals"]


class PersonIntervals:
    """Intervals at risk of n people.

    Parameters
    ----------
    first, last : (n,) int arrays
        Intervals from ``first`` to ``last`` − 1, counted from 0.
    functions : (K, Q) array
        Functions f_1(k), f_2(k), … that multiply the channels after the first.

    Attributes
    ----------
    factors : (K, Q + 1) array
        Factors f_c(k) of all channels, with f_0 = 1.
    """

    def __init__(
        self, first: np.ndarray, last: np.ndarray, functions: np.ndarray, backend: Backend
    ) -> None:
        self.n, self.K = len(first), len(functions)
        self.backend = backend
        self.first, self.last = backend.asarray(first), backend.asarray(last)
        self.factors = backend.asarray(np.column_stack([np.ones(self.K), functions]))

    def predictors(self, h: Array, base: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Yield a slice of m people, η (m, K, B) and whether they are at risk (m, K, 1).

        Parameters
        ----------
        h, base : (C, n, B) and (K, B) arrays
            Channels and baseline.
        """
        k = self.backend.xp.arange(self.K)
        step = CHUNK_SIZES.people
        if not self.backend.on_host:
            step = max(step, CHUNK_SIZES.device_entries // max(1, base.size))
        for a in range(0, self.n, step):
            at = slice(a, min(a + step, self.n))
            eta = h[0, at][:, None] + base
            for c in range(1, len(h)):
                eta = eta + self.factors[:, c : c + 1] * h[c, at][:, None]
            first, last = self.first[at][:, None], self.last[at][:, None]
            yield at, eta, ((first <= k) & (k < last))[:, :, None]

    def variances(self, h: Array, base: Array, w: Array) -> Iterator[tuple[slice, Array]]:
        """Yield a slice of m people and v = w p (1 − p), (m, K), for one replicate.

        Parameters
        ----------
        h, base, w : (C, n), (K,) and (n,) arrays
        """
        xp = self.backend.xp
        for at, eta, at_risk in self.predictors(h[:, :, None], base[:, None]):
            e = xp.exp(-xp.abs(eta))
            v = w[at][:, None, None] * e / (1.0 + e) ** 2
            yield at, xp.where(at_risk, v, 0.0)[:, :, 0]
