"""What of a grid may be read: crude estimates, fits that did not converge, digits that decide."""

import dataclasses
import re

import numpy as np
import pytest

import steropes
from steropes.designs import OutcomeModel, Trim
from steropes.errors import DataError
from steropes.studies import demo_database
from steropes.studies.comparative import StudyAnalysis
from steropes.studies.diagnostics import DiagnosticThresholds
from steropes.studies.diagnostics.comparative_diagnostics import Diagnostics
from steropes.studies.diagnostics.result_blinding import EFFECT
from steropes.studies.grids.comparative_grid_run import run_grid
from steropes.studies.report.comparative_grid_page import grid_page
from steropes.studies.report.grid_page_data import View
from steropes.studies.report.page_parts import Cell, verdict_cell
from steropes.studies.results.calibrated_results import calibrated_tables
from steropes.studies.specifications.demonstration import demo_grid


def change(spec, which, **settings):
    """The same specification with settings of an analysis changed."""
    analyses = tuple(
        dataclasses.replace(a, **settings) if a.id == which else a for a in spec.analyses
    )
    return dataclasses.replace(spec, analysis=analyses)


@pytest.fixture
def stopped(monkeypatch):
    """Let fits of an estimator stop after their first step."""

    def stop(estimator):
        fit = estimator.fit

        def short(self, *args, **kwargs):
            self.max_iter, self.tol = 1, 1e-300
            return fit(self, *args, **kwargs)

        monkeypatch.setattr(estimator, "fit", short)

    return stop


def rows(results, table, analysis, outcome=13):
    found = results.tables[table]
    return found[(found["analysis_id"] == analysis) & (found["outcome_id"] == outcome)].iloc[0]


def test_a_crude_estimate_is_not_shown_unless_it_is_what_is_asked(database, spec, tmp_path):
    crude = run_grid(database, change(spec, 1, unadjusted=False), tmp_path)
    assert rows(crude, "note", 1)["adjustment_diagnostic"] == "FAIL"
    assert rows(crude, "note", 2)["adjustment_diagnostic"] == "PASS"
    checks = rows(crude, "cm_diagnostics_summary", 1)
    assert checks[["unblind", "unblind_for_evidence_synthesis"]].tolist() == [0, 0]
    assert checks["ease"] > 0  # its controls calibrate all the same
    shown = crude.estimates().query("outcome_id == 13").set_index("analysis_id")
    assert shown.loc[1, [c for c in EFFECT if c in shown]].isna().all()
    assert np.isfinite(shown.loc[2, "rr"])
    assert "everybody in either arm (ATE), not adjusted" in grid_page(View(crude))


def test_a_crude_estimate_that_was_asked_for_has_no_verdict(results):
    assert rows(results, "note", 1)["adjustment_diagnostic"] == "NOT EVALUATED"
    assert rows(results, "cm_diagnostics_summary", 1)["unblind"] == 1


@pytest.mark.parametrize(
    ("settings", "crude"),
    [
        ({"propensity": None}, True),
        ({}, True),  # scores alone adjust nothing
        ({"trim": Trim(0.05)}, True),
        ({"outcome_model": OutcomeModel(covariates=True)}, False),
        ({"outcome_model": OutcomeModel(weighted=True)}, False),
    ],
)
def test_what_is_crude(settings, crude):
    assert StudyAnalysis(1, **settings).crude is crude
    if crude:
        assert StudyAnalysis(1, unadjusted=True, **settings).unadjusted
    else:
        with pytest.raises(
            DataError, match="asks for a crude comparison, but the analysis adjusts"
        ):
            StudyAnalysis(1, unadjusted=True, **settings)


def test_the_demonstration_shows_no_crude_estimate():
    assert [a.id for a in demo_grid().analyses if a.crude] == [1]
    assert not any(a.unadjusted for a in demo_grid().analyses)


def test_crude_estimates_calibrate_but_are_neither_read_nor_combined():
    crude = Diagnostics(adjusted=False, detectable=2.0)
    assert crude.unblind_for_calibration
    assert not crude.unblind_for_evidence_synthesis
    assert not crude.unblind


