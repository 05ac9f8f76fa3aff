"""Packing of symmetric matrices in the answers of blocks, which send only one triangle."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...errors import DataError
from ...solve.data_term.sharded.shard_messages import FAULTY, Answer

__all__ = ["pack_symmetric", "unpack_symmetric"]


def pack_symmetric(answer: Answer) -> Answer:
    """Pack the matrix of an answer, the rows from ``first`` on of a symmetric one, (k − first, k).

    Row i keeps its entries 0 … i; the others are in later rows.
    """
    if "matrix" not in answer:
        return answer
    strip = answer["matrix"]
    first = strip.shape[1] - strip.shape[0]
    half = [row[: first + i + 1] for i, row in enumerate(strip)]
    numbers = np.concatenate(half) if half else strip.ravel()
    return {**answer, "matrix": numbers, "shape": np.array(strip.shape)}


def unpack_symmetric(answer: Mapping[str, np.ndarray]) -> Answer:
    """Restore an answer that `pack_symmetric` packed; a `DataError` if it did not pack it."""
    if "shape" not in answer:
        return answer
    numbers, shape = answer["matrix"], answer["shape"]
    whole = shape.shape == (2,) and shape.dtype.kind in "iu"
    rows, k = (int(n) for n in shape) if whole else (0, -1)
    if not 0 <= rows <= k or numbers.shape != (rows * (2 * k - rows + 1) // 2,):
        raise DataError(f"a block of rows answered a matrix of another size: {FAULTY}")
    first, start = k - rows, 0
    strip = np.empty((rows, k), numbers.dtype)
    for i in range(rows):
        end = start + first + i + 1
        strip[i, : first + i + 1] = numbers[start:end]
        start = end
    for i in range(rows):  # the upper triangle of the corner, from the rows below
        strip[i, first + i + 1 :] = strip[i + 1 :, first + i]
    rest = {name: x for name, x in answer.items() if name not in ("matrix", "shape")}
    return {**rest, "matrix": strip}
