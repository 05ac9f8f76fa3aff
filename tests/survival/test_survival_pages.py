"""The pages on Cox and Fine-Gray regression run, and print what they show."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["cox", "fine_gray"])
def test_page_runs_and_prints_what_it_shows(page, capsys):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.M | re.S)
    assert len(blocks) >= 2
    space: dict = {}
    for block in blocks:
        exec(compile(block, f"{page}.md", "exec"), space)
    printed = {" ".join(line.split()) for line in capsys.readouterr().out.splitlines()}
    for shown in re.findall(r"^```text\n(.*?)^```", text, flags=re.M | re.S):
        assert {" ".join(line.split()) for line in shown.splitlines()} <= printed
