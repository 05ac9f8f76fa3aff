"""Step functions of time, one for each row, as scikit-survival returns them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...data.html_representations import TextInHtml
from ...errors import DataError

__all__ = ["StepFunction"]


@dataclass(frozen=True, eq=False, repr=False)
class StepFunction(TextInHtml):
    """A right-continuous step function of time.

    Parameters
    ----------
    x : (T,) array
        Times of the steps, ascending.
    y : (T,) array
        Values from each of these times on.
    before : float
        Value before the first step: 1 for survival, 0 for a cumulative hazard.
    domain : (float, float)
        Times between which the function is known.

    Examples
    --------
    >>> import numpy as np
    >>> from steropes import StepFunction
    >>> survival = StepFunction(np.array([1.0, 3.0]), np.array([0.8, 0.5]), 1.0, (0.0, 4.0))
    >>> survival([0.5, 1, 2, 4]).tolist()
    [1.0, 0.8, 0.8, 0.5]
    """

    x: NDArray
    y: NDArray
    before: float
    domain: tuple[float, float]

    def __repr__(self) -> str:
        """Show the domain; times of single people stay out of logs."""
        low, high = self.domain
        return f"StepFunction({len(self.x)} steps, known from {low:g} to {high:g})"

    def __call__(self, t: ArrayLike) -> NDArray:
        """Evaluate the function at times t of any shape.

        Raises
        ------
        DataError
            A time lies outside the domain.
        """
        t = np.asarray(t, dtype=float)
        low, high = self.domain
        outside = ~((t >= low) & (t <= high))
        if outside.any():
            first = t[outside].flat[0]
            raise DataError(f"The function is known from {low:g} to {high:g}, not at {first:g}.")
        values = np.append(self.before, self.y)
        return values[np.searchsorted(self.x, t, side="right")]
