"""Forest plot of the rate ratios of many drugs, as figure 3 of Suchard and others (2013)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from steropes.studies.report.canvas import Axes, Canvas, Picture
from steropes.studies.report.digits import effect
from steropes.studies.report.formatting import decimals, title_case
from steropes.studies.sccs.blinding import public_estimates

if TYPE_CHECKING:
    from steropes.studies.sccs.sccs_study import CaseSeries

__all__ = ["drug_forest", "forest_lines"]

MOST_IN_FOREST = 40  # The largest number of drugs in the plot.
SHADES = 5
LEAST, MOST = 0.01, 100.0  # Rate ratios outside of this range are cut off.


def drug_forest(study: CaseSeries) -> Picture | None:
    """Draw the rate ratios of the drugs, with stronger colours for more bootstrap draws.

    None if there are fewer than two.
    """
    lines = forest_lines(study)
    if len(lines) < 2:
        return None
    ends = [v for _, *values, _ in lines for v in values if math.isfinite(v) and v > 0]
    low = math.log(max(min([*ends, 0.8]), LEAST))
    high = math.log(min(max([*ends, 1.25]), MOST))
    drawn = study.model.bootstrap is not None
    description = "Rate ratios of the drugs. " + "; ".join(
        f"{_name(name)}: {effect(rr, a, b) or decimals(rr)}"
        + (f", in {100 * share:.0f}% of draws" if drawn else "")
        for name, rr, a, b, share in lines
    )

    def draw(c: Canvas) -> None:
        """Draw one line per drug."""
        left = 10.0 if c.narrow else 300.0
        height = (
            38 if c.narrow else 21
        )  # A name is closer to its own line than to the previous one.
        axes = Axes(c, (low, high), (0, 1), 4, 4 + height * len(lines) + 6, left, log=True)
        for i, (name, rr, a, b, share) in enumerate(lines):
            y = 4 + height * i + (30 if c.narrow else 12)
            room = c.width - 10 if c.narrow else left - 14
            c.text(0, y - 9 if c.narrow else y + 4, c.wrapped(_name(name), room)[0])
            shade = f" shade{max(1, math.ceil(SHADES * share))}"
            inside = [min(max(math.log(v), low), high) if v > 0 else low for v in (a, b)]
            if math.isfinite(a) and math.isfinite(b) and b > 0:
                c.line(axes.x(inside[0]), y, axes.x(inside[1]), y, "target" + shade)
            if rr > 0 and low <= math.log(rr) <= high:
                c.dot(axes.x(math.log(rr)), y, "target" + shade, 4)
        c.line(axes.x(0), axes.top, axes.x(0), axes.bottom, "guide", under=True)
        axes.across("rate ratio")

    return Picture("drugs", description, draw)


def forest_lines(study: CaseSeries) -> list[tuple[str, float, float, float, float]]:
    """List name, rate ratio, limits and share of the displayed drugs with the largest effects."""
    pairs = zip(study.intervals.names, study.intervals.columns, strict=True)
    e = public_estimates(study).loc[[n for n, c in pairs if c.window >= 0 and not c.pre_exposure]]
    e = e[np.isfinite(e["log_rr"])]
    draws = study.model.bootstrap
    share = (e["log_rr"] != 0).astype(float) if draws is None else draws.loc[e.index, "share"]
    table = e.assign(share=share)
    table = table[(table["log_rr"] != 0) | (table["share"] > 0)]
    first = table.sort_values(["share", "log_rr"], key=lambda s: -s.abs(), kind="stable").head(
        MOST_IN_FOREST
    )
    ranked = first.sort_values("log_rr", ascending=False, kind="stable")
    return [
        (str(n), float(v["rr"]), float(v["lower"]), float(v["upper"]), float(v["share"]))
        for n, v in ranked.iterrows()
    ]


def _name(covariate: str) -> str:
    """Return the drug's name without the window's label."""
    return title_case(covariate.partition(": ")[2] or covariate)
