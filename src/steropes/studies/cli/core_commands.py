"""The commands that work without any extra: ``info``, ``--version`` and a short ``--help``.

They show which packages are missing and how to install them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec

__all__ = ["needs_no_extra", "print_environment", "run_without_extras"]

EXTRA_PACKAGES = ("typer", "duckdb", "rich", "pydantic")
HELP = """\
Usage: steropes COMMAND [OPTIONS]

Penalised regression for health data at scale.

Commands:
  info       Show versions, threads, the GPU and which extras are installed.
  --version  Show the version.

The commands for studies (demo, study, grid, sccs, federate and others) need packages that are not
installed: {missing}. To install them:

  pip install "steropes[study]"
"""


def needs_no_extra(arguments: Sequence[str]) -> bool:
    """Return whether a command needs no extra and the extra is not installed."""
    known = [*arguments] in ([], ["--help"], ["-h"], ["--version"], ["info"], ["info", "--json"])
    return known and bool(_missing())


def run_without_extras(arguments: Sequence[str]) -> int:
    """Run one of these commands and return the exit status."""
    from steropes.version import __version__

    if [*arguments][:1] == ["info"]:
        print_environment("--json" in arguments)
    elif [*arguments] == ["--version"]:
        print(f"steropes {__version__}")
    else:
        print(HELP.format(missing=", ".join(_missing())))
    return 0


def print_environment(as_json: bool = False) -> None:
    """Print versions, threads, the GPU and which extras are installed, as a table or as JSON."""
    from steropes.studies.cli.environment import environment

    found = environment()
    if as_json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    if find_spec("rich") is None:
        print("\n".join(f"{name}: {value}" for name, value in found.items()))
        return
    from rich.table import Table
    from rich.text import Text

    from steropes.studies.report.terminal_tables import wide_console

    table = Table.grid(padding=(0, 2))
    for name, value in found.items():
        table.add_row(name, Text(value))
    wide_console().print(table)


def _missing() -> list[str]:
    """Return the packages of the extra that are not installed."""
    return [name for name in EXTRA_PACKAGES if find_spec(name) is None]
