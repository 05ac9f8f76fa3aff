"""Warnings of profile likelihoods without an end, or with unconverged fits."""

from __future__ import annotations

import warnings

import numpy as np

from ...convergence_warning import NotConvergedWarning
from ...errors import MonotoneLikelihoodWarning
from ...infer.profile_fits import ProfilePoint
from ...infer.profile_search import (
    Limit,
)

__all__ = ["warn_monotone", "warn_unconverged_points", "warn_unknown_limits"]


def warn_monotone(names: list[str], ends: list[tuple[Limit, Limit]], factor: float = 1.0) -> None:
    """Warn of sides on which a profile is monotone, of ``factor`` times the coefficients."""
    said = []
    for name, (a, b) in zip(names, ends, strict=True):
        if np.isinf(a.value) or np.isinf(b.value):
            low, high = (a, b) if factor > 0 else (b, a)
            where = [s for s, end in (("−∞", low), ("+∞", high)) if np.isinf(end.value)]
            said.append(f"{name!r} (towards {' and '.join(where)})")
    if said:
        warnings.warn(
            f"The profile likelihood has no end for {', '.join(said)}: it never falls by "
            "enough there, and the data do not bound the coefficient on that side.",
            MonotoneLikelihoodWarning,
            stacklevel=5,
        )


def warn_unconverged_points(names: list[str], profiles: list[list[ProfilePoint]]) -> None:
    """Warn of points whose fits stopped early."""
    short = [
        f"{name!r} at {', '.join(f'{v.value:.4g}' for v in values if not v.converged)}"
        for name, values in zip(names, profiles, strict=True)
        if not all(v.converged for v in values)
    ]
    if short:
        warnings.warn(
            f"Fits for the profile of {'; of '.join(short)} stopped before their tolerance, so it "
            "is not known there (NaN).",
            NotConvergedWarning,
            stacklevel=3,
        )


def warn_unknown_limits(
    names: list[str], ends: list[tuple[Limit, Limit]], factor: float = 1.0
) -> None:
    """Warn of sides on which no end was found; see `warn_monotone`."""
    said = []
    for name, (a, b) in zip(names, ends, strict=True):
        said += [
            f"{name!r} beyond {factor * end.last:.4g}" for end in (a, b) if np.isnan(end.value)
        ]
    if said:
        warnings.warn(
            f"Fits for the profile of {', '.join(said)} stopped before their tolerance or reached "
            "different maxima of the likelihood, so it is not known where its interval ends on "
            "that side (NaN).",
            NotConvergedWarning,
            stacklevel=5,
        )