def test_a_propensity_model_that_did_not_converge_fails_its_analysis(
    database, spec, stopped, tmp_path
):
    stopped(steropes.LogisticRegression)
    found = run_grid(database, spec, tmp_path)
    note = rows(found, "note", 2)
    assert (note["convergence_diagnostic"], note["unconverged"]) == ("FAIL", "propensity model")
    assert rows(found, "note", 1)["convergence_diagnostic"] == "PASS"
    assert rows(found, "cm_diagnostics_summary", 2)["unblind"] == 0
    assert np.isnan(rows(found, "cm_diagnostics_summary", 2)["ease"])  # nor do its controls serve
    assert np.isnan(found.estimates().query("outcome_id == 13 and analysis_id == 2")["rr"]).all()
    assert "The propensity model did not converge." in grid_page(View(found))
    line = found.estimates(unblind=True).query("outcome_id == 13 and analysis_id == 2").iloc[0]
    assert line["unconverged"] == "propensity model"
    told = grid_page(View(found, True)).replace("\N{NO-BREAK SPACE}", " ")
    assert re.search(r"\d to [\d.]+\) \(propensity model did not converge\)", told)


def test_an_outcome_model_that_did_not_converge_fails_its_result(database, spec, stopped, tmp_path):
    model = OutcomeModel(covariates=True, variance=0.1, weighted=True, interval="bootstrap",
                         draws=10)  # fmt: skip
    stopped(steropes.CoxRegression)
    found = run_grid(database, change(spec, 2, outcome_model=model), tmp_path)
    note = rows(found, "note", 2)
    assert (note["convergence_diagnostic"], note["unconverged"]) == ("FAIL", "outcome model")
    assert rows(found, "cm_diagnostics_summary", 2)["unblind"] == 0


def test_page_and_table_agree_on_a_systematic_error_next_to_its_limit(results):
    """0.248 is below 0.25, and reads so."""
    checks = results.tables["cm_diagnostics_summary"]
    for ease, said in ((0.248, "0.248 <small>pass"), (0.2504, "0.2504 <small>fail")):
        passed = "PASS" if ease < 0.25 else "FAIL"
        tables = {
            **results.tables,
            "cm_diagnostics_summary": checks.assign(ease=ease, ease_diagnostic=passed),
        }
        page = grid_page(View(dataclasses.replace(results, tables=tables)))
        assert f">{said}" in page
        assert "Systematic error</th>" in page
        assert re.search('data-label="Systematic error">&lt; 0.25</td>', page)


@pytest.mark.parametrize(
    ("value", "said", "relation", "wanted"),
    [
        (0.1, "PASS", "below", "<0.1"),  # rounded by the rules of disclosure
        (0.1, "FAIL", "below", "0.10"),
        (0.09, "FAIL", "below", ">0.1"),
        (0.1, "PASS", "at most", "0.10"),
        (0.1, "PASS", "at least", "0.10"),
        (0.1, "FAIL", "at least", "<0.1"),
    ],
)
def test_a_rounded_value_agrees_with_its_verdict(value, said, relation, wanted):
    found = verdict_cell(value, said, relation=relation, limit=0.1)
    assert found == Cell(wanted, said, said.lower())


def test_judging_anew_keeps_what_a_table_of_numbers_does_not_hold(results):
    t = results.tables
    notes = t["note"].assign(convergence_diagnostic="FAIL")
    found = calibrated_tables(
        t["cm_result"], t["cm_diagnostics_summary"], t["cm_interaction_result"],
        t["cm_target_comparator_outcome"], notes, t["further_diagnostic"], DiagnosticThresholds(),
    )  # fmt: skip
    assert found.checks["unblind"].eq(0).all()
    assert list(found.checks) == list(t["cm_diagnostics_summary"])


@pytest.mark.slow
def test_the_demonstration_grid_reads_nothing_crude(tmp_path):
    found = run_grid(demo_database(), demo_grid(), tmp_path).estimates()
    assert found.query("analysis_id == 1")["rr"].isna().all()


def test_every_entry_of_the_contents_leads_to_a_section(results):
    page = grid_page(View(results))
    contents = page[page.index('<nav aria-label="Contents">') : page.index("</nav>")]
    targets = re.findall(r'href="#([^"]+)"', contents)
    comparison = results.tables["cm_target_comparator"]["target_comparator_id"].iloc[0]
    assert targets[:3] == [f"c{comparison}", f"c{comparison}-o13", f"c{comparison}-o14"]
    assert targets[-1] == "settings"
    for target in targets:
        assert page.count(f'id="{target}"') == 1


def test_sections_of_a_small_grid_are_open(results):
    folds = re.findall(r'<details class="fold"( open)?>', grid_page(View(results)))
    assert len(folds) == 5  # A comparison, two outcomes, adjustment and controls.
    assert all(folds)


def test_outcomes_of_a_large_grid_are_folded(results, monkeypatch):
    monkeypatch.setattr("steropes.studies.report.comparative_grid_page.MOST_OPEN", 1)
    folds = re.findall(r'<details class="fold"( open)?>', grid_page(View(results)))
    assert [bool(fold) for fold in folds] == [True, False, False, True, True]
