"""Other ways to adjust, follow-up and remarks on the ratio, for the page of one question."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from steropes.studies.comparative.estimands import estimand_name
from steropes.studies.comparative.study_specification import LARGEST_WEIGHT
from steropes.studies.disclosure.study import Published
from steropes.studies.report.digits import effect
from steropes.studies.report.formatting import (
    TEST_OF_HAZARDS,
    analysis_name,
    decimals,
    p_value,
    title_case,
    unconverged_text,
)
from steropes.studies.report.page_parts import Table, number_table, table

if TYPE_CHECKING:
    from steropes.studies.comparative.one_question import ComparativeStudy

__all__ = ["adjustment_table", "follow_up_table", "reading", "source_line"]

NO_BREAK = "\N{NO-BREAK SPACE}"


def source_line(study: ComparativeStudy) -> str:
    """List versions and dates of the database and its vocabulary."""
    if study.beside is None:
        return ""
    parts = {"cdm": "CDM ", "vocabulary": "vocabulary ", "release": "released "}
    parts["source_release"] = "source data of "
    source = study.beside.source
    return ", ".join(f"{before}{source[c]}" for c, before in parts.items() if source.get(c))


def reading(public: Published) -> list[str]:
    """Write sentences on the E-value and on proportional hazards."""
    line = public.main_line()
    said = []
    value, of_limit = public.e_value
    if not line["note"] and math.isfinite(value):
        said.append(
            f"E-value {decimals(value)} ({decimals(of_limit)} for the limit nearer to 1): so "
            "strong, as a risk ratio, would something unmeasured have to go with both the drug "
            f"and the outcome to explain it. {_form(public)}"
        )
    p = public.proportional_p
    if math.isfinite(p):
        said.append(
            f"Proportional hazards within pairs: p {p_value(p)} ({TEST_OF_HAZARDS})"
            + (
                "; the ratio changes over time, and one number is an average of it."
                if p < 0.05
                else "; no sign that the ratio changes over time."
            )
        )
    return said


def _form(public: Published) -> str:
    """Describe the form of the E-value, with its reason and source."""
    if public.common:
        return (
            "As 15% of the matched people or more had the outcome, the hazard ratio is first "
            "turned into a risk ratio, (1 − 0.5^√HR) / (1 − 0.5^√(1/HR)) (VanderWeele and Ding "
            "2017)."
        )
    return (
        "As fewer than 15% of the matched people had the outcome, the hazard ratio stands for the "
        "risk ratio (VanderWeele and Ding 2017)."
    )


def adjustment_table(public: Published) -> Table | None:
    """Tabulate the hazard ratios of all ways to adjust; None if they are hidden."""
    found = public.adjustments
    if not found or public.blinded:
        return None
    lines = [
        (
            title_case(analysis_name(h["analysis"])),
            estimand_name(h["estimand"], adjusted=h["analysis"] != "crude"),
            h,
        )
        for h in public.hazard_ratios
    ]
    lines += [(title_case(str(f["analysis"])), estimand_name(f["estimand"]), f) for f in found]
    rows = [
        (
            *(name, about),
            effect(f["hr"], f["lower"], f["upper"]).replace(" ", NO_BREAK) + unconverged_text(f)
            or str(f["note"]),
            p_value(f["p"]),
        )
        for name, about, f in lines
    ]
    head = ("Adjustment", "Effect among", "Hazard ratio (95%)", "p")
    caption = (
        "Every way to adjust by the same scores. Weights as the target and as everybody are "
        "stabilised (those of each arm are multiplied by its share of the people); all weights are "
        f"at most {LARGEST_WEIGHT:g}, and intervals of weighted models are robust. They answer "
        "questions of different people and need not agree."
    )
    return table(head, rows, words=(0, 1), caption=caption)


def follow_up_table(study: ComparativeStudy, public: Published) -> Table | None:
    """Tabulate the distribution of the follow-up."""
    when = {"all": "before matching", "matched": "matched"}
    rows = [
        (
            f"{title_case(study.names[line['arm']])}, {when[line['analysis']]}",
            *(f"{line[q]:,.0f}" for q in ("p10", "p25", "p50", "p75", "p90")),
        )
        for line in public.follow_up
    ]
    head = ("Days followed", "10%", "25%", "Median", "75%", "90%")
    return number_table(head, rows, "Distribution of the follow-up.")
