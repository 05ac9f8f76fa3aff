"""Predictions of cumulative models with their limits, and checks of their arguments."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...data.input_types import LabelsLike, VectorLike
from ...data.plottable_result_tables import draw_estimates
from ...errors import DataError
from ..fitting.default_standard_errors import NamesErrors
from ..fitting.setting_types import Kind

__all__ = ["Prediction", "pack_prediction", "read_points", "refuse_without_level"]


class _Arrays(NamedTuple):
    """The arrays of a prediction."""

    estimate: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    se: np.ndarray

    def plot(self, **options: Any) -> Any:
        """Draw a line for each row of X and each point by `steropes.plots.forest`.

        Parameters
        ----------
        **options
            As of the function.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        return draw_estimates(self.estimate, self.lower, self.upper, **options)


class Prediction(NamesErrors, _Arrays):
    """An estimate with its interval and standard error, arrays of one shape.

    ``se`` has the units of the estimate, a probability or an outcome. Intervals of probabilities
    and quantiles are computed on the scale of α − η and are not symmetric about the estimate.
    ``errors`` is the kind of errors, "model" or "robust".
    """


def read_points(x: VectorLike, what: str) -> tuple[np.ndarray, bool]:
    """Validate points; return them as an array, and whether there is a single one."""
    try:
        points = np.asarray(x, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must hold numbers: {error}.") from None
    if points.ndim > 1 or np.isnan(points).any():
        raise DataError(f"{what} must be a number or a 1-dimensional array without NaN.")
    return np.atleast_1d(points), points.ndim == 0


def refuse_without_level(
    level: float | None, kind: Kind | None, cluster: LabelsLike | None
) -> None:
    """Refuse arguments that matter to intervals only."""
    if level is None and (kind not in (None, "model") or cluster is not None):
        raise DataError("kind and cluster are of the intervals; give a level too, such as 0.95.")


def pack_prediction(
    estimate: np.ndarray, lower: np.ndarray, upper: np.ndarray, se: np.ndarray, scalar: bool
) -> Prediction:
    """Combine arrays to a prediction, one-dimensional for a single point."""
    parts = (estimate, lower, upper, se)
    return Prediction(*(x[:, 0] if scalar else x for x in parts))
