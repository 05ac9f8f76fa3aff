"""Estimates against those of R's Cyclops 3.7.0, and of R's packages of studies.

``python -m benchmarks.beside_r`` stores them: ``store tests/models/cyclops_results.json``,
``store-estimates tests/models/r_estimates.json`` and, of folders of earlier comparisons,
``store-studies tests/models/r_studies.json --folder FOLDER``.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.beside_r.case_series_comparison import CASE_SERIES, draw_series
from benchmarks.beside_r.cohort_method_comparison import COHORT_METHOD
from benchmarks.beside_r.cyclops_comparison import compare_with_cyclops
from benchmarks.beside_r.cyclops_problems import CONDITIONAL, cyclops_problem, folds_of
from benchmarks.beside_r.documented import reproduce_documented_differences
from benchmarks.beside_r.drawn_study import draw_settings
from benchmarks.beside_r.estimates_comparison import compare_estimates
from benchmarks.beside_r.irregular_rows_in_r import Reading
from benchmarks.beside_r.r_programs import RAbsent, install_packages, r_versions
from benchmarks.beside_r.study_batches import compare_stored, explain_by_reading
from benchmarks.beside_r.table_comparison import R_ERROR, StudyComparison, Table, compare_frames
from benchmarks.random_problems.inputs import arguments, coefficients, estimator

HERE = Path(__file__).parent
STORED = json.loads((HERE / "cyclops_results.json").read_text(encoding="utf-8"))
STUDIES = json.loads((HERE / "r_studies.json").read_text(encoding="utf-8"))
KINDS = {kind.module: kind for kind in (CASE_SERIES, COHORT_METHOD)}


@pytest.mark.parametrize(
    "stored", STORED, ids=lambda s: f"{cyclops_problem(s['seed']).family}-{s['seed']}"
)
def test_coefficients_are_those_of_cyclops(stored):
    problem = cyclops_problem(stored["seed"])
    model = estimator(problem).fit(**arguments(problem))
    found, wanted = coefficients(problem, model), np.array(stored["coefficients"])
    # Cyclops stops a little before the optimum, in units of each column.
    spread = np.append(1.0, problem.X.std(axis=0))[-len(found) :]
    np.testing.assert_allclose(found * spread, wanted * spread, atol=2e-3)
    if problem.family not in ("linear", "poisson"):  # whose constants Cyclops leaves out
        assert model.log_likelihood_ == pytest.approx(stored["log_likelihood"], rel=1e-4, abs=1e-4)


def test_problems_for_cyclops_have_what_it_has():
    for seed in range(60):
        problem = cyclops_problem(seed)
        assert "entry" not in problem.data
        assert problem.offset is None
        assert problem.prior in ("none", "laplace", "normal")
        if problem.family in CONDITIONAL:
            for values in (folds_of(problem), problem.weights):
                if values is not None:
                    assert all(
                        np.ptp(values[problem.strata == s]) == 0 for s in set(problem.strata)
                    )


def test_settings_of_a_study_are_drawn_from_the_seed():
    assert draw_settings(3) == draw_settings(3)
    assert draw_settings(3) != draw_settings(4)


def test_settings_of_a_case_series_are_drawn_from_the_seed():
    assert draw_series(3) == draw_series(3)
    assert draw_series(3) != draw_series(4)


def test_calibration_and_synthesis_agree_with_r():
    answers = json.loads((HERE / "r_estimates.json").read_text(encoding="utf-8"))
    for found in compare_estimates(range(len(answers)), answers):
        assert not found.differ, found.examples
        assert found.compared.total() == 31


@pytest.mark.slow
@pytest.mark.parametrize("stored", STUDIES, ids=lambda s: f"{s['module']}-{s['seed']}")
def test_tables_of_studies_differ_from_r_by_listed_reasons_alone(stored, tmp_path):
    found = compare_stored(KINDS[stored["module"]], stored, tmp_path)
    assert found.failed == ""
    assert not found.differ, found.examples


def test_a_cell_that_differs_without_a_reason_is_reported():
    found = StudyComparison(1)
    ours = pd.DataFrame({"key": [1, 2, 3], "value": [1.0, 2.0, float("nan")]})
    theirs = pd.DataFrame({"key": [1, 2, 4], "value": [1.0, 2.1, 5.0]})
    compare_frames(found, "table", Table(["key"]), (), {}, ours, theirs)
    assert found.differ == {"table.value": 1, "table.rows": 2}
    assert found.verdict == "DIFFERENT"
    assert StudyComparison.from_json(found.as_json()) == found


def test_numbers_that_are_those_of_r_after_an_edit_are_explained_by_it():
    reading = Reading(R_ERROR, "two people", (), r".*(people|prevalence)")
    before, after = StudyComparison(1), StudyComparison(1)
    before.apart = {"t.rr (1)": (1.0, 2.0), "t.day (1)": (3, 4), "t.prevalence (1)": (0.5, 0.4)}
    after.apart = {
        "t.day (1)": (3, 4),  # differs with and without the edits
        "t.people (1)": (6, 5),  # is R's number without the edits alone
        "t.outcome_subjects (2)": (10, 8),
        "t.prevalence (1)": (0.5, 0.4),  # R divides its people by the edited periods
    }
    explain_by_reading(before, after, reading)
    assert before.explained == {"R's error: two people": 3}
    assert before.differ == {"t.day": 1, "t.outcome_subjects": 1}


def test_without_r_the_message_says_what_is_missing(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RAbsent, match="R is not installed"):
        r_versions("Cyclops")


def test_packages_are_not_built_without_clones(tmp_path):
    with pytest.raises(RAbsent, match=r"no clones|there is no"):
        install_packages(tmp_path)


def test_no_problem_differs_from_cyclops():
    try:
        r_versions("Cyclops")
    except RAbsent as absent:
        pytest.skip(str(absent))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not [r.words for r in compare_with_cyclops(range(8)) if r.verdict == "DIFFERENT"]


# The numbers of both programs that the page on R's differences states.
DOCUMENTED = {
    "people aged 41 or more, of whom one enters on the birthday": ("0", "1"),
    "people with 32 days at risk or more, of whom one has 32": ("1", "1"),
    "people with 33 days at risk or more, of whom one has 32": ("0", "0"),
    "a study without a propensity model": ("stops", ""),
    "weighted model: limits": ("-0.8585 1.1688", "-1.2036 1.5550"),
    "limits: the log-likelihood is lower by": ("1.9206723 1.9207310", "1.9207294 1.9207294"),
    "profile: range of ratios": ("0.1000 10.0000", "0.0004 267.5181"),
    "no events in an arm: cox": ("-22.8329 NA -0.2768", "nan -inf -0.2768"),
    "logistic strata": ("0.1048", "0.1252"),
    "covariates: likelihood ratio": ("0.0062", "0.0005"),
    "covariates: likelihood ratio without penalties": ("0.0062", "0.0062"),
    "scores of a model of a covariate that nobody has": ("0.3750", ""),
    "last day of the targets' curve": ("50.0000", "30.0000"),
    "calibrated p-value of twelve controls, twice": ("different", "equal"),
    "time transform of cox.zph": ("km", ""),
    "weights within strata": ("-0.1526", "-0.2293"),
    "weights within strata: rows repeated": ("-0.2293", "-0.2293"),
    "one weight for each stratum": ("-0.3685", "-0.3685"),
    "cpr: log-likelihood": ("-49.8872", "-39.9476"),
    "ls: Laplace prior, a quarter of the variance": ("0.0856", "0.0856"),
    "ls: normal prior, half the variance": ("0.1261", "0.1261"),
    "cox: tied events": ("0.2009", "0.2837"),
    "profile with the penalty: at 1 less at 0": ("-4.1686", "0.8314"),
    "fgr: ties of events and censored times": ("0.6137", "0.6024"),
    "fgr: a fold without two censored people": ("4.8467", "5.1145"),
    "lr: held-out log-likelihood": ("-0.8673", "-1.2278"),
    "log-likelihood of clr_exact": ("-67.9616", "-19.3805"),
    "first outcome only: outcomes in two observation periods": ("2", "1"),
    "restricted to an exposure: days, and whether the end is independent": ("731 0", "731 1"),
    "eras of an ancestor: exposed cases": ("0", "12"),
    "all eras of a cohort table: exposed days": ("64", "63"),
    "exposure after the study period: days of the window before exposure": ("30", "51"),
    "exposure after max_age: days of the window before exposure": ("49", "50"),
    "p-value": ("2.85e-09", "2.74e-07"),
    "profile: the value at a ratio of 0.1": ("-40.6511", "-39.9580"),
    "all events in a window: log rate ratio and limits": (
        "41.0016 4.0166 41.0016", "inf 4.1841 inf"),
    "a prior on another window: likelihood ratio": ("15.3561", "13.2098"),
    "detectable ratio with a naive period: days": ("37254", "32874"),
    "detectable ratio with one event and little unexposed time": ("22026.4658", "inf"),
    "detectable ratio of a risk interval design: days and events": ("37254 15", "1092 7"),
    "columns of the season: their sum, and their number": ("1 4", "not 1 3"),
    "fewer than five: outcomes of the arms": ("-5 -5", "-5 -5"),
    "fewer than five: their standardised differences": ("1039", "0"),
    "fewer than five: their shares of both arms": ("6", "0"),
    "fewer than five: days of curves": ("8", "0"),
    "fewer than five: detectable ratios": ("2", "0"),
    "fewer than five: balance without scores": ("1093", "0"),
    "sets: mean variance of differences that vary by 0.0063": ("0.0014", "0.0067"),
    "fewer than five: lines of attrition": ("5", "6"),
}  # fmt: skip


@pytest.mark.slow
def test_documented_differences_are_those_of_r():
    """Its page states them: 301 and 300 days, 91 and 90, and so on."""
    try:
        r_versions("CohortMethod", "FeatureExtraction", "SelfControlledCaseSeries")
    except RAbsent as absent:
        pytest.skip(str(absent))
    found = reproduce_documented_differences().set_index(["what", "person"])
    both, first, every = "keep first, truncate to second", "first exposure", "all exposures"
    expected = {
        (f"{both}; {first}; 300 days", 4): ("target 301 days", "target 300 days"),
        (f"{both}; {first}; cohort end", 1): ("target 91 days", "target 90 days"),
        (f"{both}; {first}; cohort end", 2): ("left out", "left out"),
        (f"keep first; {first}; cohort end", 2): ("target 61 days", "left out"),
        (f"{both}; {every}; cohort end", 3): ("target 32 days", "target 31 days, target 32 days"),
        ("window of 201 days of the first era", 3): ("201 days", "152 days"),
    }
    for key, pair in expected.items():
        assert tuple(found.loc[key]) == pair
    for same in ("difference", "survival"):
        pair = found.loc[f"strata: {same}", 0]
        assert pair["R"] == pair["here"]
    for other in ("variance", "lower", "upper", "density"):
        pair = found.loc[f"strata: {other}", 0]
        assert pair["R"] != pair["here"]
    statements = found.xs(0, level="person")
    for what, pair in DOCUMENTED.items():
        assert tuple(statements.loc[what]) == pair, what
    values = found.loc["recorded values"]
    assert "= 2e+39" in values["R"][2]
    assert values["here"][2] == ""
    assert values["R"][6].count("nan = ") == values["here"][6].count("unnamed concept") == 2
    assert "within normal range" in values["R"][3]
    assert values["here"][3] == ""
