"""Prediction models in files, as R's PatientLevelPrediction and this package write them.

A model is a folder of JSON files: ``model.json`` has the coefficients, ``modelDesign.json`` the
settings, ``preprocessing.json`` the scales of the covariates, ``trainDetails.json`` the database
and ``attributes.json`` the function that predicts. Functions of R are never run.
"""

from __future__ import annotations

import contextlib
import json
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from steropes.errors import DataError
from steropes.studies.covariates.cohort_covariates import CohortCovariate
from steropes.studies.covariates.feature_extraction import FeatureRules
from steropes.studies.formatting.text_safety import plain_text
from steropes.studies.strategus_plans.prediction_covariates import prediction_covariates
from steropes.studies.strategus_plans.prediction_settings import (
    DataRestriction,
    PopulationSettings,
)
from steropes.studies.strategus_plans.r_json_values import JsonPath, parsed, table_rows
from steropes.studies.strategus_plans.specification_text import parsed_json

__all__ = ["ModelFiles", "Place", "PredictionModel", "model_of", "models_below"]

DESIGN = "modelDesign.json"
FILES = ("model", "modelDesign", "preprocessing", "trainDetails", "attributes")
# Functions of R that predict by coefficients.
LINEAR = ("predictCyclops", "predictGlm")
INTERCEPT = "(Intercept)"
MOST_BYTES = 100_000_000  # The largest file of a model.
MOST_FOLDERS = 10_000  # More are no folder of models but a disk.
UNREADABLE = (
    OSError, EOFError, UnicodeDecodeError, RuntimeError, zipfile.BadZipFile, zlib.error,
    lzma.LZMAError,
)  # fmt: skip


class Place(Protocol):
    """A folder or file on disk or in a zip file."""

    @property
    def name(self) -> str:
        """The last part of the path."""

    def joinpath(self, *other: str) -> Any:
        """Return a path below this one."""

    def is_dir(self) -> bool:
        """Check whether it is a folder."""

    def is_file(self) -> bool:
        """Check whether it is a file."""

    def iterdir(self) -> Iterator[Any]:
        """Return the files and folders in it."""

    def open(self, mode: Any = "rb") -> Any:
        """Open a file."""


@dataclass(frozen=True)
class PredictionModel:
    """A logistic regression whose coefficients are known.

    Attributes
    ----------
    name : str
        The name of its folder.
    target, outcome : int or None
        The cohorts for which it was fitted.
    population : PopulationSettings
        Entries that belonged to the population, and their time at risk.
    restriction : DataRestriction
        Entries of the target that were read.
    rules : FeatureRules
        FeatureExtraction's covariates.
    of_cohorts : tuple of CohortCovariate
        Covariates of cohorts.
    intercept : float
        The log odds without any covariate.
    covariate_ids : tuple of int
        Covariates with a coefficient.
    coefficients : tuple of float
        Their coefficients for recorded values.
    importance : tuple of float
        Their coefficients for the values that the model was fitted to, which are divided by the
        largest value of the training data.
    database : str
        The database of the training data.
    json_texts : tuple of (str, str)
        Names and texts of the settings as the model has them.
    """

    name: str
    target: int | None
    outcome: int | None
    population: PopulationSettings
    restriction: DataRestriction
    rules: FeatureRules
    of_cohorts: tuple[CohortCovariate, ...]
    intercept: float
    covariate_ids: tuple[int, ...]
    coefficients: tuple[float, ...]
    importance: tuple[float, ...]
    database: str
    json_texts: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass
