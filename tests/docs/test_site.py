"""The documentation site lists every public name."""

import re
from pathlib import Path

import steropes
import steropes.plots
import steropes.studies

DOCS = Path(__file__).parents[2] / "docs"


def test_the_reference_lists_every_public_name():
    listed = set()
    for page in (DOCS / "api").glob("*.rst"):
        text = page.read_text(encoding="utf-8")
        (module,) = re.findall(r"currentmodule:: (\S+)", text)
        listed |= {f"{module}.{name}" for name in re.findall(r"^   (\w+)$", text, re.M)}
    known = {name.rpartition(".")[2] for name in listed if name.startswith("steropes.studies.")}
    public = {f"steropes.{n}" for n in set(steropes.__all__) - known - {"plots", "studies"}}
    public |= {f"steropes.plots.{name}" for name in steropes.plots.__all__}
    public |= {f"steropes.studies.{name}" for name in steropes.studies.__all__}
    assert listed == public - {"steropes.federated", "steropes.studies.DEMO"}


def test_every_page_is_in_the_table_of_contents():
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    listed = set()
    for page in DOCS.glob("*.md"):
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text("utf-8"), re.S):
            listed |= set(re.findall(r"^([\w/]+)$", tree, re.M))
    assert pages == listed - {"api/index", "gallery/index"}
