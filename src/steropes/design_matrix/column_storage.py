"""Storage of columns: indicators by row numbers, sparse with values, dense and constant.

A block stores its columns divided by a power of two near their root mean square, so that the solver
works with numbers near one in any unit. Division by a power of two is exact.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass

import numpy as np

from ..backends.backend_interface import Array, Backend
from ..backends.cpu import NO_DATA, Lines
from ..backends.cpu.column_scaling import add_ends_and_sums, add_squares, scale_and_shift
from ..errors import DataError
from .storage_and_scaling_constants import SCALES, STORAGE

__all__ = [
    "Block",
    "ConstantBlock",
    "DenseBlock",
    "SparseBlock",
    "check_indices",
    "check_pointers",
    "power_of_two",
]


WRONG = "X is not a valid sparse matrix: "


def power_of_two(size: np.ndarray) -> np.ndarray:
    """Compute the power of two nearest to each size, or 1 if the size is zero."""
    size = np.asarray(size, dtype=np.float64)
    with np.errstate(divide="ignore"):
        exponent = np.where(size > 0, np.round(np.log2(size)), 0.0)
    return np.exp2(np.clip(exponent, -1000, 1000))


def check_pointers(
    lines: int, indptr: np.ndarray, indices: np.ndarray, values: int, major: str
) -> None:
    """Raise if pointers would make a kernel read out of bounds.

    Parameters
    ----------
    lines : int
        Number of columns, or of rows.
    indptr, indices : arrays
        As in a CSC or CSR matrix.
    values : int
        Number of values that belong to the indices.
    major : str
        The name of a line in messages.
    """
    if indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
        raise DataError(f"{WRONG}its indices are {indptr.dtype}, {indices.dtype}, not integers.")
    if indptr.ndim != 1 or len(indptr) != lines + 1 or indptr[0] != 0:
        raise DataError(f"{WRONG}it needs {lines + 1} pointers from 0 for {lines} {major}s.")
    if (indptr[1:] < indptr[:-1]).any():
        j = int((indptr[1:] < indptr[:-1]).argmax())
        raise DataError(f"{WRONG}{major} {j} ends before it begins; build the matrix again.")
    if not indptr[-1] <= len(indices) == values:
        raise DataError(
            f"{WRONG}its pointers end at {indptr[-1]}, but there are {len(indices)} indices and "
            f"{values} values."
        )


def check_indices(
    size: int, indptr: np.ndarray, indices: np.ndarray, major: str, minor: str,
    ascending: bool = False,
) -> None:  # fmt: skip
    """Raise if indices would make a kernel read out of bounds.

    Parameters
    ----------
    size : int
        Number of rows, or of columns.
    indptr, indices : arrays
        Indices with pointers that satisfy `check_pointers`.
    major, minor : str
        The names of a line and an index in messages.
    ascending : bool
        Whether the indices of each line are known to ascend, so that its ends suffice.
    """
    used = indices[: indptr[-1]]
    if not len(used):
        return
    if ascending:
        filled = np.flatnonzero(indptr[1:] > indptr[:-1])
        least, most = used[indptr[filled]].min(), used[indptr[filled + 1] - 1].max()
    else:
        least, most = used.min(), used.max()
    if least < 0 or most >= size:
        at = int(((used < 0) | (used >= size)).argmax())
        j = int(np.searchsorted(indptr, at, side="right")) - 1
        of = "" if major == "matrix" else f" in {major} {j}"
        raise DataError(
            f"{WRONG}an entry{of} has {minor} number {used[at]}, outside 0 … {size - 1}. Build "
            "the matrix again with the right shape."
        )


@dataclass(frozen=True)
class SparseBlock:
    """Columns of a CSC matrix; with empty ``data`` all stored entries are one."""

    n: int
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    scale: np.ndarray
    ascending: InitVar[bool] = False  # whether indices are known to ascend

    def __post_init__(self, ascending: bool) -> None:
        """Check pointers and indices."""
        values = len(self.data) or len(self.indices)
        check_pointers(self.p, self.indptr, self.indices, values, "column")
        check_indices(self.n, self.indptr, self.indices, "column", "row", ascending)

    @classmethod
    def indicator(
        cls, n: int, indptr: np.ndarray, indices: np.ndarray, ascending: bool = False
    ) -> SparseBlock:
        """Build columns of zeros and ones from the row numbers of the ones."""
        return cls(n, indptr, indices, NO_DATA, np.ones(len(indptr) - 1), ascending)

    @classmethod
    def valued(
        cls, n: int, indptr: np.ndarray, indices: np.ndarray, data: np.ndarray
    ) -> SparseBlock:
        """Build columns with values, which are copied and scaled."""
        p = len(indptr) - 1
        counts = np.diff(indptr)
        column = np.repeat(np.arange(p), counts)
        largest = np.zeros(p)
        np.maximum.at(largest, column, np.abs(data))
        top = power_of_two(largest)
        data = data / top[column]
        rms = np.sqrt(np.bincount(column, data**2, minlength=p) / np.maximum(counts, 1))
        rest = power_of_two(rms)
        return cls(n, indptr, indices, data / rest[column], top * rest)

    @property
    def p(self) -> int:
        """Number of columns."""
        return len(self.indptr) - 1

    @property
    def entries(self) -> int:
        """Stored entries."""
        return len(self.indices)

    def scaled_by(self, counted: np.ndarray) -> SparseBlock:
        """Rescale columns by their size in the rows ``counted`` (n,), bool.

        An extreme value in a row without weight would otherwise make all other values tiny.
        """
        if not len(self.data):
            return self
        used = slice(0, int(self.indptr[-1]))
        column = np.repeat(np.arange(self.p), np.diff(self.indptr))
        indices = self.indices[used]
        there = counted[indices]
        some, size = column[there], np.abs(self.data[used][there])
        largest = np.zeros(self.p)
        np.maximum.at(largest, some, size)
        top = power_of_two(largest)
        square = np.bincount(some, (size / top[some]) ** 2, minlength=self.p)
        rows = np.maximum(np.bincount(some, minlength=self.p), 1)
        rest = top * power_of_two(np.sqrt(square / rows))
        rest[(rest >= 0.5) & (rest <= 2.0)] = 1.0  # close enough to avoid a copy
        if (rest == 1.0).all():
            return self
        data = self.data[used] / rest[column]
        return SparseBlock(self.n, self.indptr, indices, data, self.scale * rest)

    def only(self, local: np.ndarray) -> SparseBlock:
        """Select columns, ascending, as a separate block."""
        counts = np.diff(self.indptr)
        mask = np.zeros(self.p, bool)
        mask[local] = True
        used = np.repeat(mask, counts)
        # The sums count entries and therefore keep the integer type of the pointers.
        indptr = np.concatenate([[0], np.cumsum(counts[local])]).astype(self.indptr.dtype)
        indices = self.indices[: len(used)][used]
        data = self.data[: len(used)][used] if len(self.data) else self.data
        return SparseBlock(self.n, indptr, indices, data, self.scale[local])

    @property
    def lines(self) -> Lines:
        """The columns as sparse lines for the backend."""
        return Lines(self.indptr[:-1], self.indptr[1:], self.indices, self.data, self.n)

    def taken(self, local: np.ndarray) -> Lines:
        """Select columns as sparse lines for the backend, without a copy."""
        return self.lines.take(local)


def _moments(
    x: np.ndarray, used: np.ndarray, center: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Compute extent, centre and size of columns, and which are constant, (p,) each.

    The extent is a power of two. Centre and size are those in the rows used, (n,) bool, and refer
    to the columns divided by the extent.
    """
    p, n = x.shape[1], max(int(np.count_nonzero(used)), 1)
    share = float(1 / power_of_two(np.array(n)))  # A sum of parts cannot overflow.
    least, most = np.zeros((2, p))
    total, square = np.zeros((2, p))
    if len(x):
        first = x[int(used.argmax())]
        least, most = first.copy(), first.copy()
        add_ends_and_sums(x, used, share, least, most, total)
    ends = [least, most]
    if not used.all():
        ends += [x.min(axis=0, initial=0.0), x.max(axis=0, initial=0.0)]
    largest = power_of_two(np.abs(ends).max(axis=0))
    middle = total / largest / (share * n) if center else np.zeros(p)
    add_squares(x, used, largest, middle, square)
    # Rounding leaves a constant column slightly off zero after centring; it is zero.
    spread = np.maximum(most / largest - middle, middle - least / largest)
    nothing = spread < SCALES.constant_share * np.maximum(np.abs(middle), 1e-300)
    return largest, middle, np.sqrt(np.where(nothing, 0.0, square) / n), nothing


