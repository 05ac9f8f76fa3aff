"""Verdicts on the diagnostics of a study of one question, with released values that agree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from steropes.studies.diagnostics.diagnostic import Diagnostic, Verdict
from steropes.studies.diagnostics.diagnostic_catalogue import declared_diagnostics
from steropes.studies.disclosure.released_table_rows import cell
from steropes.studies.disclosure.small_cell_suppression import Bound, largest_count

if TYPE_CHECKING:
    from steropes.studies.diagnostics.comparative_diagnostics import Diagnostics

__all__ = ["judge"]

OF_OUTCOMES = ("precision", "detectable")  # They are judged by released numbers of outcomes.


def judge(
    exact: Diagnostics, released: Mapping[str, Any], further: Mapping[str, float]
) -> list[Verdict]:
    """Judge all diagnostics of a study, with their released values.

    Parameters
    ----------
    exact : Diagnostics
        Exact values, which determine the verdicts but those that depend on numbers of outcomes.
    released : mapping
        The released result of the main analysis, with its diagnostics and notes.
    further : mapping
        Released values of further diagnostics, by key.
    """
    limits, verdicts = exact.thresholds, exact.verdicts
    worst = released["worst_covariate"]
    about = {"balance": worst if isinstance(worst, str) else ""}
    found = []
    for declared in declared_diagnostics(limits, "comparative"):
        one, verdict = declared.chosen(limits), verdicts[declared.key]
        if one.key in OF_OUTCOMES:
            verdict = replace(verdict, verdict=released[one.verdict_column])
        value = one.agreeing(_value(one, released, further), verdict.verdict, limits)
        found.append(replace(verdict, value=value, about=about.get(one.key, verdict.about)))
    return found


def _value(
    one: Diagnostic, released: Mapping[str, Any], further: Mapping[str, float]
) -> float | Bound | None:
    """Return the released value of a diagnostic; None if it is missing."""
    if one.key == "precision":
        arms = [cell(released[f"{arm}_outcomes"]) for arm in ("target", "comparator")]
        known = [n for n in arms if n is not None]
        return min(known, key=largest_count) if len(known) == len(arms) else None
    value = further.get(one.key) if one.measure is not None else released.get(one.column)
    if one.relation is None or value is None or math.isnan(value):
        return None
    return float(value)
