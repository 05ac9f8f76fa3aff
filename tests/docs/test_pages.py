"""The pages of docs/ run as they stand, and print what they show."""

import re
from pathlib import Path
from types import MethodType

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(
    page.stem for page in DOCS.glob("*.md") if "```python" in page.read_text(encoding="utf-8")
)
FACTS = {  # that a page claims of its numbers without showing them
    "pooled_logistic": [
        "fading.log_likelihood_ - model.log_likelihood_ < 1.92",
        "abs(fading.summary()['z']['fin:t']) < 1",
    ],
}


def lines(text):
    return {" ".join(line.split()) for line in text.splitlines()}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_and_prints_what_it_shows(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    # A block's output is what stands next to it.
    blocks = re.findall(
        r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", text, flags=re.M | re.S
    )
    assert len(blocks) == len(re.findall(r"^```python\n", text, flags=re.M)) > 1
    assert sum(bool(shown) for _, shown in blocks) == len(re.findall(r"^```text", text, flags=re.M))
    names: dict[str, object] = {"__name__": "page"}
    for block, shown in blocks:
        exec(compile(block, f"{page}.md", "exec"), names)
        printed = capsys.readouterr().out
        assert lines(shown) <= lines(printed)
    for fact in FACTS.get(page, []):
        assert eval(fact, names), fact
    # Where the text names an attribute of an object of the page, a method has parentheses.
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    for code, name, attribute in re.findall(r"`(([a-z]\w*)\.([a-z]\w*))`", prose):
        value = getattr(names.get(name), attribute, None)
        assert not isinstance(value, MethodType), code


def test_all_pages_are_there():
    assert {"cox", "conditional", "cumulative", "extending", "pooled_logistic"} <= set(PAGES)
