"""The RECORD-PE checklist of a study of one question, filled in where the software knows.

Items are abridged from Langan SM, Schmidt SAJ, Wing K, et al. The reporting of studies conducted
using observational routinely collected health data statement for pharmacoepidemiology (RECORD-PE).
BMJ 2018;363:k3532 (CC BY 4.0), with the numbers of that checklist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from steropes.studies.formatting.released_numbers import count
from steropes.studies.release.one_question_release import Published
from steropes.studies.report.study_page_tables import risk_period

__all__ = ["SOURCE", "checklist", "checklist_table", "checklist_text", "filled"]

SOURCE = (
    "Langan SM, Schmidt SAJ, Wing K, et al. The reporting of studies conducted using observational "
    "routinely collected health data statement for pharmacoepidemiology (RECORD-PE). BMJ "
    "2018;363:k3532. Items are abridged; CC BY 4.0."
)
AUTHORS = "To be completed by the authors."


def checklist(public: Published) -> list[tuple[str, str, str]]:
    """Return number, abridged item and answer of each item that RECORD and RECORD-PE add.

    Parameters
    ----------
    public : Published
        The released numbers of a study.
    """
    return filled(_answers(public))


def filled(answers: Iterable[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Return number, item and answer of each item; items without an answer are the authors'."""
    known = dict(answers)
    return [(number, item, known.get(number, AUTHORS)) for number, item in ITEMS]


def checklist_text(public: Published) -> str:
    """Return the checklist as a Markdown table."""
    return checklist_table(checklist(public))


def checklist_table(rows: Iterable[tuple[str, str, str]]) -> str:
    """Write number, item and answer of each item as a Markdown table."""
    lines = [
        "# RECORD-PE checklist",
        "",
        SOURCE,
        "",
        "| item | to report | here |",
        "|---|---|---|",
    ]
    for row in rows:
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    return "\n".join(lines) + "\n"


ITEMS = (
    ("1.1", "Type of data, and names of the databases, in title or abstract"),
    ("1.2", "Region and time frame, in title or abstract"),
    ("1.3", "Linkage between databases, in title or abstract"),
    ("4.a", "Specific study design and its features; use of multiple designs"),
    ("4.b", "Diagrams of key aspects: exposure, washout, lag and observation periods, covariates"),
    ("6.1", "Methods of selecting the population, such as codes and algorithms"),
    ("6.1.a", "Entry criteria and their order; indication; one entry or several for a person"),
    ("6.2", "Validation of the codes or algorithms of the selection"),
    ("6.3", "Flow diagram of the linkage, if data were linked"),
    ("7.1", "Codes and algorithms of exposures, outcomes, confounders and effect modifiers"),
    ("7.1.a", "How the definition of drug exposure was developed"),
    ("7.1.b", "Sources of the information on drug exposure"),
    ("7.1.c", "Time windows in which an individual counts as exposed"),
    ("7.1.d", "Attribution of events to current, prior, ever or cumulative exposure"),
    ("7.1.e", "Dose and risk attribution: current, historical or time on therapy"),
    ("7.1.f", "Comparator groups and their justification"),
    ("7.1.g", "Individuals with more than one relevant exposure during the study"),
    ("8.a", "Healthcare system, mechanism that generates exposure records, care setting"),
    ("12.1", "Extent of the investigators' access to the database population"),
    ("12.1.a", "Methods by which the assumptions were evaluated"),
    ("12.1.b", "Multiple designs, features or analytical approaches and their justification"),
    ("12.2", "Methods of data cleaning"),
    ("12.3", "Linkage: level, methods and evaluation of its quality"),
    ("13.1", "Selection of the persons in the study, with a flow diagram"),
    ("19.1", "Data that were not collected for the question: misclassification, missing data"),
    ("19.1.a", "Degree to which the database captures the drug exposures of interest"),
    ("20.a", "Confounding by indication, contraindication or severity, and selection bias"),
    ("22.1", "Access to the protocol, raw data or programming code"),
)


