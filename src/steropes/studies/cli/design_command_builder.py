"""Construction of commands that apply one design to a database: their options and their runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

import typer

from steropes.designs.settings.settings_base_class import Settings
from steropes.errors import DataError
from steropes.studies.cli.cohort_source_options import CohortTableName, Definition, cohort_sources
from steropes.studies.cli.grid_commands import DATABASE, Disclosure, Memory, Quiet
from steropes.studies.cli.protocol_options import (
    Freeze,
    ProtocolBy,
    ProtocolFile,
    print_frozen,
)
from steropes.studies.cli.setting_options import Command, Converted, options_of
from steropes.studies.cli.strategus_command import ObservedUntil
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.settings.setting_fields import setting_fields

__all__ = ["days_of", "design_command"]

# Why the first run by a protocol showed estimates: no diagnostic of these designs hides them.
SHOWN = "estimates of this design are always shown"

Design = TypeVar("Design", bound=Settings)


SpecificationFile = Annotated[
    Path | None,
    typer.Option(help="Settings as a .toml or .json file; options take precedence."),
]
OutputFolder = Annotated[Path, typer.Option(help="Folder for report.html and the tables.")]
CdmSchema = Annotated[str, typer.Option(help="Schema of the CDM tables.")]


class Released(Protocol):
    """A result that prints and writes released numbers only."""

    def write(self, folder: str | Path, protocol: Iterable[str] = ()) -> list[Path]:
        """Write the release and return the paths of its files."""
        ...


def days_of(text: str) -> list[int]:
    """Parse the first and the last day of a window, such as -30:0."""
    try:
        first, last = (int(part) for part in text.split(":"))
    except ValueError:
        raise DataError(f"a window is FIRST:LAST in days, such as -30:0, not {text!r}") from None
    return [first, last]


def design_command(
    name: str,
    summary: str,
    kind: type[Design],
    run: Callable[[OmopDatabase, Design, DisclosureRules], Released],
    *,
    concepts: Mapping[str, Iterable[str]],
    converted: Mapping[str, Converted],
    names: Mapping[str, str],
    in_files: Iterable[str] = (),
) -> Command:
    """Create the command that applies a design, with an option for each of its settings.

    Parameters
    ----------
    name : str
        Name of the command, with underscores.
    summary : str
        Its help.
    kind : type
        The class of the design's settings.
    run : callable
        Applies the design to an open database under disclosure rules.
    concepts : mapping of str to iterable of str
        Settings whose ids are concepts unless they are cohorts; see `read_design`.
    converted, names : mapping
        As of `options_of`.
    in_files : iterable of str
        Settings that only the file of ``--specification`` has.
    """
    files = {"cohorts", *in_files}
    fields = {key: field for key, field in setting_fields(kind).items() if key not in files}
    folder = Path(f"steropes-{name.replace('_', '-')}")

    def command(
        database: Annotated[str, typer.Argument(help=DATABASE)],
        settings: dict[str, Any],
        specification: SpecificationFile = None,
        cohort_table: CohortTableName = None,
        definition: Definition = None,
        output: OutputFolder = folder,
        schema: CdmSchema = "main",
        observed_until: ObservedUntil = None,
        memory: Memory = None,
        disclosure: Disclosure = None,
        protocol: ProtocolFile = None,
        by: ProtocolBy = None,
        freeze: Freeze = False,
        quiet: Quiet = False,
    ) -> None:
        from steropes.studies.cohorts.design_settings_reader import read_design
        from steropes.studies.settings.frozen_protocol import open_protocol

        sources = cohort_sources(cohort_table, definition)
        question = read_design(kind, specification, settings, sources, concepts)
        if freeze:
            print_frozen(protocol, question, by)
            return
        frozen = None if protocol is None else open_protocol(protocol, question, by)

        def stated() -> list[str]:
            if frozen is None or protocol is None:
                return []
            return frozen.record(protocol, question, by, SHOWN).sentences()

        _write_release(
            database,
            lambda db, rules: run(db, question, rules),
            stated,
            output,
            schema=schema,
            observed_until=observed_until,
            memory=memory,
            disclosure=disclosure,
            quiet=quiet,
        )

    command.__name__, command.__doc__ = name, summary
    return options_of(fields, names, converted, optional=True)(command)


def _write_release(
    database: str,
    run: Callable[[OmopDatabase, DisclosureRules], Released],
    stated: Callable[[], list[str]],
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
    from steropes.studies.formatting.text_safety import plain_text
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
        paths = found.write(folder, stated())
        if not quiet:
            print("\n".join(plain_text(line) for line in repr(found).splitlines()))
            print(paths[-1])
