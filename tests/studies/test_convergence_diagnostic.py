"""A fit that did not converge is a failed diagnostic and is said where its number stands."""

import json

import pytest
from tests.studies.changed_tables import changed

import steropes
from steropes.studies import StudySettings, comparative_study
from steropes.studies.diagnostics import DiagnosticThresholds
from steropes.studies.diagnostics.comparative_diagnostics import Diagnostics
from steropes.studies.release.one_question_release import publish
from steropes.studies.report.study_report import study_page
from steropes.studies.single_studies.study_terminal import print_study

EASY = DiagnosticThresholds(balance=9.0, equipoise=0.0)


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


@pytest.fixture
def path(omop):
    for i in range(200):
        arm = "target" if i % 3 else "comparator"
        person = omop.person(**{arm: 0}, outcome=5 + i if i % 5 == 0 else None, born=1950 + i % 30)
        if i % 4 == 0:
            omop.condition(person, 70, -5)
    return omop.write()


def studied(path, **settings):
    asked = StudySettings(1, 2, 3, thresholds=EASY, tie_orders=2, **settings)
    return comparative_study(path, asked, disclosure="none")


def test_a_study_whose_fits_converge_says_so(path):
    study = studied(path)
    assert study.diagnostics.convergence_verdict == "PASS"
    assert study.visible
    assert "Convergence: every fit ended at its optimum" in study_page(study.release)
    assert "did not converge" not in study_page(study.release)
    assert study.to_dict()["propensity"]["converged"] is True


@pytest.mark.parametrize("name", ["propensity model", "outcome model"])
def test_a_fit_that_did_not_converge_hides_the_estimate(path, stopped, name, capsys):
    if name == "propensity model":
        stopped(steropes.LogisticRegression)
    study = studied(path)
    if name == "outcome model":  # the study's own has a closed form, which always converges
        study = unconverged(study)
    assert study.diagnostics.convergence_verdict == "FAIL"
    assert study.diagnostics.unconverged == name
    assert not study.diagnostics.unblind_for_calibration
    assert publish(study).blinded
    print_study(study, [])
    numbers = json.loads(json.dumps(study.to_dict()))
    [verdict] = [d for d in numbers["diagnostics"] if d["key"] == "convergence"]
    assert (verdict["verdict"], verdict["about"], verdict["hides"]) == ("FAIL", name, True)
    assert [h["hr"] for h in numbers["hazard_ratios"]] == [None] * 3
    for said in (study_page(study.release), " ".join(capsys.readouterr().out.split())):
        assert f"the {name} did not converge" in said
        assert "not shown" in said


def unconverged(study):
    stopped = changed(study, "note", unconverged="outcome model", convergence_diagnostic="FAIL")
    return changed(stopped, "cm_diagnostics_summary", unblind=0)


def test_the_word_stands_beside_the_number_where_it_is_shown_all_the_same(path, capsys):
    study = unconverged(studied(path, unblind=True))
    print_study(study, [])
    hr = f"{study.hazard_ratios.loc['matched', 'hr']:.2f}"
    assert f"{hr} (did not converge)" in study_page(study.release)
    assert "converge)" in " ".join(capsys.readouterr().out.split())
    lines = study.to_dict()["hazard_ratios"]
    assert [line["converged"] for line in lines] == [False] * 3


def test_nothing_fitted_is_no_verdict():
    assert Diagnostics().convergence_verdict == "NOT EVALUATED"
    assert Diagnostics(converged=True).convergence_verdict == "PASS"
    failed = Diagnostics(converged=False, detectable=2.0)
    assert not failed.unblind
    assert not failed.unblind_for_evidence_synthesis
