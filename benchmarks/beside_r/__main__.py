"""Compare with R's own packages: ``python -m benchmarks.beside_r COMMAND``."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from .cohort_method_comparison import compare_study
from .cyclops_comparison import CLASSES, compare_with_cyclops, counts_by_family
from .r_programs import RAbsent, r_versions

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


@app.command("cohort-method")
def cohort_method(
    count: Annotated[int, typer.Option(help="Number of studies.")] = 1,
    seed_start: Annotated[int, typer.Option(help="Seed of the first study.")] = 1,
    people: Annotated[int, typer.Option(help="People of each simulated database.")] = 1500,
    folder: Annotated[
        Path | None, typer.Option(help="Where to keep databases and results.")
    ] = None,
) -> None:
    """Run drawn cohort studies with CohortMethod and compare the result tables cell by cell."""
    _show_versions("CohortMethod", "FeatureExtraction", "Cyclops")
    compared: Counter = Counter()
    differ: Counter = Counter()
    explained: Counter = Counter()
    for seed in range(seed_start, seed_start + count):
        found = compare_study(seed, people, None if folder is None else folder / str(seed))
        compared.update(found.compared)
        differ.update(found.differ)
        explained.update(found.explained)
        times = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in found.seconds.items())
        print(f"study {seed}: {times}, {found.differ.total()} cells differ without a reason")
        for example in found.examples:
            print(f"    {example}", flush=True)
    print("| table | cells | differ without a reason |\n|---|---:|---:|")
    for table in sorted({cell.split(".")[0] for cell in compared}):
        numbers = [
            sum(n for cell, n in counter.items() if cell.startswith(f"{table}."))
            for counter in (compared, differ)
        ]
        print(f"| {table} | " + " | ".join(f"{n:,}" for n in numbers) + " |")
    for reason, n in explained.most_common():
        print(f"{n:,} cells: {reason}")


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
