"""Prediction models of files are applied to a database, recalibrated, evaluated and released."""

import copy
import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from tests.studies.strategus.prediction_designs import COHORTS, design, plan
from tests.studies.strategus.small_specification import BLEEDING, shared_resources

from steropes.errors import DataError
from steropes.studies import OmopDatabase, demo_database
from steropes.studies.cli.command_line import run
from steropes.studies.cohorts import CohortTable, drug_era_cohorts
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.prediction.model_validation import validated
from steropes.studies.prediction.prediction_models import predicted
from steropes.studies.release.prediction_release import released_result
from steropes.studies.strategus.database_description import database_tables
from steropes.studies.strategus.prediction_model_export import write_models
from steropes.studies.strategus.prediction_result_tables import validation_tables
from steropes.studies.strategus.results_model import module_files, module_tables
from steropes.studies.strategus_plans import prediction_model_files
from steropes.studies.strategus_plans.model_transfer_plan import model_transfer_plan
from steropes.studies.strategus_plans.prediction_model_files import ModelFiles, model_of
from steropes.studies.strategus_plans.validation_plan import validation_plan
from steropes.studies.viewer.result_sources import read_sources
from steropes.studies.viewer.results_page import results_views

CELECOXIB = 1118084
RECALIBRATIONS = ["weakRecalibration", "recalibrationInTheLarge"]
MODULE = "PatientLevelPredictionValidationModule"


def simple_design():
    """A model of sex, age and conditions with a fixed variance."""
    values = design()
    values["modelSettings"]["settings"]["crossValidationInPrior"] = False
    values["modelSettings"]["param"]["priorParams"]["variance"] = 0.5
    values["covariateSettings"] = {
        "DemographicsGender": True, "DemographicsAge": True, "ConditionOccurrenceLongTerm": True,
    }  # fmt: skip
    return values


@pytest.fixture(scope="module")
def db():
    with OmopDatabase(demo_database()) as found:
        yield found


@pytest.fixture(scope="module")
def cohorts(db):
    events = pd.DataFrame(
        db.rows(
            "SELECT 3, person_id, min(condition_start_date), min(condition_start_date) "
            f"FROM {db.table('condition_occurrence')} WHERE condition_concept_id = {BLEEDING} "
            "GROUP BY person_id"
        ),
        columns=["cohort_definition_id", "subject_id", "cohort_start_date", "cohort_end_date"],
    )
    return drug_era_cohorts(db, {1: CELECOXIB}) + CohortTable.from_frame(events)


@pytest.fixture(scope="module")
def fitted(db, cohorts):
    (made,) = plan(simple_design()).designs
    return predicted(db, made, cohorts)


@pytest.fixture(scope="module")
def folder(fitted, tmp_path_factory):
    found = tmp_path_factory.mktemp("models")
    write_models(found, [fitted], "demo")
    return found


def planned(folder, **changes):
    one = {"targetId": 1, "outcomeId": 3, "plpModelList": ["Analysis_1"],
           "recalibrate": RECALIBRATIONS, "runCovariateSummary": True} | changes  # fmt: skip
    settings = {"validationList": [one], "logLevel": "INFO"}
    return validation_plan(settings, ("settings",), COHORTS, ModelFiles(folder))


@pytest.fixture(scope="module")
def result(db, cohorts, folder):
    (made,) = planned(folder).designs
    return validated(db, made, cohorts)


def statistics(table):
    return table.set_index(["evaluation", "metric"])["value"].astype(float)


def test_a_model_that_was_written_predicts_the_risks_that_were_fitted(fitted, folder, result):
    files = {f.stem: json.loads(f.read_text()) for f in (folder / "Analysis_1").glob("*.json")}
    model = model_of(files, "Analysis_1")
    scaled = fitted.coefficients / fitted.scales
    assert dict(zip(model.covariate_ids, model.coefficients, strict=True)) == pytest.approx(
        scaled[scaled != 0].to_dict()
    )
    assert model.intercept == fitted.intercept
    assert (model.target, model.outcome, model.database) == (1, 3, "demo")
    exact, trained = statistics(result.statistics), statistics(fitted.statistics)
    cases = exact["1|Validation", "outcomeCount"]
    assert cases == trained["Train", "outcomeCount"] + trained["Test", "outcomeCount"]
    # The mean over everybody is that of the people of training and test.
    sizes, means = (
        trained.unstack("evaluation").loc[name, ["Train", "Test"]]
        for name in ("populationSize", "calibrationInLarge mean prediction")
    )
    mean = float((sizes * means).sum() / sizes.sum())
    assert exact["1|Validation", "calibrationInLarge mean prediction"] == pytest.approx(mean)