class ModelFiles:
    """Where the models of a specification are looked for.

    Attributes
    ----------
    folder : Path or None
        A folder or zip file that the user names.
    beside : Path or None
        The folder of the specification.
    transferred : list of Place or None
        The models that ModelTransferModule found; None before it is planned.
    """

    folder: Path | None = None
    beside: Path | None = None
    transferred: list[Place] | None = None
    _read: dict[str, PredictionModel] = field(default_factory=dict, repr=False)

    def read(self, place: Place) -> PredictionModel:
        """Read the model in a folder; several validations may apply it.

        Raises
        ------
        DataError
            A file is missing or invalid, or the model is no logistic regression.
        """
        if str(place) not in self._read:
            files = {name: _json(place, name) for name in FILES}
            self._read[str(place)] = model_of(files, place.name)
        return self._read[str(place)]

    def find(self, *names: str) -> Place:
        """Return the first of some paths that exists.

        Paths are looked for as they are, and below the folder of the user and that of the
        specification, also in ``inst``, where packages of R keep their files.

        Raises
        ------
        DataError
            None of the paths exists, or the zip file cannot be read.
        """
        for name in names:
            given = Path(name)
            if name.startswith("~"):
                with contextlib.suppress(RuntimeError):  # There is no such user.
                    given = given.expanduser()
            if given.is_absolute() and _is_folder(given):
                return given
            inside = PurePosixPath(name.replace("\\", "/").lstrip("/"))
            if ".." in inside.parts:
                raise DataError(f"the folder {plain_text(name)[:80]} lies outside of the study")
            for base in self._bases():
                for path in (inside, "inst" / inside, PurePosixPath(inside.name)):
                    found = base.joinpath(str(path))
                    if _is_folder(found):
                        return found
        named = "" if self.folder is None else f" in {self.folder}"
        raise DataError(
            f"there is no folder {plain_text(names[0])[:80]}{named}; give the folder or zip file "
            "that has it with --models"
        )

    def _bases(self) -> list[Place]:
        """Return the folders below which models are looked for."""
        found: list[Place] = []
        if self.folder is not None:
            if self.folder.is_dir():
                found.append(self.folder)
            else:
                try:
                    root = zipfile.Path(self.folder)
                except (OSError, zipfile.BadZipFile) as error:
                    raise DataError(f"{self.folder} is no folder or zip file: {error}") from None
                # Archives of a repository have one folder with everything.
                within = [p for p in root.iterdir() if p.is_dir()]
                found += [root, *(within if len(within) == 1 else [])]
        return [*found, *([] if self.beside is None else [self.beside])]


def _is_folder(place: Place) -> bool:
    """Check whether a path that a specification names is a folder."""
    try:
        return bool(place.is_dir())
    except (OSError, ValueError):  # Such as a name that no system allows.
        return False


def models_below(place: Place) -> list[Place]:
    """Return the folders of models in a folder, also nested ones.

    Raises
    ------
    DataError
        There are more than 10,000 folders, or one of them cannot be read.
    """
    found, left, seen = [], [place], 0
    while left:
        here = left.pop()
        seen += 1
        if seen > MOST_FOLDERS:
            raise DataError(f"{place} has more than {MOST_FOLDERS:,} folders")
        try:
            if here.joinpath(DESIGN).is_file():
                found.append(here)
                continue
            inner = sorted((p for p in here.iterdir() if p.is_dir()), key=lambda p: p.name)
        except OSError as error:
            raise DataError(f"{here} cannot be read: {error.strerror}") from None
        left += inner[::-1]
    return found


def model_of(files: Mapping[str, object], name: str) -> PredictionModel:
    """Read a model from its parsed files, by their names without ``.json``.

    Raises
    ------
    DataError
        A value is missing or invalid, or the model is no logistic regression.
    """
    model, design, steps = (_object(files.get(f), f, name) for f in FILES[:3])
    details, attributes = (_object(files.get(f) or {}, f, name) for f in FILES[3:])
    _require_logistic(design, model, attributes)
    engineered = steps.get("featureEngineering")
    if engineered:
        raise DataError("its covariates are engineered by functions of R, which cannot be run")
    intercept, betas = _coefficients(model)
    place: JsonPath = (DESIGN,)
    rules, only, of_cohorts = prediction_covariates(
        design.get("covariateSettings"), (*place, "covariateSettings")
    )
    scales = _scales(_object(steps.get("tidyCovariates") or {}, "preprocessing", name))
    used = {
        i: beta for i, beta in betas.items()
        if beta and (scales is None or i in scales) and (not only or i in only)
    }  # fmt: skip
    ids = tuple(sorted(used))
    population = design.get("populationSettings") or {}
    restriction = design.get("restrictPlpDataSettings") or {}
    database = details.get("developmentDatabaseId") or details.get("developmentDatabase")
    return PredictionModel(
        plain_text(name),
        _identifier(design.get("targetId")),
        _identifier(design.get("outcomeId")),
        parsed(PopulationSettings, population, (*place, "populationSettings")),
        parsed(DataRestriction, restriction, (*place, "restrictPlpDataSettings")),
        rules,
        of_cohorts,
        intercept,
        ids,
        tuple(_number(used[i] / (1.0 if scales is None else scales[i])) for i in ids),
        tuple(used[i] for i in ids),
        plain_text(str(database or "unknown")),
        tuple(
            (k, json.dumps(v, ensure_ascii=False)) for k, v in design.items() if k[:5] != "attr_"
        ),
    )


