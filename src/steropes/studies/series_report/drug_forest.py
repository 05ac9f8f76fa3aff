"""Forest plot of the rate ratios of many drugs, as figure 3 of Suchard and others (2013)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from steropes.studies.formatting.released_numbers import title_case
from steropes.studies.release.series_result_blinding import public_estimates
from steropes.studies.report.forest_plot import Row, forest
from steropes.studies.report.svg_canvas import Picture

if TYPE_CHECKING:
    from steropes.studies.release.one_series_release import ReleasedSeries

__all__ = ["drug_forest", "forest_lines"]

SHADES = 5  # The number of strengths of a colour.


def drug_forest(study: ReleasedSeries) -> Picture | None:
    """Draw the rate ratios of the drugs, with stronger colours for more bootstrap draws.

    None if there are fewer than two.
    """
    lines = forest_lines(study)
    if len(lines) < 2:
        return None
    drawn = study.model.bootstrap is not None
    rows = [
        Row(
            title_case(name.partition(": ")[2] or name),
            rr,
            lower,
            upper,
            shade=max(1, math.ceil(SHADES * share)),
            remark=f", in {100 * share:.0f}% of draws" if drawn else "",
        )
        for name, rr, lower, upper, share in lines
    ]
    return forest("drugs", rows, "rate ratio")


def forest_lines(study: ReleasedSeries) -> list[tuple[str, float, float, float, float]]:
    """List name, rate ratio, limits and share of the displayed drugs with the largest effects."""
    pairs = zip(study.intervals.names, study.intervals.columns, strict=True)
    e = public_estimates(study).loc[[n for n, c in pairs if c.window >= 0 and not c.pre_exposure]]
    e = e[np.isfinite(e["log_rr"])]
    draws = study.model.bootstrap
    share = (e["log_rr"] != 0).astype(float) if draws is None else draws.loc[e.index, "share"]
    table = e.assign(share=share)
    table = table[(table["log_rr"] != 0) | (table["share"] > 0)]
    first = table.sort_values(["share", "log_rr"], key=lambda s: -s.abs(), kind="stable").head(40)
    ranked = first.sort_values("log_rr", ascending=False, kind="stable")
    return [
        (str(n), float(v["rr"]), float(v["lower"]), float(v["upper"]), float(v["share"]))
        for n, v in ranked.iterrows()
    ]
