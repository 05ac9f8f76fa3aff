"""Reading outcomes of cumulative models: numbers, censored numbers or ordered categories.

Ordered categories are represented by their positions, from 0, unless their labels are numbers in
ascending order, which are then used themselves.
"""

from __future__ import annotations

import numpy as np

from ...data.input_types import VectorLike
from ...data.ordered_categories import ordered_categories
from ...errors import DataError, listed
from ...likelihoods.cumulative import Interval, check_interval

__all__ = ["read_new_outcome", "read_outcome"]


def read_outcome(y: VectorLike, n: int) -> tuple[Interval, list | None]:
    """Read the outcome of a fit.

    Parameters
    ----------
    y : array, series or categories
    n : int
        Rows of X.

    Returns
    -------
    outcome : Interval
    categories : list or None
        Labels from the lowest to the highest if the outcome is positions of ordered categories.

    Raises
    ------
    DataError
        If y is neither numbers nor ordered categories, or missing in some row.
    """
    found = ordered_categories(y)
    if found is not None and not found.ascend:
        return _of_codes(found.codes, n), found.labels
    try:
        return check_interval(y, n), None
    except DataError as error:
        if not any(isinstance(v, str) for v in np.asarray(y).ravel()[:1].tolist()):
            raise
        raise DataError(
            f"{error} Give ordered categories as numbers in their order, or as "
            "pandas.Categorical(y, ['low', 'middle', 'high'], ordered=True)."
        ) from None


def read_new_outcome(y: VectorLike, n: int, categories: list | None) -> Interval:
    """Read an outcome of new rows in the representation of the fit.

    Parameters
    ----------
    y, n
        See `read_outcome`.

    Raises
    ------
    DataError
        If only one of y and the fit has ordered categories, or y has unknown ones.
    """
    found = ordered_categories(y)
    if categories is None:
        if found is not None and not found.ascend:
            raise DataError(
                "The model was fitted to numbers, and y holds ordered categories. Pass numbers."
            )
        return check_interval(y, n)
    if found is None:
        raise DataError(
            f"The model was fitted to ordered categories, from {categories[0]!r} to "
            f"{categories[-1]!r}. Pass y as such: pandas.Categorical(y, model.categories_, "
            "ordered=True)."
        )
    place = {label: k for k, label in enumerate(categories)}
    unknown = [label for label in found.labels if label not in place]
    known = np.array([place.get(label, -1) for label in found.labels] or [-1], np.int64)
    codes = np.where(found.codes < 0, -1, known[found.codes])
    if unknown and bool(((codes < 0) & (found.codes >= 0)).any()):
        raise DataError(f"y has the categories {listed(unknown)}, which the fit does not have.")
    return _of_codes(codes, n)


def _of_codes(codes: np.ndarray, n: int) -> Interval:
    """Convert positions of categories to outcomes; refuse missing ones."""
    if len(codes) != n:
        raise DataError(f"y has {len(codes)} entries, but X has {n} rows.")
    if (codes < 0).any():
        raise DataError(f"y is missing in row {int((codes < 0).argmax())}; drop the row.")
    return Interval(codes.astype(np.float64), None)
