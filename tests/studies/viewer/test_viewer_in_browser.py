"""The page of results in a real browser: filter, sort, open, link, export, print."""

import csv
import time
from urllib.parse import quote

import pandas as pd
import pytest
from tests.studies.viewer.small_archives import FORMULA, HOSTILE, small_archive

from steropes.studies.report.template_rendering import _environment
from steropes.studies.viewer.results_page import write_results_page

pytestmark = pytest.mark.slow
SECRET = 3.777
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
PLACE = """
    const table = document.querySelector("#table").getBoundingClientRect();
    return [...document.querySelectorAll(".tabulator-col[tabulator-field]")].map((x) => {
        const { left, right } = x.getBoundingClientRect();
        const seen = left >= table.left - 1 && right <= table.right + 1;
        return [x.getAttribute("tabulator-field"), seen];
    })"""  # The columns in their order, and whether each is visible without scrolling.
ROWS = 50_000
FOLDS = """
{% extends "page.html.jinja" %}
{% from "parts.html.jinja" import contents, fold %}
{% block content %}
{{ contents([("c1", "one", []), ("c2", "two", [])]) }}
{% for id in ("c1", "c2") %}
{% call fold(id, id, 2, false) %}
<p>text</p>
{% endcall %}
{% endfor %}
{% endblock %}
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Two databases; north has 50,000 covariates, and its second analysis is hidden."""
    folder = tmp_path_factory.mktemp("page")
    paths = [
        small_archive(
            folder,
            "north",
            [(3, 1, 1.2, 1, 1), (3, 2, SECRET, 0, 0), (4, 1, 0.9, 1, 1)],
            covariates=ROWS,
            cohorts={1: HOSTILE, 2: FORMULA},
            truth={4: 1.0},
        ),
        small_archive(folder, "south", [(3, 1, 1.6, 1, 1), (3, 2, 2.2, 1, 1)], truth={4: 1.0}),
    ]
    return write_results_page(paths, folder / "page.html").as_uri()


class Viewer:
    """A page in a browser."""

    def __init__(self, browser, page):
        self.browser, self.page = browser, page

    def open(self, fragment=""):
        self.browser.get("about:blank")
        self.browser.get(f"{self.page}#{fragment}")
        self.browser.set_script_timeout(60)
        self.browser.execute_async_script("Page.ready.then(() => arguments[0]())")

    def find(self, selector):
        return self.browser.find_element("css selector", selector)

    def cells(self, field):
        """Texts of the visible cells of a column."""
        script = "return [...document.querySelectorAll(arguments[0])].map((x) => x.textContent)"
        return self.browser.execute_script(
            script, f'.tabulator-row .tabulator-cell[tabulator-field="{field}"]'
        )

    def wait(self, condition, seconds=20):
        """Wait until a condition holds, and return how long it took."""
        begin = time.perf_counter()
        while not condition():
            assert time.perf_counter() - begin < seconds, self.find("#status").text
            time.sleep(0.02)
        return time.perf_counter() - begin

    def rows(self, text):
        """Wait for the number of rows, as the page counts them."""
        return self.wait(lambda: self.find("#status").text.startswith(f"{text} of"))

    def errors(self):
        return [e["message"] for e in self.browser.get_log("browser") if e["level"] == "SEVERE"]


@pytest.fixture
def viewer(browser, page):
    found = Viewer(browser, page)
    found.errors()
    yield found
    assert found.errors() == []


def test_every_view_opens_without_an_error_or_a_request(viewer):
    viewer.open()
    names = viewer.browser.execute_script(
        "return [...document.querySelectorAll('#navigation a')].map((a) => a.id.slice(3))"
    )
    assert {
        "estimates", "balance", "curves", "synthesis", "databases", "settings",
        "effects-by-period", "further-diagnostics",
    } <= {*names}  # fmt: skip
    for name in names:
        viewer.find(f"#to-{name}").click()
        viewer.wait(lambda n=name: viewer.find(f"#to-{n}").get_attribute("aria-current"))
        viewer.wait(lambda: " of " in viewer.find("#status").text)
        assert viewer.cells("database") or viewer.find(".tabulator-row")
    requests = viewer.browser.execute_script(
        "return performance.getEntriesByType('resource').map((e) => e.name)"
    )
    assert [r for r in requests if not r.startswith(("data:", "blob:"))] == []


