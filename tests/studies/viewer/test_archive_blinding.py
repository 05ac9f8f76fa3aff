"""A page of results holds no estimate that fails a diagnostic, nor anything it follows from."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from tests.studies.viewer.small_archives import small_archive

from steropes.studies.diagnostics.archive_blinding import (
    HIDDEN,
    blinded_archive,
    without_derivable_syntheses,
)
from steropes.studies.diagnostics.crude_risk_redaction import without_hidden_risks
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.disclosure.suppression_of_received_results import with_suppressed_counts
from steropes.studies.viewer.page_data import view_record
from steropes.studies.viewer.result_sources import read_sources
from steropes.studies.viewer.results_page import results_views

SHOWN, SECRET, CONTROL = 1.25, 3.777, 0.888


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A shown and a hidden result, and a control that fails, in one archive."""
    results = [(3, 1, SHOWN, 1, 1), (3, 2, SECRET, 0, 0), (4, 1, CONTROL, 0, 0)]
    folder = tmp_path_factory.mktemp("archive")
    return read_sources([small_archive(folder, "north", results, truth={4: 1.0})])


def embedded(sources, **options):
    """All numbers and texts of the page by view and column."""
    found = {}
    for view in results_views(sources, DisclosureRules(), **options):
        for name, column in view_record(view)["data"].items():
            found[view.name, name] = column.get("numbers") or column["texts"]
    return found


def numbers_near(data, value):
    near = {value, math.log(value), 1 - 0.03 * value, 1 - 0.06 * value, value / 10, value + 0.1}
    near |= {value * 1.001, value + 0.01, value * math.exp(0.196), value * math.exp(-0.196)}
    return [
        (where, x)
        for where, column in data.items()
        for x in column
        if isinstance(x, int | float) and any(abs(x - y) < 2e-4 for y in near)
    ]


def test_a_hidden_estimate_and_what_it_follows_from_are_not_in_the_page(sources):
    data = embedded(sources)
    assert numbers_near(data, SECRET) == []
    assert {where[0] for where, _ in numbers_near(data, SHOWN)} >= {
        "estimates", "curves", "subgroups", "absolute-effects", "effects-by-period",
    }  # fmt: skip
    outcomes = data["estimates", "target_outcomes"]
    assert sorted(map(str, outcomes)) == ["57", "57", "None"]
    assert data["estimates", "status"] == [
        "shown",
        "not shown: a diagnostic failed (minimum detectable hazard ratio)",
    ]


def test_days_at_risk_that_end_with_hidden_outcomes_are_not_in_the_page(sources):
    data = embedded(sources)
    assert sorted(map(str, data["estimates", "target_days"])) == ["181250", "181612", "None"]
    assert sorted(map(str, data["estimates", "comparator_days"])) == ["219000", "219000", "None"]
    assert data["follow-up", "target_p_10_days"] == [240, 337.8]
    assert 178_723 in embedded(sources, unblind=True)["estimates", "target_days"]


def test_controls_are_shown_as_on_pages(sources):
    assert numbers_near(embedded(sources), CONTROL)


def test_unblinding_shows_everything(sources):
    assert numbers_near(embedded(sources, unblind=True), SECRET)


def test_a_result_without_diagnostics_is_hidden(sources):
    tables = dict(sources[0].tables)
    tables["cm_diagnostics_summary"] = tables["cm_diagnostics_summary"].iloc[:0]
    assert blinded_archive(tables)["cm_result"].query("outcome_id == 3")["rr"].isna().all()
    del tables["cm_diagnostics_summary"]
    assert blinded_archive(tables)["cm_result"]["rr"].isna().all()


def test_effects_in_periods_of_a_hidden_result_are_removed(sources):
    tables = dict(sources[0].tables)
    key = ["target_comparator_id", "outcome_id", "analysis_id", "database_id"]
    tables["effect_by_period"] = tables["cm_result"][key].assign(first_day=1, rr=SECRET)
    left = blinded_archive(tables)["effect_by_period"]
    assert left[["outcome_id", "analysis_id"]].to_numpy().tolist() == [[3, 1], [4, 1]]
    del tables["cm_result"]
    assert "effect_by_period" not in blinded_archive(tables)


