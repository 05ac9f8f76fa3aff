"""A case series as one HTML page without outside references, of published numbers only."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from steropes import __version__
from steropes.errors import DataError
from steropes.studies._extras import need
from steropes.studies.disclosure import part, small
from steropes.studies.plots import STYLE
from steropes.studies.sccs import plots
from steropes.studies.sccs.results import public_attrition, result_tables, write_tables
from steropes.studies.sccs.terminal import ratio_text, shown_estimates
from steropes.studies.wording import count, decimals, p_value, title_case

if TYPE_CHECKING:
    from steropes.studies.sccs.study import CaseSeries

__all__ = ["series_page", "write_series"]


def write_series(study: CaseSeries, folder: str | Path) -> list[Path]:
    """Write ``report.html`` and the tables; returns the page and the folder of the tables."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "report.html"
    draft = folder / ".report.html.new"
    try:
        draft.write_text(series_page(study), encoding="utf-8")
        write_tables(result_tables(study), folder / "tables")
        draft.replace(path)
    except OSError as error:
        raise DataError(f"cannot write to the folder {folder}: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)
    return [path, folder / "tables"]


def series_page(study: CaseSeries) -> str:
    """The report."""
    title = f"Case series: {_safe(title_case(study.outcome))}"
    if study.of_interest:
        title += f" and {_safe(_exposure_name(study))}"
    sections = (
        _head(study, title), _results(study), _timing(study), _assumptions(study),
        _attrition(study), _methods(study), _settings(study),
    )  # fmt: skip
    style = files("steropes.studies").joinpath("report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(s for s in sections if s)
        + f"\n<footer>Made by steropes {__version__}. The numbers of this page, and more, are in "
        "the folder “tables” beside it, in the layout of SelfControlledCaseSeries 6."
        "</footer>\n</main>\n</body>\n</html>\n"
    )


def _exposure_name(study: CaseSeries) -> str:
    column = next(c for c in study.intervals.columns if c.of_interest)
    ids = {*column.eras}
    names = study.eras.loc[study.eras["era_id"].isin(ids), "name"].tolist()
    several = sum(c.of_interest for c in study.intervals.columns) > 1
    return "all drugs" if several else title_case(names[0]) if len(names) == 1 else column.name


def _head(study: CaseSeries, title: str) -> str:
    boxes = "".join(
        f'<div class="card{" main" if i == 0 else ""}"><b>{value}</b><span>{text}</span></div>'
        for i, (value, text) in enumerate(_cards(study))
    )
    found = ""
    if study.diagnostics:
        marks = {"PASS": "ok", "FAIL": "warn", "NOT EVALUATED": ""}
        found = "".join(
            f'<li class="{marks[v.verdict]}">{_safe(v.finding)}</li>'
            for v in study.diagnostics[0].verdicts.values()
        )
    source = f" in “{_safe(study.source)}”" if study.source else ""
    design = "risk interval design" if study.settings.control else "case series"
    status = "" if study.model.status == "OK" else f"<p>{_safe(study.model.status)}</p>"
    return (
        f'<h1>{title}</h1>\n<p class="lead">A self-controlled {design}{source}: only people with '
        "the outcome are studied, and each is compared with themselves.</p>\n"
        f'{status}<div class="cards">{boxes}</div>\n<ul class="checks">{found}</ul>'
    )


def _cards(study: CaseSeries) -> list[tuple[str, str]]:
    least = study.settings.min_cell
    cards = []
    if len(study.of_interest) == 1:
        line = study.estimates.loc[study.of_interest[0]]
        rr, interval = ratio_text(line)
        cards.append((_safe(rr), f"rate ratio, {_level(study)} interval {_safe(interval)}"))
    cases = part(study.intervals.attrition[1], study.intervals.attrition[1], least)
    events = part(study.intervals.attrition[2], study.intervals.attrition[2], least)
    cards.append((_safe(count(cases)), f"people with {_safe(count(events))} outcomes"))
    if len(study.of_interest) == 1:
        s = study.intervals.statistics.loc[study.of_interest[0]]
        exposed, inside = (part(int(s[c]), int(s[c]), least) for c in ("subjects", "events"))
        cards.append((_safe(count(exposed)), f"of them exposed, {_safe(count(inside))} outcomes "
                      "during the time at risk"))  # fmt: skip
    else:
        kept = int((study.estimates.loc[study.of_interest, "log_rr"].abs() > 0).sum())
        cards.append((f"{kept:,}", f"of {len(study.of_interest):,} covariates in the model"))
    return cards


def _level(study: CaseSeries) -> str:
    return f"{100 * study.settings.level:g}%"


def _results(study: CaseSeries) -> str:
    least = study.settings.min_cell
    rows = []
    for name in shown_estimates(study):
        e = study.estimates.loc[name]
        s = study.intervals.statistics.loc[name]
        rr, interval = ratio_text(e)
        cells = [part(int(s[c]), int(s[c]), least) for c in ("subjects", "events")]
        days = "–" if small(int(s["subjects"]), least) else count(int(s["days"]))
        row = [title_case(name), *(count(n) for n in cells), days, rr, interval, p_value(e["p"])]
        if study.model.bootstrap is not None:
            known = name in study.model.bootstrap.index
            row.append(f"{100 * study.model.bootstrap.loc[name, 'share']:.0f}%" if known else "–")
        rows.append([_safe(c) for c in row])
    heads = ["Time", "People", "Outcomes", "Days", "Rate ratio", f"{_level(study)} interval", "p"]
    if study.model.bootstrap is not None:
        heads.append("In draws")
    notes = [
        f"<p>{_safe(title_case(name))}: {_safe(str(note))}.</p>"
        for name, note in study.estimates["note"].items()
        if note and name in shown_estimates(study)
    ]
    parts = [
        "<h2>Result</h2>\n",
        _table(heads, rows, "Rate in the time named against the rest of the same person’s time."),
        *notes,
    ]
    if study.model.profiles:
        parts.append(
            _picture(plots.plot_profile, study, "Likelihood profile of the exposure; the interval "
                     "ends where it is below the dashed line.", "narrow")
        )  # fmt: skip
    if len(plots.forest_lines(study)) > 1:
        shade = (
            " The darker, the more often the drug is in the model when people are drawn anew."
            if study.model.bootstrap is not None
            else ""
        )
        parts.append(_picture(plots.plot_forest, study, f"Rate ratios of the drugs.{shade}"))
    if study.model.variance is not None:
        kind = "given" if study.settings.variance is not None else "chosen by cross-validation"
        parts.append(f"<p>Variance of the prior, {kind}: {study.model.variance:.3g}.</p>")
    return "".join(parts)


def _timing(study: CaseSeries) -> str:
    parts = ["<h2>When the outcomes happened</h2>\n"]
    if len(study.exposures) == 1 and study.time_to_event()["observed"].any():
        parts.append(
            _picture(plots.plot_time_to_event, study, "Outcomes week by week around the start of "
                     "the first exposure.")
        )  # fmt: skip
    parts.append(
        _picture(plots.plot_spans, study, "Cases whose time covers a month, and the months before "
                 "and after it: where they are few, little is known of time.")
    )  # fmt: skip
    if study.effects is not None and study.model.status == "OK":
        parts.append(
            _picture(plots.plot_splines, study, "Effects of time in the model, against their mean. "
                     + _bands(study))
        )  # fmt: skip
    return "".join(parts)


def _bands(study: CaseSeries) -> str:
    """What the bands of the splines are, if they have any."""
    assert study.effects is not None
    shown = [plots.spline_curve(study, e, e.knots)[1] is not None for e in study.effects.effects]
    if not all(shown):
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


def _assumptions(study: CaseSeries) -> str:
    parts = ["<h2>What has to hold</h2>\n"]
    if study.diagnostics:
        d = study.diagnostics[0]
        rows = [
            [_safe(title_case(v.name)), _number(v.value), _ends(v.lower, v.upper), _safe(v.verdict)]
            for v in d.verdicts.values()
        ]
        parts.append(_table(("Question", "Found", "Interval", "Verdict"), rows))
        use = "may be read" if d.unblind else "should not be read as it is"
        parts.append(f"<p>By these verdicts the result {use}.</p>")
    parts.append(
        _picture(plots.plot_rates, study, "Observed over expected outcomes by calendar year; years "
                 "with few outcomes are left out.")
    )  # fmt: skip
    if len(study.population):
        parts.append(
            _picture(plots.plot_event_to_end, study, "Time from an outcome to the end of "
                     "observation. Many ends soon after it mean that the event ends observation.")
        )  # fmt: skip
    return "".join(parts)


def _attrition(study: CaseSeries) -> str:
    rows = [
        [
            _safe(title_case(line["rule"])),
            *(_safe(count(line[c])) for c in ("subjects", "events", "periods")),
            "–" if line["days"] is None else count(line["days"]),
        ]
        for _, line in public_attrition(study).iterrows()
    ]
    least = study.settings.min_cell
    hidden = f" Counts of fewer than {least} are shown as “&lt;{least}”." if least > 1 else ""
    return f"<h2>Who was studied</h2>\n<p>What each rule leaves.{hidden}</p>\n" + _table(
        ("Rule", "People", "Outcomes", "Observation periods", "Days"), rows
    )


def _methods(study: CaseSeries) -> str:
    s = study.settings
    said = [
        "<b>Cases.</b> Observation periods in which the outcome occurs, cut to the days that "
        "the rules above leave. People without the outcome say nothing about when it happens.",
        "<b>Exposure.</b> A day is at risk where it lies in a window around an era of the "
        "exposure; eras that touch are one, and a window ends before the next era begins. Time is "
        "cut where a covariate changes.",
        "<b>Model.</b> Given the number of a person’s outcomes, when they fall is multinomial "
        "with shares proportional to the length of an interval times its rate ratio (conditional "
        "Poisson regression). Intervals of rate ratios are by profile likelihood.",
    ]
    if study.effects is not None:
        said.append(
            "<b>Time.</b> Quadratic splines of "
            + " and ".join(e.kind.replace("calendar", "calendar time") for e in
                           study.effects.effects)
            + ", constant within a month."
        )  # fmt: skip
    if study.censoring is not None:
        said.append(
            "<b>Observation.</b> The end of observation may depend on the event: time is weighted "
            f"by the model {study.censoring.kind} (Farrington and others 2011)."
        )
    if study.model.variance is not None:
        said.append(
            f"<b>Prior.</b> A {s.prior} prior acts on the penalised covariates, and none on the "
            "others."
        )
    return "<h2>How it was done</h2>\n" + "\n".join(f"<p>{p}</p>" for p in said)


def _settings(study: CaseSeries) -> str:
    lines = []
    for name, value in _flat(study.settings):
        lines.append(f"<dt>{_safe(name)}</dt><dd>{_safe(value)}</dd>")
    return "<h2>Settings</h2>\n<dl>" + "".join(lines) + "</dl>"


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


def _picture(plot: Any, study: CaseSeries, caption: str, kind: str = "") -> str:
    matplotlib = need("matplotlib")
    with matplotlib.rc_context(STYLE):
        svg = plots.svg_of(plot(study))
    shape = f' class="{kind}"' if kind else ""
    data = base64.b64encode(svg.encode()).decode("ascii")
    image = f'<img alt="{_safe(caption)}" src="data:image/svg+xml;base64,{data}">'
    return f"<figure{shape}>\n{image}\n<figcaption>{_safe(caption)}</figcaption>\n</figure>\n"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table; the cells are HTML already."""
    title = f"<caption>{caption}</caption>" if caption else ""
    head = "".join(f'<th scope="col">{h}</th>' for h in heads)
    body = "\n".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows)
    return (
        f'<div class="scroll"><table>{title}<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>\n"
    )


def _number(x: float) -> str:
    return "–" if math.isnan(x) else "∞" if math.isinf(x) else decimals(x)


def _ends(low: float, high: float) -> str:
    if np.isnan([low, high]).all():
        return "–"
    return f"{_number(low)} to {_number(high)}"


def _safe(text: str) -> str:
    return html.escape(str(text))
