"""The parts of pages: pictures with words, drawn for wide and narrow screens; tables; numbers."""

import html.parser
import math
import os
import re

import jinja2
import numpy as np
import pandas as pd
import pytest

from steropes.data.number_formatting import counted, effect
from steropes.errors import DataError
from steropes.studies.formatting.released_numbers import family_name
from steropes.studies.report.balance_figures import balance_scatter, love_plot
from steropes.studies.report.control_estimates_figure import calibration_plot
from steropes.studies.report.flow_diagram import attrition_diagram
from steropes.studies.report.forest_plot import Row, forest
from steropes.studies.report.overlap_figure import score_overlap
from steropes.studies.report.page_parts import Cell, verdict_cell
from steropes.studies.report.survival_figure import survival_figure
from steropes.studies.report.svg_canvas import Axes, Canvas, log_ticks, ticks
from steropes.studies.report.template_rendering import _environment, render
from steropes.studies.result_files.atomic_files import write_files

NAMES = {"target": "new & better <drug>", "comparator": "old drug"}


class Balanced(html.parser.HTMLParser):
    """Fails where a tag is closed that is not open."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def macro(name, *values):
    """The HTML of a part of a page."""
    return str(getattr(_environment().get_template("parts.html.jinja").module, name)(*values))


def pictures():
    density = pd.DataFrame({"preference_score": np.linspace(0, 1, 5)})
    density = density.assign(target_density=[0, 1, 2, 1, 0], comparator_density=[0, 2, 2, 0, 0])
    balance = pd.DataFrame(
        {
            "covariate_name": ["age & sex", "b", "c"],
            "std_diff_before": [0.3, -0.2, np.nan],
            "std_diff_after": [0.05, -0.12, 0.0],
        }
    )
    curve = pd.DataFrame({"time_day": [0, 50, 100]})
    for arm in ("target", "comparator"):
        curve = curve.assign(
            **{f"{arm}_survival": [1, 0.9, 0.8], f"{arm}_survival_lb": [1, 0.85, 0.7],
               f"{arm}_survival_ub": [1, 0.95, 0.9], f"{arm}_at_risk": [100, np.nan, -5]}
        )  # fmt: skip
    rows = [Row("crude", 1.5, 1.1, math.inf, (1.4, 0.9, 2.0)), Row("none", note="nobody is left")]
    controls = pd.DataFrame({"log_rr": [0.1, 2.0, np.nan], "se_log_rr": [0.2, 0.3, 0.1]})
    return {
        "forest": (forest("a", rows, "hazard ratio"), "crude: 1.50 (1.10 to ∞), calibrated 1.40"),
        "flow": (
            attrition_diagram("b", [("All", 20, -5), ("Old", 10, 7)], NAMES),
            "All: 20 and <5",
        ),
        "overlap": (score_overlap("c", density, density.iloc[:0], NAMES), "Before adjustment: 75%"),
        "scatter": (balance_scatter("d", balance, 0.1), "after it 1, and 0.12"),
        "love": (love_plot("e", balance, 0.1), "age & sex: 0.30, then 0.05"),
        "curves": (survival_figure("f", curve, NAMES), "80.0% of the comparator"),
        "calibration": (calibration_plot("g", controls, 0.1, 0.2), "the intervals of 1 do not"),
    }


@pytest.mark.parametrize("name", list(pictures()))
def test_pictures_say_what_they_show_and_are_whole(name):
    picture, said = pictures()[name]
    assert said in picture.description
    text = macro("figure", picture, "A <caption>.")
    page = Balanced()
    page.feed(text)
    assert page.open == []
    assert "<figcaption>A &lt;caption&gt;.</figcaption>" in text
    assert text.count('role="img"') == 2
    assert text.count("<title>") == 2
    assert "nan" not in text
    assert picture.file().startswith("<svg")
    assert "--target" in picture.file()
    assert picture.file() == pictures()[name][0].file()


def test_pictures_of_nothing_are_none():
    empty = pd.DataFrame({"std_diff_before": [np.nan], "std_diff_after": [1.0]})
    assert balance_scatter("a", empty, 0.1) is None
    assert love_plot("a", empty, 0.1) is None
    assert forest("a", [Row("x")], "odds ratio") is None
    assert attrition_diagram("a", [], NAMES) is None
    assert survival_figure("a", pd.DataFrame(), NAMES) is None


def test_a_survival_curve_without_released_numbers_at_risk_is_drawn_without_them():
    curve = pd.DataFrame({"time_day": [0, 50, 100]})
    for arm in ("target", "comparator"):
        curve = curve.assign(
            **{f"{arm}_survival{e}": [1.0, 0.9, 0.8] for e in ("", "_lb", "_ub")},
            **{f"{arm}_at_risk": np.nan},
        )
    text = survival_figure("f", curve, NAMES).file()
    assert text.count('class="curve ') == 2
    assert "At risk" not in text
    assert ">100</text>" in text


def test_a_survival_curve_is_drawn_as_far_as_it_goes():
    curve = pd.DataFrame({"time_day": [0, 50, 100]})
    for arm, last in (("target", 0.8), ("comparator", np.nan)):
        curve = curve.assign(
            **{f"{arm}_survival{e}": [1.0, 0.9, last] for e in ("", "_lb", "_ub")},
            **{f"{arm}_at_risk": [100, np.nan, 0]},
        )
    picture = survival_figure("f", curve, NAMES)
    assert "80.0% of the target arm" in picture.description
    assert (
        "90.0% of the comparator arm (old drug, whose curve ends on day 50) are"
        in picture.description
    )
    ends = {
        arm: max(float(p.split(",")[0]) for p in re.search(
            rf'<polyline points="([^"]+)" class="curve {arm}"', picture.file()
        )[1].split())
        for arm in ("target", "comparator")
    }  # fmt: skip
    assert ends["comparator"] < ends["target"]


def test_ticks_are_round_and_few():
    assert ticks(0, 1, 6) == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert ticks(-0.3, 0.3, 5) == [-0.2, 0.0, 0.2]
    assert log_ticks(0.8, 1.7) == [0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.6]
    assert log_ticks(0.05, 20)[0] == 0.1 or 1 in log_ticks(0.05, 20)
    assert Canvas.wrapped("", 100) == [""]


def test_the_last_number_of_an_axis_is_within_the_picture():
    canvas = Canvas(344)
    Axes(canvas, (1980, 2020), (0, 1), 8, 100).across("year", plain=True)
    numbers = [m.attributes for m in canvas.marks if m.tag == "text"]
    places = [float(a["x"]) for a in numbers if a.get("y") == "118.0"]
    assert places
    assert max(places) + 4 * 13 * 0.636 / 2 <= canvas.width  # four digits of DejaVu Sans


def test_numbers_and_cells():
    assert [counted(n) for n in (0, 1234, -5, np.nan)] == ["0", "1,234", "<5", "–"]
    assert effect(1.234, 0.5, math.inf) == "1.23 (0.50 to ∞)"
    assert effect(math.nan, 0, 1) == ""
    assert verdict_cell(0.123, "FAIL") == Cell("0.12", "FAIL", "fail")
    assert verdict_cell(math.nan, "NOT EVALUATED") == Cell("–", "faint")
    shown = macro("table", ("x", '"y"'), [("a < b", Cell("<1", "FAIL", "<fail>"))], ())
    assert '<td data-label="x">a &lt; b</td>' in shown
    assert 'data-label="&#34;y&#34;"' in shown
    assert '><span class="FAIL">&lt;1 <small>&lt;fail&gt;</small></span></td>' in shown
    assert "--columns:1" in macro("numbers", ("x", "y"), {"Age": [("a", "1")]})
    assert macro("table", ("x", "y"), []) == ""


def test_a_template_refuses_a_name_that_is_missing():
    with pytest.raises(jinja2.UndefinedError, match="'picture' is undefined"):
        render("file.svg.jinja", width=720)


def test_files_are_written_whole_or_refused(tmp_path):
    paths = write_files(tmp_path, {"a.html": "x", "figures/b.svg": "y"})
    assert [p.read_text() for p in paths] == ["x", "y"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.html", "figures"]
    with pytest.raises(DataError, match="cannot write"):
        write_files(tmp_path / "a.html", {"c": "z"})


def test_a_failed_write_leaves_no_empty_folders(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    (tmp_path / "there").mkdir()
    monkeypatch.setattr(os, "fdopen", full)
    for folder in ("o", "there/release"):
        with pytest.raises(DataError, match=r"cannot write .*: No space left on device"):
            write_files(tmp_path / folder, {"a.html": "x", "figures/b.svg": "y"})
    assert [p.name for p in tmp_path.rglob("*")] == ["there"]


def test_names_of_families_are_words():
    assert family_name("ConditionGroupEraLongTerm") == "Condition group era long term"
    for own in ("conditions", "Own cohorts", "PSA", "Chads2Vasc"):
        assert family_name(own) == own
