"""Sandwich variances of functions of α and β: squared influences of rows or clusters.

The influence of row i on a function with gradient (c, d) in (α, β) is its score times the
inverse Hessian times that gradient. With J = T⁻¹C and β's covariance V from the factorisation
(`steropes.infer.cumulative_probability_variances`) it is

    u_i(T⁻¹c) + B_i'(d − J'c),    u_i(t) = −(ℓ_a t_up + ℓ_b t_low),    B = (s X − u(J)) V,

so that each function needs one solve with T and one pass over the rows. B is n × p, and no array
is n × M. A combination of subsets is a mean of functions of separate fits to disjoint rows, whose
influences are summed by cluster in the same way; a cluster may have rows in several subsets.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..design_matrix.design_interfaces import PlainDesign
from .cumulative_probability_variances import CumulativeInformation, SubsetFit, evaluate_at_optimum
from .inference_constants import BLOCKS

__all__ = ["RobustInformation"]


class RobustInformation:
    """Sandwich covariances, with the methods of `CumulativeInformation`.

    Parameters
    ----------
    parts : list of SubsetFit
        The fit to all rows, or the fits to the subsets.
    information : list of CumulativeInformation
        Information of each part.
    offsets : list of (n_k,) arrays or None
        Offsets in the row order of each part's likelihood.
    positions : list of (M − 1,) int arrays
        For each part, its threshold at each threshold of all rows; see `subset_positions`.
    cluster : (n,) int array or None
        Cluster codes of the design's rows; if None each row is its own cluster.
    """

    def __init__(
        self,
        design: PlainDesign,
        parts: list[SubsetFit],
        information: list[CumulativeInformation],
        offsets: list[np.ndarray | None],
        positions: list[np.ndarray],
        cluster: np.ndarray | None,
    ) -> None:
        self.scale, self.p = design.scale, design.p
        self.parts = [
            _Part(design, part, own, offset, cluster)
            for part, own, offset in zip(parts, information, offsets, strict=True)
        ]
        self.positions = positions
        self.count = np.sum([at >= 0 for at in positions], axis=0)
        self.units = design.n if cluster is None else int(cluster.max()) + 1
        self.center = np.mean([own.center for own in information], axis=0)
        nothing = [np.zeros((part.K, self.p)) for part in self.parts]
        self._beta = self._influence(nothing, [np.eye(self.p) / len(parts)] * len(parts))
        self._bb = self._beta.T @ self._beta

    def beta_covariance(self) -> np.ndarray:
        """Compute the covariance of β in the user's units, (p, p)."""
        return self._bb / self.scale / self.scale[:, None]

    def predictor_variance(self, thresholds: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Compute the variance of α_k − x'β, (rows, thresholds), for scaled columns X (rows, p)."""
        k, back = np.unique(thresholds, return_inverse=True)
        aa, ab = self._moments(k)
        x = X - self.center
        out = aa - 2 * (x @ ab.T) + ((x @ self._bb) * x).sum(axis=1)[:, None]
        return np.maximum(out, 0.0)[:, back.reshape(-1)]

    def paired_variance(self, thresholds: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Compute the variance of α_k − x'β for one threshold per row, (rows,)."""
        k, back = np.unique(thresholds, return_inverse=True)
        aa, ab = self._moments(k)
        x, back = X - self.center, back.reshape(-1)
        out = aa[back] - 2 * (x * ab[back]).sum(axis=1) + ((x @ self._bb) * x).sum(axis=1)
        return np.maximum(out, 0.0)

    def functional_variance(self, c: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Compute the variance of functions with gradient c (M − 1, rows) in α − x'β, for X."""
        out = np.empty(len(X))
        step = self._step()
        for i in range(0, len(X), step):
            j = slice(i, i + step)
            total = c[:, j].sum(axis=0) / len(self.parts)
            a, d = [], []
            for part, at in zip(self.parts, self.positions, strict=True):
                ok = at >= 0
                own = np.zeros((part.K, len(total)))
                np.add.at(own, at[ok], c[ok, j] / self.count[ok, None])
                a.append(own)
                d.append(np.outer(part.center, own.sum(axis=0)) - total * X[j].T)
            out[j] = (self._influence(a, d) ** 2).sum(axis=0)
        return out

    def _moments(self, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute variances of α_k − m'β, (thresholds,), and covariances with β, (thresholds, p).

        m is the mean of the parts' centres.
        """
        aa, ab = np.empty(len(thresholds)), np.empty((len(thresholds), self.p))
        step = self._step()
        for i in range(0, len(thresholds), step):
            k = thresholds[i : i + step]
            a, d = [], []
            for part, at in zip(self.parts, self.positions, strict=True):
                ok = at[k] >= 0
                share = ok / self.count[k]
                own = np.zeros((part.K, len(k)))
                own[at[k][ok], np.flatnonzero(ok)] = share[ok]
                a.append(own)
                d.append(np.outer(part.center, share) - self.center[:, None] / len(self.parts))
            A = self._influence(a, d)
            aa[i : i + step], ab[i : i + step] = (A**2).sum(axis=0), A.T @ self._beta
        return aa, ab

    def _influence(self, c: list[np.ndarray], d: list[np.ndarray]) -> np.ndarray:
        """Compute influences (units, m) from gradients in each part's α (K, m) and β (p, m)."""
        out = np.zeros((self.units, d[0].shape[1]))
        for part, own_c, own_d in zip(self.parts, c, d, strict=True):
            part.add_influence(own_c, own_d, out)
        return out

    def _step(self) -> int:
        """Return how many functions are processed at once."""
        largest = max(self.units, *(max(part.K, len(part.up)) for part in self.parts))
        return max(1, BLOCKS.row_functions // largest)


class _Part:
    """The factors from which the influences of one fit's rows are computed."""

    def __init__(
        self,
        design: PlainDesign,
        part: SubsetFit,
        information: CumulativeInformation,
        offset: np.ndarray | None,
        cluster: np.ndarray | None,
    ) -> None:
        likelihood = part.likelihood
        rows, ev, _ = evaluate_at_optimum(design, part, offset)
        levels = likelihood.levels
        self.K, self.center = likelihood.K, information.center
        self.block, self.J = information.block, information.J
        self.low, self.up = levels.low, levels.up
        self.one = np.flatnonzero((levels.low < 0) | (levels.up >= self.K))
        # ℓ_a and −ℓ_b are of order n and nearly equal; their sum s has a smaller error.
        self.half_s, self.half_d = 0.5 * ev.s, 0.5 * (ev.la - ev.lb)
        self.la, self.lb = ev.la[self.one], ev.lb[self.one]
        self.order, self.groups = levels.order, None
        if cluster is not None:
            n, code = len(self.order), cluster[self.order]
            shape = (int(cluster.max()) + 1, n)
            self.groups = sparse.csr_array((np.ones(n), (code, np.arange(n))), shape=shape)
        self.B = np.empty((likelihood.n, design.p))
        J, step = _padded(self.J), max(256, BLOCKS.row_functions // max(design.p, 1))
        for i0 in range(0, likelihood.n, step):
            i = slice(i0, min(i0 + step, likelihood.n))
            psi = ev.s[i, None] * rows.between(i.start, i.stop) - self._thresholds(J, i)
            self.B[i] = psi @ information.V

    def _thresholds(self, t: np.ndarray, i: slice) -> np.ndarray:
        """Compute u(t) of the rows i, for t (K, m) padded by `_padded`."""
        up, low = t[self.up[i]], t[self.low[i]]
        out = -(up + low) * self.half_s[i, None] - (up - low) * self.half_d[i, None]
        a, b = np.searchsorted(self.one, [i.start, i.stop])
        at = self.one[a:b] - i.start
        out[at] = -(self.la[a:b, None] * up[at] + self.lb[a:b, None] * low[at])
        return out

    def add_influence(self, c: np.ndarray, d: np.ndarray, out: np.ndarray) -> None:
        """Add this part's influences to ``out`` (units, m)."""
        A = self.B @ (d - self.J.T @ c)
        if c.any():
            A += self._thresholds(_padded(self.block.solve(c)), slice(0, len(self.up)))
        if self.groups is None:
            out[self.order] += A
        else:
            out += self.groups @ A


def _padded(t: np.ndarray) -> np.ndarray:
    """Append a row of zeros to ``t``, to which the indices −1 and K of missing thresholds point."""
    return np.concatenate([t, np.zeros((1, t.shape[1]))])
