"""The command that scans all conditions of people after an exposure."""

from __future__ import annotations

from typing import Any

from steropes.studies.cli.design_command_builder import days_of, design_command
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.monitoring.condition_scan_settings import OmopTreeScan

__all__ = ["condition_scan"]

CONVERTED: dict[str, Any] = {
    "target": (int, int, "Cohort of the exposure, or the concept of a drug."),
    "comparator": (int, int, "Cohort, or the concept of a drug, with which it is compared."),
    "nesting": (int, int, "Cohort or condition that people must have had by the start."),
    "days": (str, days_of, "Days of the window after the start, as FIRST:LAST, default 1:365."),
    "control_days": (
        str, days_of, "Days without exposure of a self-controlled scan, as FIRST:LAST.",
    ),
}  # fmt: skip
NAMES = {"sexes": "sex", "washout_days": "washout"}
CONCEPTS = {"drugs": ["target", "comparator"], "indications": ["nesting"]}


def _run(db: OmopDatabase, question: OmopTreeScan, rules: DisclosureRules) -> Any:
    """Run the design."""
    from steropes.studies.monitoring.condition_scan import scan_conditions

    return scan_conditions(db, question, disclosure=rules)


condition_scan = design_command(
    "condition_scan",
    "Scan all conditions after an exposure for parts of the vocabulary with more than expected.",
    OmopTreeScan,
    _run,
    concepts=CONCEPTS,
    converted=CONVERTED,
    names=NAMES,
    in_files=("features", "propensity"),
)
COMMANDS = (condition_scan,)
