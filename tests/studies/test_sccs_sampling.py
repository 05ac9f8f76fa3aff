"""Unexposed cases that splines leave out: a line of the attrition, and the price of it."""

import dataclasses
import math

import numpy as np
import pytest
from tests.studies.conftest import OUTCOME, TARGET

import steropes
import steropes.designs.case_series.series_fits_and_profiles as series_fits
import steropes.models
from steropes.designs.case_series import Spline
from steropes.designs.case_series.event_dependent_observation import CensorModel
from steropes.models.fitting.accessor_base_class import function_of_model
from steropes.studies import case_series, case_series_settings
from steropes.studies.grids.sccs_grid import (
    CaseSeriesGrid,
    SeriesAnalysis,
    SeriesQuestion,
    run_case_series_grid,
)
from steropes.studies.sccs.results.sccs_diagnostics import _convergence
from steropes.studies.sccs.specification.sccs_thresholds import Thresholds
from steropes.studies.series_report.sccs_grid_page import case_series_grid_page
from steropes.studies.series_report.sccs_terminal import print_series

RULE = "spline_cases"
MOST = 20


@pytest.fixture
def path(omop):
    """30 exposed cases, and 80 without exposure, over two years with a season."""
    rng = np.random.default_rng(3)
    for i in range(110):
        person = omop.person(observed=(0, 700))
        if i < 30:
            start = int(rng.integers(50, 600))
            omop.drug(person, TARGET, start, start + 40)
        omop.condition(person, OUTCOME, int(rng.integers(1, 699)))
    return omop.write()


def settings(most, **more):
    return case_series_settings(
        OUTCOME, TARGET, season=Spline(), spline_cases=most, end_of_observation_days=0,
        pre_exposure_days=0, **more,
    )  # fmt: skip


def test_cases_that_are_left_out_have_a_line_of_their_own(path):
    study = case_series(path, settings(MOST), disclosure="none")
    rules = study.attrition.set_index("rule")
    assert rules.loc["with time to compare", ["subjects", "events"]].tolist() == [110, 110]
    assert rules.loc["with time to compare", "days"] == 110 * 701
    last = study.attrition.iloc[-1]
    assert RULE in last["rule"]
    assert str(MOST) in last["rule"]
    assert 30 <= last["subjects"] <= 30 + MOST
    assert study.intervals.attrition[1] == last["subjects"]


def test_nothing_is_said_where_no_case_is_left_out(path):
    study = case_series(path, settings(1000), disclosure="none")
    assert study.sampling is None
    assert not study.attrition["rule"].str.contains(RULE).any()
    assert RULE not in study.page().split("<h2>Settings</h2>")[0]


def test_the_price_is_the_width_that_all_cases_would_save(path):
    """The information of the sample foretells the interval of the whole about right."""
    part, whole = (case_series(path, settings(m), disclosure="none") for m in (MOST, 1000))
    [name] = part.of_interest
    width = [
        math.log(s.estimates.loc[name, "upper"] / s.estimates.loc[name, "lower"])
        for s in (part, whole)
    ]
    foretold = part.sampling.narrower[name]
    assert 0 < foretold < 1
    assert foretold == pytest.approx(1 - width[1] / width[0], abs=0.05)


def test_line_and_price_are_on_the_page_in_the_terminal_and_in_the_tables(path, capsys):
    study = case_series(path, settings(MOST), disclosure="none")
    print_series(study, [])
    told = " ".join(capsys.readouterr().out.split())
    for said in (study.page(), told):
        assert study.sampling.sentence()[:60] in said
        assert "narrower" in said
    table = study.tables()["sccs_attrition"]
    assert table["description"].str.contains(RULE).sum() == 1


def grid(**more):
    return CaseSeriesGrid(
        (SeriesQuestion(TARGET, OUTCOME),),
        (SeriesAnalysis(1, "season", {
            "season": Spline(), "spline_cases": MOST, "end_of_observation_days": 0,
            "pre_exposure_days": 0, **more,
        }),),
        database_id="tiny",
    )  # fmt: skip


def test_a_grid_says_it_too(path, tmp_path):
    found = run_case_series_grid(path, grid(), tmp_path, disclosure="none")
    assert found.tables["sccs_attrition"]["description"].str.contains(RULE).sum() == 1
    assert "narrower" in found.tables["note"]["sampling"].iloc[0]
    page = case_series_grid_page(found)
    assert "narrower" in page
    assert "Converged" in page


@pytest.fixture
def stopped(monkeypatch):
    """Let case series be fitted by the estimator with all rows, which stops after a step."""
    fit = steropes.SelfControlledCaseSeries.fit

    def short(self, *args, **kwargs):
        self.max_iter, self.tol = 1, 1e-300
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(steropes.SelfControlledCaseSeries, "fit", short)
    monkeypatch.setattr(series_fits, "monthly_likelihood", lambda part: None)


def test_a_case_series_that_did_not_converge_fails_and_says_so(path, stopped, capsys):
    asked = settings(1000)
    study = case_series(path, asked, disclosure="none")
    [d] = study.diagnostics
    assert d.verdicts["convergence"].verdict == "FAIL"
    assert not d.unblind
    assert not d.unblind_for_evidence_synthesis
    assert "The case series model did not converge." in study.page()
    open_ = case_series(path, dataclasses.replace(asked, unblind=True), disclosure="none")
    print_series(open_, [])
    assert "(did not converge)" in open_.page()
    assert "did not converge" in " ".join(capsys.readouterr().out.split())


def test_a_grid_hides_a_case_series_that_did_not_converge(path, stopped, tmp_path):
    found = run_case_series_grid(path, grid(), tmp_path, disclosure="none")
    assert found.tables["note"]["convergence_diagnostic"].tolist() == ["FAIL"]
    flags = found.tables["sccs_diagnostics_summary"]
    assert flags["unblind"].tolist() == flags["unblind_for_evidence_synthesis"].tolist() == [0]
    assert found.estimates()["rr"].isna().all()
    assert "(did not converge)" in case_series_grid_page(found, unblind=True)


def test_a_censoring_model_that_did_not_converge_fails(path):
    study = case_series(path, settings(1000), disclosure="none")
    assert _convergence(study.model, None, Thresholds()).verdict == "PASS"
    bad = CensorModel("weibull-age", (0.0,) * 7, 1.0, converged=False)
    found = _convergence(study.model, bad, Thresholds())
    assert (found.verdict, found.finding) == ("FAIL", "The censoring model did not converge.")


def test_bootstrap_draws_that_did_not_converge_are_counted_and_fail(path, monkeypatch, tmp_path):
    bootstrap = steropes.models.Inference.bootstrap

    def short(self, *args, **kwargs):
        """Draw as usual, and mark the first two draws as unfinished."""
        draws = bootstrap(self, *args, **kwargs)
        draws.converged[:2] = False
        return draws

    monkeypatch.setattr(steropes.models.Inference, "bootstrap", function_of_model(short))
    asked = dataclasses.replace(settings(1000), bootstrap=4)
    study = case_series(path, asked, disclosure="none")
    assert study.model.converged
    assert study.model.unconverged_draws == 2
    [d] = study.diagnostics
    assert d.verdicts["convergence"].finding == "2 bootstrap draws did not converge."
    assert not d.unblind
    assert "2 bootstrap draws did not converge." in study.page()
    found = run_case_series_grid(path, grid(bootstrap=4), tmp_path, disclosure="none")
    assert found.tables["note"]["unconverged"].tolist() == ["2 bootstrap draws did not converge."]
