"""Diagnostics section of the page of a case series, for the study and for each exposure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steropes.data.number_text import deciding
from steropes.studies.formatting.released_numbers import title_case
from steropes.studies.report.page_parts import Rows, verdict_word
from steropes.studies.sccs.results.sccs_diagnostics import Diagnostics, Verdict, own_verdicts
from steropes.studies.series_report.estimate_text import shown_estimates

if TYPE_CHECKING:
    from steropes.studies.release.one_series_release import ReleasedSeries

__all__ = ["DiagnosticsSection", "diagnostics_section"]


@dataclass(frozen=True)
class DiagnosticsSection:
    """The diagnostics of a study and of each exposure, and a sentence on the use of the result.

    Rows of exposures include the pre-exposure window if ``pre_exposure`` is true.
    """

    study: Rows
    by_exposure: Rows
    pre_exposure: bool
    conclusion: str


def diagnostics_section(study: ReleasedSeries) -> DiagnosticsSection | None:
    """Describe the diagnostics; None if there are none."""
    if not study.diagnostics:
        return None
    diagnostics = study.release.diagnostics
    first, several = diagnostics[0], len(diagnostics) > 1
    own = own_verdicts(diagnostics) if several else []
    rows = [
        (title_case(v.name), _number(v.value, v), _ends(v), verdict_word(v.verdict))
        for k, v in first.verdicts.items()
        if k not in own
    ]
    if not several:
        blind = "is not shown" if not study.settings.unblind else "should not be interpreted"
        use = "may be interpreted" if first.unblind else blind
        return DiagnosticsSection(rows, [], False, f"By these diagnostics the result {use}.")
    passed = sum(d.unblind for d in diagnostics)
    conclusion = f"{passed:,} of {len(diagnostics):,} exposures pass all diagnostics."
    window = "pre-exposure" in own
    by_exposure = _by_exposure(study, diagnostics, window)
    return DiagnosticsSection(rows, by_exposure, window, conclusion)


def _by_exposure(study: ReleasedSeries, diagnostics: list[Diagnostics], window: bool) -> Rows:
    """Return the diagnostics of each displayed exposure."""
    found = {d.covariate: d for d in diagnostics}
    rows = []
    for name in shown_estimates(study):
        if name in found:
            before, power = (found[name].verdicts[k] for k in ("pre-exposure", "detectable ratio"))
            title = title_case(name.partition(": ")[2] or name)
            cells = [(_ends(before), verdict_word(before.verdict))] * window + [
                (_number(power.value, power), verdict_word(power.verdict))
            ]
            read = "yes" if found[name].unblind else "no"
            rows.append((title, *(c for pair in cells for c in pair), read))
    return rows


def _number(x: float, of: Verdict) -> str:
    """Format a number with enough digits to compare it with the thresholds."""
    return deciding(x, *of.limits)


def _ends(v: Verdict) -> str:
    """Format the interval of a diagnostic, or a dash."""
    if math.isnan(v.lower) and math.isnan(v.upper):
        return "–"
    return f"{_number(v.lower, v)} to {_number(v.upper, v)}"
