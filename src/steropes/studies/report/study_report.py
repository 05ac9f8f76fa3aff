"""The files of a study: a self-contained page, all numbers as JSON and as tables, the pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from steropes.studies.comparative.estimands import estimand_name
from steropes.studies.diagnostics.study_verdicts import NOT_SHOWN
from steropes.studies.disclosure.release_folder import write_release
from steropes.studies.disclosure.study import WITHHELD, Published, publish
from steropes.studies.report.alternatives_section import (
    adjustment_table,
    follow_up_table,
    reading,
    source_line,
)
from steropes.studies.report.formatting import (
    checks,
    count,
    decimals,
    p_value,
    risk_period,
    shown_value,
    title_case,
    unconverged_text,
)
from steropes.studies.report.page_parts import Figure, KeyNumber
from steropes.studies.report.people_section import (
    attrition_table,
    balance_table,
    domain_table,
    score_model,
)
from steropes.studies.report.rendering import render
from steropes.studies.report.results_section import (
    diagnostics_table,
    hazard_table,
    rate_table,
    visibility,
)
from steropes.studies.report.study_figures import FIGURES, study_figures
from steropes.studies.report.study_numbers import study_json, study_tables

if TYPE_CHECKING:
    from steropes.studies.comparative.one_question import ComparativeStudy

__all__ = ["study_page", "write_report"]

NO_BREAK = "\N{NO-BREAK SPACE}"


def write_report(study: ComparativeStudy, folder: str | Path) -> list[Path]:
    """Write ``report.html``, ``study.json``, ``tables/*.csv`` and ``figures/*.svg``: all or none.

    They are in the folder ``release``. Returns the paths of the first two. Figures of an earlier
    study in that folder that this study does not have (it may be blinded) are removed.
    """
    public = publish(study)
    figures = study_figures(study, public)
    files = {
        "report.html": _page(study, public, figures),
        "study.json": study_json(study),
        **{f"tables/{name}.csv": text for name, text in study_tables(study).items()},
        **{f"figures/{name}.svg": shown.picture.file() for name, shown in figures.items()},
    }
    return write_release(folder, files, public.rules)[:2]


def study_page(study: ComparativeStudy) -> str:
    """Return the study as one HTML page without outside references."""
    public = publish(study)
    return _page(study, public, study_figures(study, public))


def _page(study: ComparativeStudy, public: Published, figures: Mapping[str, Figure]) -> str:
    """Render the page from released numbers."""
    target, comparator, outcome = (title_case(name) for name in study.names.values())
    source = f" in “{study.source}”" if study.source else ""
    versions = source_line(study)
    about = f" ({versions})" if versions else ""
    detectable = public.detectable
    return render(
        "study.html.jinja",
        title=f"{target} compared with {comparator}: {outcome}",
        lead=f"A new-user cohort study{source}{about}, matched on the propensity score.",
        numbers=list(_key_numbers(study, public)),
        checks=[(c.mark, c.finding) for c in checks(study, public)],
        visibility=visibility(public),
        diagnostics=diagnostics_table(public),
        hazard_ratios=hazard_table(study, public),
        rates=rate_table(study, public),
        detectable=decimals(detectable) if math.isfinite(detectable or math.nan) else "",
        reading=[] if study.beside is None else reading(public),
        adjustments=adjustment_table(public),
        follow_up=follow_up_table(study, public),
        attrition=attrition_table(study, public),
        least=public.rules.least,
        data_notes=[note["note"] for note in public.data_notes],
        ended=study.ended,
        score_model=score_model(study, public),
        balance=balance_table(study, public),
        domains=domain_table(study),
        figures=dict.fromkeys(FIGURES) | dict(figures),
        target=target,
        comparator=comparator,
        outcome=outcome,
        settings=study.settings,
        risk_period=risk_period(study.settings),
        matched_people=estimand_name("atm"),
        settings_list=list(_settings(study)),
        disclosure=public.rules.sentence(),
    )


def _key_numbers(study: ComparativeStudy, public: Published) -> Iterator[KeyNumber]:
    """Yield up to four numbers for the top of the page."""
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
    """Write a p value after "p", with an equals sign unless it is a bound or missing."""
    return (p if p.startswith(("<", "–")) else f"= {p}").replace(" ", NO_BREAK)


def _settings(study: ComparativeStudy) -> Iterator[tuple[str, str]]:
    """Yield the names and values of all settings."""
    for name, value in asdict(study.settings).items():
        shown = "none" if value in (None, ()) else str(value)
        if isinstance(value, dict):
            shown = ", ".join(f"{k} {'none' if v is None else f'{v:g}'}" for k, v in value.items())
        if name in study.names:
            shown = f"{shown} ({title_case(study.names[name])})"
        yield name, shown
