"""Report of a case series as a self-contained HTML page, with released numbers only."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from steropes.data.number_formatting import deciding_p
from steropes.studies.diagnostics.result_blinding import is_not_shown
from steropes.studies.disclosure.effect_suppression import WITHHELD
from steropes.studies.disclosure.release_folder import write_release
from steropes.studies.formatting.released_numbers import count, title_case
from steropes.studies.formatting.text_safety import csv_text
from steropes.studies.release.series_result_blinding import (
    blinding_text,
    hidden_covariates,
    public_estimates,
)
from steropes.studies.report.page_parts import Finding, KeyNumber, Rows
from steropes.studies.report.svg_canvas import Picture, by_section, drawn
from steropes.studies.report.template_rendering import render
from steropes.studies.sccs.results.sccs_diagnostics import findings_of
from steropes.studies.series_report.diagnostics_section import diagnostics_section
from steropes.studies.series_report.estimate_text import (
    interval_text,
    ratio_and_interval,
    shown_estimates,
    unconverged_mark,
)
from steropes.studies.series_report.methods_section import attrition_rows, methods, settings_list
from steropes.studies.series_report.sccs_figures import PICTURES

if TYPE_CHECKING:
    from steropes.studies.release.one_series_release import ReleasedSeries

__all__ = ["series_page", "write_series"]


def write_series(study: ReleasedSeries, folder: str | Path) -> list[Path]:
    """Write ``report.html``, its figures (SVG) and the tables; return the page and their folder.

    All files are in the folder ``release``.

    Raises
    ------
    DataError
        The folder is not writable.
    """
    found = drawn(PICTURES, study)
    files = {f"figures/{name}.svg": picture.file() for name, picture in found.items()}
    for name, released in study.release.tables.items():
        files[f"tables/{name}.csv"] = csv_text(released)
    files["tables/question_name.csv"] = csv_text(_question_names(study))
    files["report.html"] = _page(study, found)
    written = write_release(folder, files, study.rules)
    return [written[-1], written[-1].parent / "tables"]


def _question_names(study: ReleasedSeries) -> pd.DataFrame:
    """Return the names of the exposures of interest and of the outcome, which R's tables lack."""
    exposures = study.release.tables["sccs_exposure"]
    names = dict(zip(study.eras["era_id"], study.eras["name"], strict=True))
    return exposures[["exposures_outcome_set_id", "era_id"]].assign(
        exposure_name=exposures["era_id"].map(names),
        outcome_id=study.settings.cases.outcome,
        outcome_name=study.outcome,
    )


def series_page(study: ReleasedSeries) -> str:
    """Return the report as HTML."""
    return _page(study, drawn(PICTURES, study))


def _page(study: ReleasedSeries, found: dict[str, Picture]) -> str:
    """Render the page from released numbers."""
    source = f" in “{study.source}”" if study.source else ""
    title = f"Case series: {title_case(study.outcome)}"
    if study.of_interest:
        title += f" and {_exposure_name(study)}"
    return render(
        "case_series.html.jinja",
        title=title,
        design="risk interval design" if study.settings.control else "case series",
        source=source,
        status="" if study.model.status == "OK" else study.model.status,
        top_numbers=list(_key_numbers(study)),
        checks=_checks(study),
        blinding=blinding_text(study),
        estimates=_estimates(study),
        level=_level(study),
        interval_text=interval_text(study),
        estimate_notes=_estimate_notes(study),
        prior_variance=_prior_variance(study),
        diagnostics=diagnostics_section(study),
        attrition=attrition_rows(study),
        least=study.rules.least,
        data_notes=[note.sentence(study.rules) for note in study.data_notes],
        methods=methods(study),
        protocol=study.protocol.sentences() if study.protocol else [],
        settings=settings_list(study.settings),
        disclosure=study.rules.sentence(),
        pictures=by_section(PICTURES, found),
        has_draws=study.model.bootstrap is not None,
    )


def _exposure_name(study: ReleasedSeries) -> str:
    """Name the exposure or exposures of interest for the title."""
    column = next(c for c in study.intervals.columns if c.of_interest)
    ids = {*column.eras}
    names = study.eras.loc[study.eras["era_id"].isin(ids), "name"].tolist()
    if len(study.of_interest) > 1:
        every = study.settings.windows[column.window].eras is None
        return "all drugs" if every else f"each of {len(study.of_interest)} exposures"
    return title_case(names[0]) if len(names) == 1 else column.name


def _checks(study: ReleasedSeries) -> list[Finding]:
    """Return the warnings of the data and the findings of the diagnostics."""
    warnings = [("WARN", note.sentence(study.rules)) for note in study.data_notes if note.warning]
    return [*warnings, *findings_of(study.release.diagnostics)]


def _key_numbers(study: ReleasedSeries) -> Iterator[KeyNumber]:
    """Yield the key numbers with their descriptions."""
    one = study.of_interest[0] if len(study.of_interest) == 1 else None
    public, hidden = public_estimates(study), hidden_covariates(study)
    if one is not None:
        yield _key_ratio(study, public.loc[one])
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
            passing = f"of {len(study.of_interest):,} exposures pass all diagnostics"
            has = "are in the model" if penalized else "have an estimate"
            yield f"{len(shown):,}", f"{passing}, {kept:,} of these {has}"
            return
        counted = "covariates in the model" if penalized else "exposures have an estimate"
        yield f"{kept:,}", f"of {len(study.of_interest):,} {counted}"


def _key_ratio(study: ReleasedSeries, line: pd.Series) -> KeyNumber:
    """Return the rate ratio with its interval, or why there is none."""
    note = str(line["note"])
    if is_not_shown(note):
        return "Not shown", f"rate ratio{note.removeprefix('not shown')}"
    rr, interval = ratio_and_interval(line)
    if note == WITHHELD:
        return rr.capitalize(), "rate ratio: it would reveal a small count"
    return rr, f"rate ratio, {_level(study)} interval {interval}"


def _level(study: ReleasedSeries) -> str:
    """Format the level of the intervals."""
    return f"{100 * study.settings.level:g}%"


def _estimates(study: ReleasedSeries) -> Rows:
    """Return the rate ratios."""
    draws = study.model.bootstrap
    shown, public, hidden = (
        shown_estimates(study),
        public_estimates(study),
        hidden_covariates(study),
    )
    rows = []
    for name in shown:
        e = public.loc[name]
        rr, interval = ratio_and_interval(e)
        rr += unconverged_mark(study) if math.isfinite(e["rr"]) else ""
        released = study.release.counts[name]
        cells = [count(released.subjects), count(released.events)]
        if name in hidden:
            cells[1] = "–"
        of = study.release.days[name]
        days = "–" if of is None else count(of)
        row = [title_case(name), *cells, days, rr, interval, deciding_p(e["p"])]
        if draws is not None:
            drawn = name in draws.index and name not in hidden
            row.append(f"{100 * draws.loc[name, 'share']:.0f}%" if drawn else "–")
        rows.append(row)
    return rows


def _estimate_notes(study: ReleasedSeries) -> list[str]:
    """Return the reasons of missing estimates."""
    notes = public_estimates(study).loc[shown_estimates(study), "note"]
    return [
        f"{title_case(str(name))}: {note}."
        for name, note in notes.items()
        if note and not is_not_shown(note)
    ]


def _prior_variance(study: ReleasedSeries) -> str:
    """Describe the variance of the prior."""
    if study.model.variance is None:
        return ""
    how = "given" if study.settings.variance is not None else "chosen by cross-validation"
    return f"{how}: {study.model.variance:.3g}"