def test_recalibrated_risks_are_those_of_r(result):
    value = statistics(result.statistics).unstack("metric")
    mean = value["calibrationInLarge mean prediction"]
    observed = value["calibrationInLarge observed risk"].iloc[0]
    assert mean["1|weakRecalibration"] == pytest.approx(observed)
    assert value.loc["1|weakRecalibration", "weak calibration gradient"] == pytest.approx(1)
    assert value["AUROC"].to_numpy() == pytest.approx(value["AUROC"].iloc[0], abs=1e-12)
    factor = logit(observed) - logit(mean["1|Validation"])
    risks = result.distribution.set_index("evaluation")
    for column in ("min_predicted_probability", "max_predicted_probability"):
        given = risks.loc["1|Validation", column].to_numpy(float)
        moved = risks.loc["1|recalibrationInTheLarge", column].to_numpy(float)
        assert moved == pytest.approx(expit(logit(given) + factor))


def test_a_released_validation_counts_the_same_people_once(result):
    rules = DisclosureRules("ohdsi", 5)
    found = released_result(result, rules)
    strata = found["plp_calibration_summary"].set_index("evaluation")
    counts = ["person_count_at_risk", "person_count_with_outcome"]
    given = strata.loc["1|Validation", counts].to_numpy(float)
    for name in RECALIBRATIONS:
        np.testing.assert_array_equal(strata.loc[f"1|{name}", counts].to_numpy(float), given)
    shown = statistics(found["plp_evaluation_statistics"]).unstack("metric")
    assert (shown[["populationSize", "outcomeCount"]] % 5 == 0).all(axis=None)
    share = shown["outcomeCount"] / shown["populationSize"]
    mean = shown.loc["1|weakRecalibration", "calibrationInLarge mean prediction"]
    assert mean == pytest.approx(share["1|weakRecalibration"], rel=2e-3)
    for name in ("plp_prediction_distribution", "plp_calibration_summary"):
        assert found[name].filter(regex="^(min|max)_").isna().all(axis=None)


def test_models_of_a_zip_file_and_of_two_forms_of_r_are_read(folder, tmp_path):
    archive = tmp_path / "models.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in (folder / "Analysis_1").iterdir():
            file.write(path, f"study-main/inst/models/first/{path.name}")
    listed = [{"type": "package", "modelFolder": "models/first", "package": "Study"}]
    (made,) = planned(archive, plpModelList=listed).designs
    (model,) = made.models
    files = {f.stem: json.loads(f.read_text()) for f in (folder / "Analysis_1").glob("*.json")}
    glm = copy.deepcopy(files)
    betas = glm["model"]["coefficients"]["betas"]
    ids = glm["model"]["coefficients"]["covariateIds"]
    glm["model"] = {
        "intercept": betas[0], "mapping": "logistic",
        "coefficients": {"covariateId": [int(i) for i in ids[1:]], "coefficient": betas[1:]},
    }  # fmt: skip
    norm = glm["preprocessing"]["tidyCovariates"]["normFactors"]
    glm["preprocessing"]["tidyCovariates"]["normFactors"] = {
        "bins": norm["covariateId"], "maxs": norm["maxValue"],
    }  # fmt: skip
    glm["attributes"]["predictionFunction"] = "PatientLevelPrediction::predictGlm"
    del glm["modelDesign"]["modelSettings"]["settings"]
    other = model_of(glm, "first")
    assert (other.intercept, other.coefficients) == (model.intercept, model.coefficients)
    assert other.covariate_ids == model.covariate_ids


