"""Limits of diagnostics that plots, designs and studies have in common."""

from __future__ import annotations

__all__ = [
    "DETECTABLE_RATIO",
    "EQUIPOISE",
    "FAILED_DRAWS",
    "IMBALANCE",
    "LEAST_CONTROLS",
    "SYSTEMATIC_ERROR",
    "TIED",
]

# Standardised differences above it count as imbalance (Austin 2009, Stat Med 28:3083).
IMBALANCE = 0.1
# Largest minimum detectable ratio, largest expected absolute systematic error and smallest share of
# people in equipoise of an estimate that is shown, as in OHDSI's packages for R.
DETECTABLE_RATIO, SYSTEMATIC_ERROR, EQUIPOISE = 10.0, 0.25, 0.2
# Largest share of bootstrap draws without an estimate.
FAILED_DRAWS = 0.1
# From this share of people whose score others have too on, matching depends on a draw.
TIED = 0.1
# With fewer negative controls nothing is calibrated.
LEAST_CONTROLS = 5
