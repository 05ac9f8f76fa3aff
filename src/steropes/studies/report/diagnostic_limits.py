"""The diagnostics of a grid as its page shows them: names, values and limits."""

from __future__ import annotations

from dataclasses import dataclass

from steropes.studies.diagnostics.comparative_diagnostics import DiagnosticThresholds
from steropes.studies.report.digits import Relation, limit_text

__all__ = ["Limit", "diagnostic_limits", "tie_limit"]

SIGNS: dict[Relation, str] = {"below": "<", "at most": "≤", "at least": "≥", "above": ">"}
SHY = "\N{SOFT HYPHEN}"


@dataclass(frozen=True)
class Limit:
    """A diagnostic.

    Attributes
    ----------
    name : str
    value : str
        Column of its value.
    relation : {"below", "at most", "at least"}
    threshold : float or None
        What the value has to be below, at most or at least to pass; None for no limit.
    """

    name: str
    value: str
    relation: Relation
    threshold: float | None

    @property
    def rule(self) -> str:
        """What it takes to pass, such as "< 0.1"; empty if there is no limit."""
        return (
            "" if self.threshold is None else f"{SIGNS[self.relation]} {limit_text(self.threshold)}"
        )


def diagnostic_limits(t: DiagnosticThresholds) -> dict[str, Limit]:
    """Return the diagnostics of ``cm_diagnostics_summary`` by the column of their verdict."""
    by_p = t.balance_p is not None
    of: dict[str, Limit] = {}
    for prefix, name in (("", "Balance"), ("shared_", "Shared balance")):
        of[f"{prefix}balance_diagnostic"] = (
            Limit(f"{name}, p", f"{prefix}sdm_family_wise_min_p", "at least", t.balance_p)
            if by_p
            else Limit(name, f"{prefix}max_sdm", "below", t.balance)
        )
    return of | {
        "equipoise_diagnostic": Limit("Equipoise", "equipoise", "at least", t.equipoise),
        "generalizability_diagnostic": Limit(
            f"Generalis{SHY}ability", "generalizability_max_sdm", "below", t.generalizability
        ),
        "mdrr_diagnostic": Limit(f"Detect{SHY}able ratio", "mdrr", "below", t.detectable),
        "ease_diagnostic": Limit("Systematic error", "ease", "below", t.systematic_error),
        "attrition_diagnostic": Limit("Target lost", "attrition_fraction", "at most", t.attrition),
    }


def tie_limit(t: DiagnosticThresholds) -> Limit:
    """Return the diagnostic of tied scores, which is in the table ``note``."""
    return Limit("Tied scores", "tied", "at most", t.tied)
