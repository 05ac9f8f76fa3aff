"""Sequential monitoring of the releases of a study, and tree scans of conditions of a database."""

from steropes.studies.monitoring.condition_scan import ConditionScan, scan_conditions
from steropes.studies.monitoring.condition_scan_settings import OmopTreeScan

__all__ = ["ConditionScan", "OmopTreeScan", "scan_conditions"]
