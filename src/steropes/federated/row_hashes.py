"""Rows of a site's table as numbers: codes of any column, hashes of contents, and keyed digests.

A plan can name any column in any role, and the rows with a positive weight are the people behind
its totals. The ledger therefore keeps a digest of each of these rows, computed with a secret of the
site, such that the sets of people of two plans can be compared without storing anyone's values.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ..design_matrix import Design
from ..design_matrix.column_storage import DenseBlock, SparseBlock

__all__ = [
    "SiteTable", "column_values", "from_text", "keyed_digests", "memberships", "mixed", "to_text",
]  # fmt: skip

# The multiplier of the hash of values: an odd number that spreads bits well.
MIXING = np.uint64(0x9E3779B97F4A7C15)


def mixed(x: np.ndarray, j: int) -> np.ndarray:
    """Hash the values of column j, (n,) uint64, such that sums over columns identify rows."""
    z = (np.asarray(x, np.float64) + 0.0).view(np.uint64)
    with np.errstate(over="ignore"):
        z = (z ^ np.uint64(j % (1 << 32) + 1)) * MIXING
        z = (z ^ (z >> np.uint64(29))) * (MIXING + np.uint64(2 * (j % 1009)))
        return z ^ (z >> np.uint64(32))


def column_values(design: Design) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the nonzero rows of each column, or all rows of a dense one, with values over scale."""
    for block in design.blocks:
        for j in range(block.p):
            if isinstance(block, SparseBlock):
                own = slice(block.indptr[j], block.indptr[j + 1])
                at = block.indices[own]
                yield at, block.data[own] if len(block.data) else np.ones(len(at))
            elif isinstance(block, DenseBlock):
                yield np.arange(block.n), block.values[:, j]


def _hash_of_text(text: str) -> int:
    """Return 48 bits of a text's SHA-256, which a double holds exactly."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


def _codes(values: ArrayLike) -> np.ndarray:
    """Return numbers that are equal where values are; they do not depend on the other rows."""
    x = np.asarray(values)
    if x.dtype.kind in "bifu":
        return x.astype(np.float64)
    if x.dtype.kind in "mM":
        return x.astype(np.int64).astype(np.float64)
    found, code = np.unique(x.astype(str), return_inverse=True)
    return np.array([float(_hash_of_text(v)) for v in found])[code.ravel()]


class SiteTable:
    """All columns of a site's table, whichever of them the current plan names.

    Parameters
    ----------
    names : sequence of str
        Names of the columns that ``take`` returns.
    take : callable
        Returns a column by its name.
    design : Design
        The plan's covariates, before they are centred.
    original : SiteTable, optional
        The table before some values were replaced, whose rows are the people; by default this one.
    """

    def __init__(
        self, names: Sequence[str], take: Callable[[str], ArrayLike], design: Design,
        original: SiteTable | None = None,
    ) -> None:  # fmt: skip
        self._names, self._take, self._design = list(names), take, design
        self._original = original

    def column(self, name: str) -> np.ndarray | None:
        """Return numbers that identify the values of a column, (n,); None if it is absent."""
        if name in self._names:
            return _codes(self._take(name))
        if name not in self._design.names:
            return None
        j = list(self._design.names).index(name)
        at, values = next(v for k, v in enumerate(column_values(self._design)) if k == j)
        out = np.zeros(self._design.n)
        out[at] = values * self._design.scale[j]
        return out

    @property
    def names(self) -> str:
        """Digest of the names of all columns."""
        names = sorted({*self._names, *self._design.names})
        return hashlib.sha256("\n".join(names).encode()).hexdigest()

    @cached_property
    def contents(self) -> np.ndarray:
        """A hash of all values of each row and of its number among equal rows, (n,) uint64."""
        if self._original is not None:
            return self._original.contents
        out = np.zeros(self._design.n, np.uint64)
        own = set(self._names)
        for name in self._names:
            out += mixed(_codes(self._take(name)), _hash_of_text(name))
        for name, (at, x) in zip(self._design.names, column_values(self._design), strict=True):
            if name not in own:
                out[at] += mixed(x, _hash_of_text(name))
        order = np.argsort(out, kind="stable")
        first = np.flatnonzero(np.r_[True, out[order][1:] != out[order][:-1]][: len(out)])
        size = np.diff(np.r_[first, len(out)])
        rank = np.empty(len(out))
        rank[order] = np.arange(len(out)) - np.repeat(first, size)
        return out + mixed(rank, 0)


def keyed_digests(contents: np.ndarray, secret: bytes) -> np.ndarray:
    """Return 64 bits of HMAC-SHA256 of each hash, (n,) uint64."""
    each = (hmac.digest(secret, x.tobytes(), "sha256")[:8] for x in contents)
    return np.frombuffer(b"".join(each), np.uint64)


def to_text(digests: np.ndarray) -> str:
    """Encode digests in ascending order in base64."""
    return base64.b64encode(np.sort(digests).astype("<u8").tobytes()).decode()


def from_text(text: str) -> np.ndarray:
    """Decode digests."""
    return np.frombuffer(base64.b64decode(text), "<u8").astype(np.uint64)


def memberships(sets: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return all digests of some sets, and a number of the sets that each belongs to, (n,) each.

    Rows have the same number if and only if they are in the same sets.
    """
    everyone = np.unique(np.concatenate([*sets, np.empty(0, np.uint64)]))
    part = np.zeros(len(everyone), np.int64)
    for members in sets:
        part = 2 * part + np.isin(everyone, members)
        part = np.unique(part, return_inverse=True)[1].ravel()
    return everyone, part
