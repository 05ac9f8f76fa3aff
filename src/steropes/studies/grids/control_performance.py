"""Performance of the analyses of a grid on its controls, from the result tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from steropes.designs.controls.performance_metrics import ControlEstimates, before_and_after
from steropes.designs.controls.systematic_error_comparison import compare_errors
from steropes.errors import DataError

if TYPE_CHECKING:
    from steropes.studies.grids.comparative_grid_run import GridResults

__all__ = [
    "analysis_performance",
    "compare_analyses",
    "control_estimates",
    "released_estimates_words",
]

KEY = ["target_comparator_id", "outcome_id"]


def control_estimates(
    results: GridResults, target_comparator_id: int, analysis_id: int
) -> ControlEstimates:
    """Return the estimates of one comparison and analysis for all controls, ordered by id.

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
    """Evaluate each analysis on the controls, before and after calibration.

    Calibrated numbers leave out the control itself and those made from the same negative control.

    Parameters
    ----------
    results : GridResults
        Results of a grid with controls.

    Returns
    -------
    DataFrame
        ``target_comparator_id``, ``analysis_id``, ``calibrated`` (False, True), ``ratio`` (missing
        for all ratios together) and the metrics of `control_performance`.

    Raises
    ------
    DataError
        There are no controls.

    See Also
    --------
    control_performance : Definitions of the metrics.

    Examples
    --------
    >>> import tempfile
    >>> from steropes.studies import GridSpec
    >>> from steropes.studies.cohorts import CohortSources
    >>> from steropes.studies.comparative import Question, StudyAnalysis
    >>> from steropes.studies.specifications import ControlSet
    >>> from steropes.studies import run_grid, synthetic_database
    >>> from steropes.studies.cohorts import ConceptSet
    >>> from steropes.studies.grids import analysis_performance
    >>> sources = CohortSources(table="cohort", conditions={3: ConceptSet((192671,))})
    >>> crude = StudyAnalysis(1, features=None, propensity=None, unadjusted=True)
    >>> controls = ControlSet(concepts=(81151, 78272, 4113008))
    >>> spec = GridSpec(sources, (Question(1, 2, (3,)),), (crude,), controls)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = run_grid(synthetic_database(600), spec, folder)
    >>> analysis_performance(results)["calibrated"].tolist()
    [False, False, True, True]
    """
    parts = []
    for tc in results.tables["cm_target_comparator"]["target_comparator_id"]:
        for analysis in results.tables["cm_analysis"]["analysis_id"]:
            table = before_and_after(control_estimates(results, int(tc), int(analysis)))
            table.insert(0, "analysis_id", int(analysis))
            table.insert(0, "target_comparator_id", int(tc))
            parts.append(table)
    return pd.concat(parts, ignore_index=True)


def compare_analyses(results: GridResults, *, draws: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Compare the systematic error of analyses by their negative controls, with intervals.

    It shows, for example, whether scores of covariates that are selected for each outcome leave
    more bias than large-scale scores.

    Parameters
    ----------
    results : GridResults
        Results of a grid with negative controls.
    draws : int, default 1000
        Number of bootstrap draws of controls.
    seed : int, default 0
        Seed of the draws.

    Returns
    -------
    DataFrame
        ``target_comparator_id``, ``analysis_id``, ``description`` and the columns of
        `compare_errors`: the expected absolute systematic error with its interval, and its
        difference from that of the best analysis.

    Raises
    ------
    DataError
        There are no negative controls, or an analysis has fewer than two with an estimate.

    See Also
    --------
    steropes.designs.controls.compare_errors : The comparison.

    Examples
    --------
    >>> import tempfile
    >>> from steropes.studies import GridSpec, run_grid, synthetic_database
    >>> from steropes.studies.cohorts import CohortSources
    >>> from steropes.studies.comparative import Question, StudyAnalysis
    >>> from steropes.studies.grids import compare_analyses
    >>> from steropes.studies.specifications import ControlSet
    >>> crude = StudyAnalysis(1, "crude", features=None, propensity=None, unadjusted=True)
    >>> controls = ControlSet(concepts=(81151, 78272, 4113008))
    >>> sources = CohortSources(table="cohort")
    >>> spec = GridSpec(sources, (Question(1, 2, (3,)),), (crude,), controls)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = run_grid(synthetic_database(600), spec, folder)
    >>> compare_analyses(results)["description"].tolist()
    ['crude']
    """
    t = results.tables
    truth = t["cm_target_comparator_outcome"]
    controls = truth[(truth["true_effect_size"] == 1) & (truth["outcome_of_interest"] == 0)]
    found = t["cm_result"].merge(controls[KEY], on=KEY)
    if found.empty:
        raise DataError("these results have no negative controls")
    parts = []
    for comparison, own in found.groupby("target_comparator_id"):
        errors = compare_errors(
            own,
            analysis="analysis_id",
            control="outcome_id",
            se="se_log_rr",
            draws=draws,
            seed=seed,
        )
        table = pd.DataFrame(errors).rename_axis("analysis_id").reset_index()
        described = t["cm_analysis"].set_index("analysis_id")["description"]
        table.insert(1, "description", described.reindex(table["analysis_id"]).to_numpy())
        table.insert(0, "target_comparator_id", int(comparison))
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def released_estimates_words(results: GridResults) -> str:
    """Explain that disclosure control changes the metrics of controls, or return ""."""
    if results.rules.open:
        return ""
    return (
        "These metrics are computed from the released estimates, which disclosure control rounds "
        "or withholds. With few controls, shares such as the type 1 error can differ from those of "
        "the exact estimates by a control or more."
    )