def _json(place: Place, name: str) -> object:
    """Read one file of a model; None if it is absent and not required."""
    file = place.joinpath(f"{name}.json")
    try:
        if not file.is_file():
            if name in FILES[3:]:
                return None
            raise DataError(f"{place.name} has no {name}.json, which models of R in JSON have")
        with file.open("rb") as content:
            data = content.read(MOST_BYTES + 1)  # What a zip file holds may be far larger than it.
        if len(data) > MOST_BYTES:
            raise DataError(f"{place.name}/{name}.json has more than {MOST_BYTES:,} bytes")
        text = data.decode("utf-8-sig")
    except UNREADABLE as error:
        raise DataError(f"{place.name}/{name}.json cannot be read: {error}") from None
    return parsed_json(text, f"{place.name}/{name}.json")


def _object(value: object, file: str, name: str) -> Mapping[str, Any]:
    """Require a JSON object."""
    if not isinstance(value, Mapping):
        raise DataError(f"{plain_text(name)}/{file}.json must be an object")
    return value


def _require_logistic(
    design: Mapping[str, Any], model: Mapping[str, Any], attributes: Mapping[str, Any]
) -> None:
    """Refuse other models than those that predict by the coefficients of a logistic regression."""
    learner = design.get("modelSettings")
    learner = learner if isinstance(learner, Mapping) else {}
    kept = learner.get("settings")
    settings = kept if isinstance(kept, Mapping) else {}
    function = settings.get("predict") or attributes.get("predictionFunction") or ""
    if str(function).split("::")[-1] not in LINEAR:
        learned = settings.get("modelName") or settings.get("name") or function or "unknown"
        raise DataError(
            f"the model ({plain_text(str(learned))[:60]}) predicts by a function of R, "
            "which cannot be run; models with coefficients can be applied"
        )
    kinds = [of.get("modelType") for of in (model, attributes, settings)]
    # R writes a vector of one with or without brackets.
    kinds = [k[0] if isinstance(k, list) and len(k) == 1 else k for k in kinds]
    if any(k is not None and k not in ("logistic", "binary", "GLM") for k in kinds):
        raise DataError("the model is no logistic regression")
    if str(function).endswith("predictGlm") and model.get("mapping", "logistic") != "logistic":
        raise DataError("model.json: the mapping of the model is not logistic")


def _coefficients(model: Mapping[str, Any]) -> tuple[float, dict[int, float]]:
    """Return the intercept and the coefficients by covariate."""
    place: JsonPath = ("model.json", "coefficients")
    frame = model.get("coefficients")
    if (
        isinstance(frame, Mapping)
        and frame
        and not any(isinstance(v, list) for v in frame.values())
    ):
        rows = [{"id": k, "beta": v} for k, v in frame.items() if k[:5] != "attr_"]
    else:
        rows = table_rows(frame, place)
    names = {"covariateId": "id", "covariateIds": "id", "betas": "beta", "coefficient": "beta",
             "coefficients": "beta", "id": "id", "beta": "beta"}  # fmt: skip
    intercept, betas = _number(model.get("intercept") or 0.0), {}
    for row in rows:
        read = {names[k]: v for k, v in row.items() if k in names}
        if {*read} != {"id", "beta"}:
            raise DataError("model.json: coefficients must have covariate ids and values")
        if read["id"] == INTERCEPT:
            intercept = _number(read["beta"])
            continue
        number = _identifier(read["id"])
        if number is None or number in betas:
            raise DataError("model.json: each coefficient must have the id of another covariate")
        betas[number] = _number(read["beta"])
    return intercept, betas


def _scales(tidied: Mapping[str, Any]) -> dict[int, float] | None:
    """Return the largest value of each covariate that is kept; None if they are not scaled."""
    frame = tidied.get("normFactors")
    if not frame:
        return None
    names = {"bins": "id", "covariateId": "id", "maxs": "largest", "maxValue": "largest"}
    found: dict[int, float] = {}
    for row in table_rows(frame, ("preprocessing.json", "tidyCovariates", "normFactors")):
        read = {names[k]: v for k, v in row.items() if k in names}
        number, largest = _identifier(read.get("id")), _number(read.get("largest"))
        if number is not None and largest:
            found[number] = largest
    dropped = ("deletedRedundantCovariateIds", "deletedInfrequentCovariateIds")
    for name in dropped:
        listed = tidied.get(name)
        for i in listed if isinstance(listed, list) else [listed]:
            found.pop(_identifier(i) or 0, None)
    return found


def _number(value: object) -> float:
    """Return a finite number."""
    try:
        found = float(str(value))
    except ValueError:
        found = float("nan")
    if not abs(found) < 1e300:
        raise DataError(f"the model has the value {plain_text(str(value))[:40]} for a number")
    return found


def _identifier(value: object) -> int | None:
    """Return a whole number, which R may write as text; None for other values."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else None
