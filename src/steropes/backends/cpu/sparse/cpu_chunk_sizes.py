"""Sizes into which the CPU backend divides its work."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFAULT", "CpuPolicy"]


@dataclass(frozen=True)
class CpuPolicy:
    """Sizes of chunks, bands, stripes and tiles of the CPU kernels.

    They trade memory traffic for overhead. The order of additions, and so the last digits of a
    result, depends on ``chunk_rows``, ``min_block_entries`` and the fields of the single-precision
    Gram matrix, but never on the number of threads.

    Attributes
    ----------
    chunk_rows : int
        Rows of a chunk of elementwise work; eight replicates of a chunk stay in the L2 cache.
    max_partial_bytes : int
        Bytes of partial products beyond which a transposed product of long lines is computed
        in place by bands of its rows instead of being added up from chunks.
    min_band_rows, max_band_rows : int
        Fewest and most rows that are transposed together, so that random writes stay in the cache.
    min_entries_per_band : int
        Mean number of entries per line and band from which lines are searched for the bands.
    min_block_entries : int
        Fewest entries of a block of lines per value of the result: each block adds the whole
        result once more.
    gram_stripe_bytes : int
        Bytes, in single precision, of a stripe of the Gram matrix with its upper half.
    min_gram_stripes : int
        Fewest stripes with several threads.
    gram_entries : int
        Entries that are sorted by stripe together.
    gram_groups_per_thread : int
        Groups of stripes per thread if each group reads all lines.
    max_dense_gram_values, max_dense_gram_columns : int
        Values and columns up to which BLAS computes a Gram matrix from a dense copy, which avoids
        the compilation of a kernel for a small problem.
    frequent_share : float
        Smallest share of the rows with which a column counts as frequent and goes to BLAS: a dense
        product is about thirty times cheaper per entry than additions at indirect addresses.
    min_frequent_columns : int
        Frequent columns below which BLAS is not worthwhile.
    min_pairs_per_entry : float
        Pairs per entry below which rereading the entries costs more than BLAS saves.
    tile_columns, tile_rows : int
        Frequent columns and rows of a dense tile, which stays in the L2 cache.
    max_tile_bytes : int
        Bytes of all chunks' sums of products with frequent columns.
    max_tile_chunks : int
        Most chunks of rows whose products are summed separately.
    max_group_lines, max_group_entries : int
        Most lines and entries of a batch of group sums; a single run may exceed the latter.
    """

    chunk_rows: int = 8192
    max_partial_bytes: int = 1 << 24
    min_band_rows: int = 1 << 13
    max_band_rows: int = 1 << 17
    min_entries_per_band: int = 4
    min_block_entries: int = 16
    gram_stripe_bytes: int = 3 << 20
    min_gram_stripes: int = 4
    gram_entries: int = 1 << 21
    gram_groups_per_thread: int = 3
    max_dense_gram_values: int = 1 << 17
    max_dense_gram_columns: int = 128
    frequent_share: float = 0.15
    min_frequent_columns: int = 48
    min_pairs_per_entry: float = 75
    tile_columns: int = 256
    tile_rows: int = 512
    max_tile_bytes: int = 1 << 27
    max_tile_chunks: int = 8
    max_group_lines: int = 1 << 20
    max_group_entries: int = 1 << 23


DEFAULT = CpuPolicy()
