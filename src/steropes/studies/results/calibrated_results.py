"""Calibrated estimates of a grid, and the diagnostics that depend on them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from steropes.data.diagnostic_limits import LEAST_CONTROLS
from steropes.designs.controls.empirical_calibration import fit_systematic_error
from steropes.designs.controls.systematic_error_model import (
    ErrorModel,
    calibrate_interval,
    fit_error_model,
)
from steropes.designs.values.ratios_from_logarithms import ratio_of
from steropes.studies.diagnostics.comparative_diagnostics import DiagnosticThresholds
from steropes.studies.execution.result_store import ResultStore
from steropes.studies.results.comparative_result_rows import diagnostics_row, read_diagnostics

__all__ = ["Calibrated", "calibrate_grid", "calibrate_group", "calibrated_tables"]

KEY = ["target_comparator_id", "outcome_id", "analysis_id"]
GROUP = ["target_comparator_id", "analysis_id"]


@dataclass(frozen=True, eq=False)
class Calibrated:
    """The tables that calibration completes: results, diagnostics and interactions."""

    results: pd.DataFrame
    checks: pd.DataFrame
    interactions: pd.DataFrame


def calibrate_grid(store: ResultStore, thresholds: DiagnosticThresholds) -> None:
    """Fill in calibrated estimates, and the verdicts that depend on them, in a store."""
    found = calibrated_tables(
        store.table("cm_result"),
        store.table("cm_diagnostics_summary"),
        store.table("cm_interaction_result"),
        store.table("cm_target_comparator_outcome"),
        store.table("note"),
        store.table("further_diagnostic"),
        thresholds,
    )
    store.replace("cm_result", found.results)
    store.replace("cm_interaction_result", found.interactions)
    store.replace("cm_diagnostics_summary", found.checks)


def calibrated_tables(
    results: pd.DataFrame,
    checks: pd.DataFrame,
    interactions: pd.DataFrame,
    truth: pd.DataFrame,
    notes: pd.DataFrame,
    further: pd.DataFrame,
    thresholds: DiagnosticThresholds,
) -> Calibrated:
    """Calibrate estimates, and judge them by the systematic error of the controls.

    The controls of a comparison and analysis that pass the diagnostics calibrate all its results;
    the negative ones do so for each of its interactions, whose true ratio is one.

    Parameters
    ----------
    results, checks, interactions, truth, notes, further : DataFrame
        ``cm_result``, ``cm_diagnostics_summary``, ``cm_interaction_result``,
        ``cm_target_comparator_outcome``, ``note`` and ``further_diagnostic``; values of an
        earlier calibration are replaced.
    """
    results, interactions = results.copy(), interactions.copy()
    for table in (results, interactions):
        calibrated = [c for c in table if str(c).startswith("calibrated_")]
        table[calibrated] = math.nan
    columns = list(checks.columns)
    facts = notes[[*KEY, "convergence_diagnostic", "adjustment_diagnostic"]]
    checks = checks.assign(ease=math.nan).merge(facts, on=KEY, how="left")
    own = {
        key: dict(zip(of["diagnostic"], of["value"], strict=True))
        for key, of in further.groupby(KEY)
    }
    checks["further"] = [own.get(key, {}) for key in checks[KEY].itertuples(index=False, name=None)]
    passed = [
        read_diagnostics(line, thresholds).unblind_for_calibration
        for line in checks.to_dict("records")
    ]
    usable = checks[KEY].assign(usable=passed).merge(truth, on=KEY[:2], how="left")
    known = results.merge(usable, on=KEY, how="left")
    assert len(known) == len(results)
    for rows in _groups(known, GROUP):
        checks.loc[rows, "ease"] = calibrate_group(
            results, rows, known["usable"], known["true_effect_size"]
        )
    known = interactions.merge(usable, on=KEY, how="left")
    for rows in _groups(known, [*GROUP, "interaction_covariate_id"]):
        of = known.loc[rows]
        negative = of[of["usable"] & (of["true_effect_size"] == 1) & of["se_log_rr"].gt(0)]
        if len(negative) >= LEAST_CONTROLS:
            none = np.zeros(len(negative))
            _fill(
                interactions, rows, fit_error_model(negative["log_rr"], negative["se_log_rr"], none)
            )
    judged = [{**line, **_judged(line, thresholds)} for line in checks.to_dict("records")]
    return Calibrated(results, pd.DataFrame(judged, columns=columns), interactions)


def calibrate_group(
    results: pd.DataFrame, rows: pd.Index, usable: pd.Series, truth: pd.Series
) -> float:
    """Calibrate the results of one exposure and analysis by its control outcomes.

    Parameters
    ----------
    results : DataFrame
        ``log_rr`` and ``se_log_rr``; the calibrated columns are filled in.
    usable : Series of bool
        Whether each result passes the diagnostics that a control must pass.
    truth : Series of float
        Known ratios; missing for outcomes of interest.

    Returns
    -------
    float
        The expected absolute systematic error; NaN with too few negative controls, in which case
        nothing is calibrated.
    """
    of, truth = results.loc[rows], truth.loc[rows]
    known = usable.loc[rows] & truth.notna() & of["se_log_rr"].gt(0) & np.isfinite(of["log_rr"])
    negative = of[known & (truth == 1)]
    if len(negative) < LEAST_CONTROLS:
        return math.nan
    error = fit_systematic_error(negative["log_rr"], negative["se_log_rr"])
    controls = of[known]
    model = fit_error_model(controls["log_rr"], controls["se_log_rr"], np.log(truth[known]))
    _fill(results, rows, model)
    return error.expected_absolute


def _groups(table: pd.DataFrame, by: list[str]) -> list[pd.Index]:
    """Return the rows of each group."""
    return [pd.Index(rows) for rows in table.groupby(by, sort=True).groups.values()]


def _fill(table: pd.DataFrame, rows: pd.Index, model: ErrorModel) -> None:
    """Write the calibrated columns of some rows."""
    for row in rows:
        c = calibrate_interval(table.at[row, "log_rr"], table.at[row, "se_log_rr"], model)
        found = {
            "rr": ratio_of(c.log_rr),
            "ci_95_lb": ratio_of(c.lower),
            "ci_95_ub": ratio_of(c.upper),
            "p": c.p,
            "one_sided_p": c.one_sided_p,
            "log_rr": c.log_rr,
            "se_log_rr": c.se,
        }
        for name, value in found.items():
            if f"calibrated_{name}" in table:
                table.at[row, f"calibrated_{name}"] = value


def _judged(line: dict[object, object], thresholds: DiagnosticThresholds) -> dict[str, object]:
    """Derive the verdicts from the numbers of a row.

    If the detectable ratio is suppressed because an arm has few outcomes, its verdict is kept.
    """
    row = diagnostics_row(read_diagnostics(line, thresholds))
    if pd.isna(line["mdrr"]):
        row["mdrr_diagnostic"] = line["mdrr_diagnostic"]
        power = line["mdrr_diagnostic"] != "FAIL"
        row["unblind"] = int(bool(row["unblind_for_evidence_synthesis"]) and power)
    return row
