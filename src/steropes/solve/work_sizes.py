"""Sizes of the pieces into which the solver divides its work.

They trade memory traffic for overhead. The order of additions, and so the last digits of a result,
may depend on them, but never on the number of threads. A value without a figure was not measured
by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SIZES", "WorkSizes", "pieces"]


@dataclass(frozen=True)
class WorkSizes:
    """Sizes of pieces of work, and of arrays in memory at once.

    Attributes
    ----------
    dense_task_rows : int
        Rows of a task of products with dense matrices and of copies of them. A Hessian of 4,000
        columns grew by 100 in 0.13 to 0.15 s on two threads with 64, with 256 and with 1,024 rows.
    dense_column_parts : int
        Fewest parts into which the columns of a dense matrix are divided.
    dense_partial_sums : int
        Parts of sums over the rows of a dense matrix.
    max_dense_vectors : int
        Number of vectors up to which BLAS spends more time on copying the matrix than it saves.
    dense_cached_rows : int
        Rows of a dense matrix that fit the cache together.
    panel_coordinates : int
        Coordinates after which changes are propagated to all other slopes.
    tile_columns : int
        Columns of a tile of a Cholesky factor.
    tile_stripes : int
        Parts of a panel of a Cholesky factor that are processed in parallel.
    tile_task_vectors : int
        Vectors for which a task solves with a Cholesky factor.
    block_groups : int
        Groups of blocks of correlated columns that are factored in parallel.
    inverse_columns : int
        Columns of L⁻¹ that are computed together and begin at the same row.
    correlation_chunks : int
        Chunks of columns whose correlations are computed in parallel.
    correlation_task_columns : int
        Columns that a task compares with all others.
    column_partial_sums : int
        Parts of sums over columns for a single vector.
    thresholds_at_once : int
        Thresholds whose cross derivatives are computed together.
    group_sums : int
        Most entries of the sums of groups that are in memory at once.
    hessian_stripes : int
        Stripes of a Hessian with groups that are processed in parallel.
    people_at_once : int
        People whose baseline terms are in memory at once.
    people_partial_sums : int
        Parts of sums over people.
    min_directions : int
        Fewest columns whose products with an operator are computed at once.
    direction_entries : int
        Entries of the rows of such columns up to which more are processed at once.
    cross_entries : int
        Most entries of the derivatives by columns and nuisance parameters in memory at once.
    parameter_groups : int
        Groups of nuisance parameters of a coarse Hessian; fewer are cheaper and less exact.
    min_pooled_columns : int
        Columns from which grouping nuisance parameters saves time.
    min_pooled_parameters : int
        Nuisance parameters from which grouping them saves time.
    cached_gram_columns : int
        Columns up to which a Gram matrix fits the cache.
    gram_entries : int
        Entries of X that are weighted at once.
    curvature_columns : int
        Most columns whose curvatures are computed together.
    curvature_entries : int
        Entries of columns whose curvatures are computed together.
    determinant_columns : int
        Columns of a factor of the information that are processed together.
    """

    dense_task_rows: int = 256
    dense_column_parts: int = 4
    dense_partial_sums: int = 8
    max_dense_vectors: int = 24
    dense_cached_rows: int = 64
    panel_coordinates: int = 512
    tile_columns: int = 256
    tile_stripes: int = 8
    tile_task_vectors: int = 64
    block_groups: int = 8
    inverse_columns: int = 64
    correlation_chunks: int = 8
    correlation_task_columns: int = 256
    column_partial_sums: int = 4
    thresholds_at_once: int = 8
    group_sums: int = 2_000_000
    hessian_stripes: int = 8
    people_at_once: int = 2048
    people_partial_sums: int = 8
    min_directions: int = 8
    direction_entries: int = 1 << 21
    cross_entries: int = 1 << 20
    parameter_groups: int = 500
    min_pooled_columns: int = 32
    min_pooled_parameters: int = 5000
    cached_gram_columns: int = 256
    gram_entries: int = 1 << 19
    curvature_columns: int = 1024
    curvature_entries: int = 1 << 23
    determinant_columns: int = 32


SIZES = WorkSizes()


def pieces(size: int, last: int, first: int = 0) -> list[tuple[int, int]]:
    """Divide the numbers from ``first`` to below ``last`` into pieces of a size."""
    return [(a, min(a + size, last)) for a in range(first, last, size)]
