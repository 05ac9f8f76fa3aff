"""The README's Python runs."""

import re
from pathlib import Path

import pytest

from steropes.studies.cli.command_line import run

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
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
