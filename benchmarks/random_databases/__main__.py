"""Random OMOP databases against a slow reference.

python -m benchmarks.random_databases --count 2000
python -m benchmarks.random_databases --seed-start 417 --count 1
python -m benchmarks.random_databases --count 200 --engines postgresql
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from .check import STATUSES, judge


def main(arguments: list[str] | None = None) -> int:
    """Run, print each silent difference, and the counts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.random_databases")
    parser.add_argument("--seed-start", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--engines", default="duckdb,parquet")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long")
    given = parser.parse_args(arguments)
    engines = tuple(given.engines.split(","))
    if "postgresql" not in engines:
        return _run(given.seed_start, given.count, engines, "", given.minutes)
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.studies.postgres_server import PASSWORD, server

    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as socket:
        url = f"postgresql://site:{quote(PASSWORD, safe='')}@/postgres?host={socket}"
        return _run(given.seed_start, given.count, engines, url, given.minutes)


def _run(start: int, count: int, engines: tuple[str, ...], url: str, minutes: float) -> int:
    end = time.monotonic() + 60 * minutes
    counts: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    for seed in range(start, start + count):
        if time.monotonic() > end:
            break
        said = judge(seed, engines, url)
        counts[said.status] += 1
        refusals.update({text.partition(": ")[2][:90] for text in said.refusals})
        if said.findings:
            print(f"DIFFERENT: --seed-start {seed} --count 1 | {', '.join(said.oddities)}")
            for finding in said.findings:
                print(f"    {finding}", flush=True)
    print("| databases | " + " | ".join(STATUSES) + " |")
    print("|---:|" + "---:|" * len(STATUSES))
    print(f"| {counts.total():,} | " + " | ".join(f"{counts[s]:,}" for s in STATUSES) + " |")
    for text, number in refusals.most_common():
        print(f"  refused {number}: {text}")
    return int(counts["DIFFERENT"] > 0)


if __name__ == "__main__":
    sys.exit(main())