def test_effects_by_period_and_further_diagnostics_have_views(sources):
    views = {view.name: view.data() for view in results_views(sources, DisclosureRules())}
    periods = views["effects-by-period"]
    assert {*periods["period"]} == {"day 1 to 30", "day 31 on"}
    assert {*periods["outcome"]} == {"Bleeding", "Control"}
    assert periods["analysis_id"].unique().tolist() == [1]  # The other analysis is hidden.
    further = views["further-diagnostics"]
    assert {*further["diagnostic"]} == {"Share of old people"}
    assert sorted(further["value_verdict"]) == ["FAIL", "FAIL", "PASS"]


def test_questions_that_no_database_answers_are_not_combined(tmp_path):
    results = [(3, 1, 1.2, 1, 1), (5, 1, math.nan, 1, 1)]
    sources = read_sources([small_archive(tmp_path, name, results) for name in "ab"])
    table = next(
        v for v in results_views(sources, DisclosureRules()) if v.name == "synthesis"
    ).table
    assert table["outcome_id"].unique().tolist() == [3]
    assert table["databases"].unique().tolist() == [2]


def test_curves_without_results_are_not_shown(sources):
    tables = {k: v for k, v in sources[0].tables.items() if k != "cm_result"}
    found = blinded_archive(tables)
    assert "cm_kaplan_meier_dist" not in found
    assert "cm_likelihood_profile" not in found


def test_hidden_databases_of_a_synthesis_do_not_follow_from_it(tmp_path):
    """Estimates without power take part in synthesis, which must not give them away."""
    paths = [
        small_archive(tmp_path, "a", [(3, 1, 1.2, 1, 1), (3, 2, 1.2, 1, 1), (3, 3, 1.2, 1, 1)]),
        small_archive(tmp_path, "b", [(3, 1, 1.3, 1, 1), (3, 2, SECRET, 0, 1), (3, 3, 2.0, 0, 1)]),
        small_archive(tmp_path, "c", [(3, 1, 1.4, 1, 1), (3, 2, 1.4, 1, 1), (3, 3, 2.1, 0, 1)]),
    ]
    views = results_views(read_sources(paths), DisclosureRules())
    table = next(v for v in views if v.name == "synthesis").table
    by_analysis = table.groupby("analysis_id")["rr"]
    assert by_analysis.count().to_dict() == {1: 4, 2: 0, 3: 0}
    hidden = table.query("analysis_id > 1")
    numbers = ["log_rr", "se_log_rr", "tau", "i_squared", "pi_95_lb", "pi_95_ub"]
    assert hidden[numbers].isna().all(axis=None)
    assert hidden["status"].str.contains("hidden estimates of databases could follow").all()
    views = results_views(read_sources(paths), DisclosureRules(), unblind=True)
    table = next(v for v in views if v.name == "synthesis").table
    assert table.groupby("analysis_id")["rr"].count().to_dict() == {1: 4, 2: 4, 3: 4}


def test_databases_of_different_studies_are_not_combined(tmp_path):
    a = small_archive(tmp_path, "a", [(3, 1, 1.2, 1, 1)])
    b = small_archive(tmp_path, "b", [(3, 1, 1.3, 1, 1), (3, 2, 1.3, 1, 1)])
    views = results_views(read_sources([a, b]), DisclosureRules())
    assert "synthesis" not in [view.name for view in views]


def test_two_hidden_databases_do_not_follow_from_two_sets_of_databases():
    key = {"target_id": 1, "comparator_id": 2, "outcome_id": 3, "analysis_id": 1}
    results = pd.DataFrame({**key, "database_id": [*"abc"], HIDDEN: [False, True, True]})
    results = results.assign(unblind_for_evidence_synthesis=1)
    sets = {"evidence_synthesis_analysis_id": [1, 2], "n_databases": [3, 2]}
    combined = pd.DataFrame({**key, **sets, "rr": [1.5, 2.5], "target_outcomes": [70, 50]})
    found = without_derivable_syntheses(combined, results)
    assert found[HIDDEN].all()
    assert found[["rr", "target_outcomes"]].isna().all(axis=None)


