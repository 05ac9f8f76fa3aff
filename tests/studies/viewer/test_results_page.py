"""The page of results is one file, loads nothing, and cannot be changed by texts of the data."""

import base64
import gzip
import hashlib
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from tests.studies.viewer.small_archives import FORMULA, HOSTILE, small_archive

from steropes.errors import DataError
from steropes.studies.cli.command_line import run
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.viewer.page_data import FLOAT, LENGTH, encoded, view_record
from steropes.studies.viewer.result_sources import read_sources
from steropes.studies.viewer.results_page import SCRIPTS, results_views, write_results_page
from steropes.studies.viewer.view_definition import View, checks, column, ids, texts


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    path = small_archive(folder, "north", [(3, 1, 1.5, 1, 1)], cohorts={3: HOSTILE, 2: FORMULA})
    return write_results_page([path], folder / "page.html").read_text(encoding="utf-8")


def decoded(text):
    """Decode a record that `encoded` made."""
    whole = gzip.decompress(base64.b64decode(text))
    start = LENGTH + int.from_bytes(whole[:LENGTH], "little")
    found = json.loads(whole[LENGTH:start])
    for name, about in found["data"].items():
        place = start + about["offset"]
        packed = np.frombuffer(whole, about["type"], found["rows"], place)
        if "texts" in about:
            found["data"][name] = {"texts": about["texts"], "at": packed.tolist()}
        else:
            values = packed if about["type"] == FLOAT else scaled_back(packed, about["scale"])
            found["data"][name] = {"numbers": [plain(x) for x in values.tolist()]}
    return found


def scaled_back(packed, scale):
    """Return the numbers of a packed column; NaN for missing ones."""
    return np.where(packed == np.iinfo(packed.dtype).min, math.nan, packed / scale)


def plain(x):
    """Return a number as a record has it: whole, missing or infinite."""
    if math.isnan(x):
        return None
    if math.isinf(x):
        return "Infinity" if x > 0 else "-Infinity"
    return int(x) if x == round(x) else x


def test_names_are_in_the_data_but_not_in_the_markup(page):
    assert "hacked" not in page
    estimates = decoded(re.search(r'id="data-estimates">([^<]*)<', page)[1])
    assert estimates["data"]["outcome"]["texts"] == [HOSTILE]


