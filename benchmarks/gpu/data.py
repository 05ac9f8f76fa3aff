"""The data of the studies, which other processes draw while the device is checked."""

from __future__ import annotations

import tempfile
import zlib
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["DATA", "data_folder", "draw", "load"]

# For a benchmark's name, or a kind of a million people with 1,000 columns: the data to draw.
DATA = {
    "logistic-claims": "logistic-claims-cv",
    "cox-claims": "cox-claims-cv",
    "correlated-claims": "claims-cv-large",
    "cox-million": "",
    "fine-gray-million": "",
    "strata-million": "",
    "matched-sets": "",
}


def data_folder() -> Path:
    """Return a folder that keeps data until the functions that draw them change."""
    here = Path(__file__).resolve()
    sources = [here, *(here.parents[1] / f"{x}.py" for x in ("simulate", "correlated", "tasks"))]
    mark = zlib.crc32(b"".join(file.read_bytes() for file in sources))
    return Path(tempfile.gettempdir()) / f"steropes-gpu-{mark:08x}"


def _drawn(name: str, small: bool) -> dict[str, Any]:
    """Draw data, of the size of a study or a small one."""
    import numpy as np

    from ..conditional import exact
    from ..simulate import simulate
    from ..tasks import TASKS

    if name == "matched-sets":
        X, y, strata = exact(200, 5, 10) if small else exact()
        return {"X": X, "y": y, "strata": strata}
    if DATA[name]:
        task = TASKS[DATA[name]]
        n, p, density = (600, 30, 0.1) if small else (task.n, task.p, task.density)
        kind = "claims" if small else task.kind
        return simulate(task.family, kind, n, p, density, 0.3 if small else task.rate, 1)
    n, p = (600, 20) if small else (1_000_000, 1_000)
    data, rng = simulate("cox", "uniform", n, p, 0.05, 0.3, 1), np.random.default_rng(2)
    if name == "fine-gray-million":
        data["y"] = data["y"] * rng.integers(1, 3, n)
    elif name == "strata-million":
        data["strata"] = rng.integers(0, max(2, n // 20), n)
    return data


def draw(options: Namespace, say: Callable[..., None]) -> dict[str, Any]:
    """Draw data and write them; complete files alone have the final name."""
    import numpy as np
    from scipy import sparse

    data = _drawn(options.data, options.small)
    X = data.pop("X")
    if sparse.issparse(X):
        data |= {"indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}
    else:
        data["dense"] = X
    part = Path(options.folder) / f"{options.data}.part.npz"
    np.savez(part, **data)
    part.rename(Path(options.folder) / f"{options.data}.npz")
    return {"ok": True}


def load(file: Path) -> tuple[tuple[Any, Any], dict[str, Any], str]:
    """Read X and y, the other arguments of ``fit``, and the origin of X."""
    import numpy as np
    from scipy import sparse

    import steropes

    with np.load(file) as f:
        data = {key: f[key] for key in f.files}
    X: Any = data.get("dense")
    if X is None:
        ones = np.ones(len(data["indices"]))
        X = sparse.csc_array((ones, data["indices"], data["indptr"]), shape=tuple(data["shape"]))
    y: Any = data["y"].astype(int)
    if "time" in data:
        y = steropes.Surv(data["time"], y)
    strata = {"strata": data["strata"]} if "strata" in data else {}
    return (X, y), strata, str(data.get("source", ""))
