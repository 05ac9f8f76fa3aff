"""What the controls of a grid say of its analyses, from its result tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from steropes.errors import DataError
from steropes.studies.controls.performance_metrics import ControlEstimates, before_and_after

if TYPE_CHECKING:
    from steropes.studies.execution.runner import GridResults

__all__ = ["analysis_performance", "control_estimates"]

KEY = ["target_comparator_id", "outcome_id"]


def control_estimates(
    results: GridResults, target_comparator_id: int, analysis_id: int
) -> ControlEstimates:
    """The estimates of one comparison and analysis for all its controls, in the order of ids.

    Raises
    ------
    DataError
        There are no controls.
    """
    t = results.tables
    truth = t["cm_target_comparator_outcome"].dropna(subset=["true_effect_size"])
    made = t["positive_control"][[*KEY, "negative_control_id", "target_ratio"]]
    truth = truth.merge(made, on=KEY, how="left")
    found = t["cm_result"].merge(truth[[*KEY, "true_effect_size", *made.columns[2:]]], on=KEY)
    found = found[
        (found["target_comparator_id"] == target_comparator_id)
        & (found["analysis_id"] == analysis_id)
    ].sort_values("outcome_id")
    if found.empty:
        raise DataError("these results have no controls: no outcome has a known true ratio")
    return ControlEstimates.of(found)


def analysis_performance(results: GridResults) -> pd.DataFrame:
    """How each analysis fared on the controls, before and after calibration.

    Calibrated numbers leave the control itself out, and those that come of the same negative one.

    Returns
    -------
    DataFrame
        ``target_comparator_id``, ``analysis_id``, ``calibrated`` (False, True), ``ratio`` (missing
        where it is of all) and the metrics of ``controls.control_performance``.

    Raises
    ------
    DataError
        There are no controls.
    """
    parts = []
    for tc in results.tables["cm_target_comparator"]["target_comparator_id"]:
        for analysis in results.tables["cm_analysis"]["analysis_id"]:
            table = before_and_after(control_estimates(results, int(tc), int(analysis)))
            table.insert(0, "analysis_id", int(analysis))
            table.insert(0, "target_comparator_id", int(tc))
            parts.append(table)
    return pd.concat(parts, ignore_index=True)
