"""The report of a case series: whole, self-contained, without small cells or people."""

import math
import re
from copy import copy
from dataclasses import fields, replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from tests.studies.conftest import COMPARATOR, OUTCOME, TARGET, TinyOmop
from tests.studies.test_series_release_attacks import regular_series

from steropes.designs.case_series import Spline
from steropes.designs.case_series.sccs_model import fit_model
from steropes.studies import CaseSeriesSettings, case_series, case_series_settings
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.formatting.released_numbers import decimals
from steropes.studies.sccs import CaseRules, ExposureWindow, Thresholds
from steropes.studies.series_report import sccs_figures as pictures
from steropes.studies.series_report.drug_forest import drug_forest, forest_lines
from steropes.studies.series_report.estimate_text import ratio_and_interval
from steropes.studies.series_report.methods_section import settings_list
from steropes.studies.series_report.sccs_figures import bands
from steropes.studies.series_report.sccs_terminal import print_series

DOCS = Path(__file__).parents[2] / "docs"
SETTINGS = (CaseRules, CaseSeriesSettings, ExposureWindow, Spline, Thresholds)
FIRST = 7_654_001  # ids that would be seen


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    omop = TinyOmop(tmp_path_factory.mktemp("omop"))
    omop.ids = iter(range(FIRST, FIRST + 1000))
    rng = np.random.default_rng(8)
    for k in range(70):
        person = omop.person(observed=(0, 900), born=1950 + k % 30)
        start = int(rng.integers(60, 800))
        omop.drug(person, TARGET, start, start + 20)
        other = int(rng.integers(0, 800))
        omop.drug(person, 2, other)
        when = start + 3 if k < 4 else other if k < 30 else int(rng.integers(0, 900))
        omop.condition(person, OUTCOME, when)
    settings = case_series_settings(
        OUTCOME, TARGET, others=True, season=Spline(4), variance=0.5, bootstrap=10, unblind=True
    )
    return case_series(omop.write(), settings)


@pytest.fixture(scope="module")
def unsuppressed(study):
    """The same with exact estimates and profiles, which few outcomes in some window hide."""
    assert not study.release.profiled("exposure")
    return replace(study, rules=DisclosureRules("none", 0))


@pytest.fixture(scope="module")
def page(study):
    return study.page()


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.images = [], 0

    def handle_starttag(self, tag, attrs):
        self.images += tag == "figure"
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        pass


def test_the_page_is_whole_and_refers_to_nothing_outside(page):
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert tags.images >= 4  # The trend of years is withheld, because outcomes of a window are.
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    for heading in ("Results", "Timing of outcomes", "Diagnostics", "Settings"):
        assert f"<h2>{heading}</h2>" in page


def test_the_page_names_nobody(page):
    assert not re.search(r"76540\d\d", page)


def test_the_page_hides_small_counts(study, page):
    s = study.intervals.statistics.loc["exposure"]
    inside = int(s["events"])
    assert 0 < inside < 8
    cell = "&lt;5" if inside < 5 else str(inside)
    assert f"{cell} outcomes during the time at risk" in page


def test_none_among_few_is_told_as_none(omop):
    for k in range(40):
        outcome = 10 * (k % 20) - 200 + k
        omop.person(target=50 if k < 3 else None, observed=(-300, 300), outcome=outcome)
    study = case_series(omop.write(), case_series_settings(OUTCOME, TARGET, risk_end=5))
    counts = study.release.counts["exposure"]
    names = ("subjects", "periods", "observed_events", "events")
    told = {k: str(getattr(counts, k)) for k in names}
    assert told == {"subjects": "<5", "periods": "<5", "observed_events": "<5", "events": "0"}