@dataclass(frozen=True)
class DenseBlock:
    """Dense columns, (x − center) / scale.

    Attributes
    ----------
    led : (n, 1 + p) array, optional
        A column of ones and the values, which are a view of it. Models with an intercept then need
        no other copy of the columns by row.
    """

    values: np.ndarray
    center: np.ndarray
    scale: np.ndarray
    led: np.ndarray | None = None

    @classmethod
    def standardized(
        cls,
        x: np.ndarray,
        center: bool,
        counted: np.ndarray | None = None,
        reuse: bool = False,
        led: bool = False,
    ) -> DenseBlock:
        """Copy and scale the columns, and centre them if requested.

        The scale and centre are those of the rows ``counted`` (n,), bool. Extreme values in rows
        without weight would otherwise make all other values small and displace the centre. With
        ``reuse`` the result takes the memory of x, an array of floats that no one else needs. With
        ``led`` a column of ones is stored in front, in memory of its own.
        """
        x = np.asarray(x, dtype=np.float64)
        if not x.flags.c_contiguous:
            x, reuse = np.ascontiguousarray(x), True
        n, p = x.shape
        used = np.ones(n, bool) if counted is None or not counted.any() else counted
        largest, middle, size, nothing = _moments(x, used, center)
        rest = power_of_two(size)
        scale = largest * rest
        whole = x if reuse and not led else np.empty((n, p + led))
        values = whole[:, 1:] if led else whole
        scale_and_shift(x, scale, middle / rest, values)
        if led:
            whole[:, 0] = 1.0
        if nothing.any():
            values[np.ix_(used, nothing)] = 0.0
        return cls(values, middle * largest, scale, whole if led else None)

    def __getstate__(self) -> dict[str, object]:
        """Store the values once."""
        return {**self.__dict__, "led": None}

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.values)

    @property
    def p(self) -> int:
        """Number of columns."""
        return self.values.shape[1]

    def only(self, local: np.ndarray) -> DenseBlock:
        """Select columns, ascending, as a separate block."""
        values = np.ascontiguousarray(self.values[:, local])
        return DenseBlock(values, self.center[local], self.scale[local])

    def taken(self, local: np.ndarray, backend: Backend | None = None) -> Array:
        """Select the values of columns, as a view if they are contiguous.

        On a backend's device, if one is given, to which the whole block is sent once.
        """
        values = self.values if backend is None else backend.resident(self.values)
        first, m = int(local[0]) if len(local) else 0, len(local)
        if m == self.p and np.array_equal(local, np.arange(m)):
            return values
        if np.array_equal(local, np.arange(first, first + m)):
            return values[:, first : first + m]
        return (np if backend is None else backend.xp).take(values, local, axis=1)

    def times(self, local: np.ndarray, d: np.ndarray) -> np.ndarray:
        """Multiply selected columns with d (len(local), B), copying them only if they are few."""
        if len(local) * STORAGE.copied_one_in < self.p:
            return self.taken(local) @ d
        whole = np.zeros((self.p, d.shape[1]))
        whole[local] = d
        return self.values @ whole


@dataclass(frozen=True)
class ConstantBlock:
    """The intercept, a column of ones."""

    n: int
    p: int = 1

    def only(self, local: np.ndarray) -> ConstantBlock:
        """Return the block itself."""
        return self

    @property
    def scale(self) -> np.ndarray:
        """The scale of the column, one."""
        return np.ones(1)


Block = SparseBlock | DenseBlock | ConstantBlock
