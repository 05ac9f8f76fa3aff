"""Products and coordinate descent on the columns of X, for sets too wide for a Gram matrix.

Column ``a`` of the lines is coordinate ``places[a]``; ``z`` is a vector over the rows.
"""

from __future__ import annotations

from numba import njit

from ..compilation.kernel_compiler_options import OPTIONS
from ..compilation.unchecked_indexing import entry, put

__all__ = ["add_columns", "column_sums", "sweep_columns"]

# The share of λ from which the slope of a zero coefficient is updated in a sweep.
NEAR = 0.9


@njit(**OPTIONS)
def add_columns(starts, ends, indices, data, places, x, a0, a1, z):
    """Add Σ x_j X_j over the columns a0 … a1 − 1 to z, with x (k,)."""
    for a in range(a0, a1):
        by = x[places[a]]
        if by == 0.0:
            continue
        if data.size == 0:
            for k in range(starts[a], ends[a]):
                i = entry(indices, k)
                put(z, i, entry(z, i) + by)
        else:
            for k in range(starts[a], ends[a]):
                i = entry(indices, k)
                put(z, i, entry(z, i) + by * entry(data, k))


@njit(**OPTIONS)
def _product(indices, data, begin, end, z):
    """Compute Σ x z over the entries of a column."""
    q = 0.0
    if data.size == 0:
        for k in range(begin, end):
            q += entry(z, entry(indices, k))
    else:
        for k in range(begin, end):
            q += entry(data, k) * entry(z, entry(indices, k))
    return q


@njit(**OPTIONS)
def column_sums(starts, ends, indices, data, places, z, a0, a1, out):
    """Compute out_j = X_j' z for the columns a0 … a1 − 1, with out (k,)."""
    for a in range(a0, a1):
        out[places[a]] = _product(indices, data, starts[a], ends[a], z)


@njit(**OPTIONS)
def sweep_columns(
    starts, ends, indices, data, places, v, V, c, apart, s, y, h, l1, rest, delta, done, z
):  # fmt: skip
    """Sweep once over the columns of one replicate; return whether a coefficient changed.

    Minimises  s'δ + ½ δ'Aδ + Σ l1 |y + δ|  with A = X' diag(v) X + V' diag(c) V, coordinate by
    coordinate. A column is read once, and once more where its coefficient moves; those that are
    zero with a slope far from λ are not read.

    Parameters
    ----------
    v : (n,) array
    V, c : (M, k) and (M,) arrays
    apart : (k,) bool array
        Coordinates that are not of the columns: A is V' diag(c) V there, plus its diagonal.
    s : (k,) array
        Slopes of the smooth terms at y + δ where δ is zero; they stay as they are.
    y : (k,) array
        The point, which moves.
    h, l1, rest : (k,) arrays
        Curvature (zero: it rests), penalties, and the violation up to which a coordinate rests.
    delta, done, z : (k,), (M,) and (n,) arrays
        The moves δ, V δ and v ∘ X δ, kept up to date.
    """
    moved = False
    for a in range(len(starts)):
        j = places[a]
        at = y[j]
        if not h[j] > 0.0 or (at == 0.0 and abs(s[j]) < NEAR * l1[j]):
            continue
        slope = s[j]
        for q in range(len(c)):
            slope += c[q] * V[q, j] * done[q]
        if not apart[j]:
            slope += _product(indices, data, starts[a], ends[a], z)
        if at > 0.0:
            off = abs(slope + l1[j])
        elif at < 0.0:
            off = abs(slope - l1[j])
        else:
            off = abs(slope) - l1[j]
        if not off > rest[j]:
            continue
        pull = h[j] * at - slope
        to = 0.0
        if pull > l1[j]:
            to = (pull - l1[j]) / h[j]
        elif pull < -l1[j]:
            to = (pull + l1[j]) / h[j]
        change = to - at
        if change == 0.0:
            continue
        moved = True
        y[j] = to
        delta[j] += change
        for q in range(len(c)):
            done[q] += V[q, j] * change
        if not apart[j]:
            if data.size == 0:
                for k in range(starts[a], ends[a]):
                    i = entry(indices, k)
                    put(z, i, entry(z, i) + entry(v, i) * change)
            else:
                for k in range(starts[a], ends[a]):
                    i = entry(indices, k)
                    put(z, i, entry(z, i) + entry(v, i) * change * entry(data, k))
    return moved
