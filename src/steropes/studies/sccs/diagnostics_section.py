"""Diagnostics section of the page of a case series, for the study and for each exposure."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from steropes.studies.report import html
from steropes.studies.report.digits import deciding
from steropes.studies.report.formatting import title_case
from steropes.studies.sccs.sccs_diagnostics import FAIL, Diagnostics, Verdict, own_verdicts
from steropes.studies.sccs.sccs_terminal import shown_estimates

if TYPE_CHECKING:
    from steropes.studies.sccs.sccs_study import CaseSeries

__all__ = ["diagnostics_html"]


def diagnostics_html(study: CaseSeries) -> list[str]:
    """Return tables of the diagnostics, and whether the result may be used."""
    if not study.diagnostics:
        return []
    diagnostics = study.release.diagnostics
    first, several = diagnostics[0], len(diagnostics) > 1
    own = own_verdicts(diagnostics) if several else []
    rows = [
        (title_case(v.name), _number(v.value, v), _ends(v), _verdict(v))
        for k, v in first.verdicts.items()
        if k not in own
    ]
    head = ("Diagnostic", "Value", "Interval", "Verdict")
    parts = [html.table(head, rows, text=(0,), raw=(3,))]
    if not several:
        blind = "is not shown" if not study.settings.unblind else "should not be interpreted"
        use = "may be interpreted" if first.unblind else blind
        return [*parts, f"<p>By these diagnostics the result {use}.</p>"]
    return [*parts, *_by_exposure(study, diagnostics)]


def _by_exposure(study: CaseSeries, diagnostics: list[Diagnostics]) -> list[str]:
    """Tabulate the diagnostics of each displayed exposure, and count those that pass all."""
    found = {d.covariate: d for d in diagnostics}
    window = "pre-exposure" in own_verdicts(diagnostics)
    rows = []
    for name in shown_estimates(study):
        if name in found:
            before, power = (found[name].verdicts[k] for k in ("pre-exposure", "detectable ratio"))
            title = title_case(name.partition(": ")[2] or name)
            cells = [(_ends(before), _verdict(before))] * window + [
                (_number(power.value, power), _verdict(power))
            ]
            read = "yes" if found[name].unblind else "no"
            rows.append((title, *(c for pair in cells for c in pair), read))
    passed = sum(d.unblind for d in diagnostics)
    head = ["Exposure", *["Before exposure", "Verdict"] * window, "Detectable ratio", "Verdict"]
    raw = (2, 4) if window else (2,)
    return [
        html.table([*head, "Passes all"], rows, text=(0,), raw=raw) if rows else "",
        f"<p>{passed:,} of {len(diagnostics):,} exposures pass all diagnostics.</p>",
    ]


def _verdict(v: Verdict) -> str:
    """Return a verdict as HTML."""
    kind = ' class="FAIL"' if v.verdict == FAIL else ""
    return f"<span{kind}>{escape(v.verdict.lower())}</span>"


def _number(x: float, of: Verdict) -> str:
    """Format a number with enough digits to compare it with the thresholds."""
    return deciding(x, *of.limits)


def _ends(v: Verdict) -> str:
    """Format the interval of a diagnostic, or a dash."""
    if math.isnan(v.lower) and math.isnan(v.upper):
        return "–"
    return f"{_number(v.lower, v)} to {_number(v.upper, v)}"
