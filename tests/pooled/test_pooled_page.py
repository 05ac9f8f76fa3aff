"""The tutorial page's Python runs, and prints what the page shows."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "pooled_logistic.md").read_text(encoding="utf-8")


def test_the_page_runs_and_prints_what_it_shows(capsys):
    names = {"__name__": "page"}
    pairs = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", PAGE, flags=re.M | re.S)
    assert len(pairs) == 5
    for block, shown in pairs:
        exec(compile(block, "pooled_logistic.md", "exec"), names)
        printed = capsys.readouterr().out
        if shown:
            assert printed.split() == shown.split()
    assert names["fading"].log_likelihood_ - names["model"].log_likelihood_ < 1.92
    assert abs(names["fading"].summary()["z"]["fin:t"]) < 1
