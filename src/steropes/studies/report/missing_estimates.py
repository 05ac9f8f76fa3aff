"""Estimates that are missing, with the reasons, for terminals and for commands with ``--quiet``."""

from __future__ import annotations

import sys
import textwrap
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from steropes.studies.diagnostics.failing_diagnostics import with_names
from steropes.studies.diagnostics.result_blinding import NOT_SHOWN
from steropes.studies.formatting.released_numbers import analysis_name, title_case
from steropes.studies.formatting.text_safety import plain_text, without_parentheses

if TYPE_CHECKING:
    from steropes.studies.release.one_question_release import Published

__all__ = [
    "NO_REASON",
    "Missing",
    "missing_combinations",
    "missing_of_comparisons",
    "missing_of_series",
    "missing_of_specification",
    "missing_of_study",
    "missing_sentences",
    "report_missing",
]

MOST_NAMES = 3  # A reason lists no more estimates than these by name.
MOST_REASONS = 3  # More reasons that differ in parentheses only become one sentence.
LONGEST_NAME = 80  # Characters of the name of an estimate.
NO_REASON = "no reason is recorded"
Missing = list[tuple[str, str]]  # The name of each missing estimate, and the reason.
Tables = Mapping[str, pd.DataFrame]


def report_missing(found: Missing) -> None:
    """Print the reasons of missing estimates on the standard error."""
    for sentence in missing_sentences(found):
        print(f"steropes: {sentence}", file=sys.stderr)


def missing_sentences(found: Missing) -> list[str]:
    """Return a sentence for each reason, with the estimates that are missing for it.

    Where many reasons differ in parentheses only, which name cohorts, one sentence without the
    parentheses stands for all.
    """
    reasons = [reason.removeprefix("no estimate: ").rstrip(".") for _, reason in found]
    kinds = {reason: without_parentheses(reason) for reason in dict.fromkeys(reasons)}
    of_kind = Counter(kinds.values())
    by_reason: dict[str, dict[str, None]] = {}
    for (name, _), reason in zip(found, reasons, strict=True):
        kind = kinds[reason]
        said = kind if of_kind[kind] > MOST_REASONS else reason
        by_reason.setdefault(said, {})[name] = None
    sentences = []
    for reason, names in by_reason.items():
        more = len(names) - MOST_NAMES
        named = (textwrap.shorten(n, LONGEST_NAME, placeholder="…") for n in [*names][:MOST_NAMES])
        listed = "; ".join(named) + (f"; and {more:,} more" if more > 0 else "")
        sentences.append(" ".join(plain_text(f"No estimate for {listed}: {reason}.").split()))
    return sentences


def missing_of_study(public: Published) -> Missing:
    """List the missing estimates of a study of one question."""
    failed = ", ".join(v.name for v in public.failed)
    lines = [(analysis_name(line["analysis"]), line["note"]) for line in public.hazard_ratios]
    lines += [(str(line["analysis"]), line["note"]) for line in public.adjustments]
    lines += [(title_case(str(line["outcome"])), line["note"]) for line in public.outcomes[1:]]
    return [(name, with_names(note, failed)) for name, note in lines if note]


def missing_of_comparisons(tables: Tables, estimates: pd.DataFrame) -> Missing:
    """List the missing estimates of a grid of comparisons.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Released tables, which name cohorts and analyses.
    estimates : DataFrame
        Rows of ``cm_result`` with ``note`` and, for hidden estimates, ``unblind``.
    """
    names = _texts(tables, "cohort", "cohort_id", "name")
    analyses = _texts(tables, "cm_analysis", "analysis_id", "description")
    pairs = tables["cm_target_comparator"].drop_duplicates("target_comparator_id")
    arms = pairs.set_index("target_comparator_id")[["target_id", "comparator_id"]]
    found = []
    for line in estimates[estimates["log_rr"].isna()].to_dict("records"):
        target, comparator = (_named(names, i) for i in arms.loc[line["target_comparator_id"]])
        outcome = _named(names, line["outcome_id"])
        analysis = analyses.get(line["analysis_id"]) or f"analysis {line['analysis_id']}"
        found.append((f"{target} against {comparator}, {outcome}, {analysis}", _reason(line)))
    return found


