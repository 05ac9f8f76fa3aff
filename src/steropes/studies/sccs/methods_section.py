"""Who was studied, how, and by which settings: the end of the page of a case series."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from steropes.studies.report import html
from steropes.studies.report.formatting import count, title_case
from steropes.studies.sccs.sccs_terminal import interval_words

if TYPE_CHECKING:
    from steropes.studies.sccs.sccs_study import CaseSeries

__all__ = ["attrition", "methods", "settings_list"]


def attrition(study: CaseSeries) -> list[str]:
    """What each rule leaves."""
    rows = [
        (
            title_case(line["rule"]),
            *(count(line[c]) for c in ("subjects", "events", "periods")),
            "–" if line["days"] is None else count(line["days"]),
        )
        for _, line in study.release.attrition.iterrows()
    ]
    least = study.rules.least
    hidden = f" Counts of fewer than {least} are shown as “&lt;{least}”." if least > 1 else ""
    head = ("Rule", "People", "Outcomes", "Periods", "Days")
    return [
        f"<p>What each rule leaves.{hidden}</p>",
        html.number_table(head, {"": rows}),
        html.paragraphs(note.sentence(study.rules) for note in study.data_notes),
    ]


def methods(study: CaseSeries) -> list[str]:
    """Paragraphs on the design and the model."""
    s = study.settings
    said = {
        "Cases": "Observation periods in which the outcome occurs, cut to the days that the rules "
        "above leave. People without the outcome say nothing about when it happens.",
        "Exposure": "A day is at risk where it lies in a window around an era of the exposure; "
        "eras that touch are one, and a window ends before the next era begins. Time is cut where "
        "a covariate changes.",
        "Model": "Given the number of a person’s outcomes, when they fall is multinomial with "
        "shares proportional to the length of an interval times its rate ratio (conditional "
        "Poisson regression). "
        + (interval_words(study) or "Intervals of rate ratios are by profile likelihood."),
    }
    if study.effects is not None:
        kinds = [e.kind.replace("calendar", "calendar time") for e in study.effects.effects]
        said["Time"] = f"Quadratic splines of {' and '.join(kinds)}, constant within a month."
        if study.sampling is not None:
            said["Time"] += f" {study.sampling.sentence()}"
    if study.censoring is not None:
        said["Observation"] = (
            "The end of observation may depend on the event: time is weighted by the model "
            f"{study.censoring.kind} (Farrington and others 2011)."
        )
    if study.model.variance is not None:
        said["Prior"] = (
            f"A {s.prior} prior acts on the penalised covariates, and none on the others."
        )
    return [f"<p><b>{title}.</b> {escape(text)}</p>" for title, text in said.items()]


def settings_list(study: CaseSeries) -> str:
    """All settings that say something."""
    lines = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in _flat(study.settings)
    )
    return f"<dl>{lines}</dl>"


def _flat(settings: Any) -> list[tuple[str, str]]:
    """Settings that say something, one a line; windows and splines as one line each."""
    out: list[tuple[str, str]] = []
    for f in fields(settings):
        value = getattr(settings, f.name)
        if f.name in ("cases", "thresholds"):
            out += _flat(value)
        elif f.name == "windows":
            out += [(f"window: {w.label}", _words(w)) for w in value]
        elif is_dataclass(value):
            out.append((f.name, _words(value)))
        elif value not in (None, ()):
            out.append((f.name, str(value)))
    return out


def _words(value: Any) -> str:
    said = [
        f"{f.name} {getattr(value, f.name)}"
        for f in fields(value)
        if f.name != "label" and getattr(value, f.name) not in (None, (), False)
    ]
    return ", ".join(said)
