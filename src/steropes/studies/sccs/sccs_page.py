"""A case series as one HTML page without outside references, of published numbers only."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from steropes.studies.disclosure import Bound
from steropes.studies.disclosure.folder import write_release
from steropes.studies.disclosure.study import WITHHELD
from steropes.studies.report import html
from steropes.studies.report.canvas import Picture
from steropes.studies.report.formatting import count, p_value, title_case
from steropes.studies.report.plain_text import csv_text
from steropes.studies.sccs import sccs_figures as pictures
from steropes.studies.sccs.blinding import blinding_words, hidden_covariates, public_estimates
from steropes.studies.sccs.diagnostics_section import verdict_parts
from steropes.studies.sccs.drug_forest import drug_forest
from steropes.studies.sccs.methods_section import attrition, methods, settings_list
from steropes.studies.sccs.sccs_diagnostics import findings_of
from steropes.studies.sccs.sccs_terminal import (
    interval_words,
    ratio_text,
    shown_estimates,
    unconverged_mark,
)
from steropes.studies.verdicts import NOT_SHOWN

if TYPE_CHECKING:
    from steropes.studies.sccs.sccs_study import CaseSeries

__all__ = ["series_page", "write_series"]


def write_series(study: CaseSeries, folder: str | Path) -> list[Path]:
    """Write ``report.html``, its figures (SVG) and the tables; returns the page and their folder.

    They go into the folder ``release``.

    Raises
    ------
    DataError
        The folder cannot be written to.
    """
    files = {f"figures/{p.name}.svg": p.file() for p, _ in _pictures(study).values()}
    for name, table in study.release.tables.items():
        files[f"tables/{name}.csv"] = csv_text(table)
    files["report.html"] = series_page(study)
    written = write_release(folder, files, study.rules)
    return [written[-1], written[-1].parent / "tables"]


def series_page(study: CaseSeries) -> str:
    """The report."""
    title = f"Case series: {title_case(study.outcome)}"
    if study.of_interest:
        title += f" and {_exposure_name(study)}"
    shown = _pictures(study)
    figures = {name: picture.figure(caption) for name, (picture, caption) in shown.items()}

    def those(*names: str) -> list[str]:
        return [figures[n] for n in names if n in figures]

    body = [
        *_head(study, title),
        "<h2>Result</h2>",
        *_results(study),
        *those("profile", "drugs"),
        _variance(study),
        "<h2>When the outcomes happened</h2>",
        *those("time to event", "spans", "splines"),
        "<h2>What has to hold</h2>",
        *verdict_parts(study),
        *those("rates", "event to end"),
        "<h2>Who was studied</h2>",
        *attrition(study),
        "<h2>How it was done</h2>",
        *methods(study),
        "<h2>Settings</h2>",
        settings_list(study),
        f"<p>{escape(study.rules.sentence())}</p>",
        "<p>The numbers of this page, and more, are in the folder tables beside it, in the layout "
        "of SelfControlledCaseSeries 6; its pictures are in the folder figures. As in R, the "
        "tables have every estimate; the column unblind of sccs_diagnostics_summary says which "
        "pass all diagnostics.</p>",
    ]
    return html.document(title, body)


def _pictures(study: CaseSeries) -> dict[str, tuple[Picture, str]]:
    """The pictures that there are, with their captions."""
    shade = (
        " The stronger the colour, the more often it is in the model when people are drawn anew."
        if study.model.bootstrap is not None
        else ""
    )
    hidden = hidden_covariates(study)
    of = title_case(next(iter(pictures.profiled(study)), "")) if hidden else "the exposure"
    less = " Those that fail a diagnostic are not drawn." if hidden else ""
    around = (
        "before the start of the first exposure; those after it would tell the effect"
        if pictures.before_alone(study)
        else "around the start of the first exposure"
    )
    found = {
        "profile": (
            pictures.profile(study),
            f"Likelihood profile of {of}; the interval ends where it is below the dashed line.",
        ),
        "drugs": (drug_forest(study), f"Rate ratio of each drug.{less}{shade}"),
        "time to event": (pictures.time_to_event(study), f"Outcomes week by week {around}."),
        "spans": (
            pictures.spans(study),
            "Cases whose time covers a month, and the months before and after it: where they are "
            "few, little is known of time.",
        ),
        "splines": (
            pictures.splines(study),
            "Effects of time in the model, against their mean. " + bands(study),
        ),
        "rates": (
            pictures.rates(study),
            "Observed over expected outcomes by calendar year; years with few outcomes are left "
            "out.",
        ),
        "event to end": (
            pictures.event_to_end(study),
            "Time from an outcome to the end of observation. Many ends soon after it mean that "
            "the event ends observation.",
        ),
    }
    return {name: (p, caption) for name, (p, caption) in found.items() if p is not None}


def _exposure_name(study: CaseSeries) -> str:
    column = next(c for c in study.intervals.columns if c.of_interest)
    ids = {*column.eras}
    names = study.eras.loc[study.eras["era_id"].isin(ids), "name"].tolist()
    if len(study.of_interest) > 1:
        every = study.settings.windows[column.window].eras is None
        return "all drugs" if every else f"each of {len(study.of_interest)} exposures"
    return title_case(names[0]) if len(names) == 1 else column.name


def _head(study: CaseSeries, title: str) -> Iterator[str]:
    source = f" in “{study.source}”" if study.source else ""
    design = "risk interval design" if study.settings.control else "case series"
    yield f"<h1>{escape(title)}</h1>"
    yield (
        f'<p class="lead">A self-controlled {design}{escape(source)}: only people with the outcome '
        "are studied, and each is compared with themselves.</p>"
    )
    if study.model.status != "OK":
        yield f"<p>{escape(study.model.status)}</p>"
    yield html.cards(_cards(study), main=0)
    rules = study.rules
    warnings = [("WARN", note.sentence(rules)) for note in study.data_notes if note.warning]
    yield html.findings([*warnings, *findings_of(study.release.diagnostics)])
    if words := blinding_words(study):
        yield f"<p><b>{escape(words)}</b></p>"


def _cards(study: CaseSeries) -> Iterator[tuple[str, str]]:
    one = study.of_interest[0] if len(study.of_interest) == 1 else None
    public, hidden = public_estimates(study), hidden_covariates(study)
    if one is not None:
        rr, interval = ratio_text(public.loc[one])
        of = {
            NOT_SHOWN: ": a diagnostic failed",
            WITHHELD: ": it would give away a count of few people",
        }.get(str(public.loc[one, "note"]), f", {_level(study)} interval {interval}")
        yield rr.capitalize(), f"rate ratio{of}"
    cases, events = (study.release.attrition[c].iloc[-1] for c in ("subjects", "events"))
    yield count(cases), f"people with {count(events)} outcomes"
    if one is not None:
        exposed = study.release.counts[one]
        inside = f", {count(exposed.events)} outcomes during the time at risk"
        yield count(exposed.subjects), f"of them exposed{'' if one in hidden else inside}"
    else:
        shown = [name for name in study.of_interest if name not in hidden]
        kept = int((public.loc[shown, "log_rr"].abs() > 0).sum())
        penalized = any(c.of_interest and c.penalized for c in study.intervals.columns)
        if hidden:
            said = f"of {len(study.of_interest):,} exposures pass all diagnostics"
            has = "are in the model" if penalized else "have an estimate"
            yield f"{len(shown):,}", f"{said}, {kept:,} of these {has}"
            return
        said = "covariates in the model" if penalized else "exposures have an estimate"
        yield f"{kept:,}", f"of {len(study.of_interest):,} {said}"


def _level(study: CaseSeries) -> str:
    return f"{100 * study.settings.level:g}%"


def _results(study: CaseSeries) -> list[str]:
    draws = study.model.bootstrap
    shown, public, hidden = (
        shown_estimates(study),
        public_estimates(study),
        hidden_covariates(study),
    )
    rows = []
    for name in shown:
        e, s = public.loc[name], study.intervals.statistics.loc[name]
        rr, interval = ratio_text(e)
        rr += unconverged_mark(study) if math.isfinite(e["rr"]) else ""
        told = study.release.counts[name]
        cells = [count(told.subjects), count(told.events)]
        if name in hidden:
            cells[1] = "–"
        hide = isinstance(told.subjects, Bound) or isinstance(told.events, Bound)
        days = "–" if hide else count(study.rules.count(int(s["days"])))
        row = [title_case(name), *cells, days, rr, interval, p_value(e["p"])]
        if draws is not None:
            drawn = name in draws.index and name not in hidden
            row.append(f"{100 * draws.loc[name, 'share']:.0f}%" if drawn else "–")
        rows.append(row)
    head = ["Time", "People", "Outcomes", "Days", "Rate ratio", f"{_level(study)} interval", "p"]
    head += ["In draws"] if draws is not None else []
    caption = "Rate in the time named against the rest of the same person’s time."
    notes = [
        f"<p>{escape(title_case(str(name)))}: {escape(note)}.</p>"
        for name, note in public.loc[shown, "note"].items()
        if note and note not in (NOT_SHOWN, WITHHELD)
    ]
    if words := interval_words(study):
        caption += f" {words}"
    return [html.table(head, rows, text=(0,), caption=caption), *notes]


def _variance(study: CaseSeries) -> str:
    if study.model.variance is None:
        return ""
    how = "given" if study.settings.variance is not None else "chosen by cross-validation"
    return f"<p>Variance of the prior, {how}: {study.model.variance:.3g}.</p>"


def bands(study: CaseSeries) -> str:
    """What the bands of the splines are, if they have any."""
    if study.effects is None:
        return ""
    shown = [pictures.spline_curve(study, e, e.knots)[1] for e in study.effects.effects]
    if any(se is None for se in shown):
        return (
            "No bands are drawn: beside covariates under a Laplace prior there are no standard "
            "errors, and the curves take no account of what the prior chose."
        )
    said = f"The bands are {_level(study)}, point by point and not for a whole curve."
    if any(e.penalized for e in study.effects.effects):
        said += (
            " Penalised curves are drawn toward their mean by the prior; their bands are those of "
            "the posterior at a given variance, and where data are few they may lie beside the "
            "truth."
        )
    elif any(c.penalized for c in study.intervals.columns):
        said += " They take the variance of the other covariates’ prior as given."
    return said
