"""The page and the summary where a study is not as smooth as the demonstration."""

import dataclasses
import math
import re

import pytest

from steropes.errors import DataError
from steropes.studies import DEMO, StudySettings, comparative_study, demo_database
from steropes.studies.numbers import study_numbers
from steropes.studies.report import study_page, write_report
from steropes.studies.terminal import print_study
from steropes.studies.wording import checks, decimals, p_value, risk_period


@pytest.fixture(scope="module")
def study():
    return comparative_study(demo_database(), StudySettings(**DEMO))


@pytest.fixture
def rough(study):
    """No estimate within pairs, an infinite difference, names that look like markup."""
    hazards = study.hazard_ratios.copy()
    line = "matched, stratified"
    hazards.loc[line, ["hr", "lower", "upper", "p", "log_hr", "se"]] = math.nan
    hazards.loc[line, "note"] = "treatment: no finite maximum"
    balance = study.balance.copy()
    balance.iloc[0, balance.columns.get_loc("smd_after")] = math.inf
    return dataclasses.replace(
        study,
        hazard_ratios=hazards,
        balance=balance,
        names={"target": "<i>a&b", "comparator": "[bold]c", "outcome": "x" * 200},
        source="[/] & <script>",
    )


def test_names_are_text_and_not_markup(rough, capsys):
    page = study_page(rough)
    assert "&lt;i&gt;a&amp;b" in page
    assert "<i>" not in page
    assert "<script" not in page
    print_study(rough, [])
    assert "[bold]c" in capsys.readouterr().out


def test_a_missing_estimate_is_said_and_the_next_best_shown(rough, capsys):
    page = re.sub(r"base64,[^\"]*", "", study_page(rough))
    assert "treatment: no finite maximum" in page
    card = page[page.index('class="card main"') :][:60]
    assert decimals(rough.hazard_ratios.loc["matched", "hr"]) in card
    print_study(rough, [])
    assert "no finite maximum" in " ".join(capsys.readouterr().out.split())
    assert [c.passed for c in checks(rough)].count(False) == 2  # balance, and this


def test_numbers_that_json_lacks_become_none(rough):
    numbers = study_numbers(rough)
    assert numbers["hazard_ratios"][2]["hr"] is None
    assert numbers["balance"]["largest_after"] is None


def test_an_interrupted_write_leaves_old_files_whole(study, tmp_path, monkeypatch):
    write_report(study, tmp_path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.chmod", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_report(study, tmp_path)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_folder_in_the_way_is_refused(study, tmp_path):
    (tmp_path / "study.json").mkdir()
    with pytest.raises(DataError, match="cannot write to the folder"):
        write_report(study, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["study.json"]


def test_words_for_numbers():
    assert [p_value(p) for p in (0.0001, 0.0123, 0.5, math.nan)] == [
        "< 0.001",
        "0.012",
        "0.50",
        "–",
    ]
    assert [decimals(x) for x in (-1.234, math.inf, math.nan)] == ["−1.23", "∞", "–"]
    assert "no longer than 1,000 days" in risk_period(StudySettings(1, 2, 3, risk_days=1000))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"comparator": DEMO["target"]}, "same concept"),
        ({"caliper": -0.1}, "caliper"),
        ({"folds": 1}, "folds"),
        ({"window_days": -1}, "window_days"),
    ],
)
def test_impossible_settings_are_refused(change, words):
    with pytest.raises(DataError, match=words):
        StudySettings(**(DEMO | change))


def test_a_caliper_of_zero_matches_equal_scores_only():
    study = comparative_study(demo_database(), StudySettings(**DEMO, caliper=0.0))
    assert 0 < study.pairs < 830
    assert study.matched.groupby("matched_set")["propensity"].nunique().eq(1).all()
