"""A folder that a lead and its sites share: the plan, and a folder a round.

    plan.json
    rounds/000/request.json      written by the lead
    rounds/000/north.json        a site's answer
    …
    result.json

Each `step` of the lead runs its fit again from the first round, with the answers that are there,
to the first one that is missing. So there is no state beside the messages, and whoever has the
folder can check every number.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from ..errors import DataError
from .encoding import read_message, write_message
from .exchange import Exchange, WaitingError, check_answer
from .plan import FederatedPlan
from .protocol import SCHEMA, Message, Value

__all__ = ["FolderExchange", "earlier_answers", "latest_request", "read_plan", "start_folder"]

CLOSE = 1e-6  # relative difference of requests of two machines


def start_folder(folder: str | Path, plan: FederatedPlan) -> Path:
    """Write a plan into a new folder; returns the plan's path.

    Raises
    ------
    DataError
        There is another plan already.
    """
    path = Path(folder) / "plan.json"
    for there in (path, Path(folder) / "rounds"):
        if there.exists():
            raise DataError(f"{there} is there already; use another folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"schema": SCHEMA, "study": plan.study, **plan.to_dict()}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path


def read_plan(folder: str | Path) -> FederatedPlan:
    """The plan of a folder."""
    path = Path(folder) / "plan.json"
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise DataError(f"{folder} has no plan.json; begin with `steropes federate init`") from None
    except ValueError as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    if not isinstance(given, dict) or given.get("schema") != SCHEMA:
        version = given.get("schema") if isinstance(given, dict) else None
        raise DataError(
            f"{path} is of schema {version!r}; this version of steropes speaks {SCHEMA!r}"
        )
    study = given.pop("study", None)
    given.pop("schema")
    plan = FederatedPlan.from_dict(given, str(path))
    if study != plan.study:
        raise DataError(f"{path} was changed after it was written: its digest is another")
    return plan


def _round_folder(folder: Path, n: int) -> Path:
    return folder / "rounds" / f"{n:03d}"


def _message_path(folder: Path, name: str) -> Path | None:
    """The file of a message, whichever of the two kinds it is."""
    found = [p for kind in ("json", "parquet") if (p := folder / f"{name}.{kind}").exists()]
    if len(found) > 1:
        raise DataError(f"{folder} has {name}.json and {name}.parquet; delete one of them")
    return found[0] if found else None


def latest_request(folder: str | Path) -> tuple[Message, Path]:
    """The last request of a folder, with the folder of its round."""
    folder = Path(folder)
    n = 0
    while _message_path(_round_folder(folder, n), "request") is not None:
        n += 1
    if not n:
        raise DataError(f"{folder} has no request yet; let the lead run `steropes federate step`")
    at = _round_folder(folder, n - 1)
    path = _message_path(at, "request")
    assert path is not None
    message, _ = read_message(path)
    if message.kind != "request" or message.round != n - 1:
        what = f"the {message.kind} of round {message.round}"
        raise DataError(
            f"{path} is {what}, not the request of round {n - 1}. Do not answer it; let the lead "
            "delete it and take a step, which writes it again."
        )
    return message, at


def earlier_answers(folder: str | Path, site: str, before: int) -> list[tuple[Message, Message]]:
    """The requests of the first round and of the one before a given one, with a site's answers."""
    out = []
    for n in sorted({0, before - 1}) if before else []:
        at = _round_folder(Path(folder), n)
        request, answer = _message_path(at, "request"), _message_path(at, site)
        if request is not None and answer is not None:
            out.append((read_message(request)[0], read_message(answer)[0]))
    return out


class FolderExchange(Exchange):
    """Requests and answers as files; what is not answered yet is a `WaitingError`.

    Parameters
    ----------
    folder : path
        With a plan; see `start_folder`.
    """

    def __init__(self, folder: str | Path) -> None:
        super().__init__(read_plan(folder))
        self.folder = Path(folder)

    def _exchange(self, request: Message, sites: list[str]) -> tuple[list[Message], int, list[int]]:
        at = _round_folder(self.folder, request.round)
        path = _message_path(at, "request")
        if path is None:
            write_message(request, at / "request", self.plan.format)
            raise WaitingError(request.round, sites)
        known, sent = read_message(path)
        _same_request(known, request, path)
        found, sizes, missing = [], [], []
        for name in sites:
            answer = _message_path(at, name)
            if answer is None:
                missing.append(name)
                continue
            message, size = read_message(answer)
            check_answer(message, known, name, str(answer))
            found.append(message)
            sizes.append(size)
        refused = [m for m in found if m.kind == "refusal"]
        if missing and not refused:
            raise WaitingError(request.round, missing)
        if refused:
            return refused, sent, sizes
        return found, sent, sizes


def _same_request(known: Message, request: Message, path: Path) -> None:
    """Refuse a request that is not what the answers before it lead to."""
    same = (
        known.kind == "request"
        and (known.study, known.round, known.ask) == (request.study, request.round, request.ask)
        and known.values.keys() == request.values.keys()
        and all(_same_value(known.values[k], request.values[k]) for k in known.values)
        and known.arrays.keys() == request.arrays.keys()
        and all(_close(known.arrays[k], request.arrays[k]) for k in known.arrays)
    )
    if not same:
        raise DataError(
            f"{path} is not what the answers before it lead to: a file of an earlier round was "
            "changed. Delete the folders of the rounds from the changed one's next on."
        )


def _same_value(a: Value, b: Value) -> bool:
    if isinstance(a, float | int) and isinstance(b, float | int):
        return _close(np.asarray(a), np.asarray(b))
    return a == b


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape:
        return False
    size = max(float(np.max(np.abs(b), initial=0.0)), 1e-300)
    return bool(np.all(np.abs(a - b) <= CLOSE * np.maximum(np.abs(b), 1e-3 * size)))
