"""The files of a study: a self-contained page, all numbers as JSON and as tables, the pictures."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steropes.data.formatted_tables_for_papers import latex_document, word_document
from steropes.data.number_formatting import deciding_p
from steropes.designs.values.estimands import estimand_name
from steropes.studies._optional_packages import need
from steropes.studies.diagnostics.failing_diagnostics import with_names
from steropes.studies.diagnostics.result_blinding import NOT_SHOWN
from steropes.studies.disclosure.effect_suppression import WITHHELD
from steropes.studies.disclosure.release_folder import write_release
from steropes.studies.formatting.released_numbers import (
    TEST_OF_HAZARDS,
    count,
    database_versions,
    decimals,
    setting_text,
    shown_value,
    title_case,
    unconverged_text,
)
from steropes.studies.release.one_question_release import Published
from steropes.studies.report.page_parts import KeyNumber, Rows
from steropes.studies.report.record_pe import checklist_text
from steropes.studies.report.study_checks import checks, hidden
from steropes.studies.report.study_json_and_csv import study_json, study_numbers, study_tables
from steropes.studies.report.study_page_pictures import PICTURES, study_pictures
from steropes.studies.report.study_page_tables import (
    adjustment_rows,
    attrition_rows,
    balance_rows,
    diagnostic_rows,
    domain_rows,
    follow_up_rows,
    hazard_rows,
    outcome_rows,
    rate_rows,
    risk_period,
    risk_rows,
)
from steropes.studies.report.study_tables_for_papers import paper_tables
from steropes.studies.report.svg_canvas import by_section
from steropes.studies.report.template_rendering import render
from steropes.studies.specifications.one_question_specification import LARGEST_WEIGHT
from steropes.version import __version__

if TYPE_CHECKING:
    from steropes.studies.report.svg_canvas import Picture

__all__ = ["methods_text", "study_page", "write_paper", "write_report"]

NO_BREAK = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class ScoreModel:
    """Numbers of the propensity model, and its strongest covariates."""

    covariates: str
    nonzero: int
    auc: str
    variance: str
    strongest: Rows


def write_report(public: Published, folder: str | Path) -> list[Path]:
    """Write ``report.html``, ``study.json``, ``tables/*.csv`` and ``figures/*.svg``: all or none.

    They are in the folder ``release``. Returns the paths of the first two. Figures of an earlier
    study in that folder that this study does not have (it may be blinded) are removed.
    """
    pictures, numbers = study_pictures(public), study_numbers(public)
    files = {
        "report.html": study_page(public, pictures),
        "study.json": study_json(numbers),
        **{f"tables/{name}.csv": text for name, text in study_tables(numbers).items()},
        **{f"figures/{name}.svg": picture.file() for name, picture in pictures.items()},
    }
    return write_release(folder, files, public.rules)[:2]


def write_paper(public: Published, folder: str | Path) -> list[Path]:
    """Add methods, checklist and tables for a paper to the release of a study.

    Writes ``paper/methods.md``, ``paper/record_pe.md``, ``paper/tables.tex`` and
    ``paper/tables.docx``, from released numbers.
    """
    need("docx", "paper")
    tables = paper_tables(public)
    files: dict[str, str | bytes] = {
        "paper/methods.md": methods_text(public),
        "paper/record_pe.md": checklist_text(public),
        "paper/tables.tex": latex_document(tables),
        "paper/tables.docx": word_document(tables),
    }
    return write_release(folder, files, public.rules, add=True)[:4]


def methods_text(public: Published) -> str:
    """Return the methods of a study in Markdown, with versions and the rules of disclosure."""
    page = render("study_methods.html.jinja", **_methods(public))
    text = re.sub(r"</?b>", "**", page)
    paragraphs = [
        html.unescape(" ".join(p.split())) for p in re.findall(r"<p>(.*?)</p>", text, re.S)
    ]
    paragraphs += public.protocol.sentences() if public.protocol else []
    paragraphs += [f"Analyses were done with steropes {__version__}. {public.rules.sentence()}"]
    return "\n\n".join(["# Methods", *paragraphs]) + "\n"


def _methods(public: Published) -> dict[str, object]:
    """Return the values that the description of the methods needs."""
    target, comparator, outcome = (title_case(name) for name in public.names.values())
    return {
        "target": target,
        "comparator": comparator,
        "outcome": outcome,
        "settings": public.settings,
        "risk_period": risk_period(public.settings),
        "matched_people": estimand_name("atm"),
    }


def study_page(public: Published, pictures: Mapping[str, Picture] | None = None) -> str:
    """Return the study as one HTML page without outside references.

    The pictures are those of `study_page_pictures` by default.
    """
    if pictures is None:
        pictures = study_pictures(public)
    target, comparator, outcome = (title_case(name) for name in public.names.values())
    detectable, e_values, p = public.detectable, public.e_value, public.proportional_p
    known = math.isfinite(e_values[0]) and not public.main_line()["note"]
    return render(
        "study.html.jinja",
        title=f"{target} compared with {comparator}: {outcome}",
        **_methods(public),
        source=_source(public),
        top_numbers=list(_key_numbers(public)),
        checks=[(c.mark, c.finding) for c in checks(public)],
        visibility=_visibility(public),
        blinded=public.blinded,
        least=public.rules.least,
        pictures=by_section(PICTURES, pictures),
        diagnostics=diagnostic_rows(public),
        hazard_ratios=hazard_rows(public),
        rates=rate_rows(public),
        detectable=decimals(detectable) if math.isfinite(detectable) else "",
        e_values=[decimals(v) for v in e_values if known],
        common_outcome=public.common,
        hazards_test=deciding_p(p) if math.isfinite(p) else "",
        hazards_change=p < 0.05,
        test_of_hazards=TEST_OF_HAZARDS,
        adjustments=adjustment_rows(public),
        risks=risk_rows(public),
        risk_model=public.settings.risk_model.upper(),
        outcomes=outcome_rows(public),
        negative_controls=any(line["role"] == "negative control" for line in public.outcomes),
        largest_weight=LARGEST_WEIGHT,
        follow_up=follow_up_rows(public),
        attrition=attrition_rows(public),
        data_notes=[note["note"] for note in public.data_notes],
        ended=public.ended,
        score_model=_score_model(public),
        has_balance=bool(public.balance),
        balance=balance_rows(public),
        domains=domain_rows(public),
        settings_list=list(_settings(public)),
        protocol=public.protocol.sentences() if public.protocol else [],
        disclosure=public.rules.sentence(),
    )


def _source(public: Published) -> str:
    """Name the database, with versions and dates of its data and its vocabulary."""
    known = public.tables["database"].iloc[0]
    text = f" in “{known['name']}”" if known["name"] else ""
    versions = ", ".join(database_versions(known))
    return f"{text} ({versions})" if versions else text


def _visibility(public: Published) -> str:
    """Name the state of a failed study: hidden, no estimate or unblinded; "" if it passes."""
    if hidden(public):
        return "hidden"
    if public.blinded:
        return "no estimate"
    shown = any(not line["note"] for line in public.hazard_ratios)
    return "unblinded" if public.failed and shown else ""


def _score_model(public: Published) -> ScoreModel | None:
    """Summarise the propensity model; None if there is none."""
    model, covariates = public.model, public.covariates
    if model is None or covariates is None:
        return None
    return ScoreModel(
        covariates=count(covariates["columns"]),
        nonzero=model["nonzero"],
        auc=decimals(model["auc"], 3),
        variance=f"{model['variance']:.3g}",
        strongest=[
            (str(line["name"]), decimals(line["coef"])) for line in model["coefficients"][1:11]
        ],
    )


def _key_numbers(public: Published) -> Iterator[KeyNumber]:
    """Yield up to four numbers for the top of the page."""
    line = public.main_line()
    if line["note"] == NOT_SHOWN:
        yield "Not shown", "the hazard ratio, because the study fails a diagnostic"
    elif line["note"] == WITHHELD:
        yield "Not released", "the hazard ratio, which would give away a count of few people"
    elif line["note"]:
        failed = ", ".join(v.name for v in public.failed)
        yield "No estimate", with_names(line["note"], failed)
    else:
        yield (
            decimals(line["hr"]),
            f"hazard ratio among the matched{unconverged_text(line)}, 95% interval "
            f"{decimals(line['lower'])} to {decimals(line['upper'])}, "
            f"p{NO_BREAK}{_equals(deciding_p(line['p']))}",
        )
    if public.model is not None:
        yield count(public.pairs), f"matched pairs, {count(line['events'])} events"
        auc = "AUC of the propensity model (0.5: groups alike)"
        yield decimals(public.model["auc"]), auc
    if public.largest["after"] is not None:
        limit = public.settings.thresholds.balance
        shown = [shown_value(public.largest[when], limit) for when in ("before", "after")]
        yield " → ".join(shown), "largest standardised difference, before and after matching"


def _equals(p: str) -> str:
    """Write a p value after "p", with an equals sign unless it is a bound or missing."""
    return (p if p.startswith(("<", "–")) else f"= {p}").replace(" ", NO_BREAK)


def _settings(public: Published) -> Iterator[tuple[str, str]]:
    """Yield the names and values of all settings."""
    for name, value in asdict(public.settings).items():
        shown = setting_text(value)
        if name in public.names:
            shown = f"{shown} ({title_case(public.names[name])})"
        yield name, shown