def test_hidden_results_stay_hidden(viewer):
    viewer.open("view=estimates&all=1")
    viewer.rows("5")
    status = viewer.browser.execute_script(
        "const rows = (record) => Values.rows(record, {}).map((x) => [x.rr, x.status]);"
        "return Values.load('estimates').then(rows)"
    )
    hidden = "not shown: a diagnostic failed ("
    assert any(rr is None and str(said).startswith(hidden) for rr, said in status)
    assert str(SECRET) not in viewer.browser.page_source


def test_fifty_thousand_rows_stay_quick(viewer):
    viewer.open("view=balance")
    assert viewer.rows(f"{ROWS + 3:,}") < 10
    filter_of = viewer.find('[tabulator-field="covariate"] .tabulator-header-filter input')
    filter_of.send_keys("condition 49999")
    assert viewer.rows("1") < 3
    filter_of.clear()
    filter_of.send_keys(" ")
    viewer.rows(f"{ROWS + 3:,}")
    heading = viewer.find('.tabulator-col[tabulator-field="std_diff_before"]')
    viewer.browser.execute_script("arguments[0].scrollIntoView({inline: 'center'})", heading)
    heading.find_element("css selector", ".tabulator-col-title").click()
    assert viewer.wait(lambda: viewer.cells("std_diff_before")[:1] == ["0.000"]) < 3
    drawn = len(viewer.browser.find_elements("css selector", ".tabulator-row"))
    assert drawn < 200


def test_numbers_are_filtered_by_relations_and_ranges(viewer):
    viewer.open("view=estimates&all=1")
    viewer.rows("5")
    ratio = viewer.find('[tabulator-field="rr"] .tabulator-header-filter input')
    ratio.send_keys(">=1.5")
    viewer.rows("2")
    assert sorted(viewer.cells("rr")) == ["1.60", "2.20"]
    ratio.clear()
    ratio.send_keys("0.5..1.3")
    viewer.wait(lambda: sorted(viewer.cells("rr")) == ["0.90", "1.20"])


def test_the_search_and_the_choices_go_into_the_link(viewer):
    viewer.open("view=estimates&all=1")
    viewer.rows("5")
    viewer.find("#search").send_keys("analysis 1")
    viewer.rows("3")
    viewer.find("#choose-database option:nth-child(3)").click()
    viewer.rows("1")
    link = viewer.browser.current_url.split("#")[1]
    assert "q=analysis" in link
    assert "is.database=south" in link
    viewer.open(link)
    viewer.rows("1")
    assert viewer.cells("rr") == ["1.60"]


def test_a_row_has_details_and_a_link_that_opens_it(viewer):
    viewer.open("view=estimates&all=1")
    viewer.rows("5")
    viewer.browser.find_elements("css selector", ".tabulator-row")[0].click()
    viewer.wait(lambda: viewer.find("#details").is_displayed())
    assert "hazard ratio" in viewer.find("#details").text
    link = viewer.browser.current_url.split("#")[1]
    assert "row=" in link
    viewer.open(link)
    viewer.wait(lambda: viewer.find("#details").is_displayed())
    viewer.find("#details ul.related a[href*='view=balance']").click()
    viewer.wait(lambda: "Balance" in viewer.find("#title").text)
    viewer.rows(f"{ROWS:,}")  # Those of south are not in it.


def test_a_row_far_down_is_scrolled_to(viewer):
    row = quote(f"99~1~{1000 + ROWS - 1}~north")
    viewer.open(f"view=balance&row={row}")
    viewer.wait(lambda: viewer.browser.find_elements("css selector", ".tabulator-selected"))
    assert f"Condition {ROWS - 1}" in viewer.find("#details").text


def test_a_table_is_exported_as_it_is_filtered_and_without_formulas(viewer):
    viewer.open(f"view=estimates&all=1&{quote('f.rr')}={quote('<1.3')}")
    viewer.rows("2")
    viewer.find("#export").click()
    path = viewer.browser.downloads / "estimates.csv"
    viewer.wait(path.exists)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["rr"]) for row in rows] == [1.2, 0.9]
    assert {row["comparator"] for row in rows} == {f"'{FORMULA}"}
    assert rows[0]["target"] == HOSTILE
    path.unlink()


def test_names_are_texts_and_never_markup(viewer):
    for view in ("estimates", "balance", "attrition", "synthesis"):
        viewer.open(f"view={view}")
        assert viewer.browser.find_elements("css selector", "main img") == []
    assert "hacked" not in viewer.browser.title
    viewer.open("view=estimates&all=1")
    assert HOSTILE in viewer.browser.execute_script(
        "window.dispatchEvent(new Event('beforeprint')); return document.body.textContent"
    )
    assert viewer.browser.find_elements("css selector", "main img") == []


