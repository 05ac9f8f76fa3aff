"""Half of a symmetric matrix, as blocks send it: what the other half is follows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...solve.data_term.messages import Answer

__all__ = ["packed", "unpacked"]


def packed(answer: Answer) -> Answer:
    """An answer with the rows from ``first`` on of a symmetric matrix, (k − first, k), packed.

    Of row i the entries 0 … i: all that is not in a later one.
    """
    if "matrix" not in answer:
        return answer
    strip = answer["matrix"]
    first = strip.shape[1] - strip.shape[0]
    half = [row[: first + i + 1] for i, row in enumerate(strip)]
    numbers = np.concatenate(half) if half else strip.ravel()
    return {**answer, "matrix": numbers, "shape": np.array(strip.shape)}


def unpacked(answer: Mapping[str, np.ndarray]) -> Answer:
    """An answer as it was before `packed`."""
    if "shape" not in answer:
        return answer
    numbers = answer["matrix"]
    rows, k = answer["shape"]
    first, start = k - rows, 0
    strip = np.empty((rows, k), numbers.dtype)
    for i in range(rows):
        end = start + first + i + 1
        strip[i, : first + i + 1] = numbers[start:end]
        start = end
    for i in range(rows):  # the corner's upper half, from the rows below
        strip[i, first + i + 1 :] = strip[i + 1 :, first + i]
    rest = {name: x for name, x in answer.items() if name not in ("matrix", "shape")}
    return {**rest, "matrix": strip}