def test_the_only_database_that_is_not_known_does_not_follow_from_a_synthesis():
    key = {"target_id": 1, "comparator_id": 2, "outcome_id": 3, "analysis_id": 1}
    results = pd.DataFrame({**key, "database_id": [*"ab"], HIDDEN: False})
    results = results.assign(unblind_for_evidence_synthesis=1)
    combined = pd.DataFrame({**key, "n_databases": [2, 3, 4], "rr": [1.5, 2.5, 3.5]})
    found = without_derivable_syntheses(combined, results)
    assert found[HIDDEN].tolist() == [False, True, False]
    assert found["rr"].isna().tolist() == [False, True, False]


def test_only_questions_with_hidden_databases_are_marked():
    key = {"target_comparator_id": 1, "outcome_id": [3, 4], "analysis_id": 1}
    results = pd.DataFrame({**key, "database_id": "a", HIDDEN: [True, False]})
    results = results.assign(unblind_for_evidence_synthesis=1)
    combined = pd.DataFrame({**key, "rr": [1.5, 2.5]})
    assert without_derivable_syntheses(combined, results)[HIDDEN].tolist() == [True, False]


def series_tables():
    """Two exposures of case series, of which the second fails, with weeks and windows."""
    key = {"exposures_outcome_set_id": [7, 8], "analysis_id": 1, "database_id": "a"}
    results = pd.DataFrame({**key, "covariate_id": 1001, "rr": [1.5, SECRET], "log_rr": 0.4})
    results = results.assign(covariate_outcomes=30)
    checks = results[[*key, "covariate_id"]].assign(
        unblind=[1, 0], unblind_for_evidence_synthesis=[1, 0]
    )
    windows = pd.DataFrame(
        [
            {"exposures_outcome_set_id": s, "analysis_id": 1, "database_id": "a",
             "covariate_id": c, "rr": s + c / 10_000}
            for s in (7, 8) for c in (1000, 1001, 1002)
        ]
    )  # fmt: skip
    covariates = windows[["exposures_outcome_set_id", "analysis_id", "database_id", "covariate_id"]]
    kinds = pd.DataFrame(
        {"analysis_id": 1, "covariate_analysis_id": [1, 2, 3], "pre_exposure": [1, 0, 0],
         "end_of_observation_period": 0}
    )  # fmt: skip
    weeks = pd.DataFrame(
        [
            {"exposures_outcome_set_id": s, "analysis_id": 1, "database_id": "a", "week": w}
            for s in (7, 8) for w in (-1, 0, 1)
        ]
    )  # fmt: skip
    note = results[list(key)].assign(note=["", "all outcomes during exposure"])
    return {
        "sccs_result": results,
        "sccs_diagnostics_summary": checks,
        "sccs_covariate_result": windows,
        "sccs_covariate": covariates.assign(
            covariate_analysis_id=covariates["covariate_id"] - 999, covariate_name="w"
        ),
        "sccs_covariate_analysis": kinds,
        "sccs_time_to_event": weeks,
        "sccs_likelihood_profile": results[[*key, "covariate_id"]].assign(log_rr=0.1),
        "note": note,
    }


def test_a_failing_exposure_shows_only_its_diagnostics():
    found = blinded_archive(series_tables())
    assert found["sccs_result"]["rr"].isna().tolist() == [False, True]
    assert found["sccs_result"]["covariate_outcomes"].isna().tolist() == [False, True]
    windows = found["sccs_covariate_result"].query("exposures_outcome_set_id == 8")
    assert windows["covariate_id"].tolist() == [1000]  # before exposure
    assert len(found["sccs_covariate_result"].query("exposures_outcome_set_id == 7")) == 3
    weeks = found["sccs_time_to_event"].query("exposures_outcome_set_id == 8")
    assert weeks["week"].tolist() == [-1]
    assert found["sccs_likelihood_profile"]["exposures_outcome_set_id"].tolist() == [7]
    assert found["note"]["note"].tolist() == ["", "not shown: a diagnostic failed"]


