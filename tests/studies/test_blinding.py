"""A one-question study that fails a diagnostic shows no effect and no outcomes of the arms."""

import dataclasses
import json
import math
import re

import pandas as pd
import pytest
from tests.studies.changed_tables import without_estimate

from steropes.studies import DEMO, StudySettings, comparative_study, demo_database
from steropes.studies.cli.command_line import run
from steropes.studies.diagnostics import DiagnosticThresholds
from steropes.studies.diagnostics.result_blinding import EFFECT, NO_NOTE, blinded
from steropes.studies.formatting.released_numbers import decimals
from steropes.studies.release.one_question_release import publish
from steropes.studies.report.study_json_and_csv import study_json, study_tables
from steropes.studies.report.study_report import study_page
from steropes.studies.single_studies.study_terminal import print_study
from steropes.studies.specifications.one_question_specification import MAIN, MATCHED

STUDY = ["--target", "1", "--comparator", "2", "--outcome", "3"]


@pytest.fixture(scope="module")
def shown():
    """The demonstration with a draw of ties that fails the balance (0.1), shown on request."""
    settings = StudySettings(**DEMO, seed=3, unblind=True, tie_orders=2)
    return comparative_study(demo_database(), settings)


def with_settings(study, **change):
    return dataclasses.replace(study, settings=dataclasses.replace(study.settings, **change))


@pytest.fixture(scope="module")
def hidden(shown):
    return with_settings(shown, unblind=False)


def said(study, capsys):
    """Everything that a study says, but for its curves and prevalences, which have any digits."""
    print_study(study, [])
    page = re.sub(r"<svg.*?</svg>", "", study_page(study.release), flags=re.S)
    return page, capsys.readouterr().out, repr(study)


def test_the_demo_says_that_it_is_unblinded(shown, capsys):
    page, out, text = said(shown, capsys)
    for told in (page, " ".join(out.split())):
        assert "Unblinded: the study fails a diagnostic" in told
        assert "--unblind" in told
    assert "hazard ratio 1.04" in text
    assert not shown.to_dict()["blinded"]


def test_nothing_that_is_shown_tells_the_effect(hidden, shown, capsys):
    page, out, text = said(hidden, capsys)
    for line in shown.hazard_ratios.to_dict("records"):
        interval = f"{decimals(line['lower'])} to {decimals(line['upper'])}"
        assert not any(interval in told for told in (page, out, text))
    for line in shown.supplementary_results.adjustments.to_dict("records"):
        assert f"({decimals(line['lower'])} to {decimals(line['upper'])})" not in page
    for events in shown.rates["events"]:
        assert f">{events:.0f}<" not in page
        assert not re.search(rf"\b{events:.0f}\b", out)
    assert "E-value" not in page
    assert "Days followed" not in page
    assert "Kaplan" not in page
    assert "other draws" not in page + out


def test_it_is_said_what_is_hidden_why_and_how_to_see_it(hidden, capsys):
    page, out, text = said(hidden, capsys)
    assert "<b>Not shown</b>" in page
    assert "omitted from this page" in page
    assert "largest standardised difference after matching is 0.10" in " ".join(out.split())
    for told in (page, out):
        assert "--unblind" in told
    assert "not shown: a diagnostic failed" in text


def test_the_file_keeps_who_was_studied_and_says_that_it_is_blinded(hidden, shown):
    blind, full = json.loads(study_json(hidden.to_dict())), json.loads(study_json(shown.to_dict()))
    assert blind["blinded"]
    for line in blind["hazard_ratios"]:
        assert line["note"] == "not shown: a diagnostic failed"
        assert {line[k] for k in ("hr", "lower", "upper", "p", "log_hr", "se")} == {None}
    gone = ("events", "rate", "rate_upper", "person_years")
    assert {line[k] for line in blind["rates"] for k in gone} == {None}
    assert {line["hr"] for line in blind["other_adjustments"]} == {None}
    assert blind["survival"] == {}
    assert blind["e_value"] is blind["proportional_hazards_p"] is None
    assert full["e_value_form"] == "rare outcome"
    assert blind["e_value_form"] is None
    assert publish(hidden).tables["note"]["e_value_form"].isna().all()
    assert blind["matching"]["ties"]["hr_median"] is None
    # Follow-up ends with the outcome: its quantiles differ between arms as their outcomes do.
    assert full["follow_up"]
    assert blind["follow_up"] == []
    for key in ("attrition", "balance", "propensity", "detectable_hazard_ratio"):
        assert blind[key] == full[key]
    (balance,) = (d for d in blind["diagnostics"] if d["key"] == "balance")
    assert (balance["verdict"], balance["about"]) == ("FAIL", "index year: 1965")


def test_the_tables_and_pictures_of_an_earlier_look_go(hidden, shown, tmp_path):
    shown.write(tmp_path)
    assert pd.read_csv(tmp_path / "release" / "tables" / "hazard_ratios.csv")["hr"].notna().all()
    hidden.write(tmp_path)
    figures = {p.stem for p in (tmp_path / "release" / "figures").iterdir()}
    assert figures == {"attrition", "preference", "balance", "love"}
    table = pd.read_csv(tmp_path / "release" / "tables" / "hazard_ratios.csv")
    assert table["hr"].isna().all()
    assert pd.read_csv(tmp_path / "release" / "tables" / "rates.csv")["events"].isna().all()


