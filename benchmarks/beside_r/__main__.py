"""Compare with R's own packages: ``python -m benchmarks.beside_r COMMAND``."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from .bootstrap_comparison import compare_bootstraps
from .case_series_comparison import CASE_SERIES
from .cohort_method_comparison import COHORT_METHOD
from .cross_validation_comparison import compare_cross_validation
from .cyclops_comparison import CLASSES, compare_with_cyclops, counts_by_family
from .descriptive_comparison import DESCRIPTIVE
from .documented import reproduce_documented_differences
from .estimates_comparison import answers_of_r, compare_estimates, draw_estimates
from .peer_times import time_peers
from .r_programs import RAbsent, install_packages, r_versions, run_r
from .study_batches import compare_studies, read_results, stored_study
from .study_times import time_studies
from .table_comparison import StudyComparison, summary_lines
from .timed_task import HEADER, TimedTask
from .times_comparison import FAMILIES, time_fits

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help=__doc__, pretty_exceptions_enable=False
)
BATCH = 100  # problems of one run of R


@app.callback()
def main() -> None:
    """Compare with R's own packages."""


@app.command()
def cyclops(
    count: Annotated[int, typer.Option(help="Number of problems.")] = 100,
    seed_start: Annotated[int, typer.Option(help="Seed of the first problem.")] = 0,
    family: Annotated[str | None, typer.Option(help="Family of all problems.")] = None,
) -> None:
    """Fit random problems with Cyclops and compare optima, likelihoods, profiles and folds."""
    _show_versions("Cyclops")
    total: dict[str, Counter] = {}
    compared: Counter = Counter()
    for start in range(seed_start, seed_start + count, BATCH):
        results = compare_with_cyclops(range(start, min(start + BATCH, seed_start + count)), family)
        for result in results:
            compared.update(result.counts)
            for words in result.words:
                problem = result.problem
                print(f"{result.verdict}: {problem.family} {problem.seed} | {problem.said()}")
                print(f"    {words}", flush=True)
        for name, counts in counts_by_family(results).items():
            total.setdefault(name, Counter()).update(counts)
    print("| family | problems | " + " | ".join(CLASSES) + " |")
    print("|---|" + "---:|" * (1 + len(CLASSES)))
    total["all"] = sum(total.values(), Counter())
    for name, counts in total.items():
        numbers = [counts.total(), *(counts[c] for c in CLASSES)]
        print(f"| {name} | " + " | ".join(f"{k:,}" for k in numbers) + " |")
    print("compared: " + ", ".join(f"{n:,} {what}" for what, n in compared.items()))


@app.command()
def bootstrap(
    count: Annotated[int, typer.Option(help="Number of problems.")] = 20,
    seed_start: Annotated[int, typer.Option(help="Seed of the first problem.")] = 0,
    draws: Annotated[int, typer.Option(help="Number of samples in each program.")] = 1000,
) -> None:
    """Compare the distributions of coefficients of bootstrap samples with those of Cyclops."""
    _show_versions("Cyclops")
    found = compare_bootstraps(range(seed_start, seed_start + count), draws)
    print(found.round(4).to_string(index=False))
    compared = found[found["R"] == "SUCCESS"]
    least = 0.05 / max(compared["coefficients"].sum(), 1)
    different = (compared["smallest_p"] < least).sum()
    print(f"{len(compared)} of {len(found)} problems compared, {compared['coefficients'].sum()} "
          f"coefficients; {different} problems have a p-value below {least:.1g}")  # fmt: skip


@app.command()
def store(
    output: Annotated[Path, typer.Argument(help="JSON file.")],
    count: Annotated[int, typer.Option(help="Number of problems.")] = 24,
) -> None:
    """Store Cyclops's coefficients and log-likelihoods of the first problems that agree."""
    _show_versions("Cyclops")
    kept = [
        {"seed": r.problem.seed, "coefficients": r.coefficients, "log_likelihood": r.log_likelihood}
        for r in compare_with_cyclops(range(8 * count))
        if r.verdict == "agrees"
        and r.problem.words["shape"] in ("mixed", "binary", "normal")
        and r.problem.words.get("unit_y", 1.0) == 1.0
    ]
    output.write_text(json.dumps(kept[:count], indent=1) + "\n", encoding="utf-8")


