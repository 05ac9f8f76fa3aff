"""Whether the assumptions hold, in a page: those of the study, and those of each exposure."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from steropes.studies.page import html
from steropes.studies.sccs.diagnostics import FAIL, Verdict
from steropes.studies.sccs.terminal import shown_estimates
from steropes.studies.wording import decimals, title_case

if TYPE_CHECKING:
    from steropes.studies.sccs.study import CaseSeries

__all__ = ["findings_of", "verdict_parts"]

OWN = ("detectable ratio", "EASE")  # what differs between exposures of one study


def findings_of(study: CaseSeries) -> list[tuple[str, str]]:
    """Sentences with their verdicts: of the exposure, or of what all exposures share."""
    if not study.diagnostics:
        return []
    several = len(study.diagnostics) > 1
    verdicts = study.diagnostics[0].verdicts.items()
    return [(v.finding, v.verdict)[::-1] for k, v in verdicts if not (several and k in OWN)]


def verdict_parts(study: CaseSeries) -> list[str]:
    """Tables of the verdicts, and whether the result may be read."""
    if not study.diagnostics:
        return []
    first, several = study.diagnostics[0], len(study.diagnostics) > 1
    rows = [
        (title_case(v.name), _number(v.value), _ends(v), _said(v))
        for k, v in first.verdicts.items()
        if not (several and k in OWN)
    ]
    head = ("Question", "Found", "Interval", "Verdict")
    parts = [html.table(head, rows, text=(0,), raw=(3,))]
    if not several:
        use = "may be read" if first.unblind else "should not be read as it is"
        return [*parts, f"<p>By these verdicts the result {use}.</p>"]
    return [*parts, *_by_exposure(study)]


def _by_exposure(study: CaseSeries) -> list[str]:
    """Power of each exposure that is shown, and how many pass everything."""
    found = {d.covariate: d for d in study.diagnostics}
    rows = []
    for name in shown_estimates(study):
        if name in found:
            v = found[name].verdicts["detectable ratio"]
            read = "yes" if found[name].unblind else "no"
            rows.append(
                (title_case(name.partition(": ")[2] or name), _number(v.value), _said(v), read)
            )
    passed = sum(d.unblind for d in study.diagnostics)
    head = ("Exposure", "Detectable ratio", "Verdict", "May be read")
    return [
        html.table(head, rows, text=(0,), raw=(2,)) if rows else "",
        f"<p>{passed:,} of {len(study.diagnostics):,} exposures pass all of these questions.</p>",
    ]


def _said(v: Verdict) -> str:
    kind = ' class="FAIL"' if v.verdict == FAIL else ""
    return f"<span{kind}>{escape(v.verdict.lower())}</span>"


def _number(x: float) -> str:
    return "–" if math.isnan(x) else "∞" if math.isinf(x) else decimals(x)


def _ends(v: Verdict) -> str:
    if math.isnan(v.lower) and math.isnan(v.upper):
        return "–"
    return f"{_number(v.lower)} to {_number(v.upper)}"
