"""The page of sequential tests at each look."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypedDict

import pandas as pd

from steropes.studies.formatting.released_numbers import decimals
from steropes.studies.monitoring.few_outcomes_between_looks import FEW
from steropes.studies.monitoring.monitoring_record import MonitoringRecord
from steropes.studies.monitoring.released_estimates_by_look import KEY, NAMED
from steropes.studies.report.template_rendering import render

__all__ = ["monitoring_page", "signals_by_estimate"]

WITHHELD = (
    "Where fewer outcomes than the smallest count came since a look that is shown, an estimate is "
    "neither shown nor tested, and its error goes to the next look."
)
# The column of posterior probabilities, which tables of bounds lack.
PROBABILITY = "probability"


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


@dataclass(frozen=True)
class Words:
    """Sentences of the page that depend on the method."""

    lead: str
    cells: str
    calibration: str
    caution: str


def monitoring_page(
    tests: pd.DataFrame,
    planned: int | None,
    alpha: float | None,
    record: MonitoringRecord | None = None,
) -> str:
    """Return the page as self-contained HTML.

    Parameters
    ----------
    tests : DataFrame
        From `monitor_releases`.
    planned : int, optional
        Number of planned looks, of bounds.
    alpha : float, optional
        Probability of a signal without an effect, of bounds. Default: 0.05.
    record : MonitoringRecord, optional
        The record of the looks.
    """
    looks = sorted(tests["look"].unique())
    rows = signals_by_estimate(tests)
    words = _of_posteriors(tests) if PROBABILITY in tests else _of_bounds(tests, planned, alpha)
    return render(
        "monitoring.html.jinja",
        title="Sequential monitoring",
        lead=f"{_number_of(looks, planned)}. {words.lead}",
        top_numbers=[
            (f"{len(rows):,}", "estimates"),
            (f"{sum(row.first is not None for row in rows):,}", "with a signal"),
            (f"{len(looks)}" if planned is None else f"{len(looks)} of {planned}", "looks"),
        ],
        cells=words.cells,
        calibration=words.calibration,
        looks=looks,
        rows=rows,
        record=None if record is None else _of_record(record),
        caution=f"{words.caution} {WITHHELD if tests['note'].eq(FEW).any() else ''}".strip(),
    )


def _number_of(looks: list[int], planned: int | None) -> str:
    """Return the number of looks as text, with the number of planned ones if it is known."""
    if planned is None:
        return f"{len(looks)} look{'' if len(looks) == 1 else 's'}"
    return f"{len(looks)} of {planned} planned looks"


def _of_bounds(tests: pd.DataFrame, planned: int | None, alpha: float | None) -> Words:
    """Describe tests against bounds."""
    calibrated = tests["error_mean"].notna()
    words = (
        "Bounds include the systematic error of the negative controls of a look."
        if calibrated.any()
        else "Bounds do not include systematic error, because no look has five negative controls."
    )
    if calibrated.any() and not calibrated.all():
        words += " Looks with fewer than five usable controls are not calibrated."
    error = 0.05 if alpha is None else alpha
    return Words(
        f"The probability of a signal without an effect, at any of them, is at most "
        f"{100 * error:g} % for each estimate.",
        "the estimate divided by its standard error (z) and, after the slash, the z from which it "
        "is a signal at this look",
        words,
        "With fewer than about ten events an estimate divided by its standard error is not normal, "
        "and the error is kept only roughly.",
    )


def _of_posteriors(tests: pd.DataFrame) -> Words:
    """Describe posterior probabilities."""
    corrected = tests["error_mean"].notna()
    words = (
        "Effects are corrected for the systematic error of the negative controls of a look."
        if corrected.any()
        else "Effects are not corrected, because no look has five negative controls."
    )
    if corrected.any() and not corrected.all():
        words += " At looks with fewer than five usable controls they are not corrected."
    return Words(
        f"A signal is a posterior probability of an effect above 1 of at least "
        f"{100 * float(tests['threshold'].iloc[0]):g} %.",
        "the corrected ratio and, after the semicolon, the posterior probability that it exceeds 1",
        words,
        "Probabilities are not adjusted for the number of looks or estimates.",
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
    if PROBABILITY in line:
        probability = float(line[PROBABILITY])
        if math.isnan(probability):
            return {"text": str(line["note"]), "signal": False}
        text = f"{decimals(math.exp(line['corrected']), 2)}; {decimals(probability, 3)}"
        return {"text": text, "signal": bool(probability >= line["threshold"])}
    z, bound = float(line["z"]), float(line["bound"])
    if bound != bound:
        return {"text": str(line["note"]), "signal": False}
    return {"text": f"{decimals(z, 2)} / {decimals(bound, 2)}", "signal": bool(z >= bound)}


def _of_record(record: MonitoringRecord) -> str:
    """Describe the record in a sentence."""
    times = ", ".join(f"{look['at']} ({look['by']})" for look in record.looks)
    plan, frozen = record.plan, ""
    if "frozen_at" in plan:
        frozen = f"The plan was frozen at {plan['frozen_at']} by {plan['frozen_by']}. "
    return f"{frozen}Looks were recorded at {times}. SHA-256 of the record: {record.last_hash}."
