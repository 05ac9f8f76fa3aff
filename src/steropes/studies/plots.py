"""Colours and style of a study's matplotlib figures, and the numbers behind its pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steropes.studies.disclosure.curves import merged_histogram

if TYPE_CHECKING:
    from steropes.data.kaplan_meier import KaplanMeier

__all__ = ["density", "still_at_risk"]

# Okabe and Ito's blue and vermilion: told apart by colour-blind readers, and in grey.
COLOURS = {"target": "#0072B2", "comparator": "#D55E00"}
INK, MUTED, FAINT = "#1b1f24", "#5b6470", "#d9dde2"
STYLE = {
    "svg.hashsalt": "steropes",  # the same picture is the same file
    "svg.fonttype": "path",
    "font.size": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.linewidth": 0.8,
    "legend.frameon": False,
}


def still_at_risk(curve: KaplanMeier, t: float) -> float:
    """People at risk just before t: those whose time is t or later."""
    i = int(np.searchsorted(curve.times, t, side="left"))
    return float(curve.at_risk[i]) if i < len(curve.at_risk) else 0.0


def density(
    scores: np.ndarray,
    points: int = 201,
    weights: np.ndarray | None = None,
    least: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate a Gaussian kernel density on [0, 1], reflected at both ends.

    People are spread evenly over the neighbouring bins that together hold ``least`` people, so that
    nobody stands alone in a tail.
    """
    grid = np.linspace(0, 1, points)
    w = np.ones(len(scores)) if weights is None else weights
    spread = float(np.sqrt(np.average((scores - np.average(scores, weights=w)) ** 2, weights=w)))
    people = float(w.sum() ** 2 / (w**2).sum())  # that many would tell as much
    width = max(0.9 * spread * people**-0.2, 0.01)
    # binned first, so that a million people cost no more than a thousand
    fine = 4 * (points - 1)
    people_in, edges = np.histogram(scores, fine, (0, 1))
    counts = (
        people_in if weights is None else np.histogram(scores, fine, (0, 1), weights=weights)[0]
    )
    counts = merged_histogram(people_in, counts.astype(float), least)
    centres = (edges[1:] + edges[:-1]) / 2
    density = np.zeros(points)
    for images in (centres, -centres, 2 - centres):
        z = (grid[:, None] - images[None, :]) / width
        density += np.exp(-0.5 * z * z) @ counts
    return grid, density / (float(w.sum()) * width * np.sqrt(2 * np.pi))
