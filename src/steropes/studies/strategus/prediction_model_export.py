"""Fitted prediction models as folders of files, as R's PatientLevelPrediction saves them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from steropes.private_files import private_draft, private_folder
from steropes.studies.formatting.text_safety import csv_text
from steropes.studies.prediction.prediction_models import PredictionResult

__all__ = ["write_models"]


def write_models(folder: Path, results: Sequence[PredictionResult], database: str) -> None:
    """Write the exact model of each design, which only the user can read.

    Parameters
    ----------
    folder : Path
        Folder for the models, each of which has a folder ``Analysis_1`` and so on.
    results : sequence of PredictionResult
        Exact results.
    database : str
        The name of the database.
    """
    for result in results:
        place = private_folder(folder / f"Analysis_{result.design.number}")
        for name, text in _files(result, database).items():
            with private_draft(place / name) as draft:
                draft.write_text(text, encoding="utf-8")


def _files(result: PredictionResult, database: str) -> dict[str, str]:
    """Return the files of a model by name."""
    ids = [int(i) for i in result.coefficients.index]
    values = [float(x) for x in result.coefficients]
    names = result.covariates.reindex(columns=["covariate_id", "covariate_name"])
    importance = pd.DataFrame({"covariateId": ids, "covariateValue": values}).merge(
        names, left_on="covariateId", right_on="covariate_id", how="left"
    )
    objects = {
        "model": {
            "modelType": "logistic",
            "coefficients": {
                "betas": [result.intercept, *values],
                "covariateIds": ["(Intercept)", *map(str, ids)],
                "attr_class": "data.frame",
                "attr_row.names": [*range(1, len(ids) + 2)],
            },
            "attr_class": "plpModel",
        },
        "modelDesign": {k: json.loads(v) for k, v in result.design.json_texts}
        | {"attr_class": "modelDesign"},
        "preprocessing": {
            "featureEngineering": None,
            "tidyCovariates": {
                "normFactors": {
                    "covariateId": ids,
                    "maxValue": [float(x) for x in result.scales],
                    "attr_class": "data.frame",
                    "attr_row.names": [*range(1, len(ids) + 1)],
                }
            },
            "requireDenseMatrix": False,
        },
        "trainDetails": {
            "analysisId": f"Analysis_{result.design.number}",
            "developmentDatabase": database,
            "developmentDatabaseId": database,
            "modelName": "lassoLogisticRegression",
        },
        "attributes": {
            "class": "plpModel",
            "predictionFunction": "PatientLevelPrediction::predictCyclops",
            "modelType": "binary",
            "saveType": "RtoJson",
        },
    }
    found = {f"{k}.json": json.dumps(v, indent=2, ensure_ascii=False) for k, v in objects.items()}
    listed = importance[["covariateId", "covariate_name", "covariateValue"]]
    shown = listed.rename(columns={"covariate_name": "covariateName"})
    return {**found, "covariateImportance.csv": csv_text(shown)}
