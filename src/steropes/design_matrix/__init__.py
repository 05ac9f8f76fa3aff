"""The design matrix X: blocks of columns and products with batches of replicates."""

from typing import TYPE_CHECKING

from .design_from_arrays_and_tables import (
    as_design,
    design_of_coded_table,
    design_of_numbers,
    has_names,
    null_design,
)
from .design_of_column_blocks import Design
from .private_array_copies import copy_shared_arrays
from .working_columns_by_row import RowMatrix

__all__ = [
    "Design",
    "RowMatrix",
    "as_design",
    "copy_shared_arrays",
    "design_of_coded_table",
    "design_of_numbers",
    "has_names",
    "null_design",
]

if TYPE_CHECKING:
    from .design_interfaces import ChannelLike, ColumnStore, DesignLike, PieceLike, RowsLike
    from .multinomial_design import ClassDesign
    from .piecewise_design import PiecewiseDesign, PiecewiseRows
    from .time_channel_design import ChannelDesign, ChannelRows

    # The assignments let a type checker verify that the classes satisfy the protocols.
    _columns: type[ColumnStore] = Design
    _designs: list[type[DesignLike]] = [Design, PiecewiseDesign, ChannelDesign, ClassDesign]
    _rows: type[RowsLike] = RowMatrix
    _pieces: type[PieceLike] = PiecewiseRows
    _channels: type[ChannelLike] = ChannelRows
