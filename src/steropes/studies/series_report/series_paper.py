"""Methods, RECORD-PE checklist and tables of a case series for a paper, from released numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from steropes.data.formatted_tables_for_papers import CaptionedTable, latex_document, word_document
from steropes.data.number_formatting import deciding_p
from steropes.studies._optional_packages import need
from steropes.studies.disclosure.release_folder import write_release
from steropes.studies.formatting.released_numbers import count, title_case
from steropes.studies.release.series_result_blinding import hidden_covariates, public_estimates
from steropes.studies.report.record_pe import checklist_table, filled
from steropes.studies.report.study_tables_for_papers import paper_table
from steropes.studies.sccs.results.sccs_diagnostics import findings_of
from steropes.studies.series_report.estimate_text import ratio_and_interval, shown_estimates
from steropes.studies.series_report.methods_section import attrition_rows, methods
from steropes.version import __version__

if TYPE_CHECKING:
    from steropes.studies.release.one_series_release import ReleasedSeries

__all__ = ["series_answers", "series_methods", "series_tables", "write_series_paper"]


def write_series_paper(study: ReleasedSeries, folder: str | Path) -> list[Path]:
    """Add methods, checklist and tables for a paper to the release of a case series.

    Writes ``paper/methods.md``, ``paper/record_pe.md``, ``paper/tables.tex`` and
    ``paper/tables.docx``.
    """
    need("docx", "paper")
    tables = series_tables(study)
    files: dict[str, str | bytes] = {
        "paper/methods.md": series_methods(study),
        "paper/record_pe.md": checklist_table(filled(series_answers(study))),
        "paper/tables.tex": latex_document(tables),
        "paper/tables.docx": word_document(tables),
    }
    return write_release(folder, files, study.rules, add=True)[:4]


def series_methods(study: ReleasedSeries) -> str:
    """Return the methods in Markdown, with versions and the rules of disclosure."""
    paragraphs = [f"**{name}.** {text}" for name, text in methods(study).items()]
    paragraphs += study.protocol.sentences() if study.protocol else []
    paragraphs += [f"Analyses were done with steropes {__version__}. {study.rules.sentence()}"]
    return "\n\n".join(["# Methods", *paragraphs]) + "\n"


def series_tables(study: ReleasedSeries) -> list[CaptionedTable]:
    """Return attrition and rate ratios."""
    hidden, public = hidden_covariates(study), public_estimates(study)
    rows = []
    for name in shown_estimates(study):
        line, released = public.loc[name], study.release.counts[name]
        events = "–" if name in hidden else count(released.events)
        ratio, interval = ratio_and_interval(line)
        cells = (count(released.subjects), events, ratio, interval, deciding_p(line["p"]))
        rows.append((title_case(name), *cells))
    level = f"{100 * study.settings.level:g}% interval"
    return [
        paper_table(
            "attrition",
            "Cases left by each rule.",
            ("Rule", "People", "Outcomes", "Periods", "Days"),
            attrition_rows(study),
        ),
        paper_table(
            "estimates",
            f"Rate ratios of {title_case(study.outcome)}, relative to the person's other time.",
            ("Window", "People", "Outcomes", "Rate ratio", level, "p"),
            rows,
        ),
    ]


def series_answers(study: ReleasedSeries) -> Iterator[tuple[str, str]]:
    """Yield the numbers of the items of RECORD-PE that the software can answer, and the answers."""
    s, cases = study.settings, study.settings.cases
    exposures = "; ".join(
        f"{line['name']} ({line['era_id']})" for _, line in study.eras.head(MOST_ERAS).iterrows()
    )
    if len(study.eras) > MOST_ERAS:
        exposures += f" and {len(study.eras) - MOST_ERAS} more"
    design = "risk interval design" if s.control else "case series"
    windows = "; ".join(
        f"{title_case(w.label)}: from day {w.start} after the {w.start_at} of the era to day "
        f"{w.end} after its {w.end_at}"
        for w in s.windows
    )
    rules = "; ".join(str(line["rule"]) for _, line in study.release.attrition.iterrows())
    if study.source:
        yield "1.1", f"Routinely collected data in the OMOP common data model: {study.source}."
    yield (
        "4.a",
        f"Self-controlled {design}: exposed and unexposed time of the same person is compared. "
        "Cohort designs were not part of this run.",
    )
    yield "4.b", f"Windows. {windows}."
    yield "6.1", f"People with the outcome {study.outcome} ({cases.outcome})."
    yield "6.1.a", f"In this order: {rules}."
    yield "7.1", f"Outcome: {study.outcome} ({cases.outcome}). Exposures: {exposures}."
    yield "7.1.c", f"Windows. {windows}."
    yield "7.1.d", "Outcomes are attributed to all windows that cover their day."
    yield "7.1.e", "Dose is not considered."
    yield (
        "7.1.f",
        "The comparator is the other time of the same person, so that characteristics that do not "
        "change are controlled for.",
    )
    verdicts = [f"{mark.lower()}: {text}" for mark, text in findings_of(study.release.diagnostics)]
    yield "12.1.a", f"Diagnostics with thresholds set in advance. {' '.join(verdicts)}".strip()
    notes = " ".join(note.sentence(study.rules) for note in study.data_notes)
    yield "12.2", notes or "No irregularity of the data was met that affects the study."
    last = study.release.attrition.iloc[-1]
    yield (
        "13.1",
        f"Table of attrition; {count(last['subjects'])} people with {count(last['events'])} "
        "outcomes are in the model.",
    )
    effects = [e.kind for e in study.effects.effects] if study.effects else []
    adjusted = f"Adjusted for {', '.join(effects)} by splines." if effects else ""
    yield (
        "20.a",
        "Confounders that change with time, such as the indication, are controlled for only as far "
        f"as windows and splines describe them. {adjusted}".strip(),
    )
    code = "steropes is free software; all settings are in report.html."
    if study.protocol is not None:
        code = f"Protocol with SHA-256 {study.protocol.hash}. {code}"
    yield "22.1", code


MOST_ERAS = 20  # The largest number of exposures that the checklist names.
