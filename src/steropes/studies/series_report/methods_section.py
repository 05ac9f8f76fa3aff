"""Study population, methods and settings, the last sections of the page of a case series."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from steropes.studies.formatting.released_numbers import count, setting_text, title_case
from steropes.studies.report.page_parts import Rows
from steropes.studies.series_report.estimate_text import interval_text

if TYPE_CHECKING:
    from steropes.studies.release.one_series_release import ReleasedSeries

__all__ = ["attrition_rows", "methods", "settings_list"]


def attrition_rows(study: ReleasedSeries) -> Rows:
    """Return the cases that remain after each rule."""
    return [
        (
            title_case(line["rule"]),
            *(count(line[c]) for c in ("subjects", "events", "periods")),
            "–" if line["days"] is None else count(line["days"]),
        )
        for _, line in study.release.attrition.iterrows()
    ]


def methods(study: ReleasedSeries) -> dict[str, str]:
    """Return paragraphs on the design and the model, by their titles."""
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
    return text


def settings_list(settings: Any) -> list[tuple[str, str]]:
    """List the settings that have a value; windows and splines take one line each.

    A setting of cases or thresholds whose name another one has too is listed as in a specification,
    such as ``cases.seed``.
    """
    out: list[tuple[str, str]] = []
    names = {f.name for f in fields(settings)}
    for f in fields(settings):
        value = getattr(settings, f.name)
        if f.name in ("cases", "thresholds"):
            own = settings_list(value)
            out += [(f"{f.name}.{name}" if name in names else name, text) for name, text in own]
        elif f.name == "windows":
            out += [(f"window: {w.label}", _words(w)) for w in value]
        elif is_dataclass(value):
            out.append((f.name, _words(value)))
        elif value not in (None, ()):
            out.append((f.name, setting_text(value)))
    return out


def _words(value: Any) -> str:
    """List the fields of a window or spline that have a value; zero is one."""
    listed = []
    for f in fields(value):
        of = getattr(value, f.name)
        if f.name != "label" and of is not None and of is not False and of != ():
            listed.append(f"{f.name} {setting_text(of)}")
    return ", ".join(listed)
