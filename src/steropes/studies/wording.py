"""Numbers as people read them, and the verdicts on a study that follow from them.

Shared by the page and the terminal, so that both say the same thing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steropes.studies.comparative import ComparativeStudy, StudySettings

__all__ = [
    "Check",
    "analysis_name",
    "checks",
    "count",
    "decimals",
    "p_value",
    "risk_period",
    "title_case",
]

ANALYSES = {
    "crude": "everybody, before matching",
    "matched": "matched people",
    "matched, stratified": "matched people, within pairs",
}


@dataclass(frozen=True)
class Check:
    """One question put to a finished study: whether it passed, and the finding in a sentence."""

    passed: bool
    finding: str


def checks(study: ComparativeStudy) -> list[Check]:
    """What to look at before believing the hazard ratio."""
    after = study.balance["smd_after"].abs()
    over = int((after > 0.1).sum())
    equipoise = study.propensity.equipoise()
    share = study.pairs / min(study.people["treated"].sum(), (1 - study.people["treated"]).sum())
    found = [
        Check(
            over == 0,
            f"Balance: {'none' if over == 0 else over} of {len(after):,} covariates "
            f"{'differ' if over != 1 else 'differs'} by more than 0.1 after matching "
            f"(largest {decimals(float(after.max()))}).",
        ),
        Check(
            equipoise >= 0.5,
            f"Equipoise: {100 * equipoise:.0f}% of people have a preference score "
            "between 0.3 and 0.7 (half or more is reassuring).",
        ),
        Check(
            share >= 0.5,
            f"Matching: {count(study.pairs)} pairs, {100 * share:.1f}% of the smaller arm.",
        ),
        Check(
            study.propensity.model.converged_,
            "Propensity model: "
            + ("converged" if study.propensity.model.converged_ else "did not converge")
            + " to its optimum.",
        ),
    ]
    for analysis, line in study.hazard_ratios.iterrows():
        if line["note"]:
            found.append(Check(False, f"No estimate for {analysis_name(analysis)}: {line['note']}"))
    return found


def analysis_name(analysis: object) -> str:
    """An analysis of the hazard ratio in words."""
    return ANALYSES.get(str(analysis), str(analysis))


def risk_period(settings: StudySettings) -> str:
    """The time at risk in words."""
    if settings.risk_days is None:
        return "from the day after the start to the end of observation"
    return (
        "from the day after the start to the end of observation, "
        f"but no longer than {count(settings.risk_days)} days"
    )


def count(n: float) -> str:
    """A count, with separators of thousands."""
    return f"{n:,.0f}"


def decimals(x: float, digits: int = 2) -> str:
    """A number with a fixed number of decimals; a dash where there is none."""
    if math.isnan(x):
        return "–"
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    return f"{x:.{digits}f}".replace("-", "−")


def p_value(p: float) -> str:
    """A p value as journals print it."""
    if math.isnan(p):
        return "–"
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def title_case(text: str) -> str:
    """The text with a capital first letter; vocabularies are not consistent about it."""
    return text[:1].upper() + text[1:]
