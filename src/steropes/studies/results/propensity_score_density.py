"""Densities of propensity scores."""

from __future__ import annotations

import numpy as np

from steropes.studies.disclosure.released_curves import merged_histogram

__all__ = ["density_of_bars", "histogram"]


def histogram(
    scores: np.ndarray, points: int, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sum people, weights and squared weights in each bar of a fine histogram.

    Densities of the bars cost the same for a thousand and for a million people. There are four bars
    between two neighbouring points of [0, 1].
    """
    w = np.ones(len(scores)) if weights is None else weights
    people, mass, squares = (
        np.histogram(scores, 4 * (points - 1), (0, 1), weights=v)[0] for v in (None, w, w**2)
    )
    return people, mass.astype(float), squares.astype(float)


def density_of_bars(
    people: np.ndarray, mass: np.ndarray, squares: np.ndarray, points: int, least: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate a Gaussian kernel density on [0, 1], reflected at both ends, from a histogram.

    People are spread evenly over the neighbouring bars that together hold ``least`` people, so that
    no person is alone in a tail.
    """
    grid, bars = np.linspace(0, 1, points), len(mass)
    centres = (np.arange(bars) + 0.5) / bars
    spread = float(np.sqrt(np.average((centres - np.average(centres, weights=mass)) ** 2,
                                      weights=mass)))  # fmt: skip
    effective = float(mass.sum() ** 2 / squares.sum())  # Kish's effective number of people.
    width = max(0.9 * spread * effective**-0.2, 0.01)
    counts = merged_histogram(people, mass, least)
    found = np.zeros(points)
    for images in (centres, -centres, 2 - centres):
        z = (grid[:, None] - images[None, :]) / width
        found += np.exp(-0.5 * z * z) @ counts
    return grid, found / (float(mass.sum()) * width * np.sqrt(2 * np.pi))
