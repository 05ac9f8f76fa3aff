"""Microaggregation: rows are grouped until no combination of values is that of few people.

The exact totals of a fit determine the joint table of its columns. With a few columns, some cells
of this table count few people. A site therefore answers from a table in which each combination of
values is that of at least ``least`` people. Rows with a rarer one are grouped with similar rows of
the same outcome class, and each group gets one combination (microaggregation: Domingo-Ferrer and
Mateo-Sanz 2002, *Practical data-oriented microaggregation for statistical disclosure control*, IEEE
Transactions on Knowledge and Data Engineering 14:189). Two things differ from their method:

- A group gets values of its members and not their mean. The mean 0.2 of a 0/1 column in a group of
  five shows that one of the five has it, which is a cell of one person. With whole values, the new
  table could be the table of a site to which nothing had to be done.
- A group does not get a combination that fewer than ``least`` people have, so that no row of the
  new table is that of a single person. (The exception are classes of less than twice ``least``
  people without any other combination.)

Sums of columns, and of products of two columns if there are few, are kept within each class as far
as whole groups allow: differences are carried to the next group, and then single rows move between
frequent combinations. The result depends neither on the order of the rows nor on random numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product

import numpy as np

from .federated_constants import GROUPING
from .row_hashes import mixed

__all__ = ["without_rare_combinations"]


def without_rare_combinations(
    X: np.ndarray, mass: np.ndarray, label: np.ndarray, chain: np.ndarray, tie: np.ndarray,
    least: int,
) -> np.ndarray:  # fmt: skip
    """Return columns in which each combination is that of ``least`` rows of its class.

    Parameters
    ----------
    X : (n, p) array
        Columns with few values.
    mass : (n,) array
        Factors of the rows in the sums that are kept.
    label : (n,) int array
        Class of each row, within which rows are grouped; consecutive classes are similar. Rows
        with a negative label are left as they are, and so are classes of fewer than ``least``.
    chain : (n,) int array
        Rows with equal numbers are in classes between which differences of sums are carried.
    tie : (n,) uint64 array
        Numbers by which rows with equal values are ordered.
    least : int
        The smallest number of rows.

    Returns
    -------
    (n, p) array
        A copy of X with other values in some rows.
    """
    out = X.copy()
    if not X.shape[1]:
        return out
    columns = _Columns(X[label >= 0])
    rest, last = np.zeros(columns.size), None
    order = np.lexsort((tie, label))
    order = order[label[order] >= 0]
    for at in np.split(order, np.flatnonzero(np.diff(label[order])) + 1):
        if len(at) < least:
            continue
        if chain[at[0]] != last:
            rest[:], last = 0.0, chain[at[0]]
        rest = _regroup(out, at, mass, columns, rest, least)
    return out


class _Columns:
    """Scales of columns, and the sums that are kept.

    Attributes
    ----------
    scale : (p,) array
        Standard deviations, 1 for constant columns.
    size : int
        Number of sums.
    """

    def __init__(self, X: np.ndarray) -> None:
        spread = X.std(axis=0)
        self.scale = np.where(spread > 0, spread, 1.0)
        p = X.shape[1]
        few = p <= GROUPING.max_columns_of_products
        self._pairs = np.triu_indices(p, 1) if few else (np.empty(0, int), np.empty(0, int))
        self.size = p + len(self._pairs[0])

    def moments(self, X: np.ndarray) -> np.ndarray:
        """Return the columns and their products in comparable units, (k, size)."""
        Z = X / self.scale
        i, j = self._pairs
        return np.hstack([Z, GROUPING.product_weight * Z[:, i] * Z[:, j]])


def _patterns(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return first rows, codes and sizes of the combinations, in an order of their values."""
    code = np.zeros(len(X), np.uint64)
    for j, x in enumerate(X.T):
        code += mixed(x, j)
    _, first, inverse, count = np.unique(
        code, return_index=True, return_inverse=True, return_counts=True
    )
    return first, inverse.ravel(), count


def _regroup(
    out: np.ndarray, at: np.ndarray, mass: np.ndarray, columns: _Columns, rest: np.ndarray,
    least: int,
) -> np.ndarray:  # fmt: skip
    """Replace the rare combinations of a class, and return differences of sums for the next."""
    first, code, count = _patterns(out[at])
    if (count >= least).all() and not rest.any():
        return rest
    U = out[at][first]
    target = rest + np.bincount(code, mass[at]) @ columns.moments(U)
    rare = np.flatnonzero(count[code] < least)
    if len(rare):
        rare = _with_lent(rare, U, code, count, columns, least)
        few = {U[k].tobytes(): int(count[k]) for k in np.flatnonzero(count < least)}
        p = out.shape[1]
        carry = rest[:p] * columns.scale
        for group in _groups(out[at[rare]] / columns.scale, mass[at[rare]], least):
            rows = at[rare[group]]
            goal = (mass[rows] @ out[rows] + carry) / mass[rows].sum()
            values = _values_of(out[rows], goal, columns.scale, few, U[count >= least])
            carry = carry + mass[rows] @ (out[rows] - values)
            out[rows] = values
    return _balance(out, at, mass, target, columns, least)


