"""A case series hides the effect of an exposure that fails a diagnostic, unless asked not to."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import OUTCOME, TARGET, TinyOmop

from steropes.errors import DataError
from steropes.studies import CaseSeriesSettings, case_series, case_series_settings
from steropes.studies.cli.command_line import run
from steropes.studies.release.series_result_blinding import (
    blinding_text,
    hidden_covariates,
    public_estimates,
)
from steropes.studies.sccs import CaseRules, ExposureWindow, Thresholds
from steropes.studies.series_report import sccs_figures as pictures
from steropes.studies.series_report.drug_forest import drug_forest, forest_lines
from steropes.studies.series_report.estimate_text import ratio_and_interval, shown_estimates
from steropes.studies.series_report.sccs_terminal import print_series

OTHER = 2
LENIENT = Thresholds(pre_exposure=(0.8, 3), prevalence=1, time_ratio=9)


def unblinded(study):
    return replace(study, settings=replace(study.settings, unblind=True))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Outcomes just before the first drug, some during it, and some during the other."""
    omop = TinyOmop(tmp_path_factory.mktemp("omop"))
    rng = np.random.default_rng(4)
    for k in range(120):
        person = omop.person(observed=(0, 400))
        start = int(rng.integers(60, 150))
        omop.drug(person, TARGET, start, start + 20)
        omop.drug(person, OTHER, start + 150, start + 170)
        anywhere = int(rng.integers(0, 400))
        omop.condition(person, OUTCOME, (start - 5, start + 3, start + 160, anywhere)[k % 4])
    return omop.write()


@pytest.fixture(scope="module")
def one(path):
    """One exposure that fails, beside another drug."""
    settings = case_series_settings(OUTCOME, TARGET, others=True, variance=0.5, bootstrap=5)
    return case_series(path, settings, disclosure="none")  # so that blinding alone hides numbers


@pytest.fixture(scope="module")
def both(path):
    """Two exposures at once, of which the first fails."""
    windows = (
        ExposureWindow("drug", (TARGET, OTHER), by_concept=True, of_interest=True, profile=True),
        ExposureWindow("before", (TARGET, OTHER), start=-30, end=-1, end_at="start",
                       by_concept=True),
    )  # fmt: skip
    settings = CaseSeriesSettings(CaseRules(OUTCOME), windows, thresholds=LENIENT)
    return case_series(path, settings, disclosure="none")


def told(study, name):
    """The texts that would tell an estimate."""
    line = study.estimates.loc[name]
    return [*ratio_and_interval(line), f"{line['rr']:.2f}"]


def outputs(study, folder, capsys):
    """The page, the pictures, the terminal and the repr, as texts."""
    study.write(folder)
    folder /= "release"
    files = [folder / "report.html", *sorted((folder / "figures").glob("*.svg"))]
    capsys.readouterr()
    print_series(study, [])
    terminal = " ".join(capsys.readouterr().out.split())
    return {**{p.name: p.read_text(encoding="utf-8") for p in files}, "terminal": terminal,
            "repr": repr(study)}  # fmt: skip


def test_what_fails_is_in_no_output(one, tmp_path, capsys):
    found = outputs(one, tmp_path / "out", capsys)
    for name, text in found.items():
        for number in told(one, "exposure"):
            assert number not in text, name
    assert {"profile.svg", "drugs.svg"}.isdisjoint(found)
    assert "outcomes during the time at risk</span>" not in found["report.html"]
    for name in ("report.html", "terminal"):
        assert "Not shown: the rate ratio and the outcomes" in found[name]
        assert "pre-exposure" in found[name]
        assert "--unblind (in Python, CaseSeriesSettings(…, unblind=True))" in found[name]
    names = "(time stability, pre-exposure, rarity)"
    assert repr(one).endswith(f"exposure: not shown: a diagnostic failed {names})")
    assert f">not shown {names}<" in found["report.html"]
    assert f"rate ratio: a diagnostic failed {names}" in found["report.html"]


def test_what_is_asked_for_is_in_all_of_them(one, tmp_path, capsys):
    found = outputs(unblinded(one), tmp_path / "out", capsys)
    rr, interval, exact = told(one, "exposure")
    assert rr in found["report.html"]
    assert interval in found["report.html"]
    assert interval in found["terminal"]
    assert exact in found["repr"]
    assert {"profile.svg", "drugs.svg"} <= {*found}
    for name in ("report.html", "terminal"):
        assert (
            "Unblinded: the exposure fails a diagnostic (time stability, pre-exposure"
            in found[name]
        )


