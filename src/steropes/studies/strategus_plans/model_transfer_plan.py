"""The plan of ModelTransferModule: where copies of its models are read; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from steropes.errors import DataError
from steropes.studies.formatting.text_safety import plain_text
from steropes.studies.strategus_plans.prediction_model_files import ModelFiles, models_below
from steropes.studies.strategus_plans.r_json_values import JsonPath, json_path, table_rows
from steropes.studies.strategus_plans.supported_parts import PartVerdict, runs, skipped

__all__ = ["MODEL_TRANSFER", "ModelTransferPlan", "model_transfer_plan"]

MODEL_TRANSFER = "ModelTransferModule"
SOURCES = ("localFileSettings", "githubSettings", "s3Settings")
IN_PLACE = "models are read where they are, and nothing is downloaded or copied"


@dataclass(frozen=True)
class ModelTransferPlan:
    """Verdicts on the places of models. Validations read the models themselves."""

    verdicts: tuple[PartVerdict, ...]


def model_transfer_plan(settings: object, path: JsonPath, files: ModelFiles) -> ModelTransferPlan:
    """Find the models of a transfer, for the validations that come after it.

    Parameters
    ----------
    settings : object
        The settings as parsed JSON.
    files : ModelFiles
        Where the models are; those that are found are added.

    Raises
    ------
    DataError
        A setting is unknown.
    """
    if not isinstance(settings, Mapping):
        raise DataError(f"{json_path(path)} must be an object with {', '.join(SOURCES)}")
    unknown = [k for k in settings if k not in SOURCES and k[:5] != "attr_"]
    if unknown:
        raise DataError(f"{json_path((*path, unknown[0]))} is not known")
    verdicts = []
    files.transferred = []
    for part, address, names in _places(settings, path):
        try:
            found = models_below(files.find(*names))
        except DataError as error:
            why = f"nothing is downloaded from {address}; {error}" if address else str(error)
            verdicts.append(skipped(MODEL_TRANSFER, part, plain_text(why)))
            continue
        if not found:
            verdicts.append(skipped(MODEL_TRANSFER, part, "the folder has no model in JSON"))
            continue
        files.transferred += found
        count = "1 model" if len(found) == 1 else f"{len(found):,} models"
        verdicts.append(runs(MODEL_TRANSFER, f"{part}, {count}", [IN_PLACE]))
    if not verdicts:
        verdicts.append(skipped(MODEL_TRANSFER, "settings", "they name no place of a model"))
    return ModelTransferPlan(tuple(verdicts))


def _places(
    settings: Mapping[str, Any], path: JsonPath
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield each place with its part of the module, its address, and the folders to look for."""
    local = settings.get("localFileSettings")
    local = local.get("locations") if isinstance(local, Mapping) else local
    for i, folder in enumerate(_texts(local)):
        yield f"local folder {i + 1}", "", (folder,)
    github = settings.get("githubSettings")
    if isinstance(github, Mapping) and "locations" in github:
        github = github["locations"]
    i = 0
    for row in table_rows(github, (*path, "githubSettings")):
        # Earlier versions begin the names with "github".
        of = {k.removeprefix("github").lower(): v for k, v in row.items()}
        repository = f"github.com/{of.get('user')}/{of.get('repository')}"
        folders, inner = _texts(of.get("modelsfolder")), _texts(of.get("modelfolder"))
        inner += [""] * (len(folders) - len(inner))
        for folder, model in zip(folders, inner, strict=False):
            i += 1
            yield f"GitHub {i}", repository, (f"{folder}/{model}".strip("/"),)
    for i, row in enumerate(table_rows(settings.get("s3Settings"), (*path, "s3Settings"))):
        folder = str(row.get("modelZipLocation"))
        yield f"S3 {i + 1}", f"the bucket {row.get('bucket')}", (folder,)


def _texts(value: object) -> list[str]:
    """Return the texts of a vector, which R writes without brackets if there is one."""
    listed = value if isinstance(value, list) else [value]
    return [v for v in listed if isinstance(v, str) and v]
