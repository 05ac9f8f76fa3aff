"""Options and runs of commands that apply one design to a database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Protocol

import typer

from steropes.errors import DataError
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.disclosure import DisclosureRules

__all__ = ["CdmSchema", "SpecificationFile", "days_of", "run_design"]

SpecificationFile = Annotated[
    Path | None,
    typer.Option(help="Settings as a .toml or .json file; options take precedence."),
]
CdmSchema = Annotated[str, typer.Option(help="Schema of the CDM tables.")]


class Released(Protocol):
    """A result that prints and writes released numbers only."""

    def write(self, folder: str | Path) -> list[Path]:
        """Write the release and return the paths of its files."""
        ...


def days_of(text: str) -> list[int]:
    """Parse the first and the last day of a window, such as -30:0."""
    try:
        first, last = (int(part) for part in text.split(":"))
    except ValueError:
        raise DataError(f"a window is FIRST:LAST in days, such as -30:0, not {text!r}") from None
    return [first, last]


def run_design(
    database: str,
    run: Callable[[OmopDatabase, DisclosureRules], Released],
    output: Path,
    *,
    schema: str,
    observed_until: str | None,
    memory: str | None,
    disclosure: str | None,
    quiet: bool,
) -> None:
    """Open the database, run the design, write its release and print it."""
    from steropes.designs.values.dates_and_ages import calendar_date
    from steropes.studies.cli.progress_display import Progress
    from steropes.studies.database.omop import opened
    from steropes.studies.database.open_database import require_database
    from steropes.studies.disclosure import applied_rules, site_rules
    from steropes.studies.formatting.plain_text import plain_text
    from steropes.studies.result_files.atomic_files import output_folder_of_run

    until = None
    if observed_until is not None:
        until = calendar_date("--observed-until", observed_until, text=True)
    require_database(database)
    rules = site_rules(disclosure)
    with (
        output_folder_of_run(output) as folder,  # Check the folder before the work.
        Progress(quiet) as progress,
        applied_rules(rules),
        opened(database, schema, "UTC", memory, until) as db,
    ):
        progress("reading the database and fitting")
        found = run(db, rules)
        progress("writing the report")
        paths = found.write(folder)
        if not quiet:
            print("\n".join(plain_text(line) for line in repr(found).splitlines()))
            print(paths[-1])
