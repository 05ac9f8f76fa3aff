"""Consoles and tables of commands, printed by rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from rich.console import Console
    from rich.table import Table

    from steropes.studies.disclosure.disclosure_rules import DisclosureRules
    from steropes.studies.execution.common_run_of_designs import DesignResults
    from steropes.studies.settings.frozen_protocol import ProtocolStatement

__all__ = [
    "analysis_names",
    "print_files",
    "print_grid_files",
    "simple_table",
    "table_of",
    "wide_console",
]


def wide_console() -> Console:
    """Create a console that breaks lines at the width of the terminal, if there is one."""
    from rich.console import Console

    console = Console(highlight=False)
    # Files and pipes have no width of their own.
    return console if console.is_terminal else Console(highlight=False, width=200)


def simple_table(title: str | None, heads: Sequence[str], texts: int = 1) -> Table:
    """Create a table without rows: the first columns have texts, the others numbers."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for i, head in enumerate(heads):
        table.add_column(head, justify="left" if i < texts else "right")
    return table


def table_of(
    title: str | None, heads: Sequence[str], rows: Iterable[Sequence[object]], texts: int = 1
) -> Table:
    """Create a table from rows of plain values."""
    from rich.markup import escape

    table = simple_table(escape(title) if title else None, heads, texts)
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    return table


def analysis_names(analyses: pd.DataFrame) -> dict[int, str]:
    """Return the number of each analysis with its description, from their table of results."""
    return {
        line.analysis_id: f"{line.analysis_id} ({line.description})"
        if line.description
        else str(line.analysis_id)
        for line in analyses.itertuples(index=False)
    }


def print_files(
    console: Console,
    rules: DisclosureRules,
    paths: Iterable[Path],
    protocol: ProtocolStatement | None = None,
) -> None:
    """Print the statement of a frozen protocol, the disclosure rules, and the paths of files."""
    from rich.markup import escape

    for sentence in protocol.sentences() if protocol else ():
        console.print(f"[dim]·[/] {escape(sentence)}")
    console.print(f"[dim]{escape(rules.sentence())}[/]", soft_wrap=True)
    for path in paths:
        console.print(f"[bold]{escape(str(path))}[/]", soft_wrap=True)


def print_grid_files(console: Console, results: DesignResults[Any], paths: Iterable[Path]) -> None:
    """Print the disclosure rules of a grid, the paths of its files and its folder."""
    from rich.markup import escape

    print_files(console, results.rules, paths)
    exact = f"{results.path} (exact numbers, not for release)"
    console.print(escape(exact), soft_wrap=True)
