"""Data sets on disk, for subprocesses in any interpreter (NumPy ≥ 1.26) and for R."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

__all__ = ["load", "save"]


def save(folder: Path, data: dict) -> None:
    """Write ``data.npz``, and plain little-endian arrays for R."""
    X = data["X"]
    arrays = {"y": data["y"], "indptr": X.indptr, "indices": X.indices, "shape": X.shape}
    if "time" in data:
        arrays["time"] = data["time"]
    np.savez(folder / "data.npz", **arrays)
    X.indices.astype("<i4").tofile(folder / "indices.bin")
    X.indptr.astype("<f8").tofile(folder / "indptr.bin")
    data["y"].astype("<f8").tofile(folder / "y.bin")
    data.get("time", data["y"]).astype("<f8").tofile(folder / "time.bin")


def load(folder: Path) -> dict:
    """Read ``data.npz``; all entries of X are one."""
    with np.load(folder / "data.npz") as f:
        shape = tuple(int(s) for s in f["shape"])
        indptr = f["indptr"]
        if len(f["indices"]) < 2**31:
            indptr = indptr.astype(np.int32)
        parts = (np.ones(len(f["indices"])), f["indices"], indptr)
        data = {"X": sparse.csc_matrix(parts, shape=shape), "y": f["y"]}
        if "time" in f:
            data["time"] = f["time"]
    return data
