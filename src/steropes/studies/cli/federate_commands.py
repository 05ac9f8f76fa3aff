"""The commands ``steropes federate``: keys of a site's owner, and rounds in a shared folder."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steropes.errors import DataError

if TYPE_CHECKING:
    from steropes.federated import FederatedPlan, FederatedResult, PublicKeys
    from steropes.studies.federation.site_profiles import FederatedProfiles

__all__ = ["federate_app"]

federate_app = typer.Typer(
    name="federate",
    help="Fit models across sites that exchange only sums, in a folder that all can write to.",
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Folder = Annotated[Path, typer.Argument(help="Folder shared by the lead and the sites.")]
OwnerFolder = Annotated[
    Path, typer.Argument(help="Folder of the site's owner: rules, keys and ledger.")
]
Site = Annotated[str, typer.Argument(help="Name of the site in the plan.")]
Without = Annotated[
    list[str] | None,
    typer.Option(help="Site to continue without, named in each later step too; repeatable."),
]
Keys = Annotated[
    Path | None,
    typer.Option(
        help="Folder with the public keys of all sites, SITE.json, to check their signatures."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


@federate_app.command()
def init(
    folder: Folder,
    plan: Annotated[Path, typer.Argument(help="Plan, a .toml or .json file.")],
    cv: Annotated[
        int | None,
        typer.Option(min=2, help="Folds within each site for choosing the prior's variance."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the folds.")] = None,
    quiet: Quiet = False,
) -> None:
    """Start an analysis: write its plan and the first request."""
    from steropes.studies.federation.federated_runs import federate_init

    made = _plan(plan, folds=cv, seed=seed)
    federate_init(folder, made)
    if not quiet:
        print(f"round 0 asks {', '.join(made.sites)}: {folder}")


@federate_app.command()
def keys(owner: OwnerFolder, quiet: Quiet = False) -> None:
    """Print a site's public keys for the other owners; create the folder if it does not exist."""
    from steropes.federated import Owner

    new = not (owner / "keys.json").exists()
    public = (Owner.create(owner) if new else Owner.open(owner)).keys.public
    print(json.dumps(public.to_dict()))
    if not quiet:
        print(f"fingerprint {public.fingerprint}", file=sys.stderr)


@federate_app.command()
def trust(
    owner: OwnerFolder,
    site: Annotated[str, typer.Argument(help="Name of the other site.")],
    public: Annotated[Path, typer.Argument(help="File that `steropes federate keys` printed.")],
) -> None:
    """Store the public keys of another site after its owner has confirmed their fingerprint."""
    from steropes.federated import Owner

    print(f"fingerprint {Owner.open(owner).trust(site, public).fingerprint}")


@federate_app.command()
def answer(
    folder: Folder,
    site: Site,
    data: Annotated[Path, typer.Argument(help="The site's rows, a .parquet or .csv file.")],
    owner: OwnerFolder,
    quiet: Quiet = False,
) -> None:
    """Answer the last request for a site; run this where the site's rows are."""
    from steropes.studies.federation.federated_runs import federate_answer

    message = federate_answer(folder, site, data, owner)
    if message.kind == "refusal":
        raise DataError(f"round {message.round} is refused: {'; '.join(message.reasons)}")
    if not quiet:
        print(f"round {message.round} ({message.ask}) is answered")


@federate_app.command()
def withdraw(
    folder: Folder,
    site: Site,
    data: Annotated[Path, typer.Argument(help="The site's rows, a .parquet or .csv file.")],
    owner: OwnerFolder,
    consent: Annotated[
        bool,
        typer.Option(
            "--consent",
            help="Consent that the site's own sums follow from totals with and without them.",
        ),
    ] = False,
) -> None:
    """Withdraw a site, so that the others can continue without it."""
    from steropes.studies.federation.federated_runs import federate_withdraw

    message = federate_withdraw(folder, site, data, owner, consent=consent)
    print(f"site {site} has withdrawn in round {message.round}")


@federate_app.command()
def step(
    folder: Folder,
    without: Without = None,
    keys: Keys = None,
    quiet: Quiet = False,
) -> None:
    """Take the lead's next step: write a request, or report that the analysis is complete."""
    from steropes.federated import WaitingError
    from steropes.studies.federation.federated_runs import federate_step

    found = federate_step(folder, tuple(without or ()), _keys(keys))
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
        Path | None, typer.Option(help="JSON file. Default: result.json in the folder.")
    ] = None,
    without: Without = None,
    keys: Keys = None,
    quiet: Quiet = False,
) -> None:
    """Write and print the result."""
    from steropes.studies.federation.federated_runs import federate_finish

    found = federate_finish(folder, output, tuple(without or ()), _keys(keys))
    if not quiet:
        _show(found)
        print(folder / "result.json" if output is None else output)


@federate_app.command()
def flower(
    app: Annotated[Path, typer.Argument(help="New folder for the Flower app.")],
    plan: Annotated[Path, typer.Argument(help="Plan, a .toml or .json file.")],
    output: Annotated[Path, typer.Argument(help="JSON file of the result, on the SuperLink.")],
    keys: Keys = None,
    quiet: Quiet = False,
) -> None:
    """Write a Flower app that runs a plan with `flwr run`."""
    from steropes.studies.federation.flower import write_flower_app

    made = write_flower_app(app, _plan(plan), output.resolve(), _keys(keys))
    if not quiet:
        print(f"flwr run {made}")


@federate_app.command()
def schema(
    plan: Annotated[bool, typer.Option("--plan", help="Print that of a plan instead.")] = False,
) -> None:
    """Print the JSON Schema of a message, for sites that use other languages."""
    from steropes.federated import FederatedPlan, message_schema
    from steropes.studies.settings.schema_generation import schema_of

    print(json.dumps(schema_of(FederatedPlan) if plan else message_schema(), indent=1))


def _plan(path: Path, **given: int | None) -> FederatedPlan:
    """Read a plan and override its settings by the command line."""
    from steropes.federated import FederatedPlan
    from steropes.studies.settings.settings_reader import Source

    source = Source.read(path)
    source.values |= {name: value for name, value in given.items() if value is not None}
    try:
        return FederatedPlan.from_dict(source.values)
    except DataError as error:  # It names a setting, the line of which the file knows.
        named = [w for w in re.findall(r"\w+", str(error)) if w in source.values]
        raise DataError(f"{source.where(tuple(named[:1]))}: {error}") from None


def _keys(folder: Path | None) -> dict[str, PublicKeys] | None:
    """Read the public keys of sites from a folder, if one is given."""
    from steropes.studies.federation.federated_runs import read_public_keys

    return None if folder is None else read_public_keys(folder)


def _show(found: FederatedResult | FederatedProfiles) -> None:
    """Print a result with its notes and the numbers of rounds and bytes."""
    from steropes.federated import FederatedResult
    from steropes.studies.report.terminal_tables import table_of, wide_console

    summary = found.summary()
    rows = [[_cell(x) for x in line] for line in summary.itertuples()]
    wide_console().print(table_of(None, ("", *summary.columns), rows))
    if isinstance(found, FederatedResult) and found.variance is not None:
        print(f"variance {found.variance:g}, chosen by {found.plan.folds} folds of each site")
    for note in found.notes:
        print(note)
    print(f"{found.rounds} rounds, {found.bytes} bytes")


def _cell(value: object) -> str:
    """Format a value of a table."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


COMMANDS = (federate_app,)
