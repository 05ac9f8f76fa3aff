"""Prediction models on the page: R's layout, suppression, and blinding of questions that fail."""

import json
import math
import zipfile

import pandas as pd
import pytest
from tests.studies.viewer.prediction_folder import write_incidence, write_predictions
from tests.studies.viewer.small_archives import small_archive

from steropes.studies.diagnostics.archive_blinding import HIDDEN
from steropes.studies.diagnostics.crude_risk_redaction import HIDDEN_RISK, hidden_questions
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.disclosure.suppression_of_received_results import with_suppressed_counts
from steropes.studies.viewer.page_data import view_record
from steropes.studies.viewer.result_sources import read_sources
from steropes.studies.viewer.results_page import results_views

TARGET, OTHER, OUTCOME = 1, 2, 3  # As in small archives, with drug B as the comparator.
SECRETS = {
    123, 124, 131, 132, 13.67, 15.95, 171, 0.171, 0.1713, 0.3217, 0.1371, 37, 0.1853, 57, 113,
    0.713, -1.579, 829,
}  # fmt: skip


def views_of(*paths, **options):
    views = results_views(read_sources(paths), DisclosureRules(), **options)
    return {view.name: view for view in views}


def numbers(views):
    """All numbers of the page but those of the comparison itself."""
    return {
        x
        for name, view in views.items()
        if name.startswith(("prediction", "incidence"))
        for column in view_record(view)["data"].values()
        for x in column.get("numbers", [])
        if isinstance(x, int | float)
    }


def comparison(tmp_path, unblind, database="north"):
    return small_archive(
        tmp_path, database, [(OUTCOME, 1, 1.7, unblind, 0), (OUTCOME, 2, 1.8, 0, 0)]
    )


def test_a_folder_of_r_is_read_with_its_names_and_marks(tmp_path):
    found = views_of(write_predictions(tmp_path, "north", TARGET, OUTCOME).parent)
    table = found["prediction"].data()
    (row,) = table.to_dict("records")
    assert (row["target"], row["outcome"], row["database"]) == ("New users", "Bleeding", "north")
    assert (row["auroc"], row["people"], row["outcomes"]) == (0.7123, 1000, 171)
    assert row["period"] == "cohort start + 1 days to cohort start + 365 days"
    assert row["population"] == '{"x": 1}'
    assert row["status"] == "shown"
    assert len(found["prediction-thresholds"].table) == 3
    assert found["prediction-demographics"].data()["observed"].tolist() == [37 / 200]
    assert {"prediction-risks", "prediction-model", "prediction-attrition"} <= found.keys()