def test_the_tables_of_the_results_model_hold_every_number_and_the_flag(one, tmp_path):
    one.write(tmp_path)
    result, checks = (
        pd.read_csv(tmp_path / "release" / "tables" / f"sccs_{name}.csv")
        for name in ("result", "diagnostics_summary")
    )
    assert result["rr"].tolist() == pytest.approx([one.release.estimates.loc["exposure", "rr"]])
    assert checks["unblind"].tolist() == [0]


def test_of_the_weeks_around_a_hidden_exposure_those_before_it_are_drawn(one):
    assert pictures.before_alone(one)
    picture, whole = (pictures.time_to_event(s) for s in (one, unblinded(one)))
    assert "to half a year after it" not in picture.description
    assert "bar after" not in picture.file()
    assert "bar after" in whole.file()


def test_of_several_exposures_the_one_that_passes_is_shown(both, tmp_path, capsys):
    hidden, passing = "drug: newdrug", "drug: olddrug"
    assert hidden_covariates(both) == {hidden}
    found = outputs(both, tmp_path / "out", capsys)
    for name, text in found.items():
        for number in told(both, hidden):
            assert number not in text, name
    for name in ("report.html", "terminal"):
        assert told(both, passing)[1] in found[name]
        assert "1 of 2 exposures fails" in found[name]
    assert (
        "of 2 exposures pass all diagnostics, 1 of these have an estimate" in found["report.html"]
    )
    assert "Likelihood profile of Drug: olddrug" in found["report.html"]
    assert pictures.profile(both, hidden) is None
    assert drug_forest(both) is None  # of one drug
    assert [name for name, *_ in forest_lines(unblinded(both))] == [hidden, passing]
    assert "Unblinded: 1 of 2 exposures fails" in blinding_text(unblinded(both))


def test_where_a_hidden_penalised_drug_stands_does_not_tell_its_effect(path):
    settings = case_series_settings(OUTCOME, variance=0.5)  # all drugs
    study = case_series(path, replace(settings, thresholds=Thresholds(detectable=1)))
    drugs = study.of_interest
    assert hidden_covariates(study) == {*drugs}
    assert shown_estimates(study)[-len(drugs) :] == drugs
    assert public_estimates(study).loc[drugs, "rr"].isna().all()
    assert "rate ratios" in blinding_text(study)


def test_another_window_of_a_hidden_exposure_is_hidden_too(path):
    windows = (
        ExposureWindow("week", (TARGET,), end=7, end_at="start", of_interest=True),
        ExposureWindow("later", (TARGET,), start=8),
        ExposureWindow("before", (TARGET,), start=-30, end=-1, end_at="start"),
        ExposureWindow("other", (OTHER,)),
    )
    study = case_series(path, CaseSeriesSettings(CaseRules(OUTCOME), windows))
    assert hidden_covariates(study) == {"week", "later"}
    assert study.estimates["rr"].notna().all()  # nothing is taken from the tables


def test_a_window_without_outcomes_does_not_say_so(omop):
    for k in range(30):
        person = omop.person(observed=(0, 400), outcome=10 + k)
        omop.drug(person, TARGET, 200, 210)
    strict = Thresholds(detectable=1)
    settings = case_series_settings(
        OUTCOME, TARGET, pre_exposure_days=0, end_of_observation_days=0, thresholds=strict
    )
    study = case_series(omop.write(), settings)
    assert "no event in it" in study.estimates.loc["exposure", "note"]
    page = study.page()
    assert "no event in it" not in page
    assert "<b>Not shown</b>" in page
    assert "a diagnostic failed (time stability, rarity, detectable ratio))" in repr(study)


def test_an_exposure_that_passes_has_no_word_on_hiding(both):
    passing = replace(both, diagnostics=[d for d in both.diagnostics if d.unblind])
    assert blinding_text(passing) == ""
    assert hidden_covariates(passing) == set()


def test_the_command_hides_and_shows(path, one, tmp_path, capsys):
    asked = ["sccs", path, "--exposure", str(TARGET), "--outcome", str(OUTCOME)]
    asked += ["--disclosure", "none"]
    out = ["--output", str(tmp_path / "out")]
    for more, yes in ((["--unblind"], True), ([], False)):
        assert run([*map(str, asked), *out, *more]) == 0
        said = " ".join(capsys.readouterr().out.split())
        page = (tmp_path / "out" / "release" / "report.html").read_text(encoding="utf-8")
        assert ("Unblinded: the exposure fails" in said) == yes
        assert ("Not shown: the rate ratio" in page) != yes
        assert (tmp_path / "out" / "release" / "figures" / "profile.svg").exists() == yes


def test_what_unblind_may_be():
    with pytest.raises(DataError, match="unblind"):
        case_series_settings(OUTCOME, TARGET, unblind="yes")
