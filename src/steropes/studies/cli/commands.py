"""All commands of the command line.

A module of this folder whose name ends with "command" or "commands" lists its own in ``COMMANDS``.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer

from steropes.studies.cli.core_commands import print_environment
from steropes.studies.cli.kernel_warming import compile_kernels
from steropes.version import __version__

__all__ = ["app"]

Command = Callable[..., Any] | typer.Typer
PACKAGE = __name__.rpartition(".")[0]

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


COMMANDS = (info, warm)
# The order of the help; further commands follow.
ORDER = (
    *("study", "demo", "info", "warm", "grid", "concepts", "combine", "sccs", "sccs_grid"),
    *("strategus", "cohorts", "target_trial", "case_only", "condition_scan", "view", "monitor"),
    *("tree_scan", "federate"),
)


def _every_command() -> dict[str, Command]:
    """Return the commands of this module and of the modules whose names end with "command"."""
    found: dict[str, Command] = {}
    for module in pkgutil.iter_modules(import_module(PACKAGE).__path__):
        own: tuple[Command, ...] = COMMANDS
        if module.name.endswith(("_command", "_commands")):
            own = getattr(import_module(f"{PACKAGE}.{module.name}"), "COMMANDS", ())
        found |= {_name(command): command for command in own}
    return found


def _name(command: Command) -> str:
    """Return the name of a command, or of a group of commands."""
    return str(command.info.name) if isinstance(command, typer.Typer) else command.__name__


def _register() -> None:
    """Register all commands in the order of the help."""
    found = _every_command()
    for name in (*ORDER, *sorted(found.keys() - {*ORDER})):
        command = found[name]
        if isinstance(command, typer.Typer):
            app.add_typer(command)
        else:
            app.command()(command)


_register()