def test_tables_without_rows_keep_their_header(hidden, omop):
    omop.person(comparator=0)
    for _ in range(6):
        omop.person(target=0)
    full = study_tables(hidden.to_dict())
    few = study_tables(comparative_study(omop.write(), StudySettings(1, 2, 3)).to_dict())
    assert {name: text.splitlines()[0] for name, text in few.items()} == {
        name: text.splitlines()[0] for name, text in full.items()
    }
    assert few["follow_up"].count("\n") == few["balance"].count("\n") == 1


def test_a_threshold_that_the_study_meets_shows_it(hidden):
    loose = with_settings(hidden, thresholds=DiagnosticThresholds(balance=0.12))
    assert loose.visible
    assert not publish(loose).blinded
    by_p = with_settings(hidden, thresholds=DiagnosticThresholds(balance=None))
    assert by_p.diagnostics.balance_verdict == "NOT EVALUATED"
    assert by_p.visible


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({"detectable": 1.4}, "detectable_verdict"),
        ({"equipoise": 0.95}, "equipoise_verdict"),
        ({"attrition": 0.5}, "attrition_verdict"),
        ({"generalizability": 0.3}, "generalizability_verdict"),
    ],
)
def test_every_diagnostic_of_the_grids_hides(hidden, change, failing):
    study = with_settings(hidden, thresholds=DiagnosticThresholds(balance=0.2, **change))
    assert getattr(study.diagnostics, failing) == "FAIL"
    public = publish(study)
    assert public.blinded
    assert [v.verdict for v in public.failed] == ["FAIL"]


def test_precision_and_ties_do_not_hide(hidden):
    limits = DiagnosticThresholds(balance=0.2, outcomes=1000.0, tied=0.01)
    study = with_settings(hidden, thresholds=limits)
    assert (study.diagnostics.precision_verdict, study.diagnostics.tied_verdict) == ("FAIL",) * 2
    assert study.visible


def test_the_arm_without_outcomes_is_not_told(omop, tmp_path, capsys):
    for i in range(60):
        omop.condition(omop.person(target=0, outcome=5 + i if i < 12 else None), 70 + i % 2, -5)
        omop.condition(omop.person(comparator=0), 70 + i % 2, -5)
    where = ["--output", str(tmp_path / "o")]
    path = str(omop.write())
    study = comparative_study(path, StudySettings(1, 2, 3))
    assert "comparator arm" in study.hazard_ratios.loc["matched", "note"]
    strict = with_settings(study, thresholds=DiagnosticThresholds(detectable=2.0))
    assert strict.detectable > 2
    told = study_json(strict.to_dict()) + study_page(strict.release)
    assert "no finite estimate, and not shown" in told
    assert "nobody in the comparator arm" not in told
    assert math.isnan(publish(strict).hazard_ratios[0]["hr"])
    assert run(["study", path, *STUDY, *where, "--quiet"]) == 0
    assert "nobody in the comparator arm" in (tmp_path / "o" / "release" / "study.json").read_text()


def test_in_a_grid_too_an_emptied_arm_keeps_its_reason():
    line = dict.fromkeys((*EFFECT, "target_outcomes", "comparator_outcomes"), 0.0)
    people = {"target_subjects": [0, 9], "comparator_subjects": [9, 9]}
    table = pd.DataFrame([line, line]).assign(**people, comparator_outcomes=5, unblind=0)
    notes = blinded(table.assign(note=["nobody is left", "no outcome in the target arm"]))["note"]
    assert notes.tolist() == ["nobody is left", NO_NOTE]


def test_reasons_that_tell_nothing_about_the_outcomes_are_kept():
    line = dict.fromkeys((*EFFECT, "target_outcomes", "comparator_outcomes"), 0.0)
    given = [
        "propensity model: the fit has no finite maximum",
        "covariate 77102 (separate): has a correlation of 1.00 with the arm",
        "no covariate is left",
        "treatment: no finite maximum",
        "nobody in the target arm had the outcome during the time at risk",
    ]
    table = pd.DataFrame([line] * len(given)).assign(
        target_subjects=9, comparator_subjects=9, comparator_outcomes=5, unblind=0, note=given
    )
    assert blinded(table)["note"].tolist() == [*given[:3], NO_NOTE, NO_NOTE]


def test_a_crude_estimate_is_not_the_result_of_a_study_without_an_adjusted_one(shown, capsys):
    easy = DiagnosticThresholds(balance=1.0)
    alone = with_settings(shown, unblind=False, thresholds=easy)
    alone = without_estimate(alone, "treatment: no finite maximum", [MAIN, MATCHED])
    assert alone.visible
    crude = publish(alone).hazard_ratios[0]
    assert math.isnan(crude["hr"])
    assert "not shown without an adjusted one" in crude["note"]
    number = decimals(float(shown.hazard_ratios.loc["crude", "hr"]))
    for said in said_by(alone, capsys):
        assert number not in said
    asked = with_settings(alone, unblind=True)
    assert publish(asked).hazard_ratios[0]["hr"] > 1
    with_adjusted = dataclasses.replace(alone, exact=shown.exact)
    assert publish(with_adjusted).hazard_ratios[0]["hr"] > 1


def said_by(study, capsys):
    """The table of hazard ratios on the page and in the terminal."""
    print_study(study, [])
    page = study_page(study.release)
    table = page[page.index("Hazard ratio of ") :]
    out = capsys.readouterr().out
    return table[: table.index("</table>")], out[out.index("Hazard ratio") : out.index("!")]
