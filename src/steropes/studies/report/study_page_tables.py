"""Rows of the tables on the page of one question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steropes.data.number_formatting import deciding_p, effect
from steropes.designs.values.arm_names import ARMS
from steropes.designs.values.estimands import estimand_name
from steropes.studies.diagnostics.diagnostic import Verdict
from steropes.studies.diagnostics.result_blinding import NOT_SHOWN
from steropes.studies.formatting.released_numbers import (
    analysis_name,
    count,
    decimals,
    percent,
    ratio_text,
    shown_value,
    title_case,
    unconverged_text,
)
from steropes.studies.release.one_question_release import Published
from steropes.studies.report.page_parts import Cell, Rows, verdict_word
from steropes.studies.specifications.study_settings import StudySettings

__all__ = [
    "adjustment_rows",
    "attrition_rows",
    "balance_rows",
    "diagnostic_rows",
    "domain_rows",
    "follow_up_rows",
    "hazard_rows",
    "outcome_rows",
    "rate_rows",
    "risk_period",
    "risk_rows",
]

WHEN = {"all": "before matching", "matched": "matched"}
NO_BREAK = "\N{NO-BREAK SPACE}"


def diagnostic_rows(public: Published) -> Rows:
    """Return name, value, rule and verdict of all diagnostics."""
    return [
        (Cell(title_case(v.name), remark=v.about), found(v), v.rule, verdict_word(v.verdict))
        for v in public.verdicts
    ]


def found(v: Verdict) -> str:
    """Format the value of a diagnostic."""
    value = v.value
    if v.key == "precision" and isinstance(value, int | float):
        return count(value)
    return shown_value(value, v.threshold)


def hazard_rows(public: Published) -> Rows:
    """Return people, events and hazard ratio of each analysis, or no ratio if it is hidden."""
    rows = []
    for line in public.hazard_ratios:
        people = (count(line["people"]), count(line["events"]))
        ratio: tuple[str, ...] = ("not shown" if line["note"] == NOT_SHOWN else "none",)
        if not public.blinded:
            interval = _interval(line["lower"], line["upper"])
            ratio = (ratio_text(line), interval, deciding_p(line["p"]))
        rows.append((title_case(analysis_name(line["analysis"])), *people, *ratio))
    return rows


def rate_rows(public: Published) -> Rows:
    """Return the people of each arm, and its person-years, events and rate unless hidden."""
    rows = []
    for line in public.rates:
        rate: tuple[str, ...] = ()
        if not public.blinded:
            interval = _interval(line["rate_lower"], line["rate_upper"])
            counts = (count(line["person_years"]), count(line["events"]))
            rate = (*counts, decimals(line["rate"]), interval)
        rows.append((_arm(public, line), count(line["people"]), *rate))
    return rows


def _arm(public: Published, line: Mapping[str, Any]) -> str:
    """Name the arm of a line and its people."""
    return f"{title_case(public.names[line['arm']])}, {WHEN[line['analysis']]}"


def _interval(lower: float | None, upper: float | None) -> str:
    """Format an interval; a dash if both ends are missing."""
    ends = [decimals(lower), decimals(upper)]
    return "–" if ends == ["–", "–"] else " to ".join(ends)


def adjustment_rows(public: Published) -> Rows:
    """Return estimand and hazard ratio of all ways to adjust; empty if they are hidden."""
    if not public.adjustments or public.blinded:
        return []
    lines = [
        (analysis_name(h["analysis"]), h["analysis"] != "crude", h) for h in public.hazard_ratios
    ]
    lines += [(str(f["analysis"]), True, f) for f in public.adjustments]
    rows = []
    for name, adjusted, line in lines:
        ratio = effect(line["hr"], line["lower"], line["upper"]).replace(" ", NO_BREAK)
        among = estimand_name(line["estimand"], adjusted=adjusted)
        shown = ratio + unconverged_text(line) or str(line["note"])
        rows.append((title_case(name), among, shown, deciding_p(line["p"])))
    return rows


def risk_rows(public: Published) -> Rows:
    """Return the risks of both drugs by each day; empty if they are hidden."""
    rows: list[tuple[str | Cell, ...]] = []
    for line in () if public.blinded else public.risks:
        difference = [100 * line[f"risk_difference{e}"] for e in ("", "_lb", "_ub")]
        ratio = effect(line["risk_ratio"], line["lower"], line["upper"]).replace(" ", NO_BREAK)
        risks = (percent(line[f"{arm}_risk"]) for arm in ARMS)
        shown = effect(*difference).replace(" ", NO_BREAK) or str(line["note"])
        rows.append((f"{line['day']:,}", *risks, shown, ratio or "–"))
    return rows


def outcome_rows(public: Published) -> Rows:
    """Return events and hazard ratios of all outcomes and negative controls."""
    rows: list[tuple[str | Cell, ...]] = []
    for line in public.outcomes:
        ratio = effect(line["hr"], line["lower"], line["upper"]).replace(" ", NO_BREAK)
        ends = (line[f"calibrated_{name}"] for name in ("hr", "lower", "upper"))
        calibrated = effect(*ends).replace(" ", NO_BREAK)
        rows.append(
            (
                Cell(title_case(str(line["outcome"])), remark=line["role"]),
                *(count(line[f"{arm}_outcomes"]) for arm in ARMS),
                ratio + unconverged_text(line) or str(line["note"]),
                deciding_p(line["p"]),
                calibrated or "–",
            )
        )
    return rows


def follow_up_rows(public: Published) -> Rows:
    """Return quantiles of the days of follow-up of each arm."""
    quantiles = ("p10", "p25", "p50", "p75", "p90")
    return [
        (_arm(public, line), *(f"{line[q]:,.0f}" for q in quantiles)) for line in public.follow_up
    ]


def attrition_rows(public: Published) -> Rows:
    """Return the people that each rule leaves and drops, in both arms."""
    rows = []
    for line in public.attrition:
        row = [title_case(line["rule"])]
        for arm in ARMS:
            dropped = line[f"{arm}_dropped"]
            gone = count(dropped) if dropped != 0 else ""
            sign = "−" if isinstance(dropped, int) and dropped else ""
            row += [count(line[arm]), sign + gone]
        rows.append(row)
    return rows


def balance_rows(public: Published) -> Rows:
    """Return prevalences and differences of the most unequal covariates."""
    rows = []
    for line in public.balance[:20]:
        row = [str(line["covariate"])]
        for when in ("before", "after"):
            row += [percent(line[f"{arm}_{when}"]) for arm in ARMS]
            row.append(decimals(line[f"smd_{when}"], 2))
        rows.append(row)
    return rows


def domain_rows(public: Published) -> Rows:
    """Return the numbers of covariates of each kind, kept and dropped."""
    domains = public.covariates["domains"] if public.covariates else []
    return [
        (title_case(line["domain"]), *(count(line[c]) for c in ("kept", "rare", "redundant")))
        for line in domains
    ]


def risk_period(settings: StudySettings) -> str:
    """Describe the time at risk."""
    risk = settings.at_risk
    anchor = {"cohort start": "the start", "cohort end": "the end of exposure"}
    first = _day(risk.start + (not risk.day_zero), anchor[risk.start_anchor])
    text = f"from {first} to the end of observation"
    if risk.end_anchor == "cohort start":
        text += f", but no longer than {count(risk.end)} days"
    elif risk.end_anchor == "cohort end":
        text += f", but no longer than to {_day(risk.end, anchor[risk.end_anchor])}"
    elif risk.end:
        text = f"from {first} to {_day(risk.end, 'the end of observation')}"
    if risk.max_days is not None:
        text += f", at most {count(risk.max_days)} days"
    if risk.censor_at_switch:
        text += ", censored the day before they begin the other drug"
    return text


def _day(offset: int, anchor: str) -> str:
    """Describe a day relative to another one."""
    if not offset:
        return anchor
    when, days = ("after" if offset > 0 else "before"), abs(offset)
    return f"the day {when} {anchor}" if days == 1 else f"{count(days)} days {when} {anchor}"
