"""All commands of the command line.

A module of this folder whose name ends with "command" or "commands" lists its own in ``COMMANDS``.
A command with a module of its own, such as ``strategus``, is found without importing the others,
which takes most of a second.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from steropes.studies.cli.core_commands import print_environment
from steropes.studies.cli.kernel_warming import compile_kernels
from steropes.version import __version__

__all__ = ["command_app"]

Command = Callable[..., Any] | typer.Typer
PACKAGE = __name__.rpartition(".")[0]


def _print_version(wanted: bool) -> None:
    """Print the version and exit, if the option is given."""
    if wanted:
        print(f"steropes {__version__}")
        raise typer.Exit()


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


def command_app(arguments: Sequence[str] = ()) -> typer.Typer:
    """Create the application with the command that is called, or with all commands.

    Parameters
    ----------
    arguments : sequence of str, default ()
        The arguments of the command line.
    """
    app = typer.Typer(
        name="steropes",
        help="Penalised regression for health data at scale.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # Its tables leave little room for the help at 80 columns.
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(steropes)
    for command in _own_module(arguments) or _every_command().values():
        if isinstance(command, typer.Typer):
            app.add_typer(command)
        else:
            app.command()(command)
    return app


def _own_module(arguments: Sequence[str]) -> Sequence[Command]:
    """Return the commands of the module that is named like the called command, if there is one."""
    called = arguments[0].replace("-", "_") if arguments else ""
    module = f"{PACKAGE}.{called}_command"
    if not called.isidentifier() or find_spec(module) is None:
        return ()
    return _commands_of(module)


def _every_command() -> dict[str, Command]:
    """Return the commands of all modules of this folder by name, in the order of the help."""
    found = {_name(command): command for command in COMMANDS}
    for module in pkgutil.iter_modules(import_module(PACKAGE).__path__):
        if module.name.endswith(("_command", "_commands")):
            own = _commands_of(f"{PACKAGE}.{module.name}")
            found |= {_name(command): command for command in own}
    return {name: found[name] for name in (*ORDER, *sorted(found.keys() - {*ORDER}))}


def _commands_of(module: str) -> Sequence[Command]:
    """Import a module and return its commands."""
    commands: Sequence[Command] = getattr(import_module(module), "COMMANDS", ())
    return commands


def _name(command: Command) -> str:
    """Return the name of a command, or of a group of commands."""
    return str(command.info.name) if isinstance(command, typer.Typer) else command.__name__