def test_small_counts_of_other_software_are_suppressed():
    rows = {"outcomes": [3, 0, 12], "persons_at_risk": [200, 200, 4], "person_days": [1, 2, 3]}
    rows["incidence_rate_p100py"] = [1.5, 0.0, 2.5]
    tables = {"ci_incidence_summary": pd.DataFrame(rows)}
    found = with_suppressed_counts(tables, DisclosureRules())["ci_incidence_summary"]
    assert found["outcomes"].tolist() == [-5, 0, 12]
    assert found["persons_at_risk"].tolist() == [200, 200, -5]
    assert np.isnan(found["incidence_rate_p100py"]).tolist() == [True, False, True]
    assert found["person_days"].iloc[:2].tolist() == [1, 2]
    assert np.isnan(found["person_days"].iloc[2])  # Those of few people count them.
    kept = with_suppressed_counts(tables, DisclosureRules("none", 0))["ci_incidence_summary"]
    assert kept["outcomes"].tolist() == [3, 0, 12]


def test_released_counts_stay_as_they_are(sources):
    tables = sources[0].tables
    found = with_suppressed_counts(tables, DisclosureRules())
    for name, table in tables.items():
        pd.testing.assert_frame_equal(found[name], table)


def test_the_records_are_json(sources):
    for view in results_views(sources, DisclosureRules()):
        json.dumps(view_record(view), allow_nan=False)


def test_days_of_received_results_do_not_tell_suppressed_numbers_of_people():
    """With a fixed time at risk, days over its length are the people."""
    rates = pd.DataFrame(
        {"persons_at_risk_pe": [3, 40], "person_days_pe": [90, 1200], "persons_at_risk": [3, 40],
         "person_days": [90, 1200], "person_outcomes": [0, 2]}
    )  # fmt: skip
    results = pd.DataFrame(
        {f"{arm}_{what}": values for arm in ("target", "comparator") for what, values in
         (("subjects", [90, 3]), ("outcomes", [2, 0]), ("days", [2700, 90]))}
    )  # fmt: skip
    tables = {"ci_incidence_summary": rates, "cm_result": results}
    found = with_suppressed_counts(tables, DisclosureRules())
    days = found["ci_incidence_summary"][["person_days_pe", "person_days"]]
    assert days.iloc[0].isna().all()
    assert days.iloc[1].tolist() == [1200, 1200]
    assert found["cm_result"][["target_days", "comparator_days"]].isna().all(axis=None)


def test_windows_after_the_index_of_hidden_arms_are_not_shown():
    windows = pd.DataFrame({
        "database_id": "x", "cohort_id": [1, 1, 9, 1], "time_id": [1, 2, 2, -1],
        "covariate_id": 3101, "sum_value": 50.0, "mean": 0.5, "sd": 0.5,
    })  # fmt: skip
    shared = pd.DataFrame({
        "database_id": "x", "cohort_id": [1, 1, 2], "other_cohort_id": [3, 9, 3],
        **dict.fromkeys(("both_subjects", "before_subjects", "same_day_subjects",
                         "after_subjects"), 20.0),
    })  # fmt: skip
    tables = {
        "cd_temporal_covariate_value": windows,
        "cd_temporal_time_ref": pd.DataFrame(
            {"time_id": [1, 2], "start_day": [-30, 1], "end_day": [0, 30]}
        ),
        "cohort_overlap": shared,
    }
    questions = pd.DataFrame({"database_id": ["x"], "cohort_id": [1], "outcome_id": [3]})
    found = without_hidden_risks(tables, questions, [tables])
    assert found["cd_temporal_covariate_value"]["mean"].isna().tolist() == [
        False,
        True,
        False,
        False,
    ]
    assert found["cd_temporal_covariate_value"]["time_id"].tolist() == [1, 2, 2, -1]
    assert found["cohort_overlap"]["both_subjects"].isna().tolist() == [True, False, False]