def test_the_keyboard_sorts_chooses_and_opens(viewer):
    from selenium.webdriver.common.keys import Keys

    viewer.open("view=estimates&all=1")
    viewer.rows("5")
    viewer.find('.tabulator-col[tabulator-field="rr"]').send_keys(Keys.ENTER)
    viewer.wait(lambda: viewer.cells("rr") == ["–", "0.90", "1.20", "1.60", "2.20"])
    rows = viewer.find("#table")
    rows.send_keys(Keys.ARROW_DOWN)
    rows.send_keys(Keys.ARROW_DOWN)
    rows.send_keys(Keys.ENTER)
    viewer.wait(lambda: viewer.find("#details").is_displayed())
    assert "0.90" in viewer.find("#details").text


def test_the_printed_page_has_the_rows_and_no_commands(viewer):
    viewer.open("view=estimates&all=1")
    viewer.rows("5")
    viewer.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    viewer.browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert len(viewer.browser.find_elements("css selector", "#printed tbody tr")) == 5
    assert viewer.find("#printed").is_displayed()
    assert not viewer.find("#search").is_displayed()
    viewer.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_the_forest_plot_has_the_combined_estimate_of_the_databases(viewer):
    viewer.open("view=estimates")
    viewer.wait(lambda: viewer.browser.find_elements("css selector", "#chart svg"))
    label = viewer.find("#chart svg").get_attribute("aria-label")
    assert label == "Forest plot of 7 estimates"  # Three that are shown, and four combined ones.


def test_labels_that_do_not_fit_lose_letters_of_their_longest_parts(viewer):
    viewer.open("view=estimates")
    label = "north · celecoxib · gastrointestinal haemorrhage of any kind · matched"
    script = "return Charts.fitted(arguments[0], arguments[1])"
    assert viewer.browser.execute_script(script, label, 90) == label
    short = viewer.browser.execute_script(script, label, 50)
    assert short == "north · celecoxib · gastrointestinal ha… · matched"


def test_names_that_begin_alike_show_what_differs(viewer):
    viewer.open("view=estimates")
    script = "return [...Tables.shortened(arguments[0]).values()]"
    names = ["new users of celecoxib, men", "new users of celecoxib, women", "null", "other"]
    short = viewer.browser.execute_script(script, names)
    assert short == ["new us… men", "new us… women", "null", "other"]
    # Two names are never shown alike.
    names = ["a long beginning x", "a long beginning y", "a long start b x", "a long start b y"]
    short = viewer.browser.execute_script(script, names)
    assert len({*short}) == len(short)


def test_charts_exist_for_curves_and_balance(viewer):
    for view, label in (("curves", "Survival"), ("balance", "Standardised"), ("likelihood", "Lik")):
        viewer.open(f"view={view}")
        viewer.wait(lambda: viewer.browser.find_elements("css selector", "#chart svg"))
        assert viewer.find("#chart svg").get_attribute("aria-label").startswith(label)


def test_dark_and_light(viewer):
    viewer.open()
    colour = "return getComputedStyle(document.body).backgroundColor"
    light = viewer.browser.execute_script(colour)
    viewer.find("#colours").click()
    dark = viewer.browser.execute_script(colour)
    assert light == "rgb(255, 255, 255)"
    assert dark == "rgb(18, 22, 27)"


def test_a_link_opens_the_fold_of_a_static_page_and_printing_opens_all(browser, tmp_path):
    rendered = _environment().from_string(FOLDS).render(title="t")
    path = tmp_path / "page.html"
    path.write_text(rendered)
    browser.get(path.as_uri())
    shown = "return document.querySelector('#c2 p').checkVisibility()"
    assert not browser.execute_script(shown)
    browser.find_element("css selector", "nav a[href='#c2']").click()
    assert browser.execute_script(shown)
    browser.execute_script("document.querySelectorAll('.fold').forEach((x) => { x.open = false })")
    assert not browser.execute_script(shown)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.execute_script(shown)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.parametrize("view", ["estimates", "synthesis"])