def test_no_table_tells_what_another_hides(omop):
    for k in range(12):  # two have no drug of the one kind, seven none of the other
        person = omop.person(observed=(0, 900))
        omop.condition(person, OUTCOME, 210 if k % 2 else 400 + k)
        if k < 10:
            omop.drug(person, TARGET, 200, 220)
        if k < 5:
            omop.drug(person, COMPARATOR, 600, 620)
    omop.observed(omop.person(outcome=5, observed=(0, 5)), 20, 30)  # cases that a rule drops
    windows = [
        ExposureWindow(name, (drug,), of_interest=True)
        for name, drug in (("new", TARGET), ("old", COMPARATOR))
    ]
    rules = CaseRules(OUTCOME, naive_days=30)
    found = case_series(omop.write(), CaseSeriesSettings(rules, tuple(windows), unblind=True))
    tables = found.tables()
    steps = tables["sccs_attrition"].groupby("sequence_number")["outcome_subjects"].agg(list)
    assert steps.tolist()[:-1] == [[-17, -17], [12, 12], [12, 12]]  # alike for both
    assert steps.iloc[-1] == [-12, 5]
    result = tables["sccs_result"]
    assert result["outcome_subjects"].tolist() == [12, 12]
    assert result["covariate_subjects"].tolist() == [-12, 5]
    page = found.page()
    new, old = re.findall(r'label="People">(.*?)</td>.*?label="Days">(.*?)</td>', page)[:2]
    assert (new, old) == (("&lt;12", "–"), ("5", "105"))


def test_no_diagnostic_tells_a_count_that_is_hidden(omop):
    for k in range(40):  # two have no drug of the one kind, half none of the other
        person = omop.person(observed=(0, 900))
        omop.condition(person, OUTCOME, 210 if k % 2 else 400 + k)
        if k < 38:
            omop.drug(person, TARGET, 200, 260)
        if k % 2:
            omop.drug(person, COMPARATOR, 600, 660)
    omop.observed(omop.person(outcome=5, observed=(0, 5)), 20, 30)  # a case that a rule drops
    windows = [
        ExposureWindow(name, (drug,), of_interest=True)
        for name, drug in (("new", TARGET), ("old", COMPARATOR))
    ]
    rules = CaseRules(OUTCOME, naive_days=30)
    path = omop.write()
    found = case_series(path, CaseSeriesSettings(rules, tuple(windows), unblind=True))
    all_told = case_series(path, CaseSeriesSettings(rules, tuple(windows)), disclosure="none")
    checks = found.tables()["sccs_diagnostics_summary"]
    exact = all_told.tables()["sccs_diagnostics_summary"]
    assert exact["mdrr"].notna().all()
    assert checks["mdrr"].isna().tolist() == [True, False]  # 38 of 40 have it
    assert checks["mdrr"].iloc[1] == exact["mdrr"].iloc[1]
    assert (checks["mdrr_diagnostic"] == exact["mdrr_diagnostic"]).all()
    assert (checks["unblind"] == exact["unblind"]).all()
    share = exact["rare_outcome_prevalence"].iloc[0]
    assert checks["rare_outcome_prevalence"].iloc[0] == float(f"{share:.2g}") != share
    hidden = decimals(exact["mdrr"].iloc[0])
    assert hidden in all_told.page()
    assert hidden not in found.page()


def test_the_same_study_gives_the_same_page(study, page):
    assert study.page() == page


