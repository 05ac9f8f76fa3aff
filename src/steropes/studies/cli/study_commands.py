"""The commands of the command line: options in, a study, two files and a summary out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steropes.errors import DataError
from steropes.studies.cli.core_commands import print_environment
from steropes.studies.cli.grid_commands import DATABASE, Disclosure, add_commands
from steropes.studies.cli.kernel_warming import compile_kernels
from steropes.studies.comparative.one_question import StudySettings, comparative_study
from steropes.studies.disclosure import site_rules
from steropes.studies.federation.federate_commands import federate_app
from steropes.studies.sccs.sccs_command import sccs, sccs_grid
from steropes.version import __version__

__all__ = ["app"]

app = typer.Typer(
    name="steropes",
    help="Penalised regression for health data at scale.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its tables leave no room for the help at 80 columns
    context_settings={"help_option_names": ["-h", "--help"]},
)

Output = Annotated[
    Path,
    typer.Option(help="Folder; report.html, study.json, tables and figures go into its release."),
]
Seed = Annotated[
    int, typer.Option(min=0, help="Seed of the folds and of the order of equal scores.")
]
MinCell = Annotated[
    int | None,
    typer.Option(min=0, help="A larger smallest count than that of the rules of disclosure."),
]
Unblind = Annotated[
    bool, typer.Option("--unblind", help="Show the estimate though a diagnostic fails.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"steropes {__version__}")
        raise typer.Exit()


@app.callback()
def steropes(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Penalised regression for health data at scale."""


@app.command()
def study(
    database: Annotated[str, typer.Argument(help=DATABASE)],
    target: Annotated[int, typer.Option(help="Concept id of the drug in question.")],
    comparator: Annotated[int, typer.Option(help="Concept id of the drug to compare it with.")],
    outcome: Annotated[int, typer.Option(help="Concept id of the outcome, a condition.")],
    output: Output = Path("steropes-study"),
    risk_days: Annotated[
        int | None,
        typer.Option(min=1, help="Last day at risk after the start, if observation lasts longer."),
    ] = None,
    washout: Annotated[
        int, typer.Option(min=0, help="Days of observation required before the start.")
    ] = 365,
    window: Annotated[
        int, typer.Option(min=0, help="Covariates come from this many days before the start.")
    ] = 365,
    caliper: Annotated[
        float, typer.Option(min=0, help="In standard deviations of the logit propensity.")
    ] = 0.2,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 10,
    exclude: Annotated[
        list[int] | None,
        typer.Option(help="Concept that is no covariate; repeatable."),
    ] = None,
    descendants: Annotated[
        bool, typer.Option(help="All these concepts stand for their descendants too.")
    ] = True,
    schema: Annotated[str, typer.Option(help="Schema of the CDM tables.")] = "main",
    time_zone: Annotated[
        str, typer.Option(help="Time zone whose dates count where the database stores instants.")
    ] = "UTC",
    seed: Seed = 1,
    tie_orders: Annotated[
        int, typer.Option(min=0, help="Other orders of equal scores to match under.")
    ] = 20,
    min_cell: MinCell = None,
    disclosure: Disclosure = None,
    unblind: Unblind = False,
    quiet: Quiet = False,
) -> None:
    """Compare an outcome between new users of two drugs in an OMOP database."""
    settings = StudySettings(
        target=target,
        comparator=comparator,
        outcome=outcome,
        washout_days=washout,
        risk_days=risk_days,
        descendants=descendants,
        window_days=window,
        exclude=tuple(exclude or ()),
        caliper=caliper,
        folds=folds,
        seed=seed,
        tie_orders=tie_orders,
        min_cell=min_cell,
        unblind=unblind,
        schema=schema,
        time_zone=time_zone,
    )
    _run(database, settings, output, disclosure, quiet)


@app.command()
def demo(
    output: Output = Path("steropes-demo"),
    seed: Seed = 1,
    min_cell: MinCell = None,
    disclosure: Disclosure = None,
    grid: Annotated[
        bool, typer.Option("--grid", help="Four analyses with negative controls instead.")
    ] = False,
    controls: Annotated[
        bool,
        typer.Option("--controls", help="Cox against Fine-Gray on negative and positive controls."),
    ] = False,
    unblind: Annotated[
        bool | None,
        typer.Option(
            help="Whether estimates that fail a diagnostic are shown. Default: yes, for the people "
            "are invented; with --grid and --controls no.",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Celecoxib against diclofenac and gastrointestinal bleeding, in synthetic data."""
    from steropes.studies.cli.grid_commands import run_and_report
    from steropes.studies.comparative.demo import DEMO, demo_controls, demo_database, demo_grid

    if grid and controls:
        raise DataError("--grid and --controls are two demonstrations; choose one")
    if grid or controls:
        name = "grid" if grid else "controls"
        spec = demo_grid(min_cell) if grid else demo_controls(min_cell)
        run_and_report(
            demo_database(), spec, output / name, bool(unblind), quiet, disclosure=disclosure
        )
        return
    asked = {**DEMO, "seed": seed, "min_cell": min_cell}
    if unblind is not None:
        asked["unblind"] = unblind
    _run(demo_database(), StudySettings(**asked), output, disclosure, quiet)


@app.command()
def info(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show versions, threads, the GPU and which extras are installed."""
    print_environment(json)


@app.command()
def warm() -> None:
    """Compile the numerical kernels ahead of their first use (about a minute)."""
    for name, seconds in compile_kernels():
        typer.echo(f"{name}: {seconds:.1f} s")


add_commands(app)
app.command()(sccs)
app.command("sccs-grid")(sccs_grid)
app.add_typer(federate_app, name="federate")


def _run(
    database: str | Path,
    settings: StudySettings,
    output: Path,
    disclosure: str | None,
    quiet: bool,
) -> None:
    from steropes.studies.database.open_database import require_database
    from steropes.studies.report.atomic_files import output_folder
    from steropes.studies.report.study_terminal import Progress, print_study

    require_database(str(database))
    rules = site_rules(disclosure, settings.min_cell)
    made = not output.exists()
    folder = output_folder(output)  # before the work, not after it
    try:
        with Progress(quiet) as progress:
            result = comparative_study(database, settings, disclosure=rules, progress=progress)
            progress("writing the report")
            paths = result.write(folder)
    except BaseException:
        if made and not any(folder.iterdir()):
            folder.rmdir()
        raise
    if not quiet:
        print_study(result, paths)
