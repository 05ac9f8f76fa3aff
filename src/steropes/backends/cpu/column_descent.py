"""One sweep of coordinate descent on the columns of X, for sets too wide for a Gram matrix."""

from __future__ import annotations

from numba import njit

from .entries import entry, put
from .sparse import OPTIONS

__all__ = ["sweep_columns"]


@njit(**OPTIONS)
def sweep_columns(
    starts, ends, indices, data, places, v, h, g, m, c, beta, l1, l2, unit, d, z, full
):  # fmt: skip
    """Improve  g'd + ½ d'Hd + Σ l1 |β+d| + ½ Σ l2 (β+d)²  in each coordinate.

    H = X' diag(v) X − c m m', with its diagonal in ``h``. Column ``a`` of the lines is coordinate
    ``places[a]``. ``z`` holds v ∘ Xd and is kept up to date. A column is read once, and once more
    where its coefficient moves; unless ``full``, coefficients at zero are passed over. Returns the
    largest change of the model's gradient, in units of ``unit``.
    """
    largest = 0.0
    md = 0.0
    for j in range(len(d)):
        md += m[j] * d[j]
    for a in range(len(starts)):
        j = places[a]
        at = beta[j] + d[j]
        curve = h[j] + l2[j]
        if not curve > 0.0 or (not full and at == 0.0):
            continue
        q = g[j] - c * m[j] * md
        if data.size == 0:
            for k in range(starts[a], ends[a]):
                q += entry(z, entry(indices, k))
        else:
            for k in range(starts[a], ends[a]):
                q += entry(data, k) * entry(z, entry(indices, k))
        pull = h[j] * at - q
        if pull > l1[j]:
            to = (pull - l1[j]) / curve
        elif pull < -l1[j]:
            to = (pull + l1[j]) / curve
        else:
            to = 0.0
        delta = to - at
        if delta != 0.0:
            d[j] = to - beta[j]
            md += m[j] * delta
            for k in range(starts[a], ends[a]):
                i = entry(indices, k)
                x = 1.0 if data.size == 0 else entry(data, k)
                put(z, i, entry(z, i) + entry(v, i) * delta * x)
            largest = max(largest, abs(delta) * curve / unit[j])
    return largest
