"""Fixtures of grids: a database of 400 people, a specification, and its results."""

import numpy as np
import pytest
from tests.studies.grid.tiny_spec import SPEC

from steropes.studies.grids.comparative_grid_run import run_grid
from steropes.studies.specifications.grid_specification_file import read_spec


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """400 people, two drugs, an outcome (3), one that nobody has (4), and controls (5 to 9)."""
    from tests.studies.conftest import TinyOmop

    omop, rng = TinyOmop(tmp_path_factory.mktemp("omop")), np.random.default_rng(1)
    for concept in range(4, 10):
        omop.concept(concept, f"condition {concept}")
    for _ in range(400):
        born, sex = int(rng.integers(1930, 1990)), int(rng.choice([8507, 8532]))
        drug = "target" if rng.random() < 0.3 + 0.4 * (born < 1960) else "comparator"
        person = omop.person(**{drug: int(rng.integers(0, 100))}, born=born, sex=sex)
        for concept in (3, 5, 6, 7, 8, 9):
            if rng.random() < 0.25:
                omop.condition(person, concept, int(rng.integers(101, 600)))
    return omop.write()


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    path = tmp_path_factory.mktemp("spec") / "grid.toml"
    path.write_text(SPEC)
    return read_spec(path)


@pytest.fixture(scope="module")
def results(database, spec, tmp_path_factory):
    return run_grid(database, spec, tmp_path_factory.mktemp("results"))