def test_models_that_cannot_be_applied_have_verdicts(folder):
    files = {f.stem: json.loads(f.read_text()) for f in (folder / "Analysis_1").glob("*.json")}
    forest = copy.deepcopy(files)
    forest["modelDesign"]["modelSettings"]["settings"] = {
        "predict": "predictPythonSklearn", "modelName": "Random forest",
    }  # fmt: skip
    found = planned(folder, plpModelList=["Analysis_1", "absent", forest, "../Analysis_1"])
    lines = [v.line() for v in found.verdicts]
    assert "there is no folder absent" in lines[0]
    assert "--models" in lines[0]
    assert "the model (Random forest) predicts by a function of R" in lines[1]
    assert "lies outside of the study" in lines[2]
    assert lines[3].startswith("validation 1 (1 model, 3 in 1): runs with a difference")
    only = planned(folder, plpModelList=["absent"])
    assert only.designs == ()
    assert only.verdicts[-1].reason == "none of its models can be applied"
    assert "must be weakRecalibration" in planned(folder, recalibrate="x").verdicts[0].reason
    bad = copy.deepcopy(files)
    bad["model"]["coefficients"]["betas"][0] = "NaN"
    with pytest.raises(DataError, match="NaN"):
        model_of(bad, "bad")


def test_hostile_models_are_refused_in_words(folder, tmp_path, monkeypatch):
    for name in ("~nobody/x", "a" * 5000, "a/" * 3000, "/", 5, None):
        found = planned(folder, plpModelList=[name])
        assert found.verdicts[-1].reason == "none of its models can be applied"
    files = {f.stem: json.loads(f.read_text()) for f in (folder / "Analysis_1").glob("*.json")}
    listed, large = copy.deepcopy(files), copy.deepcopy(files)
    listed["model"]["modelType"] = ["logistic"]
    assert model_of(listed, "listed").intercept == model_of(files, "model").intercept
    listed["model"]["modelType"] = {"a": []}
    with pytest.raises(DataError, match="no logistic regression"):
        model_of(listed, "listed")
    norm = large["preprocessing"]["tidyCovariates"]["normFactors"]
    norm["maxValue"] = [1e-320] * len(norm["maxValue"])
    with pytest.raises(DataError, match="inf for a number"):
        model_of(large, "large")
    archive = tmp_path / "models.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("good/model.json", " " * 5000)
        file.writestr("a/" * 2000 + "modelDesign.json", "{}")
    monkeypatch.setattr(prediction_model_files, "MOST_BYTES", 4000)
    assert "has more than 4,000 bytes" in planned(archive, plpModelList="good").verdicts[0].reason
    monkeypatch.setattr(prediction_model_files, "MOST_FOLDERS", 100)
    settings = {"localFileSettings": "a"}
    [verdict] = model_transfer_plan(settings, ("settings",), ModelFiles(archive)).verdicts
    assert "has more than 100 folders" in verdict.reason


def test_risks_of_one_for_everybody_are_no_model(db, cohorts, folder):
    (made,) = planned(folder).designs
    large = replace(made, models=(replace(made.models[0], intercept=900.0),))
    with pytest.raises(DataError, match="coefficients that are too large"):
        validated(db, large, cohorts)


def test_transferred_models_are_read_where_they_are_and_nothing_is_downloaded(folder):
    files = ModelFiles(folder)
    settings = {
        "s3Settings": {"modelZipLocation": ["m"], "bucket": ["b"], "region": ["r"]},
        "githubSettings": {"locations": [{
            "githubUser": "u", "githubRepository": "s", "githubBranch": "main",
            "githubModelsFolder": "models", "githubModelFolder": "full",
        }]},
        "localFileSettings": {"locations": str(folder)},
    }  # fmt: skip
    lines = [v.line() for v in model_transfer_plan(settings, ("settings",), files).verdicts]
    assert lines[0].startswith("local folder 1, 1 model: runs with a difference")
    assert "nothing is downloaded from github.com/u/s" in lines[1]
    assert "nothing is downloaded from the bucket b" in lines[2]
    one = {"modelTargetId": 1, "modelOutcomeId": 3, "restrictPlpDataSettings": {},
           "validationSettings": {"recalibrate": "weakRecalibration"}}  # fmt: skip
    found = validation_plan([one], ("settings",), COHORTS, files)
    assert found.designs[0].recalibrate == ("weakRecalibration",)
    other = validation_plan([one | {"modelOutcomeId": 9}], ("settings",), COHORTS, files)
    assert "no model was fitted" in other.verdicts[0].reason
    none = validation_plan([one], ("settings",), COHORTS, ModelFiles())
    assert "no ModelTransferModule" in none.verdicts[0].reason


