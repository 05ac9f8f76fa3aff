"""The page of sequential tests at each look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import pandas as pd

from steropes.studies.formatting.released_numbers import decimals
from steropes.studies.monitoring.monitoring_record import MonitoringRecord
from steropes.studies.monitoring.released_looks import KEY, NAMED
from steropes.studies.report.rendering import render

__all__ = ["monitoring_page", "signals_by_estimate"]


class Cell(TypedDict):
    """One look at an estimate."""

    text: str
    signal: bool


@dataclass(frozen=True)
class Row:
    """An estimate over the looks."""

    comparison: str
    outcome: str
    analysis: str
    cells: list[Cell]
    first: int | None  # the look of the first signal


def monitoring_page(
    tests: pd.DataFrame, planned: int, alpha: float, record: MonitoringRecord | None = None
) -> str:
    """Return the page as self-contained HTML.

    Parameters
    ----------
    tests : DataFrame
        From `monitor_releases`.
    planned : int
        Number of planned looks.
    alpha : float
        Probability of a signal without an effect.
    record : MonitoringRecord, optional
        The record of the looks.
    """
    looks = sorted(tests["look"].unique())
    rows = signals_by_estimate(tests)
    calibrated = tests["error_mean"].notna()
    words = (
        "Bounds include the systematic error of the negative controls of a look."
        if calibrated.any()
        else "Bounds do not include systematic error, because no look has five negative controls."
    )
    if calibrated.any() and not calibrated.all():
        words += " Looks with fewer than five usable controls are not calibrated."
    return render(
        "monitoring.html.jinja",
        title="Sequential monitoring",
        lead=(
            f"{len(looks)} of {planned} planned looks. The probability of a signal without an "
            f"effect, at any of them, is at most {100 * alpha:g} % for each estimate."
        ),
        top_numbers=[
            (f"{len(rows):,}", "estimates"),
            (f"{sum(row.first is not None for row in rows):,}", "with a signal"),
            (f"{len(looks)} of {planned}", "looks"),
        ],
        calibration=words,
        looks=looks,
        rows=rows,
        record=None if record is None else _of_record(record),
    )


def signals_by_estimate(tests: pd.DataFrame) -> list[Row]:
    """Return a row per estimate: names, a cell per look, and the look of the first signal.

    Estimates with a signal come first, the earliest before others.
    """
    looks = sorted(tests["look"].unique())
    found: list[Row] = []
    for _, own in tests.groupby(KEY, sort=False):
        by_look = {int(line["look"]): line for line in own.to_dict("records")}
        cells = [_cell(by_look.get(look)) for look in looks]
        signals = own.loc[own["signal"], "look"]
        comparison, outcome, analysis = (str(own[name].iloc[-1]) for name in NAMED)
        first = int(signals.min()) if len(signals) else None
        found.append(Row(comparison, outcome, analysis, cells, first))
    return sorted(found, key=lambda row: (row.first is None, row.first or 0))


def _cell(line: dict[str, Any] | None) -> Cell:
    """Format the test of one look."""
    if line is None:
        return {"text": "–", "signal": False}
    z, bound = float(line["z"]), float(line["bound"])
    if bound != bound:
        return {"text": str(line["note"]), "signal": False}
    return {"text": f"{decimals(z, 2)} / {decimals(bound, 2)}", "signal": bool(z >= bound)}


def _of_record(record: MonitoringRecord) -> str:
    """Describe the record in a sentence."""
    times = ", ".join(f"{look['at']} ({look['by']})" for look in record.looks)
    return f"Looks were recorded at {times}. SHA-256 of the record: {record.last_hash}."