def test_the_page_has_exactly_its_own_scripts_which_its_policy_names(page):
    scripts = re.findall(r"<script>\n?(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == len(SCRIPTS)
    own = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy.split("script-src")[1]
    for script in own:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_the_page_refers_to_no_other_file(page):
    markup = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    assert not re.search(r"\b(src|href)=\"(?!#)", markup)
    assert "sourceMappingURL" not in page
    styles = "".join(re.findall(r"<style>(.*?)</style>", page, re.DOTALL))
    assert "@import" not in styles
    assert not re.search(r"url\((?!['\"]?data:)", styles)


def test_the_same_results_give_the_same_bytes(tmp_path):
    path = small_archive(tmp_path, "north", [(3, 1, 1.5, 1, 1)])
    one, two = (write_results_page([path], tmp_path / f"{n}.html") for n in "ab")
    assert one.read_bytes() == two.read_bytes()


def test_values_survive_the_encoding():
    table = pd.DataFrame(
        {"i": [1, 2, 3], "name": ["a", None, HOSTILE], "x": [0.1234567, math.inf, math.nan],
         "n": [-5, 0, 12_345_678_901], "check": [0.5, math.nan, 1],
         "check_verdict": ["PASS", None, "FAIL"]}
    )  # fmt: skip
    columns = (*ids("i"), *texts(name="N"), column("x", "X"), column("n", "N", "count"))
    view = View("v", "V", "G", "", (*columns, *checks([("check", "C")])), table)
    found = decoded(encoded(view_record(view)))
    assert found["rows"] == 3
    assert found["data"]["i"] == {"numbers": [1, 2, 3]}
    assert found["data"]["name"] == {"texts": ["a", HOSTILE], "at": [0, -1, 1]}
    assert found["data"]["x"] == {"numbers": [0.123457, "Infinity", None]}
    assert found["data"]["n"] == {"numbers": [-5, 0, 12_345_678_901]}
    assert found["data"]["check_verdict"]["texts"] == ["PASS", "FAIL"]
    assert "<" not in encoded(view_record(view))


def test_missing_columns_are_empty():
    view = View("v", "V", "G", "", (*texts(a="A"), column("b", "B")), pd.DataFrame({"a": ["x"]}))
    assert view_record(view)["data"]["b"] == {"numbers": [None]}


def test_fifty_thousand_rows_are_a_few_megabytes():
    n, rng = 50_000, np.random.default_rng(1)
    table = pd.DataFrame({"name": [f"condition {i}" for i in range(n)], "db": "north"})
    for k in range(6):
        table[f"x{k}"] = rng.normal(size=n).round(3)
    columns = (*texts("text", name="N"), *texts(db="D"), *(column(f"x{k}", "X") for k in range(6)))
    assert len(encoded(view_record(View("v", "V", "G", "", columns, table)))) < 2_000_000


def test_the_command_writes_the_page_and_names_it(tmp_path, capsys):
    path = small_archive(tmp_path, "north", [(3, 1, 1.5, 1, 1)])
    page = tmp_path / "out" / "page.html"
    assert run(["view", str(path), "--output", str(page), "--no-open"]) == 0
    assert capsys.readouterr().out.strip() == str(page)
    listed = json.loads(re.search(r'id="views">(.*?)</script>', page.read_text())[1])
    assert [view["name"] for view in listed][:5] == [
        "estimates", "diagnostics", "further-diagnostics", "attrition", "balance",
    ]  # fmt: skip


def test_the_command_opens_the_page(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setenv("DISPLAY", ":0")
    path = small_archive(tmp_path, "north", [(3, 1, 1.5, 1, 1)])
    assert run(["view", str(path), "--output", str(tmp_path / "p.html"), "--quiet"]) == 0
    assert opened == [(tmp_path / "p.html").resolve().as_uri()]
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert run(["view", str(path), "--output", str(tmp_path / "p.html"), "--quiet"]) == 0
    assert len(opened) == 1


def test_the_command_refuses_what_it_cannot_show(tmp_path, capsys):
    assert run(["view", str(tmp_path), "--no-open"]) == 2
    assert "no released results" in capsys.readouterr().err
    path = small_archive(tmp_path, "north", [(3, 1, 1.5, 1, 1)])
    assert run(["view", str(path), "--output", str(tmp_path / "p.pdf")]) == 2
    assert "HTML file" in capsys.readouterr().err


def test_a_site_with_stricter_rules_suppresses_more(tmp_path):
    path = small_archive(tmp_path, "north", [(3, 1, 1.5, 1, 1)])
    text = write_results_page([path], tmp_path / "p.html", disclosure="ohdsi:10").read_text()
    steps = decoded(re.search(r'id="data-attrition">([^<]*)<', text)[1])["data"]["subjects"]
    assert steps == {"numbers": [-10, -10]}
    with pytest.raises(DataError, match="rules must be one of"):
        write_results_page([path], tmp_path / "p.html", disclosure="lax")


def test_comparisons_of_whole_cohorts_come_before_those_of_subsets(tmp_path):
    where = {"database_id": "north", "analysis_id": 1, "outcome_id": 3}
    pairs = {11: (1001, 2), 12: (1, 2), 13: (1, 2001)}
    tables = {
        "CohortMethodModule/cm_result": [
            {**where, "target_comparator_id": i, "rr": 1.5, "ci_95_lb": 1.2, "ci_95_ub": 1.9}
            for i in pairs
        ],
        "CohortMethodModule/cm_target_comparator": [
            {"target_comparator_id": i, "target_id": t, "comparator_id": c}
            for i, (t, c) in pairs.items()
        ],
        "CohortGeneratorModule/cg_cohort_definition": [
            {"cohort_definition_id": i, "cohort_name": f"cohort {i}", "is_subset": int(i > 1000)}
            for i in (1, 2, 1001, 2001)
        ],
    }
    for name, rows in tables.items():
        path = tmp_path / "site" / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(rows).to_csv(path, index=False)
    views = results_views(read_sources([tmp_path / "site"]), DisclosureRules(), unblind=True)
    [estimates] = [view for view in views if view.name == "estimates"]
    assert estimates.table["target_comparator_id"].tolist() == [12, 11, 13]