def _answers(public: Published) -> Iterator[tuple[str, str]]:
    """Yield the numbers of the items that the software can answer, and the answers."""
    window = f"from the start to {public.settings.window_days} days before it"
    yield from _design_answers(public, window)
    yield from _exposure_answers(public, window)
    yield from _bias_answers(public)
    code = "steropes is free software; all settings are in study.json."
    if public.protocol is not None:
        code = f"Protocol with SHA-256 {public.protocol.hash}. {code}"
    yield "22.1", code


def _codes(public: Published) -> str:
    """Describe the codes of the cohorts, such as "OMOP concept ids: target 1 (a), ..."."""
    s = public.settings
    kind = "cohort ids" if s.cohorts is not None else "OMOP concept ids"
    family = " and their descendants" if s.descendants and s.cohorts is None else ""
    ids = (f"{role} {getattr(s, role)} ({name})" for role, name in public.names.items())
    return f"{kind}{family}: {', '.join(ids)}."


def _design_answers(public: Published, window: str) -> Iterator[tuple[str, str]]:
    """Yield the answers on the source of the data, the design and the selection of people."""
    s, names = public.settings, public.names
    database = public.tables["database"].iloc[0]["name"]
    if database:
        yield "1.1", f"Routinely collected data in the OMOP common data model: {database}."
    yield (
        "4.a",
        f"New-user active-comparator cohort study, {names['target']} against "
        f"{names['comparator']}, matched one to one on the propensity score. Case-series and grid "
        "designs were not part of this run.",
    )
    yield (
        "4.b",
        f"Washout: {s.washout_days} days of observation before the start. Covariates: {window}. "
        f"At risk {risk_period(s)}. The flow diagram is figures/attrition.svg.",
    )
    yield "6.1", f"By {_codes(public)}"
    nesting = "Not restricted to an indication."
    if s.nesting is not None:
        nesting = f"Restricted to people with the indication {s.nesting} at the start."
    rules = "; ".join(str(line["rule"]) for line in public.attrition)
    yield "6.1.a", f"In this order: {rules}. {nesting} One entry for each person."


def _exposure_answers(public: Published, window: str) -> Iterator[tuple[str, str]]:
    """Yield the answers on codes, exposure windows and comparators."""
    s, names = public.settings, public.names
    target, comparator = names["target"], names["comparator"]
    codes = _codes(public)
    yield (
        "7.1",
        f"{codes[0].upper()}{codes[1:]} Covariates are all conditions, drugs, procedures, "
        f"measurements and observations recorded {window}.",
    )
    if s.cohorts is None:
        yield "7.1.b", "Table drug_era of the OMOP common data model."
    yield "7.1.c", f"At risk {risk_period(s)}."
    yield (
        "7.1.d",
        "Events during the time at risk are attributed to the drug that was started first, "
        "whatever is taken later."
        + (" People are censored when they switch." if s.at_risk.censor_at_switch else ""),
    )
    yield "7.1.e", "Dose is not considered."
    yield "7.1.f", f"The comparator is {comparator}. The justification is the authors' to give."
    yield (
        "7.1.g",
        f"Users of both drugs are in the arm of the first; those who started {target} and "
        f"{comparator} on one day are left out.",
    )


def _bias_answers(public: Published) -> Iterator[tuple[str, str]]:
    """Yield the answers on diagnostics, data cleaning, matched people and confounding."""
    names, controls = public.names, public.settings.controls
    judged = "; ".join(f"{v.name}: {v.verdict.lower()}" for v in public.verdicts)
    yield "12.1.a", f"Diagnostics with thresholds set in advance. {judged}."
    yield (
        "12.1.b",
        f"{len(public.adjustments)} other adjustments by the same scores, the crude estimate, and "
        f"{len(controls.cohorts) + len(controls.concepts)} negative controls.",
    )
    notes = " ".join(str(note["note"]) + "." for note in public.data_notes)
    yield "12.2", notes or "No irregularity of the data was met that affects the study."
    left = public.attrition[-1] if public.attrition else {}
    if left:
        yield (
            "13.1",
            f"Table of attrition and figures/attrition.svg; {count(left['target'])} people with "
            f"{names['target']} and {count(left['comparator'])} with {names['comparator']} were "
            f"matched, and the outcome was {names['outcome']}.",
        )
    shown = "E-values are in the report." if public.e_value[0] == public.e_value[0] else ""
    yield "20.a", f"Matching balances recorded covariates only. {shown}".strip()