Count = Annotated[int, typer.Option(help="Number of studies.")]
Seed = Annotated[int, typer.Option(help="Seed of the first study.")]
People = Annotated[int, typer.Option(help="People of each simulated database.")]
Analyses = Annotated[int, typer.Option(help="Analyses of each study.")]
Folder = Annotated[Path | None, typer.Option(help="Where to keep databases and results.")]
Results = Annotated[
    Path | None, typer.Option(help="File to append comparisons to; its studies are not repeated.")
]

Odd = Annotated[bool, typer.Option("--odd", help="Irregular rows of one kind in each database.")]


@app.command("cohort-method")
def cohort_method(
    count: Count = 1,
    seed_start: Seed = 1,
    people: People = 1500,
    analyses: Analyses = 4,
    folder: Folder = None,
    results: Results = None,
    odd: Odd = False,
) -> None:
    """Run drawn cohort studies with CohortMethod and compare the result tables cell by cell."""
    _show_versions("CohortMethod", "FeatureExtraction", "Cyclops")
    _studies(
        compare_studies(
            COHORT_METHOD,
            range(seed_start, seed_start + count),
            people,
            analyses,
            folder,
            results,
            odd=odd,
        ),
        results,
    )


@app.command("case-series")
def case_series(
    count: Count = 1,
    seed_start: Seed = 1,
    people: People = 1500,
    analyses: Analyses = 4,
    folder: Folder = None,
    results: Results = None,
    odd: Odd = False,
) -> None:
    """Run drawn case series with SelfControlledCaseSeries and compare the tables cell by cell."""
    _show_versions("SelfControlledCaseSeries", "Cyclops")
    _studies(
        compare_studies(
            CASE_SERIES,
            range(seed_start, seed_start + count),
            people,
            analyses,
            folder,
            results,
            odd=odd,
        ),
        results,
    )


@app.command()
def descriptive(
    count: Count = 1,
    seed_start: Seed = 1,
    people: People = 400,
    folder: Folder = None,
    results: Results = None,
) -> None:
    """Compare cohorts, rates, characteristics and covariates with those of R's packages."""
    _show_versions("CohortIncidence", "Characterization", "FeatureExtraction")
    seeds = range(seed_start, seed_start + count)
    _studies(compare_studies(DESCRIPTIVE, seeds, people, 4, folder, results), results)


@app.command()
def times(
    results: Annotated[
        Path | None, typer.Option(help="File to append times to; its tasks are not repeated.")
    ] = None,
    part: Annotated[str, typer.Option(help="fits, studies, peers or all.")] = "all",
    sizes: Annotated[
        str, typer.Option(help="Rows x columns of the fits.")
    ] = "20000x4000,100000x20000",
    folds: Annotated[int, typer.Option(help="Folds of cross-validation; 0 for none.")] = 10,
    family: Annotated[str | None, typer.Option(help="Family of all fits.")] = None,
    people: Annotated[int, typer.Option(help="People of the database of the studies.")] = 50_000,
    limit: Annotated[float, typer.Option(help="Processor seconds given to R for a task.")] = 600,
) -> None:
    """Measure processor seconds of R's packages and of this library at the same tasks."""
    print(f"{date.today()}, load {os.getloadavg()[0]:.1f}")
    print(HEADER)
    for task in _timed_parts(results, part, sizes, folds, family, people, limit):
        print(task.as_row(), flush=True)


def _timed_parts(
    results: Path | None,
    part: str,
    sizes: str,
    folds: int,
    family: str | None,
    people: int,
    limit: float,
) -> Iterator[TimedTask]:
    """Time the parts for which R's packages are there, and say which are skipped."""
    fits = ("Cyclops",)
    studies = ("CohortMethod", "SelfControlledCaseSeries")
    peers = ("glmnet", "survival", "rms")
    for name, packages in (("fits", fits), ("studies", studies), ("peers", peers)):
        if part not in (name, "all"):
            continue
        try:
            print(", ".join(f"{p} {version}" for p, version in r_versions(*packages).items()))
        except RAbsent as absent:
            print(f"{name} skipped: {absent}")
            continue
        if name == "studies":
            yield from time_studies(people, limit, results)
        elif name == "peers":
            yield from time_peers(limit, results)
        else:
            for size in sizes.split(","):
                rows, columns = map(int, size.split("x"))
                families = FAMILIES if family is None else (family,)
                yield from time_fits(rows, columns, families, folds, limit, results)


