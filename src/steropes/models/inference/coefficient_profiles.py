"""Profile likelihoods of some coefficients, whose intervals and points share their fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..fitting.coefficient_tables import coefficient_positions
from ..fitting.fit_steps import Estimator
from .profile_likelihood import points_at, profile_fits, profile_intervals

__all__ = ["CoefficientProfiles"]


class CoefficientProfiles:
    """Profile likelihoods of some coefficients of a fitted model.

    Fits start from those at earlier points, and no point is fitted twice, unlike with several calls
    of `Inference.profile` and ``confint``.

    Parameters
    ----------
    model : estimator
        A fitted model.
    params : sequence of str
        Names of coefficients.
    """

    def __init__(self, model: Estimator, params: Sequence[str]) -> None:
        self._model = model
        chosen = coefficient_positions(params, model._coefficient_names(), model._fixed)
        self._positions = dict(zip(params, chosen, strict=True))
        self._fits = profile_fits(model, chosen)

    def intervals(self, level: float) -> np.ndarray:
        """Compute lower and upper limits, (m, 2), as ``confint`` does with ``"profile"``."""
        return profile_intervals(self._model, [*self._positions.values()], level, self._fits)

    def function(self, param: str) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Return a function that evaluates the profile log-likelihood of a coefficient.

        It takes values of the coefficient, (m,), and returns the profile log-likelihood and its
        derivative there, (m,) each; NaN where fits stopped before their tolerance.
        """
        j = self._positions[param]
        (held,) = [held for held, columns in self._fits if j in columns]

        def evaluate(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """Evaluate the profile and its derivative."""
            found = points_at(held, j, points)
            value, slope = (
                np.array([(v.f, v.g) if v.converged else (np.nan, np.nan) for v in found])
                .reshape(-1, 2)
                .T
            )
            return value, slope

        return evaluate
