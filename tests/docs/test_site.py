"""The documentation site lists every public name, and pages and the Makefile name real files."""

import os
import re
import shutil
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from benchmarks.papers.comparison import PAPERS, experiments
from tests.docs.public_docstrings import MODULES

import steropes
import steropes.datasets
import steropes.federated
import steropes.models
import steropes.plots
from steropes.models.fitting.accessor_base_class import Accessor

ROOT = Path(__file__).parents[2]
DOCS, PACKAGE = ROOT / "docs", ROOT / "src" / "steropes"
ARCHITECTURE = sorted((DOCS / "architecture").glob("*.md"))
CODE = "\n".join(module.read_text("utf-8") for module in PACKAGE.rglob("*.py"))
CLASSES = set(re.findall(r"^class (\w+)", CODE, re.M))
MEMBERS = set(re.findall(r"^    (?:def )?(\w+)[(:]", CODE, re.M))


def test_the_reference_lists_every_public_name():
    listed = set()
    for page in (DOCS / "api").glob("*.rst"):
        text = page.read_text(encoding="utf-8")
        parts = re.split(r"currentmodule:: (\S+)", text)[1:]
        for module, part in zip(parts[::2], parts[1::2], strict=True):
            listed |= {f"{module}.{name}" for name in re.findall(r"^   (\w+)$", part, re.M)}
    packages = [m for m in MODULES if m.startswith(("steropes.designs", "steropes.studies"))]
    found: dict[int, str] = {}  # An object is listed by the first package that has it.
    for package in (*packages, "steropes.federated", "steropes"):
        for name in import_module(package).__all__:
            found.setdefault(id(getattr(import_module(package), name)), f"{package}.{name}")
    public = {*found.values()} - {*packages}
    public |= {f"steropes.datasets.{name}" for name in steropes.datasets.__all__}
    public |= {f"steropes.plots.{name}" for name in steropes.plots.__all__}
    public |= {
        f"steropes.models.{name}"
        for name in steropes.models.__all__
        if isinstance(getattr(steropes.models, name), type)
        and issubclass(getattr(steropes.models, name), Accessor)
    }
    constants = {"steropes.federated.SCHEMA", "steropes.studies.DEMO"}
    subpackages = {
        f"steropes.{n}" for n in ("datasets", "designs", "federated", "plots", "studies")
    }
    assert listed == public - constants - subpackages


def test_every_page_is_in_the_table_of_contents():
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    pages |= {f"architecture/{page.stem}" for page in ARCHITECTURE}
    pages |= {"equivalents", "specification_keys"}  # They are written when the site is built.
    pages |= {f"papers/{page.stem}" for page in (DOCS / "papers").glob("*.md")}
    listed = set()
    for page in DOCS.glob("*.md"):
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text("utf-8"), re.S):
            listed |= set(re.findall(r"^([\w/]+)$", tree, re.M))
    assert pages == listed - {"api/index", "gallery/index"}


def test_every_paper_has_a_page_that_names_its_command():
    pages = {page.stem: page.read_text("utf-8") for page in (DOCS / "papers").glob("*.md")}
    assert set(pages) == set(PAPERS)
    for name, text in pages.items():
        assert f"python -m benchmarks paper {name}" in text
        headings = {heading.lower() for heading in re.findall(r"^## (.+)$", text, re.M)}
        assert {experiment.lower() for experiment in experiments(name)} <= headings
        assert text.count("| quantity | paper | ours |") >= len(experiments(name))


def test_the_tests_of_reference_numbers_exist():
    tests = DOCS.parent / "tests"
    named = re.findall(r"`(test_\w+)`", (tests / "designs" / "published" / "README.md").read_text())
    sources = "\n".join(
        p.read_text() for f in ("designs", "models") for p in (tests / f).rglob("*.py")
    )
    assert len(named) > 30
    assert [name for name in named if f"def {name}(" not in sources] == []


@pytest.mark.parametrize("page", [DOCS / "architecture.md", *ARCHITECTURE], ids=lambda p: p.stem)
def test_the_architecture_names_files_and_classes_that_exist(page):
    code = set(re.findall(r"`([^`\n]+)`", page.read_text("utf-8")))
    files = {name for name in code if re.fullmatch(r"[\w/*]+(\.py|/)", name)}
    assert files
    assert {name for name in files if not [*PACKAGE.glob(name), *ROOT.glob(name)]} == set()
    names = {name for name in code if re.fullmatch(r"[A-Z]\w*[a-z]\w*(\.\w+)?", name)}
    assert {name.partition(".")[0] for name in names} <= CLASSES
    assert {name.partition(".")[2] for name in names} - {""} <= MEMBERS


PATH = re.compile(r"(?<![\w/.])((?:tests|docs|benchmarks|examples|requirements|src)/[\w./*-]*\w)")


def _missing(text):
    # These are made by `make site`.
    made = {"docs/api/generated", "docs/gallery", "docs/images/benchmarks"}
    return {path for path in {*PATH.findall(text)} - made if not [*ROOT.glob(path)]}


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_targets_of_the_makefile_name_files_that_exist():
    (phony,) = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.M)
    # A dry run prints the commands of all targets, with variables expanded.
    command = ["make", "--dry-run", "--always-make", *phony.split()]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    run = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, check=True)
    assert len({*PATH.findall(run.stdout)}) > 20
    assert _missing(run.stdout) == set()


def test_pages_and_settings_name_files_that_exist():
    files = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")]
    files += [ROOT / "pyproject.toml", ROOT / "Dockerfile", ROOT / ".ci" / "run"]
    missing = {f.name: _missing(f.read_text("utf-8")) for f in files}
    assert {name: paths for name, paths in missing.items() if paths} == {}


def test_an_image_is_built_from_a_fixed_base_and_locked_tools():
    """Nothing that enters an image can change without a change of a file here."""
    image = (ROOT / "Dockerfile").read_text("utf-8")
    bases = re.findall(r"^FROM (\S+)|^ARG PYTHON=(\S+)", image, re.M)
    assert {base or default for base, default in bases} == {
        "${PYTHON}",
        *re.findall(r"python:[\w.-]+@sha256:[0-9a-f]{64}", image),
    }
    assert "--no-build-isolation" in image
    for line in image.splitlines():
        if "pip install" in line:
            assert "--require-hashes" in line or "--no-index" in line
    locked = (ROOT / "requirements" / "build.txt").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    for tool in project["build-system"]["requires"]:
        name = re.split("[<>=!~]", tool)[0]
        assert re.search(rf"^{re.escape(name)}==\S+ \\\n    --hash=sha256:", locked, re.M), tool
