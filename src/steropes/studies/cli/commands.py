"""All commands of the command line, registered in one place."""

from __future__ import annotations

from typing import Annotated

import typer

from steropes.studies.cli.core_commands import print_environment
from steropes.studies.cli.federate_commands import federate_app
from steropes.studies.cli.grid_commands import combine, concepts, grid
from steropes.studies.cli.kernel_warming import compile_kernels
from steropes.studies.cli.sccs_command import sccs, sccs_grid
from steropes.studies.cli.strategus_command import strategus
from steropes.studies.cli.study_commands import demo, study
from steropes.studies.cli.view_command import view
from steropes.version import __version__

__all__ = ["app"]

app = typer.Typer(
    name="steropes",
    help="Penalised regression for health data at scale.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # Its tables leave little room for the help at 80 columns.
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    """Print the version and exit, if the option is given."""
    if wanted:
        print(f"steropes {__version__}")
        raise typer.Exit()


@app.callback()
def steropes(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Penalised regression for health data at scale."""


def info(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show versions, threads, the GPU and which extras are installed."""
    print_environment(json)


def warm() -> None:
    """Compile the numerical kernels ahead of their first use (about a minute)."""
    for name, seconds in compile_kernels():
        typer.echo(f"{name}: {seconds:.1f} s")


# The order of the help.
for command in (study, demo, info, warm, grid, concepts, combine, sccs, sccs_grid, strategus, view):
    app.command()(command)
app.add_typer(federate_app, name="federate")
