"""Importing studies is light, and every public name exists."""

import importlib
import subprocess
import sys

import pytest

import steropes
from steropes import designs, studies

HEAVY = {"duckdb", "pyarrow", "matplotlib", "rich", "typer", "pydantic", "pandas", "numba", "scipy",
         "sklearn", "jinja2"}  # fmt: skip


def test_importing_studies_imports_nothing_heavy():
    code = "import sys, steropes.designs, steropes.studies; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()


def test_a_specification_without_models_is_planned_without_estimators(tmp_path):
    """They took most of the time of a check."""
    path = tmp_path / "incidence.json"
    path.write_text('{"moduleSpecifications": [{"module": "CohortIncidenceModule"}]}')
    code = (
        "import sys\nfrom steropes.studies import read_specification_plan\n"
        f"read_specification_plan({str(path)!r})\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"numba", "sklearn", "scipy.stats", "steropes.models"} & {*done.stdout.split()} == set()


def test_every_name_is_there_and_says_what_it_is():
    for package in (designs, studies):
        for name in package.__all__:
            assert getattr(package, name).__doc__


def test_dir_lists_public_names_only():
    """Neither the modules of a package nor what it imports itself, such as ``annotations``."""
    for name in ("datasets", "designs", "federated", "models", "plots", "studies"):
        package = importlib.import_module(f"steropes.{name}")
        assert set(dir(package)) == set(package.__all__)
    of_studies = set(dir(steropes)) - set(steropes.__all__) - {"__version__"}
    assert set(steropes.__all__) < set(dir(steropes))
    assert of_studies < set(studies.__all__)


def test_star_import_and_help_need_no_extra_package():
    code = (
        "import sys; sys.modules['pydantic'] = sys.modules['duckdb'] = None\n"
        "from steropes import *; import inspect, steropes\n"
        "found = dict(inspect.getmembers(steropes))\n"
        "assert found['CoxRegression'] is CoxRegression and 'StudySettings' not in found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_old_name_of_studies_names_its_place():
    """By attribute and by import; every place has the name."""
    with pytest.raises(AttributeError, match=r"it is steropes\.studies\.cohorts\.TimeAtRisk"):
        studies.TimeAtRisk  # noqa: B018
    with pytest.raises(ImportError, match=r"it is steropes\.designs\.Match"):
        from steropes.studies import Match  # noqa: F401
    assert not hasattr(studies, "Balance")
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        studies.Nothing  # noqa: B018
    assert len(studies.__all__) < 35


def test_an_old_name_of_designs_names_its_place():
    """Designs other than the commonest are public by subpackage."""
    with pytest.raises(AttributeError, match=r"it is .*designs\.target_trials\.TargetTrial"):
        designs.TargetTrial  # noqa: B018
    with pytest.raises(ImportError, match=r"it is steropes\.designs\.propensity\.trim"):
        from steropes.designs import trim  # noqa: F401
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        designs.Nothing  # noqa: B018
    assert len(set(designs.__all__) - set(designs._SUBPACKAGES)) < 25


@pytest.mark.parametrize("package", [designs, studies])
def test_every_place_that_an_error_names_has_the_name(package):
    for place, names in package._MOVED.items():
        assert set(names) <= set(importlib.import_module(f"steropes.{place}").__all__)
