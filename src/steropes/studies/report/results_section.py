"""Parts of the one-question page: its diagnostics, and the result as far as it is shown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from steropes.studies.diagnostics.study_verdicts import NOT_SHOWN, Judged
from steropes.studies.disclosure.study import Published
from steropes.studies.report.alternatives_section import beside_parts
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
from steropes.studies.report.html import number_table, table

if TYPE_CHECKING:
    from steropes.studies.comparative.one_question import ComparativeStudy

__all__ = ["diagnostics_parts", "result_parts"]

HIDDEN = (
    "<p>This study fails. Its hazard ratios, by whatever way to adjust, the outcomes and rates of "
    "the arms and their survival curves are therefore left out of this page, of its tables and "
    "figures, of study.json and of the terminal: an estimate that may be wrong for a known reason "
    "is not to sway anybody. To see them run the study again with <code>--unblind</code> (in "
    "Python, <code>StudySettings(…, unblind=True)</code>).</p>"
)
NONE = (
    "<p>There is no estimate. The outcomes of the arms are not shown, because the study fails a "
    "diagnostic; <code>--unblind</code> (in Python, <code>StudySettings(…, unblind=True)</code>) "
    "shows them.</p>"
)
UNBLINDED = (
    "<p>This study fails, and its estimate would not be shown if that had not been asked for "
    "(<code>--unblind</code>).</p>"
)


def diagnostics_parts(public: Published) -> Iterator[str]:
    """All diagnostics, what they hide and how to see it."""
    yield "<h2>May the result be read?</h2>"
    if hidden(public):
        yield HIDDEN
    elif public.blinded:
        yield NONE
    elif public.failed and any(not line["note"] for line in public.hazard_ratios):
        yield UNBLINDED
    rows = []
    for v in public.verdicts:
        about = f" <small>{escape(v.about)}</small>" if v.about else ""
        kind = ' class="FAIL"' if v.verdict == "FAIL" else ""
        said = f"<span{kind}>{v.verdict.lower()}</span>"
        rows.append((escape(title_case(v.name)) + about, _found(v), v.rule, said))
    yield table(
        ("Diagnostic", "Found", "To pass", "Verdict"),
        rows,
        text=(0,),
        raw=(0, 1, 3),
        caption="An estimate that fails a diagnostic is not shown unless it is asked for; "
        "precision and equal scores do not hide it.",
    )


def _pair(study: ComparativeStudy) -> str:
    """Both drugs, written as everywhere else on the page."""
    target, comparator = (title_case(study.names[arm]) for arm in ("target", "comparator"))
    return f"{target} against {comparator}"


def _found(v: Judged) -> str:
    value = v.value
    if v.key == "precision" and isinstance(value, int | float):
        return count(value)
    return escape(shown_value(value, v.threshold))


def result_parts(
    study: ComparativeStudy, public: Published, figures: Mapping[str, str]
) -> Iterator[str]:
    """Hazard ratios, curves, rates, and what stands beside them."""
    yield "<h2>Result</h2>"
    yield from _people_only(study, public) if public.blinded else _shown(study, public, figures)
    if public.detectable is not None and math.isfinite(public.detectable):
        yield (
            "<p>With the events of the matched people, a hazard ratio of "
            f"{decimals(public.detectable)} would have been found with a probability of 80%.</p>"
        )
    yield from beside_parts(study, public, figures)


def _people_only(study: ComparativeStudy, public: Published) -> Iterator[str]:
    """What is left of the result's tables where the result is hidden."""
    told = [
        (
            title_case(analysis_name(line["analysis"])),
            count(line["people"]),
            count(line["events"]),
            "not shown" if line["note"] == NOT_SHOWN else "none",
        )
        for line in public.hazard_ratios
    ]
    yield number_table(
        ("Among", "People", "Events", "Hazard ratio"),
        {"": told},
        f"Hazard ratio of {_pair(study)}.",
    )
    arms = [
        (_arm(study, line), count(line["people"]), count(line["person_years"]))
        for line in public.rates
    ]
    yield number_table(
        ("Arm", "People", "Person-years"), {"": arms}, "Events of the arms are not shown."
    )


def _shown(study: ComparativeStudy, public: Published, figures: Mapping[str, str]) -> Iterator[str]:
    hazards = [
        (
            title_case(analysis_name(line["analysis"])),
            count(line["people"]),
            count(line["events"]),
            ratio_text(line),
            _interval(line["lower"], line["upper"]),
            p_value(line["p"]),
        )
        for line in public.hazard_ratios
    ]
    yield table(
        ("Among", "People", "Events", "Hazard ratio", "95% interval", "p"),
        hazards,
        text=(0,),
        caption=f"Hazard ratio of {_pair(study)}; above 1 means more events.",
    )
    yield figures.get("survival", "")
    rates = [
        (
            _arm(study, line),
            count(line["people"]),
            count(line["person_years"]),
            count(line["events"]),
            decimals(line["rate"]),
            _interval(line["rate_lower"], line["rate_upper"]),
        )
        for line in public.rates
    ]
    yield table(
        ("Arm", "People", "Person-years", "Events", "Per 1,000 years", "95% interval"),
        rates,
        text=(0,),
        caption="Events and incidence rates, of everybody before matching and of the matched.",
    )


def _arm(study: ComparativeStudy, line: Mapping[str, Any]) -> str:
    when = {"all": "before matching", "matched": "matched"}
    return f"{title_case(study.names[line['arm']])}, {when[line['analysis']]}"


def _interval(lower: float | None, upper: float | None) -> str:
    ends = [decimals(lower), decimals(upper)]
    return "–" if ends == ["–", "–"] else " to ".join(ends)
