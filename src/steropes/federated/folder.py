"""A folder that a lead and its sites share: the plan, and a folder a round.

    plan.json
    rounds/000/request.json      written by the lead
    rounds/000/north.json        a site's answer, signed, its sums masked
    rounds/000/left.json         names of sites that the lead goes on without
    …
    result.json

There is no state but these files. Each `step` of the lead runs its computation again from the
first round to the first answer that is missing, and each site does the same before it answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import DataError
from .encoding import encode, read_bytes, read_message, write_new
from .exchange import Round, WaitingError, check_answer, same_request
from .keys import PublicKeys
from .plan import FederatedPlan
from .program import Found, LeadProgram
from .protocol import SCHEMA, Message
from .verification import refuse_unsigned

__all__ = ["history", "read_plan", "run_in_folder", "start_folder", "write_answer"]


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
            raise DataError(f"{there} exists already; use another folder")
    content = {"schema": SCHEMA, "study": plan.study, **plan.to_dict()}
    return write_new(path, (json.dumps(content, indent=1) + "\n").encode())


def read_plan(folder: str | Path) -> FederatedPlan:
    """The plan of a folder."""
    path = Path(folder) / "plan.json"
    if not path.exists():
        raise DataError(f"{folder} has no plan.json; begin with `steropes federate init`")
    given = _json(path)
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


def _json(path: Path) -> object:
    try:
        return json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None


def _at(folder: str | Path, n: int) -> Path:
    return Path(folder) / "rounds" / f"{n:03d}"


def _request(folder: str | Path, n: int) -> Message | None:
    """The request of a round, if there is one."""
    path = _at(folder, n) / "request.json"
    if not path.exists():
        return None
    message, _ = read_message(path)
    if message.kind != "request" or message.round != n:
        what = f"the {message.kind} of round {message.round}"
        raise DataError(
            f"{path} is {what}, not the request of round {n}. Do not answer it; let the lead "
            "delete it and take a step, which writes it again."
        )
    return message


def _left(folder: str | Path, request: Message) -> list[str]:
    """Sites that the lead goes on without after a round."""
    path = _at(folder, request.round) / "left.json"
    if not path.exists():
        return []
    given = _json(path)
    if not isinstance(given, list) or any(s not in request.sites for s in given):
        raise DataError(f"{path} must be a list of sites that the round was asked of")
    return given


def _replies(folder: str | Path, request: Message) -> tuple[Round, list[str]]:
    """What came back to a request so far, and the sites that have yet to answer."""
    found, left, missing = [], _left(folder, request), []
    for name in request.sites:
        path = _at(folder, request.round) / f"{name}.json"
        if not path.exists():
            if name not in left:
                missing.append(name)
            continue
        message, _ = read_message(path)
        check_answer(message, request, name, str(path))
        found.append(message)
    withdrawals = [m for m in found if m.kind == "withdrawal"]
    left += [m.site for m in withdrawals if m.site not in left]
    if left:
        return Round(request, tuple(withdrawals), tuple(s for s in request.sites if s in left)), []
    return Round(request, tuple(found)), missing


def history(folder: str | Path) -> tuple[Message, list[Round]]:
    """The last request of a folder, and the finished rounds before it."""
    rounds, n = list[Round](), 0
    request = _request(folder, 0)
    if request is None:
        raise DataError(f"{folder} has no request yet; let the lead run `steropes federate step`")
    while (following := _request(folder, n + 1)) is not None:
        done, missing = _replies(folder, request)
        if missing:
            raise DataError(f"round {n} is not finished: {', '.join(missing)} did not answer it")
        rounds.append(done)
        request, n = following, n + 1
    return request, rounds


def write_answer(folder: str | Path, message: Message) -> Path:
    """Write a site's reply into the folder of its round; a refusal gives way to an answer."""
    path = _at(folder, message.round) / f"{message.site}.json"
    if path.exists() and read_message(path)[0].kind == "refusal":
        path.unlink()
    return write_new(path, encode(message))


def run_in_folder(
    folder: str | Path,
    without: Sequence[str] = (),
    peers: Mapping[str, PublicKeys] | None = None,
) -> Found:
    """Take the lead's computation as far as the answers in a folder go.

    Parameters
    ----------
    without : sequence of str
        Sites that have not answered the last request and are not waited for any longer.
    peers : dict of str to PublicKeys, optional
        Keys of the sites, to check their signatures.

    Raises
    ------
    WaitingError
        Sites have yet to answer the last request.
    """
    plan = read_plan(folder)
    program = LeadProgram(plan)
    while (request := program.request) is not None:
        path = _at(folder, request.round) / "request.json"
        known = _request(folder, request.round)
        if known is None:
            write_new(path, encode(request))
            known = request
        elif not same_request(known, request):
            raise DataError(
                f"{path} is not what the answers before it lead to: a file of an earlier round was "
                "changed. Delete the folders of the rounds from the changed one's next on."
            )
        done, missing = _replies(folder, known)
        refused = tuple(a for a in done.answers if a.kind == "refusal")
        if missing and set(without) & set(missing):
            gone = [s for s in missing if s in without]
            write_new(_at(folder, known.round) / "left.json", json.dumps(gone).encode())
            done, missing = _replies(folder, known)
        if missing and not refused:
            raise WaitingError(known.round, missing)
        if refused:
            done = Round(known, refused)
        elif peers is not None:
            refuse_unsigned(done, peers)
        program.resume(done)
    assert program.found is not None
    return program.found