@app.command()
def install(
    mirrors: Annotated[Path, typer.Option(help="Folder of bare clones OWNER+NAME/repo.")],
    library: Annotated[Path | None, typer.Option(help="R library to install into.")] = None,
    fetch: Annotated[bool, typer.Option(help="Clone absent repositories from GitHub.")] = False,
) -> None:
    """Build R's packages from their public sources on Debian; present ones are left alone."""
    try:
        install_packages(mirrors, library, fetch)
    except RAbsent as absent:
        print(f"skipped: {absent}")


@app.command()
def documented() -> None:
    """Show documented differences on a few people, small tables and one study."""
    _show_versions("CohortMethod", "FeatureExtraction", "SelfControlledCaseSeries", "Cyclops")
    for line in reproduce_documented_differences().to_dict("records"):
        mark = "same" if line["R"] == line["here"] else "DIFFERS"
        print(f"{line['what']}, person {line['person']}: {mark}")
        print(f"    R: {line['R']}\n    here: {line['here']}")


@app.command("cross-validation")
def cross_validation(count: Count = 24) -> None:
    """Cross-validate random problems in the same folds as glmnet's cv.glmnet."""
    _show_versions("glmnet", "jsonlite")
    print(compare_cross_validation(count).to_string(index=False))


@app.command("event-dependence")
def event_dependence(
    simulations: Annotated[int, typer.Option(help="Number of each kind.")] = 100,
    cases: Annotated[int, typer.Option(help="Cases of each simulation.")] = 300,
    results: Annotated[Path, typer.Option(help="CSV file of both log ratios.")] = Path(
        "event_dependence.csv"
    ),
) -> None:
    """Show how far R's weights for event-dependent observation move estimates without it."""
    _show_versions("SelfControlledCaseSeries", "Cyclops")
    run_r("event_dependence.R", str(simulations), str(cases), "0", results)
    found = pd.read_csv(results)
    shift = (found["with"] - found["without"]).groupby(found["eras"])
    print(shift.describe(percentiles=[0.05, 0.25, 0.5, 0.75, 0.95]).round(3).to_string())
    print(found.groupby("eras")[["without", "with"]].agg(["mean", "std"]).round(3).to_string())


@app.command()
def estimates(count: Count = 20, seed_start: Seed = 0) -> None:
    """Calibrate and combine estimates with EmpiricalCalibration and EvidenceSynthesis."""
    _show_versions("EmpiricalCalibration", "EvidenceSynthesis")
    seeds = range(seed_start, seed_start + count)
    answers = answers_of_r([draw_estimates(seed) for seed in seeds])
    if not any(answer.get("bayesian") for answer in answers):
        print("Bayesian synthesis is left out: the package BeastJar has no beast.jar")
    _studies(compare_estimates(seeds, answers), None)


@app.command("store-estimates")
def store_estimates(
    output: Annotated[Path, typer.Argument(help="JSON file.")], count: Count = 12
) -> None:
    """Store R's calibration and synthesis of the first drawn estimates."""
    _show_versions("EmpiricalCalibration", "EvidenceSynthesis")
    answers = answers_of_r([draw_estimates(seed) for seed in range(count)])
    output.write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")


@app.command("store-studies")
def store_studies(
    output: Annotated[Path, typer.Argument(help="JSON file.")],
    folder: Annotated[Path, typer.Option(help="Folder of compared studies of one kind.")],
    people: People = 800,
) -> None:
    """Add the settings and R's smaller tables of compared studies to a file."""
    known = json.loads(output.read_text(encoding="utf-8")) if output.exists() else []
    for place in sorted(path.parent for path in folder.glob("*/specifications.json")):
        specifications = json.loads((place / "specifications.json").read_text(encoding="utf-8"))
        kind = CASE_SERIES if "sccsAnalysisList" in specifications else COHORT_METHOD
        known.append(stored_study(kind, place, people))
    output.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def _studies(found: Iterable[StudyComparison], results: Path | None) -> None:
    """Print each comparison as it comes, and the counts of all, or of those of the file."""
    every = []
    for study in found:
        every.append(study)
        times = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in study.seconds.items())
        print(f"study {study.seed}: {study.verdict}, {times or study.failed}")
        for example in study.examples:
            print(f"    {example}", flush=True)
    print("\n".join(summary_lines(every if results is None else read_results(results))))


def _show_versions(*packages: str) -> None:
    """Print the versions, or stop with a message that says what is missing."""
    try:
        found = r_versions(*packages)
    except RAbsent as absent:
        print(f"skipped: {absent}")
        raise typer.Exit(0) from None
    print(", ".join(f"{name} {version}" for name, version in found.items()))


if __name__ == "__main__":
    app()
