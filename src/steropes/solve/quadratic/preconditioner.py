"""A factor for the supports of several replicates, exact for each of them.

Supports of folds under a lasso have about half of their columns in common, so that one factor of
what most have is a poor preconditioner of each. But of one factor only what differs need be each
one's own: the columns that all have are eliminated once, A_cc = LL', and the Schur complement
S = A_rr − A_rc A_cc⁻¹ A_cr of all the others is computed once. A replicate's own complement is the
part of S of the columns that it has, whose factor is small.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from .cholesky import Cholesky
from .own_part import OwnPart
from .shared import SharedMatrix, as_precision

__all__ = ["Preconditioner"]

MOST = 20_000  # columns in a factor: those with the most curvature, the others by their diagonal
JITTER = 1e-5  # added to the factor's unit diagonal: nested columns may be equal
ROUNDING = 1e-7  # of a column's own curvature: less is none in single precision
LIKELY = 0.1  # share of the columns that all have, with the smallest coefficients: they may leave
SPARE = 0.1  # columns that there is room for, for each that there is
SAME = 1e-3  # relative change of a diagonal: more is another matrix's, and nothing can be let in
LACKS = 0.02  # share of the columns that all had which one may lack
FEW = 16  # columns that one may lack in any case, or a quarter of them

Key = tuple[int, bytes]  # of some columns, how many and which of them
Border = tuple[np.ndarray, np.ndarray, np.ndarray]  # columns gone, those of the inverse, its block


class Preconditioner:
    """A factor of the shared matrix over the columns of some supports.

    Parameters
    ----------
    shared : SharedMatrix
    support : (k, B) bool array
    size : (k,) array
        Of the coefficients, any measure: those that all have and that are small may soon leave.
    ridge : (k,) array

    Attributes
    ----------
    at : (n,) int array
        The columns, first those that are eliminated.
    m : int
        How many those are.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where rounding leaves the matrix of the columns that all have indefinite.
    """

    def __init__(
        self, shared: SharedMatrix, support: np.ndarray, size: np.ndarray, ridge: np.ndarray
    ) -> None:
        some = support.any(axis=1)
        whole = np.diagonal(shared.G).astype(np.float64)
        # What the elimination left of a column may be rounding alone, and no unit of anything.
        some &= shared.diagonal + ridge > ROUNDING * whole
        if np.count_nonzero(some) > MOST:
            h = np.where(some, shared.diagonal, -np.inf)
            some[np.argpartition(-h, MOST)[MOST:]] = False
        core = np.flatnonzero(some & support.all(axis=1))
        stays = np.sort(np.argsort(size[core], kind="stable")[int(LIKELY * len(core)) :])
        core = core[stays]
        some[core] = False
        self.at, self.m = np.concatenate([core, np.flatnonzero(some)]), len(core)
        n = len(self.at)
        room = n + int(SPARE * n) + 1
        self._room = np.zeros((room, room), np.float32)
        self._size = np.sqrt(shared.diagonal + ridge)[self.at]
        A = self._room[:n, :n]
        shared.lower_part(self.at, self._size, A)
        A[np.diag_indices(n)] = 1.0 + JITTER
        self.factor = Cholesky(A, shared.pool, self.m)
        self._own: dict[Key, OwnPart] = {}
        self._bordered: dict[Key, Border] = {}
        self._lanes = 0  # the most replicates that it has served at once
        self._lent = False  # whether others work with the same matrix

    @classmethod
    def of(
        cls, shared: SharedMatrix, support: np.ndarray, size: np.ndarray, ridge: np.ndarray
    ) -> Preconditioner | None:
        """A factor, or None where rounding leaves the matrix indefinite."""
        try:
            return cls(shared, support, size, ridge)
        except np.linalg.LinAlgError:
            return None

    def fork(self) -> Preconditioner:
        """The same for somebody else, who may let columns in without this one's seeing it."""
        out = copy.copy(self)
        out._own, out._bordered = dict(self._own), {}
        out._lent = self._lent = True
        return out

    def serves(self, shared: SharedMatrix, support: np.ndarray, ridge: np.ndarray) -> bool:
        """Whether it is a factor of these supports; columns that it lacks are let in."""
        core, live = self.at[: self.m], support.any(axis=0)
        lacking = (~support[core][:, live]).sum(axis=0).max(initial=0)
        if lacking > self._most_lacking:
            return False
        missing = np.array(support.any(axis=1))
        missing[self.at] = False
        new = np.flatnonzero(missing)
        new = new[shared.diagonal[new] + ridge[new] > ROUNDING * np.diagonal(shared.G)[new]]
        if len(new) == 0 or len(self.at) == MOST:
            return True
        if len(self.at) + len(new) > min(len(self._room), MOST):
            return False
        h = (shared.diagonal + ridge)[self.at]
        if (np.abs(h - self._size**2) <= SAME * h).all():
            self._extend(shared, new, ridge)
        return True

    @property
    def _most_lacking(self) -> float:
        return max(LACKS * self.m, min(FEW, self.m // 4))

    def _extend(self, shared: SharedMatrix, new: np.ndarray, ridge: np.ndarray) -> None:
        first = len(self.at)
        if self._lent:
            self._room, self._lent = self._room.copy(), False
            self.factor = copy.copy(self.factor)
        at, size = self.at, self._size
        self.at = np.concatenate([at, new])
        self._size = np.concatenate([size, np.sqrt(shared.diagonal + ridge)[new]])
        n = len(self.at)
        A = self._room[:n, :n]
        A[first:] = shared.between(new, self.at, np.float32) / self._size[first:, None] / self._size
        A[np.arange(first, n), np.arange(first, n)] = 1.0 + JITTER
        self.factor.append(A, first)

    def solve(self, R: np.ndarray, support: np.ndarray) -> np.ndarray:
        """A⁻¹ R of each replicate's columns, (k, B); zero at columns that it has none of."""
        size = self._size[:, None]
        z, unit = as_precision(R[self.at] / size, np.float32)
        there = support[self.at]
        parts = self._parts(there[self.m :])
        z = self._through(z, parts)
        for b, border in enumerate(self._borders(there, parts)):
            if border is not None:
                gone, columns, inverse = border
                z[:, b] -= columns @ (inverse @ z[gone, b]).astype(np.float32)
                z[gone, b] = 0.0
        out = np.zeros(R.shape)
        out[self.at] = z * unit / size
        return out

    def _through(self, z: np.ndarray, parts: Sequence[OwnPart]) -> np.ndarray:
        """The inverse of all that is eliminated and a part for each column of z (n, c), times z."""
        self.factor.forward(z)
        rest = z[self.m :]

        def one(b: int) -> None:
            parts[b].solve(rest[:, b])

        self.factor.pool.map(one, [(b,) for b in range(z.shape[1])], rest.size * len(rest))
        self.factor.backward(z)
        return z

    def _borders(self, there: np.ndarray, parts: Sequence[OwnPart]) -> list[Border | None]:
        """What replicates need that lack columns which were eliminated: those of their inverses.

        With Z = A⁻¹E_g of the columns g that have gone, the solution that is zero there is
        x − Z (E_g'Z)⁻¹ x_g.
        """
        core = there[: self.m]
        gone = [np.flatnonzero(~core[:, b]) for b in range(there.shape[1])]
        # Replicates without any column have nothing to solve, and who lacks many no use of it.
        wanted = [b for b, g in enumerate(gone) if 0 < len(g) <= self._most_lacking]
        keys = {b: (len(there), np.packbits(there[:, b]).tobytes()) for b in wanted}
        new = [b for b in wanted if keys[b] not in self._bordered]
        if new:
            E = np.zeros((len(there), sum(len(gone[b]) for b in new)), np.float32)
            E[np.concatenate([gone[b] for b in new]), np.arange(E.shape[1])] = 1.0
            Z = self._through(E, [parts[b] for b in new for _ in gone[b]])
            ends = np.cumsum([len(gone[b]) for b in new])
            for b, columns in zip(new, np.split(Z, ends[:-1], axis=1), strict=True):
                block = columns[gone[b]].astype(np.float64)
                inverse = np.linalg.pinv(0.5 * (block + block.T), hermitian=True)
                self._bordered[keys[b]] = gone[b], columns, inverse
        self._bordered = {key: self._bordered[key] for key in keys.values()}
        return [self._bordered[keys[b]] if b in keys else None for b in range(there.shape[1])]

    def _parts(self, has: np.ndarray) -> list[OwnPart]:
        """The replicates' own parts of the complement."""
        keys = [(len(has), np.packbits(has[:, b]).tobytes()) for b in range(has.shape[1])]
        new = {key: b for b, key in enumerate(keys) if key not in self._own}
        last = list(self._own.values())
        made = self.factor.pool.map(
            lambda b: OwnPart.near(self.factor.complement, has[:, b], last, self.factor.pool),
            [(b,) for b in new.values()], has.size * len(has),
        )  # fmt: skip
        known = self._own | dict(zip(new, made, strict=True))
        # The latest last; of the others as many stay as there are replicates, who may come back.
        used = {key: known[key] for key in keys}
        self._lanes = max(self._lanes, len(keys))
        others = [key for key in self._own if key not in used]
        others = others[len(others) - max(self._lanes - len(used), 0) :]
        self._own = {key: known[key] for key in others} | used
        return [known[key] for key in keys]
