"""Interpolation of a profile log-likelihood that is stored at some points."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steropes.data.html_representations import TextInHtml
from steropes.errors import DataError
from steropes.infer.profile_search import is_flat_at_end

__all__ = ["NormalProfile", "Profile", "spline_slopes"]

NORMAL_REACH = 40.0  # The points of a normal likelihood extend to this many standard errors.


class Profile(TextInHtml):
    """A profile log-likelihood, interpolated between stored points.

    Between neighbouring points the function is cubic (Hermite). It raises beyond the outermost
    points, where it is unknown. The exception is a side on which the profile is flat, as that of an
    arm without events: there it keeps its last value.

    Parameters
    ----------
    log_rr, log_likelihood : array_like, shape (m,)
        Effects on the log scale, in any order, and the profile log-likelihood at each of them.
    gradient : array_like, shape (m,), optional
        Derivative of the profile at each effect. Default: that of a natural cubic spline.
    name : str, default ""
        Database of the profile, for messages.

    Attributes
    ----------
    points : ndarray, shape (m,)
        Stored effects in ascending order.
    low, high : float
        Range in which the function is known: the outermost points, or infinite on a side that is
        flat.

    Raises
    ------
    DataError
        There are fewer than two points, repeated points, missing numbers, or unequal lengths.

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs.evidence import Profile
    >>> grid = np.linspace(-1.0, 1.0, 41)
    >>> profile = Profile(grid, -(((grid - 0.2) / 0.2) ** 2) / 2, name="north")
    >>> profile.stored_range(), round(float(profile(0.4)), 3)
    ('between -1 and 1', -0.5)
    """

    def __init__(
        self,
        log_rr: ArrayLike,
        log_likelihood: ArrayLike,
        gradient: ArrayLike | None = None,
        *,
        name: str = "",
    ) -> None:
        from scipy.interpolate import CubicHermiteSpline

        x, y = np.asarray(log_rr, dtype=float), np.asarray(log_likelihood, dtype=float)
        slope = y if gradient is None else np.asarray(gradient, dtype=float)
        if not (x.ndim == 1 and x.shape == y.shape == slope.shape):
            raise DataError(
                "log_rr, log_likelihood and gradient of a profile must have one value per point: "
                f"their shapes are {x.shape}, {y.shape} and {slope.shape}"
            )
        order = np.argsort(x)
        x, y, slope = x[order], y[order], slope[order]
        if not all(np.isfinite(v).all() for v in (x, y, slope)):
            raise DataError("a profile has points that are missing or infinite")
        if len(x) < 2 or not (np.diff(x) > 0).all():
            raise DataError("a profile needs two or more points with distinct log ratios")
        if gradient is None:
            slope = spline_slopes(x, y)
        self.name = name
        self.points = x
        self._curve = CubicHermiteSpline(x, y, slope)
        self._slopes = float(slope[0]), float(slope[-1])
        self.low, self.high = float(x[0]), float(x[-1])
        flat = is_flat_at_end(self._curve, self.low, self.high, self._slopes[0])
        if is_flat_at_end(self._curve, self.high, self.low, self._slopes[1]):
            self.high = math.inf
        if flat:
            self.low = -math.inf

    def __repr__(self) -> str:
        name = f" of {self.name}" if self.name else ""
        return f"Profile{name}({len(self.points)} points, {self.stored_range()})"

    def __call__(self, log_rr: ArrayLike) -> NDArray:
        """Evaluate the log-likelihood.

        Raises
        ------
        DataError
            An effect lies beyond the stored points on a side that is not flat.
        """
        b = np.asarray(log_rr, dtype=float)
        if (b < self.low).any() or (b > self.high).any():
            beyond = b[(b < self.low) | (b > self.high)].flat[0]
            raise DataError(
                f"{self.described()} is stored {self.stored_range()} and unknown at {beyond:.4g}"
            )
        return np.asarray(self.nearest(b))

    def nearest(self, log_rr: ArrayLike) -> NDArray:
        """Evaluate the log-likelihood at the nearest known effects.

        Beyond a closed end this is an upper bound, if the profile falls there.

        Parameters
        ----------
        log_rr : array_like
            Effects on the log scale.

        Returns
        -------
        ndarray
            Log-likelihoods.
        """
        return np.asarray(self._curve(np.clip(log_rr, self.points[0], self.points[-1])))

    def falls(self, side: int) -> bool:
        """Check whether the profile falls outwards at its last point on a side.

        Parameters
        ----------
        side : {-1, 1}
            Left (-1) or right (1).

        Returns
        -------
        bool
            True if it falls.
        """
        return side * self._slopes[0 if side < 0 else 1] < 0

    def described(self) -> str:
        """Name the profile for messages.

        Returns
        -------
        str
            Such as "the profile of north".
        """
        return f"the profile of {self.name}" if self.name else "a profile"

    def stored_range(self) -> str:
        """Describe the range of its points for messages.

        Returns
        -------
        str
            Such as "between -2 and 2".
        """
        return f"between {self.points[0]:.4g} and {self.points[-1]:.4g}"


class NormalProfile(Profile):
    """The log-likelihood of a normal estimate with a standard error, known everywhere.

    Parameters
    ----------
    name : str, default ""
        Database of the estimate, for messages.
    """

    def __init__(self, log_rr: float, se: float, *, name: str = "") -> None:
        at = np.linspace(-NORMAL_REACH, NORMAL_REACH, 3)
        super().__init__(log_rr + se * at, -0.5 * at**2, -at / se, name=name)
        self.log_rr, self.se = log_rr, se
        self.low, self.high = -math.inf, math.inf

    def nearest(self, log_rr: ArrayLike) -> NDArray:
        """Evaluate the log-likelihood."""
        z = (np.asarray(log_rr, dtype=float) - self.log_rr) / self.se
        return np.asarray(-0.5 * z**2)


def spline_slopes(log_rr: ArrayLike, log_likelihood: ArrayLike) -> NDArray:
    """Return the slopes of the natural cubic spline through the points of a profile."""
    from scipy.interpolate import CubicSpline

    x, y = np.asarray(log_rr, dtype=float), np.asarray(log_likelihood, dtype=float)
    order = np.argsort(x)
    slopes = np.empty(len(x))
    slopes[order] = CubicSpline(x[order], y[order], bc_type="natural")(x[order], 1)
    return slopes
