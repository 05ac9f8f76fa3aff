"""The files of a study: a self-contained page, all numbers as JSON and as tables, the pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from steropes.studies.diagnostics.study_verdicts import NOT_SHOWN
from steropes.studies.disclosure.release_folder import write_release
from steropes.studies.disclosure.study import WITHHELD, Published, publish
from steropes.studies.report.alternatives_section import source_line
from steropes.studies.report.formatting import (
    checks,
    count,
    decimals,
    p_value,
    shown_value,
    title_case,
    unconverged_text,
)
from steropes.studies.report.html import cards, document, findings
from steropes.studies.report.people_section import attrition_parts, balance_parts, propensity_parts
from steropes.studies.report.results_section import diagnostics_parts, result_parts
from steropes.studies.report.study_figures import study_pictures
from steropes.studies.report.study_methods_section import methods_parts
from steropes.studies.report.study_numbers import study_json, study_tables

if TYPE_CHECKING:
    from steropes.studies.comparative.one_question import ComparativeStudy
    from steropes.studies.report.canvas import Picture

__all__ = ["study_page", "write_report"]

NO_BREAK = "\N{NO-BREAK SPACE}"


def write_report(study: ComparativeStudy, folder: str | Path) -> list[Path]:
    """Write ``report.html``, ``study.json``, ``tables/*.csv`` and ``figures/*.svg``: all or none.

    They are in the folder ``release``. Returns the paths of the first two. Figures that an earlier
    study left there and this one does not have (it may be blinded) are removed.
    """
    public = publish(study)
    pictures = study_pictures(study, public)
    tables = {f"tables/{name}.csv": text for name, text in study_tables(study).items()}
    figures = {f"figures/{name}.svg": p.file() for name, (p, _) in pictures.items()}
    main = {"report.html": _page(study, public, pictures), "study.json": study_json(study)}
    return write_release(folder, {**main, **tables, **figures}, public.rules)[:2]


def study_page(study: ComparativeStudy) -> str:
    """The study as one HTML page without outside references."""
    public = publish(study)
    return _page(study, public, study_pictures(study, public))


def _page(
    study: ComparativeStudy, public: Published, pictures: Mapping[str, tuple[Picture, str]]
) -> str:
    target, comparator, outcome = (title_case(name) for name in study.names.values())
    title = f"{target} compared with {comparator}: {outcome}"
    figures = {name: picture.figure(caption) for name, (picture, caption) in pictures.items()}
    body = [
        *_head(study, public, title),
        *diagnostics_parts(public),
        *result_parts(study, public, figures),
        *attrition_parts(study, public, figures),
        *propensity_parts(study, public, figures),
        *balance_parts(study, public, figures),
        *methods_parts(study),
        f"<p>{escape(public.rules.sentence())}</p>",
        "<p>Every number on this page, and more, is in study.json beside it and in the folder "
        "tables; its pictures are in the folder figures.</p>",
    ]
    return document(title, body)


def _head(study: ComparativeStudy, public: Published, title: str) -> Iterator[str]:
    source = f" in “{study.source}”" if study.source else ""
    versions = source_line(study)
    told = f" ({versions})" if versions else ""
    lead = f"A new-user cohort study{source}{told}, matched on the propensity score."
    yield f'<h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p>'
    yield cards(_cards(study, public), main=0)
    yield findings((c.mark, c.finding) for c in checks(study, public))


def _cards(study: ComparativeStudy, public: Published) -> Iterator[tuple[str, str]]:
    """The four numbers at the top, those there are."""
    line = public.main_line()
    if line["note"] == NOT_SHOWN:
        yield "Not shown", "the hazard ratio, because the study fails a diagnostic"
    elif line["note"] == WITHHELD:
        yield "Not released", "the hazard ratio, which would give away a count of few people"
    elif line["note"]:
        yield "No estimate", line["note"]
    else:
        yield (
            decimals(line["hr"]),
            f"hazard ratio among the matched{unconverged_text(line)}, 95% interval "
            f"{decimals(line['lower'])} to {decimals(line['upper'])}, "
            f"p{NO_BREAK}{_equals(p_value(line['p']))}",
        )
    if study.propensity is not None:
        yield count(public.pairs), f"matched pairs, {count(line['events'])} events"
        auc = "AUC of the propensity model (0.5: groups alike)"
        yield decimals(public.scores["auc"]), auc
    if public.largest["after"] is not None:
        limit = study.settings.thresholds.balance
        shown = [shown_value(public.largest[when], limit) for when in ("before", "after")]
        yield " → ".join(shown), "largest standardised difference, before and after matching"


def _equals(p: str) -> str:
    return (p if p.startswith(("<", "–")) else f"= {p}").replace(" ", NO_BREAK)
