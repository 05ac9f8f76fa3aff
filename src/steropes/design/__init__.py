"""The matrix X: blocks of columns, products with batches of replicates; no statistics."""

from typing import TYPE_CHECKING

from .build import as_design, has_names, null_design
from .design import Design
from .owned import owned
from .rows import RowMatrix

__all__ = ["Design", "RowMatrix", "as_design", "has_names", "null_design", "owned"]

if TYPE_CHECKING:
    from .channels import ChannelDesign, ChannelRows
    from .face import ChannelLike, ColumnStore, DesignLike, PieceLike, RowsLike
    from .piecewise import PiecewiseDesign, PiecewiseRows

    # What keeps the face; a type checker says what is missing.
    _columns: type[ColumnStore] = Design
    _designs: list[type[DesignLike]] = [Design, PiecewiseDesign, ChannelDesign]
    _rows: type[RowsLike] = RowMatrix
    _pieces: type[PieceLike] = PiecewiseRows
    _channels: type[ChannelLike] = ChannelRows