def test_covariates_of_cohorts_are_applied(db, cohorts, folder):
    files = {f.stem: json.loads(f.read_text()) for f in (folder / "Analysis_1").glob("*.json")}
    own = {"covariateName": "earlier drug", "covariateId": 1699, "cohortIds": 1, "startDay": -1,
           "endDays": 0, "count": False, "ageInteraction": False, "lnAgeInteraction": False,
           "analysisId": 699,
           "attr_fun": "PatientLevelPrediction::getCohortCovariateData"}  # fmt: skip
    files["modelDesign"]["covariateSettings"] = [files["modelDesign"]["covariateSettings"], own]
    files["model"]["coefficients"] = {
        "betas": [-3.0, 1.5], "covariateIds": ["(Intercept)", "1699"],
    }  # fmt: skip
    files["preprocessing"]["tidyCovariates"] = None
    (made,) = planned(folder, plpModelList=[files], recalibrate=[]).designs
    found = validated(db, made, cohorts)
    risks = found.distribution
    # Everybody is in the target on the day of the start.
    assert risks["min_predicted_probability"].to_numpy() == pytest.approx(expit(-1.5))
    names = found.covariates.set_index("covariate_id")["covariate_name"]
    assert names[1699] == "earlier drug"


def test_tables_name_the_database_of_the_training_data(db, result):
    _, described = database_tables(db, "here")
    rules = DisclosureRules("ohdsi", 5)
    tables = validation_tables([result], COHORTS, described, rules)
    texts = module_files(MODULE, tables)
    for name, columns in module_tables(MODULE).items():
        required = columns["is_required"].eq("Yes") & columns["may_be_blank"].ne("Yes")
        if name in tables:
            found = pd.read_csv(io.StringIO(texts[f"{MODULE}/{name.removeprefix('plp_')}.csv"]))
            assert found[columns.loc[required, "column_name"]].notna().all(axis=None), name
    (performance,) = tables["plp_performances"].to_dict("records")
    assert (performance["development_database_id"], performance["validation_database_id"]) == (2, 1)
    assert tables["plp_database_details"]["database_meta_data_id"].tolist() == ["here", "demo"]
    assert {*tables["plp_evaluation_statistics"]["evaluation"]} == {"Validation", *RECALIBRATIONS}
    # The coefficients come from the file of the model, so that none is withheld.
    assert tables["plp_covariate_summary"]["covariate_value"].notna().all()


@pytest.mark.slow
def test_a_specification_validates_the_model_of_another_run(folder, tmp_path, capsys):
    specification = {
        "sharedResources": shared_resources([]),
        "moduleSpecifications": [
            {"module": "ModelTransferModule",
             "settings": {"localFileSettings": {"locations": str(folder)}}},
            {"module": MODULE, "settings": {"validationList": {
                "targetId": 1, "outcomeId": 3, "plpModelList": ["Analysis_1"],
                "populationSettings": None, "restrictPlpDataSettings": None,
                "recalibrate": "weakRecalibration", "runCovariateSummary": True,
            }, "logLevel": "INFO"}},
        ],
    }  # fmt: skip
    file, out = tmp_path / "spec.json", tmp_path / "out"
    file.write_text(json.dumps(specification))
    command = ["strategus", str(file), "--models", str(folder), "--output", str(out)]
    assert run([*command, "--database", str(demo_database()), "--quiet"]) == 0
    release = out / "release"
    verdicts = pd.read_csv(release / "verdicts.csv")
    assert {*verdicts["verdict"]} <= {"ran", "ran with a difference"}
    performances = pd.read_csv(release / MODULE / "performances.csv")
    assert performances["model_development"].tolist() == [0]
    shown = pd.read_csv(release / MODULE / "evaluation_statistics.csv")
    assert {*shown["evaluation"]} == {"Validation", "weakRecalibration"}
    databases = pd.read_csv(release / MODULE / "database_details.csv")
    assert databases["database_meta_data_id"].iloc[1] == "demo"
    summary = pd.read_csv(release / MODULE / "covariate_summary.csv").set_index("covariate_id")
    assert summary["covariate_value"].notna().all()
    views = {v.name: v.data() for v in results_views(read_sources([out]), DisclosureRules())}
    assert {*views["prediction"]["evaluation"]} == {"Validation", "weakRecalibration"}
    assert views["prediction"]["design"].tolist() == ["model 1"] * 2
