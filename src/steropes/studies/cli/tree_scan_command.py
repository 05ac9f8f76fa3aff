"""The command that scans the outcomes of a study by a hierarchy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steropes.studies.cli.grid_commands import Quiet

if TYPE_CHECKING:  # loaded by the command that needs it
    import pandas as pd

__all__ = ["tree_scan"]


def tree_scan(
    results: Annotated[
        Path,
        typer.Argument(
            help="The released results of a comparative study on one database: an archive "
            "(results.zip) or an output folder."
        ),
    ],
    tree: Annotated[
        Path,
        typer.Argument(
            help="A CSV file with the columns node and parent, or descendant_concept_id and "
            "ancestor_concept_id; ids of outcomes are nodes."
        ),
    ],
    output: Annotated[Path, typer.Option(help="Folder of the table.")] = Path("steropes-tree-scan"),
    alpha: Annotated[
        float, typer.Option(help="Probability of any signal without an effect, of each scan.")
    ] = 0.05,
    conditional: Annotated[
        bool,
        typer.Option(help="Compare outcomes with each other instead of with person-time."),
    ] = False,
    replicates: Annotated[
        int, typer.Option(min=1, help="Number of replicates without an effect.")
    ] = 9999,
    unblind: Annotated[
        bool, typer.Option(help="Also use outcomes that fail a diagnostic.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Scan the outcomes of a study for parts of a hierarchy with more cases than expected.

    Released numbers of outcomes are compared with the person-time of both arms. P-values are
    adjusted for all nodes of the hierarchy, but not for several comparisons and analyses.
    """
    import pandas as pd

    from steropes.errors import DataError
    from steropes.studies.formatting.plain_text import csv_text
    from steropes.studies.monitoring.tree_scan_of_released_counts import scan_release
    from steropes.studies.result_files.atomic_files import write_files

    try:
        hierarchy = pd.read_csv(tree)
    except (OSError, ValueError, UnicodeError) as error:
        raise DataError(f"{tree} is no CSV file that can be read: {error}") from None
    scans = scan_release(
        results, hierarchy, conditional=conditional, unblind=unblind, replicates=replicates
    )
    parts = [
        found.scan.table.assign(
            comparison=found.comparison, analysis=found.analysis,
            signal=found.scan.table["p"] <= alpha, note=found.note,
        )
        for found in scans
    ]  # fmt: skip
    table = pd.concat(parts, ignore_index=True)
    first = ["comparison", "analysis"]
    table = table[[*first, *(c for c in table.columns if c not in first)]]
    write_files(output, {"tree_scan.csv": csv_text(table)})
    notes = [f"{s.comparison}, {s.analysis}: outcomes {s.note}." for s in scans if s.note]
    lines = None if quiet else [*notes, str(output / "tree_scan.csv")]
    _print_signals(table[table["signal"]], lines)


def _print_signals(shown: pd.DataFrame, lines: list[str] | None) -> None:
    """Print a line for each signal, and further lines; if ``lines`` is None, print only signals."""
    from steropes.studies.formatting.released_numbers import decimals
    from steropes.studies.report.terminal_tables import table_of, wide_console

    console = wide_console()
    if len(shown) or lines is not None:
        heads = ("Comparison", "Analysis", "Node", "Cases / expected", "p")
        cells = [
            (row.comparison, row.analysis, row.name, f"{row.cases:,} / {decimals(row.expected, 1)}",
             decimals(row.p, 4))
            for row in shown.itertuples(index=False)
        ]  # fmt: skip
        console.print(table_of("Signals", heads, cells, texts=3))
    for line in lines or ():
        console.print(line, soft_wrap=True, markup=False)


COMMANDS = (tree_scan,)
