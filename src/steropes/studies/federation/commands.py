"""The commands ``steropes federate``: init, answer, step and finish, on a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steropes.errors import DataError

if TYPE_CHECKING:
    from steropes.federated import FederatedResult
    from steropes.federated.cells import Check
    from steropes.studies.federation.profiles import FederatedProfiles

__all__ = ["federate_app"]

CHECKS: tuple[Check, ...] = ("rows", "events", "columns", "pairs", "times", "folds")

federate_app = typer.Typer(
    help="Fit models to sites that exchange only sums, by a folder that all can write to.",
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Folder = Annotated[Path, typer.Argument(help="Folder that the lead and the sites share.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


@federate_app.command()
def init(
    folder: Folder,
    plan: Annotated[Path, typer.Argument(help="Plan, a .toml or .json file.")],
    cv: Annotated[
        int | None,
        typer.Option(min=2, help="Folds of each site that choose the prior's variance."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the folds.")] = None,
    quiet: Quiet = False,
) -> None:
    """Begin an analysis: write its plan and the first request."""
    from steropes.federated import FederatedPlan
    from steropes.studies.federation.run import federate_init
    from steropes.studies.grid.reading import Source, build

    source = Source.read(plan)
    given = {"folds": cv, "seed": seed}
    source.values |= {name: value for name, value in given.items() if value is not None}
    made: FederatedPlan = build(FederatedPlan, source.values, source)
    federate_init(folder, made)
    if not quiet:
        print(f"round 0 asks {', '.join(made.sites)}: {folder}")


@federate_app.command()
def answer(
    folder: Folder,
    site: Annotated[str, typer.Argument(help="Name of the site in the plan.")],
    data: Annotated[Path, typer.Argument(help="The site's rows, a .parquet or .csv file.")],
    min_cell: Annotated[
        int,
        typer.Option(min=0, help="Counts of fewer people refuse a message; 0 lets all through."),
    ] = 5,
    without: Annotated[
        list[str] | None,
        typer.Option(help=f"Check to do without: {', '.join(CHECKS)}; repeatable."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Answer the last request for a site; run where the site's rows are."""
    from steropes.federated import CellRules
    from steropes.studies.federation.run import federate_answer

    unknown = [c for c in without or () if c not in CHECKS]
    if unknown:
        raise DataError(f"there is no check {unknown[0]!r}; there are {', '.join(CHECKS)}")
    rules = CellRules(min_cell, tuple(c for c in CHECKS if c not in (without or ())))
    message = federate_answer(folder, site, data, rules)
    if message.kind == "refusal":
        raise DataError(f"round {message.round} is refused: {'; '.join(message.reasons)}")
    if not quiet:
        numbers = sum(int(x.size) for x in message.arrays.values())
        print(f"round {message.round} ({message.ask}) is answered: {numbers} numbers")


@federate_app.command()
def step(folder: Folder, quiet: Quiet = False) -> None:
    """Take the lead's next step: a request, or the word that nothing is left to ask."""
    from steropes.federated import WaitingError
    from steropes.studies.federation.run import federate_step

    found = federate_step(folder)
    if quiet:
        return
    if isinstance(found, WaitingError):
        print(found)
    else:
        print(f"done after {found.rounds} rounds; steropes federate finish writes the result")


@federate_app.command()
def finish(
    folder: Folder,
    output: Annotated[
        Path | None, typer.Option(help="JSON file; by default result.json in the folder.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write and print the result."""
    from steropes.studies.federation.run import federate_finish

    found = federate_finish(folder, output)
    if not quiet:
        _show(found)
        print(folder / "result.json" if output is None else output)


@federate_app.command()
def schema(
    plan: Annotated[bool, typer.Option("--plan", help="Of a plan instead of a message.")] = False,
) -> None:
    """Print the JSON Schema of a message, for sites in other languages."""
    from steropes.federated import FederatedPlan, message_schema
    from steropes.studies.grid.reading import schema_of

    print(json.dumps(schema_of(FederatedPlan) if plan else message_schema(), indent=1))


def _show(found: FederatedResult | FederatedProfiles) -> None:
    from steropes.federated import FederatedResult

    print(found.summary().to_string(float_format=lambda x: f"{x:.6g}"))
    if isinstance(found, FederatedResult) and found.variance is not None:
        print(f"variance {found.variance:g}, chosen by {found.plan.folds} folds of each site")
    for note in found.notes:
        print(note)
    print(f"{found.rounds} rounds, {found.bytes} bytes")
