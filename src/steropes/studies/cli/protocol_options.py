"""Options of commands for the protocol of a study."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from steropes.errors import DataError

if TYPE_CHECKING:
    from steropes.designs.settings.settings_base_class import Settings
    from steropes.studies.grids.comparative_grid_run import GridResults
    from steropes.studies.grids.sccs_grid import CaseSeriesGridResults

__all__ = ["Freeze", "Paper", "ProtocolBy", "ProtocolFile", "print_frozen", "with_unblinding"]

Results = TypeVar("Results", "GridResults", "CaseSeriesGridResults")
ProtocolFile = Annotated[
    Path | None,
    typer.Option(
        help="Protocol: a JSON file in which the study is frozen before outcomes are read, and "
        "with which the report compares what was run."
    ),
]
ProtocolBy = Annotated[
    str | None, typer.Option(help="Your name in the protocol. Default: the name of the user.")
]
Freeze = Annotated[
    bool, typer.Option("--freeze", help="Write the protocol and run nothing.", show_default=False)
]
Paper = Annotated[
    bool,
    typer.Option("--paper", help="Also write methods, RECORD-PE checklist and tables for a paper."),
]


def print_frozen(path: Path | None, settings: Settings, by: str | None) -> None:
    """Freeze a protocol in a new file, and print its hash."""
    from steropes.studies.settings.frozen_protocol import freeze_protocol

    if path is None:
        raise DataError("--freeze writes a protocol; give its file, --protocol protocol.json")
    protocol = freeze_protocol(path, settings, by)
    print(f"{path}: frozen by {protocol.frozen['by']} at {protocol.frozen['at']}")
    print(f"SHA-256 {protocol.hash}")


def with_unblinding(results: Results, path: Path, by: str | None) -> Results:
    """Record that all estimates of a grid were shown on request."""
    from steropes.studies.settings.frozen_protocol import read_protocol

    frozen = read_protocol(path)
    statement = frozen.record(path, results.spec, by, "on request (--unblind)")
    return replace(results, protocol=statement)
