"""The diagnostics of a one-question study, with released values that agree with the verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steropes.studies.diagnostics import diagnostic_catalogue as catalogue
from steropes.studies.diagnostics.diagnostic_catalogue import Diagnostic
from steropes.studies.disclosure.released_table_rows import cell
from steropes.studies.disclosure.small_cell_suppression import Bound, largest_count

if TYPE_CHECKING:
    from steropes.studies.diagnostics.comparative_diagnostics import Diagnostics, Verdict

__all__ = ["Judged", "judge"]


@dataclass(frozen=True)
class Judged:
    """A diagnostic with its verdict.

    Attributes
    ----------
    key : str
        As in `DIAGNOSTICS`.
    value : float, Bound or None
        Rounded as far as small cells require; None where it is withheld or was not evaluated. Where
        rounding would move it across the threshold, it is a bound that agrees with the verdict.
    rule : str
        The condition for passing.
    verdict : {"PASS", "FAIL", "NOT EVALUATED"}
    hides : bool
        Whether an estimate that fails it is not shown.
    about : str
        The covariate or model to which the value belongs, if that may be released.
    threshold : float or None
        The number in the rule.
    """

    key: str
    name: str
    value: float | Bound | None
    rule: str
    verdict: Verdict
    hides: bool = True
    about: str = ""
    threshold: float | None = None


def judge(
    exact: Diagnostics, released: Mapping[str, object], further: Mapping[str, float]
) -> list[Judged]:
    """Judge all diagnostics of a study, with their released values.

    Parameters
    ----------
    exact : Diagnostics
        Exact values, which determine the verdicts.
    released : mapping
        The released result of the main analysis, with its diagnostics and notes.
    """
    about = {"balance": released["worst_covariate"], "convergence": exact.unconverged}
    found = []
    for declared in catalogue.declared_diagnostics():
        one, verdict = declared.chosen(exact.thresholds), exact.verdict(declared.key)
        of = about.get(one.key)
        found.append(
            Judged(
                one.key,
                one.name,
                one.agreeing(_value(one, released, further), verdict, exact.thresholds),
                one.rule(exact.thresholds),
                verdict,
                one.guards != "nothing",
                of if isinstance(of, str) else "",
                None if one.need else one.limit(exact.thresholds),
            )
        )
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
