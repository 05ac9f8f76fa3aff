"""Grids of case series whose exposure is a class of drugs, one by one."""

import re

import numpy as np
import pytest
from tests.studies.conftest import OUTCOME, TARGET

from steropes.studies.grids.sccs_grid import (
    CaseSeriesGrid,
    SeriesAnalysis,
    SeriesQuestion,
    run_case_series_grid,
)
from steropes.studies.sccs import Thresholds
from steropes.studies.series_report.sccs_grid_page import case_series_grid_page
from steropes.studies.series_report.sccs_terminal import print_grid

CONTROLS = (61, 62, 63, 64, 65, 66)
FAST = {"end_of_observation_days": 0, "pre_exposure_days": 0}


def test_the_note_on_one_of_several_exposures_is_not_that_of_the_others(omop, tmp_path):
    for concept in (51, 52):
        omop.concept(concept, f"drug {concept}")
        omop.ancestor(TARGET, concept)
    for k in range(60):
        person = omop.person(observed=(0, 400), outcome=10 + k)
        omop.drug(person, 51, 200, 210)  # never with the outcome
        omop.drug(person, 52, 30, 60)
    analysis = SeriesAnalysis(1, "each", {**FAST, "by_concept": True})
    grid = CaseSeriesGrid((SeriesQuestion(TARGET, OUTCOME),), (analysis,))
    found = run_case_series_grid(omop.write(), grid, tmp_path).estimates(unblind=True)
    assert found["covariate_outcomes"].min() == 0 < found["covariate_outcomes"].max()
    assert found["note"].tolist() == ["", ""]


def test_each_drug_of_a_class_is_named(omop, tmp_path, capsys):
    for concept in (51, 52):
        omop.concept(concept, f"drug {concept}")
        omop.ancestor(TARGET, concept)
    for k in range(60):
        person = omop.person(observed=(0, 400), outcome=10 + k)
        omop.drug(person, 51 + k % 2, 30, 60)
    analyses = (
        SeriesAnalysis(1, "each", {**FAST, "by_concept": True}),
        SeriesAnalysis(2, "all", FAST),
    )
    grid = CaseSeriesGrid((SeriesQuestion(TARGET, OUTCOME),), analyses)
    results = run_case_series_grid(omop.write(), grid, tmp_path)
    print_grid(results, True, tmp_path / "report.html")
    said = capsys.readouterr().out
    for exposure, analysis in (
        (r"Newdrug \(drug 51\)", r"1 \(each\)"),
        (r"Newdrug \(drug 52\)", r"1 \(each\)"),
        ("Newdrug", r"2 \(all\)"),
    ):
        assert re.search(rf"^ *{exposure} +Bleeding +{analysis} +\S", said, re.MULTILINE)
    page = case_series_grid_page(results, unblind=True)
    assert page.count(">each, drug 52</td>") == 2  # estimates and verdicts
    assert page.count(">all</td>") >= 2


@pytest.mark.slow
def test_the_drugs_of_a_class_are_calibrated_by_their_own_controls(omop, tmp_path):
    """Whoever has one drug tells nothing of another, so a class is as its drugs one by one."""
    rng = np.random.default_rng(5)
    for concept in (51, 52):
        omop.concept(concept, f"drug {concept}")
        omop.ancestor(TARGET, concept)
    for outcome in (OUTCOME, *CONTROLS):
        if outcome != OUTCOME:
            omop.concept(outcome, f"control {outcome}")
        for k in range(72):
            drug = 52 if outcome == CONTROLS[0] else 51 + k % 2  # 51 has a control less
            person = omop.person(observed=(0, 400))
            start = int(rng.integers(20, 350))
            omop.drug(person, drug, start, start + 40)
            ratio = 41 * (1.2 if drug == 52 else 3.0)
            inside = rng.random() < ratio / (ratio + 360)
            day = start + int(rng.integers(0, 41)) if inside else int(rng.integers(0, 401))
            omop.condition(person, outcome, day)
    path = omop.write()

    def calibrated(exposure, **settings):
        questions = [SeriesQuestion(exposure, OUTCOME)]
        questions += [SeriesQuestion(exposure, c, 1.0) for c in CONTROLS]
        analysis = SeriesAnalysis(1, "each", {**FAST, **settings})
        more = {"thresholds": Thresholds(prevalence=1.0, detectable=20)}
        grid = CaseSeriesGrid(tuple(questions), (analysis,), **more)
        results = run_case_series_grid(path, grid, tmp_path / f"{exposure}", disclosure="none")
        checks = results.tables["sccs_diagnostics_summary"]
        key = ["exposures_outcome_set_id", "covariate_id"]
        found = results.estimates(unblind=True).merge(checks[[*key, "ease"]], on=key)
        return found[["log_rr", "calibrated_log_rr", "calibrated_se_log_rr", "ease"]]

    together = calibrated(TARGET, by_concept=True)
    alone = np.vstack([calibrated(drug).to_numpy() for drug in (51, 52)])
    assert np.isfinite(alone).all()
    np.testing.assert_allclose(together, alone, rtol=1e-5)