PICTURES = {
    "time to event": pictures.time_to_event,
    "event to end": pictures.event_to_end,
    "spans": pictures.spans,
    "rates": pictures.rates,
    "splines": pictures.splines,
    "profile": pictures.profile,
    "drugs": drug_forest,
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_drawn_of_numbers_for_both_kinds_of_screen(unsuppressed, name):
    picture = PICTURES[name](unsuppressed)
    for canvas in (picture.canvas(720), picture.canvas(344)):
        assert canvas.marks
        for mark in canvas.marks:
            numbers = " ".join([mark.text, *(str(v) for v in mark.attributes.values())])
            assert "nan" not in numbers
            assert "inf" not in numbers
    assert picture.file().count("<svg") == 1


@pytest.fixture(scope="module")
def with_weeks(tmp_path_factory):
    """A study without hidden outcomes, whose weeks and years are therefore released."""
    path = regular_series(TinyOmop(tmp_path_factory.mktemp("weeks")), 14, 13, 12, 62)
    return case_series(path, case_series_settings(OUTCOME, TARGET, unblind=True))


@pytest.mark.parametrize("name", ["time to event", "event to end", "spans", "rates"])
def test_pictures_of_counts_read_released_counts_alone(study, with_weeks, name):
    study = with_weeks if name in ("time to event", "rates") else study
    assert study.release.ends["ended"].mod(study.rules.least).eq(0).all()
    without_people = copy(study)
    for exact in ("population", "intervals"):
        object.__setattr__(without_people, exact, None)
    assert PICTURES[name](without_people).file() == PICTURES[name](study).file()


def test_a_band_that_has_next_to_no_end_is_cut_at_a_ratio_of_a_thousand(study, monkeypatch):
    def curve(study, effect, x):
        return np.linspace(-1, 1, len(x)), np.where(x < x.mean(), 1e3, np.inf)

    monkeypatch.setattr(pictures, "spline_curve", curve)
    text = pictures.splines(study).file()
    assert "nan" not in text
    assert "inf" not in text
    assert ">100<" in text


def test_a_spline_has_a_band_around_its_curve_and_the_caption_says_which(study):
    [effect] = study.effects.effects
    x = np.arange(1, 13.0)
    curve, se = pictures.spline_curve(study, effect, x)
    assert curve.mean() == pytest.approx(0, abs=1e-12)
    assert se is None  # other drugs are under a Laplace prior
    plain = fit_model(study.intervals, replace(study.settings, prior="normal", bootstrap=0))
    other = replace(study, model=plain)
    _, se = pictures.spline_curve(other, effect, x)
    assert (se > 0).all()
    assert "No bands are shown" in bands(study)
    assert "pointwise" in bands(other)


def test_limits_of_the_bootstrap_are_on_the_page_in_the_picture_and_in_the_terminal(
    unsuppressed, capsys
):
    study, page = unsuppressed, unsuppressed.page()
    name = "other drug: olddrug"
    line = study.estimates.loc[name]
    assert line["interval"] == "bootstrap"
    interval = ratio_and_interval(line)[1]
    assert interval != "–"
    words = "percentiles over 10 bootstrap draws of people at a fixed variance"
    assert f">{interval}</td>" in page
    assert words in page
    print_series(study, [])
    said = " ".join(capsys.readouterr().out.split())
    assert interval in said
    assert words in said
    drawn = {n: (low, high) for n, _, low, high, _ in forest_lines(study)}
    limits = study.estimates.loc[list(drawn), ["lower", "upper"]]
    assert drawn == {n: tuple(v) for n, v in limits.T.to_dict("list").items()}


def test_without_draws_nothing_is_said_of_them(study):
    plain = fit_model(study.intervals, replace(study.settings, bootstrap=0))
    other = replace(study, model=plain)
    assert "draws of people" not in other.page()
    assert math.isnan(other.estimates.loc["other drug: olddrug", "lower"])


def test_writing_makes_a_page_and_tables(study, unsuppressed, tmp_path):
    study.write(tmp_path / "few")
    assert not (tmp_path / "few" / "release" / "figures" / "profile.svg").exists()
    paths = unsuppressed.write(tmp_path / "out")
    assert [p.name for p in paths] == ["report.html", "tables"]
    assert (tmp_path / "out" / "release" / "tables" / "sccs_result.csv").is_file()
    assert len(list((tmp_path / "out" / "release" / "figures").glob("*.svg"))) == len(PICTURES)
    assert not list((tmp_path / "out" / "release").glob(".*"))


# -- the page for users of R -----------------------------------------------------------------------


def test_the_page_for_users_of_r_names_settings_that_exist():
    text = (DOCS / "coming_from_sccs.md").read_text(encoding="utf-8").split("## R's SCCS")[0]
    known = {f.name for c in SETTINGS for f in fields(c)}
    right = [line.split("|")[2] for line in text.splitlines() if line.startswith("| `")]
    named = {m for cell in right for m in re.findall(r"`([a-z_]+)(?:=[^`]*)?`", cell)}
    assert {"naive_days", "by_concept", "penalized"} <= named
    assert named - known <= {"control_window", "control", "cohorts", "disclosure"}


def test_all_days_of_windows_and_both_seeds_are_among_the_settings():
    settings = case_series_settings(OUTCOME, TARGET, risk_start=0, risk_end=0)
    listed = settings_list(replace(settings, seed=7))
    assert len({name for name, _ in listed}) == len(listed)
    assert {("seed", "7"), ("cases.seed", "1")} <= {*listed}
    (window,) = [text for name, text in listed if name == "window: exposure"]
    assert "start 0" in window
    assert "end 0" in window
