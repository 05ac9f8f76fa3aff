"""Systematic error from the likelihood profiles of controls, for outcomes with few events."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import ArrayLike, NDArray

from steropes.backends.blas_threads import single_threaded_blas
from steropes.designs.controls.empirical_calibration import SystematicError
from steropes.designs.evidence.profile_interpolation import Profile
from steropes.designs.evidence.quadrature import (
    UNKNOWN,
    KnownLikelihood,
    Likelihood,
    likely_range,
    trapezoid_weights,
)
from steropes.errors import DataError

__all__ = ["calibrate_profile", "fit_profile_error"]

# Nodes of the quadrature over errors that are narrow against a likelihood.
NODES = 24
# Points at which a likelihood is evaluated.
POINTS = 401
# The first grid in which a likelihood is sought, and the largest sd of the error.
WIDEST, LARGEST_SD = 40.0, 10.0


@single_threaded_blas()
def fit_profile_error(
    profiles: Sequence[Likelihood], true_log_rr: ArrayLike | None = None
) -> SystematicError:
    """Fit the distribution of the systematic error to likelihood profiles of controls.

    The systematic error of a control has a normal distribution, over which the likelihood of the
    control is averaged by quadrature. Controls with few events, or with none in one arm, can
    therefore be used; `fit_systematic_error` uses estimates with standard errors, which is a normal
    approximation.

    Parameters
    ----------
    profiles : sequence of Profile or callable
        Log-likelihood of each control as a function of the log ratio. A callable is assumed to be
        known everywhere, a ``Profile`` where it is stored.
    true_log_rr : array_like, shape (n,), optional
        True log ratios. Default: no effect (negative controls).

    Returns
    -------
    SystematicError
        Mean and standard deviation of the error.

    Raises
    ------
    DataError
        There is no profile, a profile rises at its end, the profiles do not determine the error,
        or it depends on profiles beyond their ends; store them over a wider range.

    See Also
    --------
    fit_systematic_error : From estimates and standard errors.
    steropes.designs.surveillance.fit_bias : With priors, for few controls.

    References
    ----------
    Schuemie and others (2014), Stat Med 33:209; ``fitNullNonNormalLl`` of R's EmpiricalCalibration.

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs.controls import fit_profile_error
    >>> from steropes.designs.evidence import Profile
    >>> grid = np.linspace(-4, 4, 161)
    >>> profiles = [
    ...     Profile(grid, -(((grid - y) / 0.1) ** 2) / 2) for y in (0.1, -0.2, 0.4, 0.3)
    ... ]
    >>> error = fit_profile_error(profiles)
    >>> round(error.mean, 3), round(error.sd, 3)
    (0.15, 0.206)
    """
    if not profiles:
        raise DataError("No control has a profile; cannot fit the systematic error.")
    t = np.zeros(len(profiles)) if true_log_rr is None else np.asarray(true_log_rr, dtype=float)
    if t.shape != (len(profiles),) or not np.isfinite(t).all():
        raise DataError("true_log_rr must have one finite value for each profile.")
    parts = _Controls(profiles, t)
    least = _maximum(parts, False)
    if not parts.closed.any():
        return SystematicError(*least, len(parts))
    most = _maximum(parts, True)
    if max(abs(a - b) for a, b in zip(least, most, strict=True)) > UNKNOWN:
        ends = [f for f in parts.known if f.ends]
        raise DataError(
            f"The systematic error depends on profiles beyond the points at which they are stored, "
            f"where they are unknown, such as {ends[0].name}; store them over a wider range."
        )
    return SystematicError((least[0] + most[0]) / 2, (least[1] + most[1]) / 2, len(parts))


def _maximum(parts: _Controls, most: bool) -> tuple[float, float]:
    """Find the mean and sd of largest likelihood.

    Parameters
    ----------
    most : bool
        Whether profiles keep their last values where they are unknown, instead of being zero.
    """
    from scipy.optimize import minimize

    best = parts.best

    def value(theta: NDArray) -> float:
        mean, sd = float(theta[0]), math.exp(float(theta[1]))
        inside = parts.averaged(mean, sd)
        if most:
            inside = np.logaddexp(inside, parts.outside(mean, sd))
        return -float(inside.sum())

    reach = (float(best.min()) - 1.0, float(best.max()) + 1.0)
    limits = [reach, (math.log(1e-4), math.log(LARGEST_SD))]
    centre = float(np.median(best))
    starts = [(centre, math.log(sd)) for sd in (0.03, 0.2, 1.0)]
    options = {"xatol": 1e-9, "fatol": 1e-11, "maxiter": 2000}
    fits: list[Any] = [
        minimize(value, start, method="Nelder-Mead", bounds=limits, options=options)
        for start in starts
    ]
    found = min(fits, key=lambda fit: float(fit.fun))
    mean, sd = float(found.x[0]), math.exp(float(found.x[1]))
    if sd > 0.99 * LARGEST_SD or min(mean - reach[0], reach[1] - mean) < 1e-6:
        raise DataError(
            "The profiles of the controls do not determine the systematic error: its likelihood "
            "keeps rising. Use more controls, or controls with more events."
        )
    # At the smallest sd the likelihood is that without a spread.
    return mean, 0.0 if sd < 1.01e-4 else sd


def calibrate_profile(profile: Profile, error: SystematicError) -> Profile:
    """Average the likelihood of an estimate over systematic error.

    The result is the likelihood of the effect without the error. Its maximum and limits are those
    of `steropes.designs.evidence.combine_profiles`, which also combines it with others.

    Parameters
    ----------
    profile : Profile
        Profile log-likelihood of the log ratio.
    error : SystematicError
        Systematic error of negative controls of the same analysis.

    Returns
    -------
    Profile
        The calibrated profile, stored at the points of the given one shifted by the mean error, as
        far as they are known.

    Raises
    ------
    DataError
        The profile rises at an end.

    See Also
    --------
    calibrate : The same for a normal estimate.

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs.controls import SystematicError, calibrate_profile
    >>> from steropes.designs.evidence import Profile, combine_profiles
    >>> grid = np.linspace(-3, 3, 241)
    >>> profile = Profile(grid, -(((grid - 0.5) / 0.2) ** 2) / 2)
    >>> done = calibrate_profile(profile, SystematicError(mean=0.1, sd=0.15, controls=30))
    >>> found = combine_profiles([done])
    >>> round(found.log_rr, 3), round(found.se, 3)
    (0.4, 0.25)
    """
    part = _Controls([profile], np.zeros(1))
    if error.sd == 0:
        at = profile.points
        return Profile(at - error.mean, profile(at), name=profile.name)
    points = profile.points
    wide = np.linspace(max(points[0], -WIDEST), min(points[-1], WIDEST), POINTS)
    values = np.array([part.averaged(x, error.sd)[0] for x in wide])
    outside = np.array([part.outside(x, error.sd)[0] for x in wide])
    kept = outside - values < math.log(UNKNOWN)
    if kept.sum() < 2:
        raise DataError(
            f"{profile.described()} is stored {profile.stored_range()}, too narrow for a "
            "systematic error of this size; store it over a wider range."
        )
    return Profile(wide[kept] - error.mean, values[kept] - values[kept].max(), name=profile.name)


class _Controls:
    """Likelihoods of controls, averaged over normal errors."""

    def __init__(self, likelihoods: Sequence[Likelihood], shift: NDArray) -> None:
        self.shift = shift
        self.known = [KnownLikelihood(f, i) for i, f in enumerate(likelihoods)]
        self.effect = np.array([_grid(f) for f in self.known])
        values = np.array([f.upper_bound(x) for f, x in zip(self.known, self.effect, strict=True)])
        self.top = values.max(axis=1)
        at = values.argmax(axis=1)
        self.best = self.effect[np.arange(len(at)), at] - shift
        self.step = self.effect[:, 1] - self.effect[:, 0]
        weights = np.array([trapezoid_weights(x) for x in self.effect])
        self.mass = np.exp(values - self.top[:, None]) * weights
        # The likelihoods beyond the grid: known where a side is flat, and else at most this.
        ends = np.array([[f.low, f.high] for f in self.known])
        edges = self.effect[:, [0, -1]]
        self.flat = np.isinf(ends) & np.array([f.points.size > 0 for f in self.known])[:, None]
        self.closed = np.isfinite(ends)
        self.edge = np.where(self.closed, ends, edges)
        self.height = np.exp(
            np.array([f.upper_bound(x) for f, x in zip(self.known, self.edge, strict=True)])
            - self.top[:, None]
        )
        nodes, node_weights = hermegauss(NODES)
        self.nodes, self.node_weights = nodes, node_weights / node_weights.sum()

    def __len__(self) -> int:
        return len(self.known)

    def averaged(self, mean: float, sd: float) -> NDArray:
        """Compute the logs of the likelihoods averaged over errors, zero where unknown, (n,)."""
        centre = mean + self.shift
        z = (self.effect - centre[:, None]) / sd
        inside = (self.mass * np.exp(-0.5 * z**2)).sum(axis=1) / (sd * math.sqrt(2 * math.pi))
        inside += self._beyond(centre, sd, self.flat)
        # Errors that are narrow against a likelihood, which is smooth at their scale.
        for i in np.flatnonzero(sd < 2 * self.step):
            at = centre[i] + sd * self.nodes
            f = self.known[i]
            values = np.where(f.unknown(at), -np.inf, f.upper_bound(at))
            inside[i] = self.node_weights @ np.exp(values - self.top[i])
        return np.log(np.maximum(inside, 1e-300))

    def outside(self, mean: float, sd: float) -> NDArray:
        """Compute the logs of upper bounds of the parts where likelihoods are unknown, (n,)."""
        total = self._beyond(mean + self.shift, sd, self.closed)
        return np.log(np.maximum(total, 1e-320))

    def _beyond(self, centre: NDArray, sd: float, sides: NDArray) -> NDArray:
        """Average the likelihoods beyond edges, constant there, over errors."""
        from scipy.special import ndtr

        z = np.array([-1.0, 1.0]) * (centre[:, None] - self.edge) / sd
        return np.asarray(np.where(sides, self.height * ndtr(z), 0.0).sum(axis=1))


def _grid(known: KnownLikelihood) -> NDArray:
    """Choose effects that cover a likelihood."""
    known.refuse_rising_end()
    wide = np.union1d(np.linspace(-WIDEST, WIDEST, 2001), known.points)
    low, high = likely_range(known.upper_bound, wide, known.upper_bound(wide))
    return np.linspace(max(low, known.low), min(high, known.high), POINTS)
