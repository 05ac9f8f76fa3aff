"""Picture of the estimates of control outcomes and of their systematic error."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from steropes.designs.values.normal_quantile import Z
from steropes.studies.formatting.released_numbers import decimals
from steropes.studies.report.svg_canvas import Axes, Canvas, Picture

__all__ = ["calibration_plot"]


def calibration_plot(
    name: str, controls: pd.DataFrame, mean: float, sd: float, true_ratio: float = 1.0
) -> Picture | None:
    """Draw standard errors of controls against their estimates, with limits of significance.

    Parameters
    ----------
    controls : DataFrame
        ``log_rr`` and ``se_log_rr``.
    mean, sd : float
        Mean and standard deviation of the systematic error on the log scale.
    true_ratio : float, default 1
        The known ratio of the controls.
    """
    y, s = controls["log_rr"].to_numpy(float), controls["se_log_rr"].to_numpy(float)
    good = np.isfinite(y) & np.isfinite(s)
    if not good.any():
        return None
    y, s = y[good], s[good]
    truth = math.log(true_ratio)
    reach = min(max(math.log(4), float(np.abs(y).max()) * 1.1), math.log(30))
    top = float(s.max()) * 1.1
    outside = int((np.abs(y - truth) > Z * s).sum())
    said = (
        f"{len(y)} controls with a true ratio of {true_ratio:g}; the intervals of {outside} do not "
        f"hold it before calibration. Systematic error: mean {decimals(mean)}, standard deviation "
        f"{decimals(sd)} on the log scale."
    )

    def draw(c: Canvas) -> None:
        """Draw the estimates of controls by standard error, with limits of significance."""
        axes = Axes(c, (-reach, reach), (0, top), 8, 290, log=True)
        c.line(axes.x(truth), axes.y(0), axes.x(truth), axes.y(top), "grid")
        se = np.linspace(0, top, 60)
        for side in (-Z, Z):
            lines = {
                "curve dashed": truth + side * se,
                "curve comparator": truth + mean + side * np.hypot(se, sd),
            }
            for kind, at in lines.items():
                inside = np.abs(at) <= reach
                c.curve(axes.at(at[inside], se[inside]), kind)
        inside = np.abs(y) <= reach
        for a, b in zip(y[inside], s[inside], strict=True):
            c.dot(axes.x(a), axes.y(b), "target", 4)
        axes.across("estimated ratio")
        axes.up("standard error")

    return Picture(name, said, draw)
