"""Tables of diagnostics, hazard ratios and rates for the page of one question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from steropes.studies.diagnostics.study_verdicts import NOT_SHOWN, Judged
from steropes.studies.disclosure.study import Published
from steropes.studies.report.formatting import (
    analysis_name,
    count,
    decimals,
    hidden,
    p_value,
    ratio_text,
    shown_value,
    title_case,
)
from steropes.studies.report.page_parts import Cell, Table, number_table, table, verdict_word

if TYPE_CHECKING:
    from steropes.studies.comparative.one_question import ComparativeStudy

__all__ = ["diagnostics_table", "hazard_table", "rate_table", "visibility"]


def visibility(public: Published) -> str:
    """Name the state of a failed study: hidden, no estimate or unblinded; "" if it passes."""
    if hidden(public):
        return "hidden"
    if public.blinded:
        return "no estimate"
    shown = any(not line["note"] for line in public.hazard_ratios)
    return "unblinded" if public.failed and shown else ""


def diagnostics_table(public: Published) -> Table | None:
    """Tabulate all diagnostics."""
    return table(
        ("Diagnostic", "Found", "To pass", "Verdict"),
        [
            (
                Cell(title_case(v.name), remark=v.about),
                _found(v),
                v.rule,
                verdict_word(v.verdict),
            )
            for v in public.verdicts
        ],
        words=(0,),
        caption="An estimate that fails a diagnostic is not shown unless it is asked for; "
        "precision and equal scores do not hide it.",
    )


def _found(v: Judged) -> str:
    """Format the value of a diagnostic."""
    value = v.value
    if v.key == "precision" and isinstance(value, int | float):
        return count(value)
    return shown_value(value, v.threshold)


def hazard_table(study: ComparativeStudy, public: Published) -> Table | None:
    """Tabulate the hazard ratios, or the people alone if the result is hidden."""
    target, comparator = (title_case(study.names[arm]) for arm in ("target", "comparator"))
    caption = f"Hazard ratio of {target} against {comparator}"
    people = [
        (title_case(analysis_name(line["analysis"])), count(line["people"]), count(line["events"]))
        for line in public.hazard_ratios
    ]
    if public.blinded:
        shown = [
            (*cells, "not shown" if line["note"] == NOT_SHOWN else "none")
            for cells, line in zip(people, public.hazard_ratios, strict=True)
        ]
        return number_table(("Among", "People", "Events", "Hazard ratio"), shown, f"{caption}.")
    ratios = [
        (*cells, ratio_text(line), _interval(line["lower"], line["upper"]), p_value(line["p"]))
        for cells, line in zip(people, public.hazard_ratios, strict=True)
    ]
    head = ("Among", "People", "Events", "Hazard ratio", "95% interval", "p")
    return table(head, ratios, words=(0,), caption=f"{caption}; above 1 means more events.")


def rate_table(study: ComparativeStudy, public: Published) -> Table | None:
    """Tabulate events and rates of the arms, or the people alone if the result is hidden."""
    head = ("Arm", "People", "Person-years")
    people = [
        (_arm(study, line), count(line["people"]), count(line["person_years"]))
        for line in public.rates
    ]
    if public.blinded:
        return number_table(head, people, "Events of the arms are not shown.")
    rows = [
        (
            *cells,
            count(line["events"]),
            decimals(line["rate"]),
            _interval(line["rate_lower"], line["rate_upper"]),
        )
        for cells, line in zip(people, public.rates, strict=True)
    ]
    return table(
        (*head, "Events", "Per 1,000 years", "95% interval"),
        rows,
        words=(0,),
        caption="Events and incidence rates, of everybody before matching and of the matched.",
    )


def _arm(study: ComparativeStudy, line: Mapping[str, Any]) -> str:
    """Name the arm of a line of rates and its people."""
    when = {"all": "before matching", "matched": "matched"}
    return f"{title_case(study.names[line['arm']])}, {when[line['analysis']]}"


def _interval(lower: float | None, upper: float | None) -> str:
    """Format an interval; a dash if both ends are missing."""
    ends = [decimals(lower), decimals(upper)]
    return "–" if ends == ["–", "–"] else " to ".join(ends)