def test_estimates_and_status_are_visible_at_1400_pixels_and_first_at_390(viewer, view):
    """Metrics of a phone are emulated, because windows have a least width."""
    important = ["rr", "ci_95_lb", "ci_95_ub"]
    viewer.open(f"view={view}&all=1")
    visible = dict(viewer.browser.execute_script(PLACE))
    assert all(visible[name] for name in important)
    assert visible.get("status", True)
    viewer.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        viewer.open(f"view={view}&all=1")
        columns = viewer.browser.execute_script(PLACE)
    finally:
        viewer.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert [name for name, _ in columns[:3]] == important
    assert all(seen for _, seen in columns[:3])


@pytest.mark.parametrize(
    ("view", "important"),
    [
        ("balance", ["covariate", "std_diff_before", "std_diff_after"]),
        ("diagnostics", ["may_be_read", "in_synthesis"]),
        ("attrition", ["rule", "subjects"]),
    ],
)
def test_important_columns_of_other_views_are_visible_too(viewer, view, important):
    """After four columns of names, which are cut to make place; first on a phone."""
    viewer.open(f"view={view}&all=1")
    visible = dict(viewer.browser.execute_script(PLACE))
    assert all(visible[name] for name in important)
    viewer.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        viewer.open(f"view={view}&all=1")
        columns = viewer.browser.execute_script(PLACE)[: len(important)]
    finally:
        viewer.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert columns == [[name, True] for name in important]


def test_a_long_reason_is_broken_into_lines(viewer):
    viewer.open("view=estimates&all=1")
    cut = """
        return [...document.querySelectorAll('.tabulator-cell[tabulator-field="status"]')]
            .map((x) => [x.textContent.length, x.scrollWidth <= x.clientWidth,
                         x.scrollHeight <= x.clientHeight + 1])"""
    found = viewer.browser.execute_script(cut)
    assert max(length for length, *_ in found) > 40
    assert all(wide and high for _, wide, high in found)


def test_a_chart_without_rows_leaves_the_way_back(viewer):
    """Only outcomes of interest are chosen at first, of which the chart of controls has none."""
    viewer.open("view=estimates")
    _, controls = viewer.browser.find_elements("css selector", "#chart-kinds button")
    controls.click()
    viewer.wait(lambda: viewer.find("#caption").text.startswith("The chosen rows have nothing"))
    viewer.find("#chart-kinds button").click()
    viewer.wait(lambda: viewer.browser.find_elements("css selector", "#chart svg"))


def test_charts_of_cohort_diagnostics_are_drawn(browser, tmp_path):
    folder = tmp_path / "site" / "CohortDiagnosticsModule"
    folder.mkdir(parents=True)
    where = {"database_id": "north"}
    cohorts = [{"cohort_id": i, "cohort_name": f"cohort {i}"} for i in (1, 2)]
    rates = [
        {**where, "cohort_id": i, "calendar_year": year, "cohort_count": 10 + year % 7,
         "person_years": 1000.0, "incidence_rate": 10 + year % 7 + i}
        for i in (1, 2) for year in range(2001, 2009)
    ]  # fmt: skip
    shares = [
        {**where, "cohort_id": i, "time_id": 1, "covariate_id": 1000 * k + 201, "sum_value": 20 * k,
         "mean": k / 10 * (i / 2), "sd": 0.1}
        for i in (1, 2) for k in range(1, 10)
    ]  # fmt: skip
    names = [{"covariate_id": 1000 * k + 201, "covariate_name": f"condition {k}",
              "analysis_id": 201, "concept_id": k} for k in range(1, 10)]  # fmt: skip
    for name, rows in (
        ("cd_cohort", cohorts), ("cd_incidence_rate", rates),
        ("cd_temporal_covariate_value", shares), ("cd_temporal_covariate_ref", names),
        ("cd_temporal_time_ref", [{"time_id": 1, "start_day": -365, "end_day": -1}]),
    ):  # fmt: skip
        pd.DataFrame(rows).to_csv(folder / f"{name}.csv", index=False)
    path = write_results_page([folder.parent], tmp_path / "page.html")
    viewer = Viewer(browser, path.as_uri())
    viewer.errors()
    for view, label, marks in (
        ("cohort-incidence", "Incidence by year", 16),
        ("cohort-comparison", "Shares of 9 covariates in two cohorts", 9),
    ):
        viewer.open(f"view={view}")
        viewer.wait(lambda: browser.find_elements("css selector", "#chart svg[aria-label]"))
        charts = browser.find_elements("css selector", "#chart svg[aria-label]")
        [chart] = [c for c in charts if c.get_attribute("aria-label") == label]
        assert len(chart.find_elements("css selector", "circle")) == marks
    assert viewer.errors() == []
