"""The command for case-only and case–control designs."""

from __future__ import annotations

from typing import Any

from steropes.studies.case_only.case_only_settings import OmopCaseOnly
from steropes.studies.cli.design_command_builder import days_of, design_command
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.disclosure import DisclosureRules

__all__ = ["case_only"]

CONVERTED: dict[str, Any] = {
    "window": (str, days_of, "Days of exposure before index days, as FIRST:LAST."),
    "risk": (str, days_of, "Days at risk after the start of exposure, as FIRST:LAST."),
    "control": (str, days_of, "Control days before or after that start, as FIRST:LAST."),
    "exposures": (list[int], list, "Cohort of an exposure, or the concept of a drug."),
    "outcome": (int, int, "Cohort of the outcome, or the concept of a condition."),
    "nesting": (int, int, "Cohort or condition at whose first entry observation begins."),
}
NAMES = {
    "exposures": "exposure", "sexes": "sex", "references": "reference", "washout_days": "washout",
}  # fmt: skip
CONCEPTS = {"drugs": ["exposures"], "conditions": ["outcome"], "indications": ["nesting"]}


def _run(db: OmopDatabase, question: OmopCaseOnly, rules: DisclosureRules) -> Any:
    """Run the design."""
    from steropes.studies.case_only.case_only_study import case_only_study

    return case_only_study(db, question, disclosure=rules)


case_only = design_command(
    "case_only",
    "Run a case-crossover, case-time-control, nested case-control or self-controlled design.",
    OmopCaseOnly,
    _run,
    concepts=CONCEPTS,
    converted=CONVERTED,
    names=NAMES,
)
COMMANDS = (case_only,)
