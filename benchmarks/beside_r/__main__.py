"""Compare with R's own packages: ``python -m benchmarks.beside_r COMMAND``."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from .cyclops_comparison import CLASSES, compare_with_cyclops, counts_by_family
from .r_programs import RAbsent, r_versions

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
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
