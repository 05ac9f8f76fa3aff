"""The page of errors quotes messages that the code has."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "errors.md").read_text("utf-8")
# Messages of scikit-learn, which checks the names and the number of columns.
OTHERS = {"X has … features, but … is expecting", "The feature names should match"}
QUOTED = sorted(set(re.findall(r"^\| `([^`]+)` \|", PAGE, re.M)) - OTHERS)


def texts(module):
    """The string literals of a module, with … for each formatted value."""
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.fixture(scope="module")
def code():
    return [text for module in (ROOT / "src").rglob("*.py") for text in texts(module)]


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_is_in_the_code(message, code):
    parts = [re.escape(part.strip()) for part in message.split("…") if part.strip()]
    pattern = re.compile(".*".join(parts), re.S)
    assert any(pattern.search(text) for text in code), message


def test_the_page_quotes_messages_of_every_class():
    assert len(QUOTED) > 20
