"""The command that scans the outcomes of a study by a hierarchy."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steropes.errors import DataError
from steropes.studies.cli.design_command_builder import days_of
from steropes.studies.cli.grid_commands import Disclosure, Quiet
from steropes.studies.cli.protocol_options import Freeze, ProtocolBy, ProtocolFile, print_frozen
from steropes.studies.cli.setting_options import options_of
from steropes.studies.monitoring.tree_scan_of_a_table import TableScan, scan_table
from steropes.studies.settings.setting_fields import setting_fields

if TYPE_CHECKING:  # loaded by the command that needs it
    import pandas as pd

__all__ = ["tree_scan"]

# Columns of the list of signals, as far as the table has them.
HEADS = {
    "Comparison": "comparison", "Analysis": "analysis", "Look": "look", "First": "first",
    "Last": "last",
}  # fmt: skip

# Settings that a scan of released numbers has too.
SHARED = ("alpha", "conditional", "replicates", "tree")
SETTINGS = {name: f for name, f in setting_fields(TableScan).items() if name != "tree"}
CONVERTED: dict[str, Any] = {
    "times": (
        str, days_of, "First and last time of follow-up of a table with times, as FIRST:LAST: scan "
        "windows of time.",
    ),
    "window": (
        str, days_of, "Shortest and longest window of time, as SHORTEST:LONGEST. Default: 2, and "
        "half of follow-up.",
    ),
}  # fmt: skip


@options_of(SETTINGS, {}, CONVERTED, optional=True)
def tree_scan(
    results: Annotated[
        Path,
        typer.Argument(
            help="The released results of a comparative study on one database: an archive "
            "(results.zip) or an output folder. Or a CSV file of counts: the columns node and "
            "cases, and expected or controls; time with --times; look with --looks."
        ),
    ],
    tree: Annotated[
        Path,
        typer.Argument(
            help="A CSV file with the columns node and parent, or descendant_concept_id and "
            "ancestor_concept_id, and perhaps name; ids of outcomes are nodes."
        ),
    ],
    settings: dict[str, Any],
    output: Annotated[Path, typer.Option(help="Folder of the table.")] = Path("steropes-tree-scan"),
    unblind: Annotated[
        bool, typer.Option(help="Also use outcomes that fail a diagnostic.")
    ] = False,
    disclosure: Disclosure = None,
    protocol: ProtocolFile = None,
    by: ProtocolBy = None,
    freeze: Freeze = False,
    quiet: Quiet = False,
) -> None:
    """Scan the outcomes of a study for parts of a hierarchy with more cases than expected.

    Released numbers of outcomes are compared with the person-time of both arms, or counts of a
    table with their expected numbers, with controls, with other times, or at several looks.
    P-values are adjusted for all nodes of the hierarchy, but not for several comparisons and
    analyses.
    """
    from steropes.studies.formatting.text_safety import csv_text
    from steropes.studies.result_files.atomic_files import write_files
    from steropes.studies.settings.frozen_protocol import open_protocol

    question = TableScan(**settings, tree=sha256(_bytes(tree)).hexdigest())
    if freeze:
        print_frozen(protocol, question, by)
        return
    frozen = None if protocol is None else open_protocol(protocol, question, by)
    hierarchy = _csv(tree)
    lines: list[str] = []
    if results.suffix.lower() == ".csv":
        table = _of_table(_csv(results), hierarchy, question, unblind, disclosure)
    else:
        table, lines = _of_release(results, hierarchy, question, unblind)
    if frozen is not None and protocol is not None:
        lines += frozen.record(protocol, question, by, "a scan shows its numbers").sentences()
    write_files(output, {"tree_scan.csv": csv_text(table)})
    lines = [*lines, str(output / "tree_scan.csv")]
    _print_signals(table[table["signal"]], None if quiet else lines)


def _bytes(path: Path) -> bytes:
    """Read a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def _csv(path: Path) -> pd.DataFrame:
    """Read a CSV file."""
    from steropes.data.csv_reading import read_csv_content

    content = _bytes(path)
    try:
        return read_csv_content(content)
    except (ValueError, UnicodeError) as error:
        raise DataError(f"{path} is no CSV file that can be read: {error}") from None


def _of_table(
    counts: pd.DataFrame,
    hierarchy: pd.DataFrame,
    question: TableScan,
    unblind: bool,
    disclosure: str | None,
) -> pd.DataFrame:
    """Scan a table of counts."""
    from steropes.studies.disclosure import site_rules

    if unblind:
        raise DataError("--unblind belongs to released results; a table has no diagnostics.")
    return scan_table(counts, hierarchy, question, site_rules(disclosure))


def _of_release(
    results: Path, hierarchy: pd.DataFrame, question: TableScan, unblind: bool
) -> tuple[pd.DataFrame, list[str]]:
    """Scan the outcomes of a release, and say which of them are left out."""
    import pandas as pd

    from steropes.studies.monitoring.tree_scan_of_released_counts import scan_release

    if unused := sorted(question.changed() - {*SHARED}):
        option = unused[0].replace("_", "-")
        raise DataError(f"--{option} belongs to tables of counts; {results} is no CSV file.")
    scans = scan_release(
        results, hierarchy, conditional=question.conditional, unblind=unblind,
        replicates=question.replicates,
    )  # fmt: skip
    parts = [
        found.scan.table.assign(
            comparison=found.comparison, analysis=found.analysis,
            signal=found.scan.table["p"] <= question.alpha, note=found.note,
        )
        for found in scans
    ]  # fmt: skip
    table = pd.concat(parts, ignore_index=True)
    first = ["comparison", "analysis"]
    table = table[[*first, *(c for c in table.columns if c not in first)]]
    return table, [f"{s.comparison}, {s.analysis}: outcomes {s.note}." for s in scans if s.note]


def _print_signals(shown: pd.DataFrame, lines: list[str] | None) -> None:
    """Print a line for each signal, and further lines; if ``lines`` is None, print only signals."""
    from steropes.studies.formatting.released_numbers import decimals
    from steropes.studies.report.terminal_tables import table_of, wide_console

    console = wide_console()
    if len(shown) or lines is not None:
        named = shown["name"] if "name" in shown else shown["node"]
        columns = {name: shown[key].astype(str) for name, key in HEADS.items() if key in shown}
        columns["Node"] = named.astype(str)
        cases = zip(shown["cases"], shown["expected"], strict=True)
        columns["Cases / expected"] = [f"{c:,} / {decimals(e, 1)}" for c, e in cases]
        if "p" in shown:
            columns["p"] = [decimals(p, 4) for p in shown["p"]]
        cells = list(zip(*columns.values(), strict=True))
        texts = 1 + list(columns).index("Node")
        console.print(table_of("Signals", tuple(columns), cells, texts=texts))
    for line in lines or ():
        console.print(line, soft_wrap=True, markup=False)


COMMANDS = (tree_scan,)
