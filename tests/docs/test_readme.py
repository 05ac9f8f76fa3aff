"""The README's Python runs."""

import re
import tomllib
from pathlib import Path

import pytest

from steropes.studies.cli.command_line import run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, flags=re.M | re.S)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_python_blocks_run(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out


def test_the_output_shown_is_what_the_demo_prints(tmp_path, capsys):
    (shown,) = re.findall(r"^```text\n(.*?)^```", README, flags=re.M | re.S)
    assert run(["demo", "--output", str(tmp_path)]) == 0
    printed = {" ".join(line.split()) for line in capsys.readouterr().out.splitlines()}
    assert {" ".join(line.split()) for line in shown.splitlines()} <= printed


def test_the_description_for_a_package_index_has_no_relative_links():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    hooks, text = settings["tool"]["hatch"]["metadata"]["hooks"], README
    for rule in hooks["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links == [link for link in links if link.startswith("https://")]
    assert links
    assert "coming from Cyclops" in text


def test_relative_links_of_the_readme_lead_to_files():
    links = re.findall(r"\]\((?!https:)([^)#]+)[^)]*\)", README)
    assert len(links) > 20
    assert [link for link in links if not (ROOT / link).exists()] == []
