"""Random problems of all families against dense NumPy.

python -m benchmarks.random_problems --count 1000
python -m benchmarks.random_problems --seed-start 417 --count 1 --family cox
python -m benchmarks.random_problems --count 200 --as-if-large    # 20-60 columns, large ones' ways
python -m benchmarks.random_problems --count 200 --uses    # refits, effects, draws, curves
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from .check import STATUSES, Outcome, judge
from .draw import FAMILIES
from .uses import USES, judge_use


def main(arguments: list[str] | None = None) -> int:
    """Run, print what is bad as it comes, and the counts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.random_problems")
    parser.add_argument("--seed-start", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--family", choices=[*FAMILIES, *USES])
    parser.add_argument("--minutes", type=float, help="stop after so long")
    parser.add_argument(
        "--as-if-large", action="store_true", help="wider, by what the library does from a size on"
    )
    parser.add_argument("--uses", action="store_true", help="draw uses of fitted models, not fits")
    given = parser.parse_args(arguments)
    one = judge_one_use if given.uses or given.family in USES else judge
    counts: dict[str, Counter] = defaultdict(Counter)
    seeds = range(given.seed_start, given.seed_start + given.count)
    end = time.monotonic() + 60 * given.minutes if given.minutes else float("inf")

    def results():
        if given.jobs == 1:
            for seed in seeds:
                yield one(seed, given.family, given.as_if_large)
            return
        with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
            for a in range(0, len(seeds), 64 * given.jobs):
                part = seeds[a : a + 64 * given.jobs]
                same = [given.family] * len(part), [given.as_if_large] * len(part)
                yield from pool.map(one, part, *same, chunksize=8)

    for seed, family, said, outcome in results():
        counts[family][outcome.status] += 1
        if outcome.findings:
            option = f" --family {given.family}" if given.family else ""
            option += " --as-if-large" if given.as_if_large else ""
            option += " --uses" if given.uses and not given.family else ""
            print(f"{outcome.status}: {family} --seed-start {seed} --count 1{option} | {said}")
            for finding in outcome.findings:
                print(f"    {finding}", flush=True)
        if time.monotonic() > end:
            break
    show(counts)
    return int(any(c["WRONG"] for c in counts.values()))


def judge_one_use(
    seed: int, use: str | None = None, large: bool = False
) -> tuple[int, str, str, Outcome]:
    """Draw and check the use of a seed, in the form of `judge`."""
    use, words, status, findings = judge_use(seed, use)
    return seed, use, words, Outcome(status, findings)


def show(counts: dict[str, Counter]) -> None:
    """Print a table of families and statuses."""
    print("| family | problems | " + " | ".join(STATUSES) + " |")
    print("|---|" + "---:|" * (1 + len(STATUSES)))
    total: Counter = Counter()
    for family in [f for f in (*FAMILIES, *USES) if f in counts]:
        total.update(counts[family])
        _row(family, counts[family])
    _row("all", total)


def _row(name: str, count: Counter) -> None:
    numbers = [sum(count.values()), *(count[s] for s in STATUSES)]
    print(f"| {name} | " + " | ".join(f"{k:,}" for k in numbers) + " |")


if __name__ == "__main__":
    sys.exit(main())
