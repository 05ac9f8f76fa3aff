"""Study population, methods and settings, the last sections of the page of a case series."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from steropes.studies.report import html
from steropes.studies.report.formatting import count, title_case
from steropes.studies.sccs.sccs_terminal import interval_text

if TYPE_CHECKING:
    from steropes.studies.sccs.sccs_study import CaseSeries

__all__ = ["attrition", "methods", "settings_list"]


def attrition(study: CaseSeries) -> list[str]:
    """Return the table of attrition with notes on the data."""
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
        f"<p>Remaining after each rule.{hidden}</p>",
        html.number_table(head, {"": rows}),
        html.paragraphs(note.sentence(study.rules) for note in study.data_notes),
    ]


def methods(study: CaseSeries) -> list[str]:
    """Paragraphs on the design and the model."""
    s = study.settings
    text = {
        "Cases": "Observation periods with an outcome, restricted to the days that remain after "
        "the rules above. People without the outcome have no information on its timing.",
        "Exposure": "A day is at risk if it lies in a window around an era of the exposure. Eras "
        "that overlap or touch count as one, and a window ends before the next era begins. Time "
        "is split where a covariate changes.",
        "Model": "Given the number of a person’s outcomes, their timing is multinomial with "
        "probabilities proportional to the length of an interval times its rate ratio "
        "(conditional Poisson regression). "
        + (interval_text(study) or "Intervals of rate ratios are profile likelihood intervals."),
    }
    if study.effects is not None:
        kinds = [e.kind.replace("calendar", "calendar time") for e in study.effects.effects]
        text["Time"] = f"Quadratic splines of {' and '.join(kinds)}, constant within a month."
        if study.sampling is not None:
            text["Time"] += f" {study.sampling.sentence()}"
    if study.censoring is not None:
        text["Observation"] = (
            "The end of observation may depend on the event, and time is weighted by the model "
            f"{study.censoring.kind} (Farrington and others 2011)."
        )
    if study.model.variance is not None:
        text["Prior"] = f"The penalised covariates have a {s.prior} prior; the others have none."
    return [f"<p><b>{title}.</b> {escape(words)}</p>" for title, words in text.items()]


def settings_list(study: CaseSeries) -> str:
    """Return all settings with a value."""
    lines = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in _flat(study.settings)
    )
    return f"<dl>{lines}</dl>"


def _flat(settings: Any) -> list[tuple[str, str]]:
    """List settings with a value; windows and splines take one line each."""
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
    """List the fields of a window or spline that have a value."""
    listed = [
        f"{f.name} {getattr(value, f.name)}"
        for f in fields(value)
        if f.name != "label" and getattr(value, f.name) not in (None, (), False)
    ]
    return ", ".join(listed)
