"""The command for sequential tests of a study's released estimates at each look at its data."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steropes.errors import DataError
from steropes.studies.cli.grid_commands import Disclosure, Quiet

if TYPE_CHECKING:  # loaded by the command that needs it
    from steropes.studies.monitoring.monitoring_page import Row

__all__ = ["monitor"]

RELEASES = (
    "The releases of these looks tell few outcomes between two looks, which the page and the table "
    "withhold: give these away instead of the releases."
)

Looks = Annotated[
    list[Path] | None,
    typer.Argument(
        help="The released results of each look, in their order: archives (results.zip) or "
        "output folders of one study on one database. Or one folder with nothing but them, in "
        "the order of their names.",
        show_default=False,
    ),
]
Planned = Annotated[
    int | None,
    typer.Option(min=1, help="Number of planned looks, which bounds need.", show_default=False),
]
OutputFolder = Annotated[Path, typer.Option(help="Folder of the table, the page and the record.")]
Alpha = Annotated[
    float | None,
    typer.Option(
        help="Probability of a signal at any look without an effect (one-sided), by default 0.05.",
        show_default=False,
    ),
]
Power = Annotated[
    float | None,
    typer.Option(
        help="Spend the share (look / planned looks) to this power of alpha, by default 1.",
        show_default=False,
    ),
]
Posterior = Annotated[
    float | None,
    typer.Option(
        help="Instead of bounds, a posterior probability of an effect that is a signal, such "
        "as 0.95, corrected for systematic error.",
        show_default=False,
    ),
]
Robust = Annotated[
    bool,
    typer.Option(help="Let systematic errors have heavy tails (with --posterior)."),
]
Unblind = Annotated[bool, typer.Option(help="Also test estimates that fail a diagnostic.")]
By = Annotated[
    str | None,
    typer.Option(help="Who looks, for the record; by default the user.", show_default=False),
]
Freeze = Annotated[
    bool,
    typer.Option(
        "--freeze",
        help="Write the plan to the record before the first look, and test nothing.",
        show_default=False,
    ),
]


def monitor(
    looks: Looks = None,
    planned: Planned = None,
    output: OutputFolder = Path("steropes-monitoring"),
    alpha: Alpha = None,
    power: Power = None,
    posterior: Posterior = None,
    robust: Robust = False,
    unblind: Unblind = False,
    by: By = None,
    freeze: Freeze = False,
    disclosure: Disclosure = None,
    quiet: Quiet = False,
) -> None:
    """Test the estimates of a study at each look at accruing data, and record the looks.

    The bounds keep the error over all looks, and include the systematic error of negative controls.
    """
    from steropes.studies.formatting.text_safety import csv_text
    from steropes.studies.monitoring.few_outcomes_between_looks import FEW
    from steropes.studies.monitoring.monitoring_page import monitoring_page, signals_by_estimate
    from steropes.studies.monitoring.monitoring_record import read_record
    from steropes.studies.monitoring.released_estimates_by_look import (
        OWN_TABLE,
        monitor_releases,
        monitoring_plan,
    )
    from steropes.studies.result_files.atomic_files import write_files

    record = output / "record.json"
    if freeze:
        if looks:
            raise DataError("--freeze comes before the first look; leave the looks out")
        plan = monitoring_plan(0, planned, alpha, power, posterior, robust)
        _freeze(record, {**plan, "unblind": unblind}, by)
        return
    if not looks:
        raise DataError("name the released results of the looks, or freeze the plan (--freeze)")
    tests = monitor_releases(
        looks, planned=planned, alpha=alpha, power=power, posterior=posterior, robust=robust,
        unblind=unblind, record=record, by=by, disclosure=disclosure,
    )  # fmt: skip
    page = monitoring_page(tests, planned, alpha, read_record(record))
    write_files(output, {OWN_TABLE: csv_text(tests), "monitoring.html": page})
    cells_of = "z / bound" if posterior is None else "ratio; probability"
    _print_looks(signals_by_estimate(tests), cells_of, None if quiet else output)
    if tests["note"].eq(FEW).any():
        print(RELEASES, file=sys.stderr)


def _freeze(path: Path, plan: dict[str, Any], by: str | None) -> None:
    """Write the plan of a surveillance, and print its hash."""
    from steropes.studies.monitoring.monitoring_record import MonitoringRecord

    record = MonitoringRecord.freeze(path, plan, by)
    print(f"{path}: frozen by {record.plan['frozen_by']} at {record.plan['frozen_at']}")
    print(f"SHA-256 {record.last_hash}")


def _print_looks(rows: Sequence[Row], cells_of: str, output: Path | None) -> None:
    """Print a line for each estimate and the place of the page; without one, signals alone."""
    from steropes.studies.report.terminal_tables import table_of, wide_console

    shown = [row for row in rows if row.first] if output is None else rows
    console = wide_console()
    if shown or output is not None:
        heads = ("Comparison", "Outcome", "Analysis", f"Last look: {cells_of}", "First signal")
        cells = [
            (row.comparison, row.outcome, row.analysis, row.cells[-1]["text"],
             f"look {row.first}" if row.first else "none")
            for row in shown
        ]  # fmt: skip
        title = "Signals" if output is None else "Estimates"
        console.print(table_of(title, heads, cells, texts=3))
    if output is not None:
        console.print(str(output / "monitoring.html"), soft_wrap=True, markup=False)


COMMANDS = (monitor,)
