"""Doubly robust analyses of grids: shared nuisances, calibration, release and refused settings."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from steropes.designs import Match, OutcomeModel
from steropes.errors import DataError
from steropes.studies.comparative.analysis_cache import Workbench
from steropes.studies.comparative.grid_questions_and_analyses import StudyAnalysis
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.diagnostics.result_blinding import tells_the_arm
from steropes.studies.grids.comparative_grid_run import run_grid
from steropes.studies.report.comparative_grid_page import write_grid_report

KEY = ["outcome_id", "analysis_id"]


@pytest.fixture(scope="module")
def specified(spec):
    """The people of the weighted analysis by TMLE, with the risk by day 300."""
    model = OutcomeModel("tmle", variance=0.1, cross_fitting=3, horizon=300)
    tmle = replace(spec.analyses[1], id=3, truncate=None, estimand="ate", outcome_model=model)
    return replace(spec, analysis=(tmle,))


@pytest.fixture(scope="module")
def bench(database, specified):
    with OmopDatabase(database) as db:
        yield Workbench(db, specified.make_cohorts(db).table, specified.thresholds)


@pytest.fixture(scope="module")
def found(database, specified, tmp_path_factory):
    return run_grid(database, specified, tmp_path_factory.mktemp("out"), disclosure="none")


def test_estimates_are_risk_ratios_with_differences_and_are_calibrated_by_the_controls(found):
    result = found.tables["cm_result"].set_index(KEY).sort_index()
    absolute = found.tables["absolute_effect"].set_index(KEY).sort_index()
    for outcome in (13, 5, 6, 7, 8, 9):
        line, risks = result.loc[outcome, 3], absolute.loc[outcome, 3]
        target, comparator = risks["target_risk"], risks["comparator_risk"]
        assert line["rr"] == pytest.approx(target / comparator)
        assert risks["horizon_day"] == 300
        assert risks["risk_difference"] == pytest.approx(target - comparator)
        assert np.isnan(risks["days_free_difference"])
    calibrated = result.loc[13, 3]
    assert math.isfinite(calibrated["calibrated_log_rr"])
    assert calibrated["calibrated_se_log_rr"] >= calibrated["se_log_rr"]
    assert calibrated["target_estimator"] == "ate"
    notes = found.tables["note"].set_index(KEY)["note"]
    assert notes[14, 3].startswith("nobody had the outcome during the time at risk")


def test_all_outcomes_share_folds_scores_and_censoring(bench, specified):
    (question,) = specified.questions
    (tmle,) = specified.analyses
    shared = bench.prepared(question, tmle).shared
    assert shared.nuisances.scores is shared.scores
    assert bench.prepared(question, tmle).shared is shared
    other = bench.prepared(question, replace(tmle, id=9, estimand="att")).shared
    assert other.nuisances is shared.nuisances
    one = bench.run(question, 13, tmle)
    assert one.estimate.kind == "tmle"
    assert one.absolute.horizon == 300


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_processes(database, specified, found, tmp_path):
    again = run_grid(database, specified, tmp_path, jobs=2, disclosure="none")
    pd.testing.assert_frame_equal(again.tables["cm_result"], found.tables["cm_result"])


def test_released_effects_of_few_outcomes_are_withheld(database, specified, found, tmp_path):
    """A rule that closes results of few outcomes in an arm hides their risks too."""
    exact = found.tables["cm_result"].set_index(KEY)
    fewest = exact[["target_outcomes", "comparator_outcomes"]].min(axis=1)
    least = int(fewest.max())
    few = fewest.between(1, least - 1)
    assert few.any()
    assert not few.all()
    spec = replace(specified, min_cell=least)
    released = run_grid(database, spec, tmp_path, disclosure="ohdsi")
    absolute = released.tables["absolute_effect"].set_index(KEY)
    result = released.tables["cm_result"].set_index(KEY)
    notes = released.tables["note"].set_index(KEY)
    for key in few.index[few]:
        assert key not in absolute.index
        assert result.loc[key, ["rr", "log_rr", "se_log_rr"]].isna().all()
        assert notes.loc[key, ["e_value", "limit_ratio"]].isna().all()


def test_restricted_means_are_released_and_withheld_with_the_risks(
    database, specified, found, tmp_path
):
    (tmle,) = specified.analysis
    model = replace(tmle.outcome_model, restricted_means=True)
    spec = replace(specified, analysis=(replace(tmle, outcome_model=model),))
    exact = run_grid(database, spec, tmp_path / "exact", disclosure="none").tables
    before = found.tables["absolute_effect"].set_index(KEY)
    days = exact["absolute_effect"].set_index(KEY)
    pd.testing.assert_series_equal(days["risk_difference"], before["risk_difference"])
    assert days["days_free_difference"].notna().all()
    assert (days["target_days_free"] > 300 * (1 - days["target_risk"])).all()
    few = exact["cm_result"].set_index(KEY)[["target_outcomes", "comparator_outcomes"]].min(axis=1)
    released = run_grid(database, replace(spec, min_cell=int(few.max())), tmp_path / "released")
    shown = released.tables["absolute_effect"].set_index(KEY)
    assert not shown.index.isin(few.index[few.between(1, few.max() - 1)]).any()
    assert shown["days_free_difference"].notna().all()


def test_the_page_names_the_ratio_and_its_day(found, tmp_path):
    page = write_grid_report(found, tmp_path, unblind=True).read_text()
    assert "risk ratio" in page
    assert "By day" in page


def test_the_reason_for_no_estimate_is_hidden_with_the_effect(bench, specified):
    (question,), (tmle,) = specified.questions, specified.analyses
    prepared = bench.prepared(question, tmle)
    population = prepared.at_risk(13)
    people = pd.DataFrame(population.people)
    gone = (people["treated"] == 1).to_numpy()
    people.loc[gone, "event"] = 0
    people.loc[np.flatnonzero(gone)[:1], "event"] = 1
    answer = prepared.answer(13, replace(population, people=people))
    assert "too few people in the target arm had the outcome" in answer.estimate.note
    assert tells_the_arm(answer.estimate.note)
    assert math.isnan(answer.absolute.horizon)


@pytest.mark.parametrize("code", [1, 2])
def test_leaving_with_an_event_is_not_censoring(bench, specified, code):
    """Without censoring, risks do not depend on whether events end observation."""
    (question,), (tmle,) = specified.questions, specified.analyses
    prepared = bench.prepared(question, tmle)
    population = prepared.at_risk(13)
    people = pd.DataFrame(population.people)
    had = (people["event"] == 1) & (people["time"] < 300)
    some = had.cumsum() % 3 == 0
    people["event"] = np.where(had, np.where(some, code, 1), 0)
    people["time"] = np.where(had, people["time"], 500)

    def risks(days):
        own = replace(population, people=people.assign(days_at_risk=days))
        absolute = prepared.answer(13, own).absolute
        return absolute.target_risk, absolute.comparator_risk, absolute.risk_se

    seen, fatal = risks(500), risks(np.where(had & some, people["time"], 500))
    np.testing.assert_allclose(fatal, seen, rtol=1e-12)
    crude = [(people["event"] == 1)[people["treated"] == arm].mean() for arm in (1, 0)]
    np.testing.assert_allclose(seen[:2], crude, rtol=0.15)


def test_competing_outcomes_lower_the_risk(bench, specified):
    (question,), (tmle,) = specified.questions, specified.analyses
    alone = bench.run(question, 13, tmle).absolute
    with_rival = bench.run(question, 13, replace(tmle, id=8, competing=5)).absolute
    assert with_rival.target_risk < alone.target_risk
    assert with_rival.comparator_risk < alone.comparator_risk


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"match": Match()}, "leave match and stratify out"),
        ({"truncate": 10.0}, "bounds scores, not weights"),
        ({"estimand": "ato"}, 'not "ato"'),
        ({"propensity": None}, "without a propensity model"),
    ],
)
def test_rules_that_a_doubly_robust_analysis_does_not_have_are_refused(settings, message):
    with pytest.raises(DataError, match=message):
        StudyAnalysis(1, outcome_model=OutcomeModel("tmle"), **settings)


def test_a_large_number_of_folds_is_refused_at_once():
    with pytest.raises(DataError, match="cross_fitting must be a whole number from 2 to 100"):
        OutcomeModel("tmle", cross_fitting=10**6)
