"""Tuning parameters for the storage and the scaling of the columns of X."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SCALES", "STORAGE", "ScalePolicy", "StoragePolicy"]


@dataclass(frozen=True)
class StoragePolicy:
    """Representations of columns and sizes of blocks, which trade memory for speed.

    Attributes
    ----------
    reduction_rows : int
        Number of rows that a reduction treats as one long row.
    copied_one_in : int
        Selected columns are copied if they are fewer than one in this number.
    sparse_below : float
        Share of nonzeros below which a large dense input is stored as sparse.
    min_sparse_entries : int
        Number of entries below which a dense input stays dense.
    max_runs : int
        Maximum number of blocks of a matrix with mixed columns before indicators become
        valued.
    dense_share : float
        Share of nonzeros from which a column with values takes less memory if stored as
        dense.
    compared_entries : int
        Number of entries compared or transposed at once, which limits temporary memory.
    min_packed_entries : int
        Number of entries from which packing is worthwhile.
    max_band_share : float
        Maximum number of bands over all columns, as a share of the entries.
    packed_at_once : int
        Number of entries processed together, so that they stay in the cache.
    mirrored_rows : int
        Number of rows of a triangle that are mirrored together.
    squared_rows : int
        Number of rows of dense columns that are squared or weighted together, so that they stay
        in the cache.
    thin_columns : int
        Number of dense columns (such as an intercept) up to which a product is added in
        place.
    max_single_precision : float
        Largest sum that is computed in single precision.
    """

    reduction_rows: int = 64
    copied_one_in: int = 8
    sparse_below: float = 0.15
    min_sparse_entries: int = 1_000_000
    max_runs: int = 64
    dense_share: float = 2 / 3
    compared_entries: int = 1 << 18
    min_packed_entries: int = 1 << 20
    max_band_share: float = 0.1
    packed_at_once: int = 1 << 20
    mirrored_rows: int = 256
    squared_rows: int = 2048
    thin_columns: int = 4
    max_single_precision: float = 1e30


@dataclass(frozen=True)
class ScalePolicy:
    """Limits within which scales need no change and numbers count as rounding errors.

    Attributes
    ----------
    near : float
        Largest ratio of two scales, or distance of two centres in sizes, that needs no
        rescaling.
    constant_share : float
        A spread below this share of the mean is rounding.
    spanned_share : float
        A remainder of a function below this relative size is rounding.
    """

    near: float = 8.0
    constant_share: float = 1e-13
    spanned_share: float = 1e-12


STORAGE = StoragePolicy()
SCALES = ScalePolicy()
