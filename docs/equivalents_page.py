"""The page of equivalents of other packages' functions, written from `equivalents.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE / "equivalents.md"
PACKAGES: dict[str, dict[str, Any]] = tomllib.loads((HERE / "equivalents.toml").read_text("utf-8"))

INTRODUCTION = """\
# One table of all equivalents

What users of six packages reach for first, and how it is written here. The tests of this library
evaluate every expression of the second column after `from steropes import *`, with these names:

- `df` is a data frame with the columns `age`, `sex`, `dose`, `site`, `set`, `id`, `time`, `event`
  and the outcomes `dead`, `weight` and `count`;
- `X` is `df[["age", "sex", "dose"]]`, `y` is `Surv(time, event)`, `cause` are numbered causes of
  competing events, `start` are entry times, `w` weights and `times` two times;
- `cox`, `logistic`, `linear` and `cumulative` are models that were fitted to `X`; `cox_of_age` has
  one covariate, and `cox_formula` has the formula `Surv(time, event) ~ rcs(age, 3) + sex`;
- `km` is `kaplan_meier(y)`.
"""


def page() -> str:
    """Write the page in Markdown."""
    entries = [entry for package in PACKAGES.values() for entry in package["entry"]]
    there = sum("ours" in entry for entry in entries)
    count = f"Of {len(entries)} entries, {there} have an equivalent.\n"
    return "\n".join([INTRODUCTION, count, *(section(p) for p in PACKAGES.values())])


def section(package: dict[str, Any]) -> str:
    """Write the table of a package."""
    lines = [f"## {package['title']}\n", f"| {package['package']} | steropes |", "|---|---|"]
    for entry in package["entry"]:
        if "ours" in entry:
            note = f" ({entry['note']})" if "note" in entry else ""
            lines.append(f"| `{entry['theirs']}` | `{entry['ours']}`{note} |")
        else:
            lines.append(f"| `{entry['theirs']}` | not here: {entry['instead']} |")
    return "\n".join([*lines, ""])


def write_page(app: Any = None) -> None:
    """Write the page before the site is built, unless it is there already with the same text."""
    text = page()
    if not PAGE.exists() or PAGE.read_text("utf-8") != text:
        PAGE.write_text(text, encoding="utf-8")
