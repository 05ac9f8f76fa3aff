"""The table of equivalents of other packages' functions is evaluated as it stands."""

from functools import cache
from typing import Any

import matplotlib.pyplot as plt
import pytest
from docs.equivalents_page import PACKAGES, page
from tests.docs.fits_of_equivalents import names_of_equivalents

ENTRIES = [
    pytest.param(entry, id=f"{name}-{entry['theirs']}")
    for name, package in PACKAGES.items()
    for entry in package["entry"]
]
names = cache(names_of_equivalents)


@pytest.mark.parametrize("entry", [p for p in ENTRIES if "ours" in p.values[0]])
def test_an_equivalent_runs(entry: dict[str, Any]) -> None:
    assert set(entry) <= {"theirs", "ours", "note"}
    try:
        value = eval(entry["ours"], dict(names()))
    finally:
        plt.close("all")
    assert value is not None


@pytest.mark.parametrize("entry", [p for p in ENTRIES if "ours" not in p.values[0]])
def test_a_missing_equivalent_is_explained(entry: dict[str, Any]) -> None:
    assert set(entry) == {"theirs", "instead"}
    assert len(entry["instead"].split()) > 5


def test_the_table_has_the_agreed_number_of_entries() -> None:
    counts = {name: len(package["entry"]) for name, package in PACKAGES.items()}
    assert counts == {
        "survival": 52, "rms": 21, "glmnet": 28, "lifelines": 35, "sksurv": 16, "statsmodels": 19,
    }  # fmt: skip
    assert all(len({e["theirs"] for e in p["entry"]}) == len(p["entry"]) for p in PACKAGES.values())


def test_the_page_shows_every_entry_in_a_table_that_markdown_can_read() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `")]
    assert len(rows) == sum(len(p["entry"]) for p in PACKAGES.values())
    assert all(row.count("|") == 3 for row in rows)
