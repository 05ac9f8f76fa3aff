"""A lasso fit of an X that is larger than memory, from Parquet files, in one process.

`python -m benchmarks.out_of_core FOLDER --blocks 120` writes the files (of zeros and ones, as long
tables of row and column) and fits from them; `--blocks 1 --rows 20000` tries it. What is printed is
processor time of each part, how much memory the process had at most (its own, and with the pages of
mapped files), and how much it has read from the disk so far.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

import steropes

COLUMNS, A_ROW, MOST = 5_000, 250, 0.3
EFFECTS = np.arange(100, 1100, 50)  # columns that matter


def shares() -> np.ndarray:
    """How frequent the columns are."""
    share = np.arange(1, COLUMNS + 1) ** -0.3
    return np.minimum(share * A_ROW / share.sum(), MOST)


def ones(rng: np.random.Generator, share: float, rows: int) -> np.ndarray:
    """Rows with a one, ascending: gaps between them are geometric."""
    expected = rows * share
    size = int(expected + 6 * np.sqrt(expected) + 20)
    gaps = rng.standard_exponential(size, dtype=np.float32) / np.float32(-np.log1p(-share))
    at = np.cumsum(gaps.astype(np.int64) + 1) - 1
    return at[at < rows].astype(np.int32)


def write(folder: Path, k: int, rows: int) -> int:
    """Write a block and its outcome; returns how many ones it has."""
    rng = np.random.default_rng(k)
    at = [ones(rng, share, rows) for share in shares()]
    eta = np.full(rows, -3.0)
    for j, effect in zip(EFFECTS, np.linspace(-0.5, 0.5, len(EFFECTS)), strict=True):
        eta[at[j]] += effect
    y = (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(np.int8)
    column = np.repeat(np.arange(COLUMNS, dtype=np.int16), [len(x) for x in at])
    table = pa.table({"row": np.concatenate(at), "column": column})
    pq.write_table(
        table, folder / f"x-{k:04d}.parquet", use_dictionary=["column"], compression="none",
        column_encoding={"row": "DELTA_BINARY_PACKED"},
    )  # fmt: skip
    pq.write_table(pa.table({"y": y}), folder / f"y-{k:04d}.parquet")
    return len(column)


def read(path: Path, rows: int) -> sparse.csc_array:
    """A block of X from its file."""
    table = pq.read_table(path)
    counts = np.bincount(table["column"].to_numpy(), minlength=COLUMNS)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    at = table["row"].to_numpy()
    return sparse.csc_array((np.ones(len(at), np.int8), at, indptr), shape=(rows, COLUMNS))


def memory(what: str) -> float:
    """GB of this process, as the kernel counts them."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return float(line.split()[1]) / 1e6
    return float("nan")


def read_so_far() -> float:
    """GB that this process has had from the disk, pages of mapped files among them."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("read_bytes:"):
            return float(line.split()[1]) / 1e9
    return float("nan")


def main() -> None:
    """Write, read, fit; a line for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--blocks", type=int, default=120)
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--memory", type=float, default=3e8)
    parser.add_argument("--penalty", type=float, default=1000.0)
    given = parser.parse_args()
    folder, blocks, rows = given.folder, given.blocks, given.rows
    folder.mkdir(exist_ok=True)
    last, entries = time.process_time(), 0

    def say(what: str) -> None:
        nonlocal last
        now = time.process_time()
        print(
            f"{what}: {now - last:.0f} s; own memory {memory('RssAnon'):.2f} GB, at most "
            f"{memory('VmHWM'):.2f} GB with mapped pages; {read_so_far():.1f} GB read from disk",
            flush=True,
        )
        last = now

    for k in range(blocks):
        if not (folder / f"y-{k:04d}.parquet").exists():
            entries += write(folder, k, rows)
    size = sum(f.stat().st_size for f in folder.glob("x-*.parquet"))
    say(f"{blocks} files of {size / 1e9:.1f} GB with {entries / 1e6:,.0f} million ones")
    makers = [partial(read, folder / f"x-{k:04d}.parquet", rows) for k in range(blocks)]
    design = steropes.ShardedDesign.from_blocks(makers, folder=folder, memory=given.memory)
    say(f"read once: {design.n:,} rows, {design.nnz / 1e6:,.0f} million ones")
    tables = (pq.read_table(folder / f"y-{k:04d}.parquet") for k in range(blocks))
    y = np.concatenate([t["y"].to_numpy() for t in tables])
    _ = design.centered().with_intercept().blocks  # as the model wants them
    say("blocks written")
    prior = steropes.Laplace(2 / given.penalty**2)
    model = steropes.LogisticRegression(prior=prior, verbose=True, n_jobs=1).fit(design, y)
    say(
        f"fit: {np.count_nonzero(model.coef_)} coefficients, {model.n_iter_} steps, violation "
        f"{model.optimality_:.1g}"
    )


if __name__ == "__main__":
    main()