def _with_lent(
    rare: np.ndarray, U: np.ndarray, code: np.ndarray, count: np.ndarray, columns: _Columns,
    least: int,
) -> np.ndarray:  # fmt: skip
    """Add rows of the nearest frequent combination if there are fewer than ``least`` rare ones."""
    lack = least - len(rare)
    if lack <= 0:
        return rare
    spare = np.flatnonzero(count >= least + lack)
    lenders = spare if len(spare) else np.flatnonzero(count >= least)
    middle = U[code[rare]].mean(axis=0)
    nearest = lenders[(((U[lenders] - middle) / columns.scale) ** 2).sum(axis=1).argmin()]
    lent = np.flatnonzero(code == nearest)
    return np.concatenate([rare, lent[:lack] if len(spare) else lent])


def _groups(Z: np.ndarray, mass: np.ndarray, least: int) -> Iterator[np.ndarray]:
    """Yield groups of similar rows, each of ``least`` or more; adjacent ones are similar.

    Rows are divided by the column in which they differ most, as long as both parts are large
    enough; the remaining rows are taken in the order of their values.
    """
    stack = [np.arange(len(Z))]
    while stack:
        rows = stack.pop()
        own = Z[rows]
        if len(rows) < 2 * least:
            yield rows
            continue
        for j in np.argsort(-own.var(axis=0), kind="stable"):
            x = np.sort(own[:, j])
            cuts = np.flatnonzero(x[1:] > x[:-1]) + 1
            cuts = cuts[(cuts >= least) & (cuts <= len(x) - least)]
            if len(cuts):
                below = own[:, j] < x[cuts[np.abs(cuts - len(x) / 2).argmin()]]
                stack += [rows[~below], rows[below]]
                break
        else:
            rows = rows[np.lexsort([mass[rows], *own.T[::-1]])]
            yield from np.array_split(rows, len(rows) // least)


def _values_of(
    rows: np.ndarray, goal: np.ndarray, scale: np.ndarray, few: dict[bytes, int],
    frequent: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Choose the values of a group: those of members that are closest to a goal.

    If each combination of them is one of ``few``, it is the nearest of the frequent ones. If there
    are none either, as in a class of four and four people, it is that of most people.

    Parameters
    ----------
    rows : (s, p) array
        The group.
    goal : (p,) array
        Values of the rows for which sums would be as they were.
    few : dict of bytes to int
        Combinations that the group should not get, because fewer than ``least`` people have them,
        with their numbers of people.
    frequent : (k, p) array
        Combinations of ``least`` people or more.

    Returns
    -------
    (p,) array
    """
    varying = np.flatnonzero((rows != rows[0]).any(axis=0))
    choices, costs = [], []
    for j in varying:
        found = np.unique(rows[:, j])
        cost = np.abs(found - goal[j]) / scale[j]
        order = np.argsort(cost, kind="stable")
        choices.append(found[order])
        costs.append(cost[order] - cost[order[0]])
    out = rows[0].copy()
    out[varying] = [c[0] for c in choices]
    if out.tobytes() not in few:
        return out
    changed = out.copy()
    others = [(k, c) for k in range(len(varying)) for c in range(1, len(choices[k]))]
    for k, c in sorted(others, key=lambda kc: costs[kc[0]][kc[1]]):
        changed = out.copy()
        changed[varying[k]] = choices[k][c]
        if changed.tobytes() not in few:
            return changed
    for values in islice(product(*choices), GROUPING.max_tried):
        changed[varying] = values
        if changed.tobytes() not in few:
            return changed
    if not len(frequent):
        return rows[int(np.argmax([few[row.tobytes()] for row in rows]))]
    return np.asarray(frequent[np.abs((frequent - goal) / scale).sum(axis=1).argmin()])


def _balance(
    out: np.ndarray, at: np.ndarray, mass: np.ndarray, target: np.ndarray, columns: _Columns,
    least: int,
) -> np.ndarray:  # fmt: skip
    """Move rows between frequent combinations until sums are as they were; return the rest."""
    first, code, count = _patterns(out[at])
    U = out[at][first]
    M = columns.moments(U)
    rest, square = target - np.bincount(code, mass[at]) @ M, (M * M).sum(axis=1)
    if (count < least).any():
        return rest
    order = np.lexsort((-mass[at], code))  # rows with the least mass are moved first
    rows = [list(at[own]) for own in np.split(order, np.cumsum(count))]
    for _ in range(GROUPING.moves_per_sum * columns.size):
        slope = 2 * M @ rest
        lenders = np.flatnonzero(count > least)
        to = np.argsort(square - slope, kind="stable")[: GROUPING.max_considered]
        of = lenders[np.argsort((square + slope)[lenders], kind="stable")]
        of = of[: GROUPING.max_considered]
        if not len(of):
            break
        step = M[to] - M[of][:, None]
        gain = 2 * step @ rest - (step * step).sum(axis=2)
        best = int(gain.argmax())
        if gain.flat[best] <= GROUPING.min_gain:
            break
        one, other = of[best // len(to)], to[best % len(to)]
        row = rows[one].pop()
        rest = rest - mass[row] * (M[other] - M[one])
        count[one], count[other] = count[one] - 1, count[other] + 1
        rows[other].append(row)
        out[row] = U[other]
    return rest