def test_an_archive_of_module_folders_is_read_too(tmp_path):
    folder = write_predictions(tmp_path / "north", "north", TARGET, OUTCOME)
    with zipfile.ZipFile(tmp_path / "north.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"{folder.name}/{path.name}")
    assert "prediction" in views_of(tmp_path / "north.zip")
    assert "prediction" in views_of(folder)


def test_small_counts_of_r_are_suppressed_with_the_shares_of_their_rows(tmp_path):
    found = views_of(write_predictions(tmp_path, "north", TARGET, OUTCOME))
    strata = found["prediction-calibration"].data()
    assert strata["person_count_with_outcome"].tolist() == [37, -5]
    assert strata["observed_incidence"].isna().tolist() == [False, True]
    first = found["prediction-thresholds"].data().iloc[0]
    assert first[["positive_count", "true_positive_count"]].tolist() == [-5, -5]
    assert first[["sensitivity", "specificity"]].isna().all()
    strict = results_views(
        read_sources([tmp_path]), DisclosureRules("ohdsi", 200)
    )  # 171 people have the outcome.
    row = next(v for v in strict if v.name == "prediction").data().iloc[0]
    assert row["outcomes"] == -200
    measures = ["observed_risk", "mean_risk", "brier", "auprc", "auroc", "auroc_upper", "e_avg"]
    assert row[measures].isna().all()


def test_small_counts_of_r_do_not_follow_from_others_of_their_row(tmp_path):
    found = views_of(write_predictions(tmp_path, "north", TARGET, OUTCOME))
    first, second = found["prediction-thresholds"].data().iloc[:2].to_dict("records")
    # 171 people have the outcome, and 169 of them have a lower risk.
    assert math.isnan(first["false_negative_count"])
    assert math.isnan(first["true_negative_count"])
    assert second["false_negative_count"] == 114
    row = {
        "covariate_count": [500, 500], "with_outcome_covariate_count": [2, 100],
        "with_no_outcome_covariate_count": [498, 400], "with_no_outcome_covariate_mean": [0.5, 0.4],
    }  # fmt: skip
    shown = with_suppressed_counts({"plp_covariate_summary": pd.DataFrame(row)}, DisclosureRules())
    few, many = shown["plp_covariate_summary"].to_dict("records")
    assert (few["covariate_count"], few["with_outcome_covariate_count"]) == (500, -5)
    assert math.isnan(few["with_no_outcome_covariate_count"])
    assert math.isnan(few["with_no_outcome_covariate_mean"])
    assert [*many.values()] == [500, 100, 400, 0.4]
    # Tables of these rules stay as they are: their rounded counts give no other one.
    row = {name: [500, 500] for name in row} | {"with_outcome_covariate_count": [-5, 5]}
    released = {"plp_covariate_summary": pd.DataFrame(row)}
    again = with_suppressed_counts(released, DisclosureRules())["plp_covariate_summary"]
    pd.testing.assert_frame_equal(again, released["plp_covariate_summary"])


def test_few_people_without_the_outcome_do_not_follow_from_those_with_it(tmp_path):
    folder = write_predictions(tmp_path, "north", TARGET, OUTCOME)
    (path,) = folder.glob("*evaluation_statistics.csv")
    path.write_text(path.read_text().replace(",171", ",998"))
    row = views_of(folder)["prediction"].data().iloc[0]
    assert row["people"] == 1000
    assert row[["outcomes", "auroc", "brier"]].isna().all()


def test_details_of_a_fit_show_no_counts(tmp_path):
    found = views_of(write_predictions(tmp_path, "north", TARGET, OUTCOME))
    assert found["prediction"].data()["train_details"].tolist() == ['{"modelName": "lasso"}']
    assert not any("98765" in json.dumps(view_record(view), default=str) for view in found.values())


def test_outcomes_of_the_arms_of_a_hidden_question_are_in_no_view(tmp_path):
    archive = comparison(tmp_path, 0)
    write_predictions(tmp_path / "modules", "north", TARGET, OUTCOME)
    write_incidence(tmp_path / "modules", "north", OTHER, OUTCOME)
    found = views_of(archive, tmp_path / "modules")
    assert numbers(found) & SECRETS - {123, 13.67, 131, 15.95} == set()
    rates = found["incidence"].data().set_index("target_cohort_definition_id")
    assert rates.loc[OTHER, "status"] == HIDDEN_RISK
    gone = ["person_outcomes", "outcomes", "incidence_rate_p100py", "person_days"]
    assert rates.loc[OTHER, gone].isna().all()
    assert rates.loc[OTHER, "persons_at_risk"] == 900
    assert rates.loc[77, "person_outcomes"] == 123  # No arm of the comparison.
    (row,) = found["prediction"].data().to_dict("records")
    assert (row["auroc"], row["status"]) == (0.7123, HIDDEN_RISK)
    assert math.isnan(row["outcomes"])
    # The width of the interval depends on the number of outcomes.
    assert math.isnan(row["auroc_lower"])
    assert math.isnan(row["auroc_upper"])
    assert not {"prediction-calibration", "prediction-model", "prediction-thresholds"} & {*found}


@pytest.mark.parametrize("changes", [{"unblind": True}, {}])
def test_outcomes_of_a_question_with_an_estimate_that_is_shown_are_shown(tmp_path, changes):
    archive = comparison(tmp_path, 0 if changes else 1)
    write_predictions(tmp_path / "modules", "north", TARGET, OUTCOME)
    write_incidence(tmp_path / "modules", "north", TARGET, OUTCOME)
    found = numbers(views_of(archive, tmp_path / "modules", **changes))
    assert {123, 15.95, 171, 0.713, 57} <= found


def test_only_the_same_database_and_outcome_are_hidden(tmp_path):
    archive = comparison(tmp_path, 0)
    write_predictions(tmp_path / "south", "south", TARGET, OUTCOME)
    assert 171 in numbers(views_of(archive, tmp_path / "south"))
    write_predictions(tmp_path / "other", "north", TARGET, 99)
    assert 171 in numbers(views_of(archive, tmp_path / "other"))


def test_subsets_are_hidden_with_the_cohort_that_they_were_made_from(tmp_path):
    archive = comparison(tmp_path, 0)
    modules = tmp_path / "modules"
    write_predictions(modules, "north", 1001, OUTCOME)
    cohorts = modules / "CohortGeneratorModule"
    cohorts.mkdir()
    (cohorts / "cg_cohort_definition.csv").write_text(
        "cohort_definition_id,cohort_name,subset_parent\n1,a,1\n1001,b,1\n3,c,3\n"
    )
    assert 171 not in numbers(views_of(archive, modules))


def test_exposures_of_hidden_case_series_are_listed():
    key = {"exposures_outcome_set_id": [7, 8], "analysis_id": 1, "database_id": "a"}
    results = pd.DataFrame({**key, "covariate_id": 1001, "rr": [1.5, 2.5], "log_rr": 0.4})
    checks = results.assign(unblind=[1, 0], unblind_for_evidence_synthesis=0)
    tables = {
        "sccs_result": results,
        "sccs_diagnostics_summary": checks,
        "sccs_exposures_outcome_set": pd.DataFrame(
            {"exposures_outcome_set_id": [7, 8], "outcome_id": [3, 4]}
        ),
        "sccs_exposure": pd.DataFrame(
            {"exposures_outcome_set_id": [7, 8], "era_id": [1, 2], "true_effect_size": math.nan}
        ),
    }
    found = hidden_questions([tables])
    assert found.to_numpy().tolist() == [["a", 2, 4]]
    assert HIDDEN not in found
