"""What the controls of a grid say of its analyses, from its result tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from steropes.errors import DataError
from steropes.studies.controls.performance import ControlEstimates, performance_by_ratio

if TYPE_CHECKING:
    from steropes.studies.grid.run import GridResults

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
    with np.errstate(divide="ignore"):
        lower, upper = (np.log(found[c].to_numpy(float)) for c in ("ci_95_lb", "ci_95_ub"))
    return ControlEstimates(
        found["log_rr"].to_numpy(float),
        found["se_log_rr"].to_numpy(float),
        lower,
        upper,
        np.log(found["true_effect_size"].to_numpy(float)),
        found["target_ratio"].fillna(found["true_effect_size"]).to_numpy(float),
        found["negative_control_id"].fillna(found["outcome_id"]).to_numpy(np.int64),
    )


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
            plain = control_estimates(results, int(tc), int(analysis))
            for calibrated, found in ((False, plain), (True, plain.calibrated())):
                table = performance_by_ratio(found)
                table.insert(0, "calibrated", calibrated)
                table.insert(0, "analysis_id", int(analysis))
                table.insert(0, "target_comparator_id", int(tc))
                parts.append(table)
    return pd.concat(parts, ignore_index=True)
