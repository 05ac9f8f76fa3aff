"""Diagnostics section of the page of a case series, for the study and for each exposure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steropes.data.number_formatting import deciding
from steropes.studies.diagnostics.diagnostic import Verdict
from steropes.studies.diagnostics.diagnostic_catalogue import further_diagnostics
from steropes.studies.formatting.released_numbers import shown_value, title_case
from steropes.studies.report.page_parts import Rows, verdict_word
from steropes.studies.sccs.results.sccs_diagnostics import Diagnostics, own_verdicts
from steropes.studies.series_report.estimate_text import shown_estimates

if TYPE_CHECKING:
    from steropes.studies.release.one_series_release import ReleasedSeries

__all__ = ["DiagnosticsSection", "diagnostics_section"]


@dataclass(frozen=True)
class DiagnosticsSection:
    """The diagnostics of a study and of each exposure, and a sentence on the use of the result.

    ``columns`` are the headings of the rows of exposures.
    """

    study: Rows
    columns: list[str]
    by_exposure: Rows
    conclusion: str


def diagnostics_section(study: ReleasedSeries) -> DiagnosticsSection | None:
    """Describe the diagnostics; None if there are none."""
    if not study.diagnostics:
        return None
    diagnostics = study.release.diagnostics
    first, several = diagnostics[0], len(diagnostics) > 1
    own = own_verdicts(diagnostics) if several else []
    rows = [
        (title_case(k), shown_value(v.value, *v.limits), _ends(v), verdict_word(v.verdict))
        for k, v in first.verdicts.items()
        if k not in own
    ]
    if not several:
        blind = "is not shown" if not study.settings.unblind else "should not be interpreted"
        use = "may be interpreted" if first.unblind else blind
        return DiagnosticsSection(rows, [], [], f"By these diagnostics the result {use}.")
    passed = sum(d.unblind for d in diagnostics)
    conclusion = f"{passed:,} of {len(diagnostics):,} exposures pass all diagnostics."
    further = [d.key for d in further_diagnostics(study.settings.thresholds)]
    shown = {"pre-exposure": "Before exposure", "detectable ratio": "Detectable ratio"}
    shown = {k: title for k, title in shown.items() if k in own}
    shown |= {k: title_case(k) for k in further}
    columns = ["Exposure", *(c for title in shown.values() for c in (title, "Verdict"))]
    by_exposure = _by_exposure(study, diagnostics, [*shown])
    return DiagnosticsSection(rows, [*columns, "Passes all"], by_exposure, conclusion)


def _by_exposure(study: ReleasedSeries, diagnostics: list[Diagnostics], keys: list[str]) -> Rows:
    """Return diagnostics of each displayed exposure."""
    found = {d.covariate: d for d in diagnostics}
    rows = []
    for name in shown_estimates(study):
        if name in found:
            title = title_case(name.partition(": ")[2] or name)
            judged = [found[name].verdicts[k] for k in keys]
            cells = [(_found(v), verdict_word(v.verdict)) for v in judged]
            read = "yes" if found[name].unblind else "no"
            rows.append((title, *(c for pair in cells for c in pair), read))
    return rows


def _found(v: Verdict) -> str:
    """Format the interval of a diagnostic that has one, and else its value."""
    return _ends(v) if v.key == "pre-exposure" else shown_value(v.value, *v.limits)


def _ends(v: Verdict) -> str:
    """Format the interval of a diagnostic, or a dash."""
    if math.isnan(v.lower) and math.isnan(v.upper):
        return "–"
    return f"{deciding(v.lower, *v.limits)} to {deciding(v.upper, *v.limits)}"