def missing_of_series(tables: Tables, estimates: pd.DataFrame) -> Missing:
    """List the missing estimates of a grid of case series.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Released tables, which name exposures, outcomes and analyses.
    estimates : DataFrame
        Rows of ``sccs_result`` with ``era_id``, ``outcome_id``, ``note`` and, for hidden estimates,
        ``unblind``.
    """
    exposures = _texts(tables, "question_name", "era_id", "exposure_name")
    outcomes = _texts(tables, "question_name", "outcome_id", "outcome_name")
    analyses = _texts(tables, "sccs_analysis", "analysis_id", "description")
    found = []
    for line in estimates[estimates["log_rr"].isna()].to_dict("records"):
        exposure = _named(exposures, line["era_id"])
        outcome = _named(outcomes, line["outcome_id"])
        analysis = analyses.get(line["analysis_id"]) or f"analysis {line['analysis_id']}"
        found.append((f"{exposure}, {outcome}, {analysis}", _reason(line)))
    return found


def missing_of_specification(tables: Mapping[str, Tables]) -> Missing:
    """List the missing estimates of interest of the modules of a specification.

    Parameters
    ----------
    tables : mapping of str to mapping of str to DataFrame
        The released tables of each module, of which those with estimates are chosen by their names.
    """
    found: Missing = []
    for of in tables.values():
        if "cm_result" in of and "note" in of:
            key = ["target_comparator_id", "outcome_id", "analysis_id"]
            asked = of["cm_target_comparator_outcome"]
            asked = asked.loc[asked["outcome_of_interest"].eq(1), key[:2]]
            lines = of["cm_result"].merge(asked.drop_duplicates(), on=key[:2])
            found += missing_of_comparisons(of, lines.merge(of["note"][[*key, "note"]], on=key))
        if "sccs_result" in of and "note" in of:
            key = ["exposures_outcome_set_id", "analysis_id"]
            lines = of["sccs_result"].merge(of["sccs_exposures_outcome_set"], on=key[0])
            lines = lines.merge(of["sccs_exposure"], on=key[0])
            lines = lines[lines["true_effect_size"].isna()]
            found += missing_of_series(of, lines.merge(of["note"][[*key, "note"]], on=key))
        for name in ("es_cm_result", "es_sccs_result"):
            if name in of:
                found += _missing_syntheses(of[name], of["note"])
    return found


def _missing_syntheses(table: pd.DataFrame, notes: pd.DataFrame) -> Missing:
    """List the missing estimates of meta-analyses."""
    key = [c for c in notes if c in table and c != "note"]
    gone = table[table["log_rr"].isna()].merge(notes[[*key, "note"]], on=key, how="left")
    ids = ("outcome_id", "exposures_outcome_set_id", "analysis_id",
           "evidence_synthesis_analysis_id")  # fmt: skip
    found = []
    for line in gone.to_dict("records"):
        named = (f"{c.removesuffix('_id').replace('_', ' ')} {line[c]}" for c in ids if c in line)
        found.append((", ".join(named), _reason(line)))
    return found


def missing_combinations(combined: pd.DataFrame) -> Missing:
    """List the missing estimates of a combination of databases."""
    return [
        (f"outcome {line['outcome_id']}, analysis {line['analysis_id']}, {line['method']}",
         _reason(line))
        for line in combined[combined["rr"].isna()].to_dict("records")
    ]  # fmt: skip


def _texts(tables: Tables, table: str, number: str, name: str) -> dict[object, str]:
    """Return the names of ids; a table that is missing names none."""
    found = tables.get(table)
    if found is None or name not in found:
        return {}
    return {i: str(text) for i, text in zip(found[number], found[name], strict=True) if text}


def _named(names: Mapping[object, str], number: object) -> str:
    """Return the name of an id, or the id."""
    return title_case(names[number]) if number in names else str(number)


def _reason(line: Mapping[object, object]) -> str:
    """Return why the estimate of a line is missing."""
    note = line.get("note")
    if isinstance(note, str) and note:
        return note
    return NOT_SHOWN if line.get("unblind") == 0 else NO_REASON
