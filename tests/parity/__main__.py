"""Compare this package with R's on the same database: ``python -m tests.parity``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tests.parity.case_series import Parity, compare_with_r
from tests.parity.cohort_method import compare_with_cohort_method

from steropes.studies import OmopDatabase, demo_database
from steropes.studies.cohorts import CohortTable, read_cohorts

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


@app.command("cohort-method")
def cohort_method(
    folder: Annotated[Path, typer.Argument(help="Folder with the cm_*.csv files of R.")],
    database: Annotated[
        str | None, typer.Option(help="The demonstration database, if stored elsewhere.")
    ] = None,
) -> None:
    """Run CohortMethod's own demonstration and compare every number with R's."""
    found = compare_with_cohort_method(folder, database)
    for line in found.itertuples(index=False):
        print(f"{line.analysis}  {line.quantity}: {line.r:.12g}, here {line.here:.12g}")
    worst = found.loc[found["difference"].idxmax()]
    print(f"largest difference {worst['difference']:.2g}: {worst['quantity']}")


@app.command("sccs")
def case_series(
    folder: Annotated[
        Path, typer.Argument(help="Folder with the sccs_*.csv files that R exported.")
    ],
    database: Annotated[
        str | None,
        typer.Option(help="The database that R was run on. Default: the demonstration's."),
    ] = None,
    cohort_table: Annotated[
        str | None,
        typer.Option(help="Its cohort table (schema.table). Those of the demonstration are built."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="CSV file for the whole comparison.")] = None,
) -> None:
    """Compare with the results of R's SelfControlledCaseSeries 6 on the same database."""
    if database is not None and cohort_table is None:
        raise typer.BadParameter("name the cohort table that R was run on: --cohort-table")
    with OmopDatabase(database or demo_database()) as db:
        parity = compare_with_r(db, folder, _cohorts(db, cohort_table))
    _print_parity(parity)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        parity.table.to_csv(output, index=False)
    if len(parity.disagreements):
        raise typer.Exit(1)


def _cohorts(db: OmopDatabase, table: str | None) -> CohortTable | None:
    """Read a cohort table, or return None for the demonstration's cohorts."""
    if table is None:
        return None
    schema, _, name = table.rpartition(".")
    return read_cohorts(db, table=name, schema=schema or None)


def _print_parity(parity: Parity) -> None:
    """Print how many numbers agree, and which do not and why."""
    console = Console(highlight=False)
    heads = ("Table", "Compared", "Agree", "Explained", "Differ")
    table = _table("SelfControlledCaseSeries and this package", heads)
    for name, line in parity.summary().iterrows():
        table.add_row(str(name), *(f"{int(n):,}" for n in line))
    console.print(table)
    other = parity.table[~parity.table["agrees"]]
    table = _table("Numbers that differ", ("Number", "Ours", "R's", "Why"))
    for _, line in other.iterrows():
        cells = (f"{x:.6g}" if isinstance(x, float) else str(x) for x in line[["ours", "theirs"]])
        table.add_row(escape(f"{line['question']} {line['item']}"), *cells, line["note"] or "?")
    if len(other):
        console.print(table)


def _table(title: str, heads: tuple[str, ...]) -> Table:
    """Start a table with left-aligned labels and right-aligned numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if i else "left")
    return table


if __name__ == "__main__":
    app()
