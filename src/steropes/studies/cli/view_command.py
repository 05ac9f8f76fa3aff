"""The command that opens released results in a browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from steropes.errors import DataError
from steropes.studies.cli.grid_commands import Quiet

__all__ = ["view"]


def view(
    results: Annotated[
        list[Path],
        typer.Argument(
            help="Archives (results.zip) and result folders of all commands and of Strategus, of "
            "one or several databases."
        ),
    ],
    output: Annotated[Path, typer.Option(help="The page, an HTML file.")] = Path(
        "steropes-results.html"
    ),
    open_page: Annotated[
        bool,
        typer.Option("--open/--no-open", help="Open the page in the browser, if there is one."),
    ] = True,
    unblind: Annotated[
        bool, typer.Option(help="Also show estimates that fail a diagnostic.")
    ] = False,
    combine: Annotated[bool, typer.Option(help="Combine the results of several databases.")] = True,
    disclosure: Annotated[
        str | None,
        typer.Option(
            help="Disclosure rules, for their smallest count: smaller counts are suppressed also "
            "where results of other software have them.",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write released results as one page with tables to search, sort, compare and export.

    The page needs no server and no network. It holds released results only, without estimates that
    fail a diagnostic.
    """
    from steropes.studies.cli.progress_display import Progress
    from steropes.studies.viewer.results_page import write_results_page

    if output.suffix.lower() not in (".html", ".htm"):
        raise DataError(f"--output must be an HTML file, not {output}")
    with Progress(quiet) as progress:
        page = write_results_page(
            results,
            output,
            unblind=unblind,
            combine=combine,
            disclosure=disclosure,
            progress=progress,
        )
    if not quiet:
        print(page)
    if open_page and _has_display():
        webbrowser.open(page.resolve().as_uri())


def _has_display() -> bool:
    """Return whether a browser can open a window; elsewhere one in the terminal would start."""
    if sys.platform in ("win32", "darwin"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


COMMANDS = (view,)
