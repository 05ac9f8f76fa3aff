"""Exchange of messages through a shared folder with the plan and one subfolder per round.

    plan.json
    rounds/000/request.json      written by the lead
    rounds/000/north.json        a site's answer, signed, its sums masked
    rounds/000/left.json         names of sites without which the lead continues
    …
    result.json

These files are the only state. Each `step` of the lead repeats its computation from the first round
to the first missing answer, and each site does the same before it answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ..errors import DataError
from .federated_plan import FederatedPlan
from .federated_result import ResultOfRounds
from .message_exchange import Round, WaitingError, check_answer, same_request
from .message_files import (
    FileIsThereError,
    encode,
    read_json,
    read_message,
    remove,
    write_new,
)
from .messages import SCHEMA, Message
from .request_verification import refuse_unsigned
from .resumable_lead_program import LeadProgram, LeadResult
from .site_keys import PublicKeys

__all__ = ["history", "read_plan", "run_in_folder", "start_folder", "write_answer", "write_result"]


def start_folder(folder: str | Path, plan: FederatedPlan) -> Path:
    """Write a plan into a new folder and return the path of the plan.

    Raises
    ------
    DataError
        The folder contains a plan already.
    """
    path = Path(folder) / "plan.json"
    for there in (path, Path(folder) / "rounds"):
        if there.exists():
            raise DataError(f"{there} exists already; use another folder")
    content = {"schema": SCHEMA, "study": plan.study, **plan.to_dict()}
    return write_new(path, (json.dumps(content, indent=1) + "\n").encode(), root=Path(folder))


def read_plan(folder: str | Path) -> FederatedPlan:
    """Read the plan of a folder."""
    path = Path(folder) / "plan.json"
    if not path.exists():
        raise DataError(f"{folder} has no plan.json; begin with `steropes federate init`")
    given = read_json(path, Path(folder))
    if not isinstance(given, dict) or given.get("schema") != SCHEMA:
        version = given.get("schema") if isinstance(given, dict) else None
        raise DataError(f"{path} has schema {version!r}; this version of steropes uses {SCHEMA!r}")
    study = given.pop("study", None)
    given.pop("schema")
    plan = FederatedPlan.from_dict(given, str(path))
    if study != plan.study:
        raise DataError(f"{path} was changed after it was written: its digest differs")
    return plan


def _at(folder: str | Path, n: int) -> Path:
    """Return the subfolder of a round."""
    return Path(folder) / "rounds" / f"{n:03d}"


def _request(folder: str | Path, n: int) -> Message | None:
    """Read the request of a round; None if absent."""
    path = _at(folder, n) / "request.json"
    if not path.exists():
        return None
    message, _ = read_message(path, Path(folder))
    if message.kind != "request" or message.round != n:
        what = f"the {message.kind} of round {message.round}"
        raise DataError(
            f"{path} is {what}, not the request of round {n}. Do not answer it; ask the lead to "
            "delete it and to take a step, which writes it again."
        )
    return message


def _left(folder: str | Path, request: Message) -> list[str]:
    """Read the sites without which the lead continues after a round."""
    path = _at(folder, request.round) / "left.json"
    if not path.exists():
        return []
    given = read_json(path, Path(folder))
    if not isinstance(given, list) or any(s not in request.sites for s in given):
        raise DataError(f"{path} must be a list of sites of the round's request")
    return given


def _replies(folder: str | Path, request: Message) -> tuple[Round, list[str]]:
    """Read the replies to a request so far; also return the sites that have not answered."""
    found, left, missing = [], _left(folder, request), []
    for name in request.sites:
        path = _at(folder, request.round) / f"{name}.json"
        if not path.exists():
            if name not in left:
                missing.append(name)
            continue
        message, _ = read_message(path, Path(folder))
        check_answer(message, request, name, str(path))
        found.append(message)
    withdrawals = [m for m in found if m.kind == "withdrawal"]
    left += [m.site for m in withdrawals if m.site not in left]
    if left:
        return Round(request, tuple(withdrawals), tuple(s for s in request.sites if s in left)), []
    return Round(request, tuple(found)), missing


def history(folder: str | Path) -> tuple[Message, list[Round]]:
    """Read the last request of a folder and the finished rounds before it."""
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
    """Write a site's reply into the folder of its round; it replaces an earlier refusal."""
    path = _at(folder, message.round) / f"{message.site}.json"
    root = Path(folder)
    if path.exists() and read_message(path, root)[0].kind == "refusal":
        remove(path, root)
    return write_new(path, encode(message), root=root)


def write_result(folder: str | Path, found: ResultOfRounds) -> Path:
    """Write the result into the folder; it replaces an earlier one, and a link of its name."""
    path = Path(folder) / "result.json"
    with suppress(FileNotFoundError):
        remove(path, Path(folder))
    _write(folder, path, (json.dumps(found.to_dict(), indent=1) + "\n").encode())
    return path


def _write(folder: str | Path, path: Path, content: bytes) -> None:
    """Write a file of the lead, unless another process of the lead was faster."""
    with suppress(FileIsThereError):
        write_new(path, content, root=Path(folder))


def _refuse_unnamed(done: Round, without: Sequence[str], path: Path) -> None:
    """Raise `DataError` if a site left that has neither withdrawn nor been named by the lead.

    The file that names such sites has no signature, because the lead has no key: it only repeats
    the lead's decision, as sites believe only withdrawals and the rules of their owners.
    """
    signed = {a.site for a in done.answers if a.kind == "withdrawal"}
    other = [s for s in done.left if s not in signed and s not in without]
    if other:
        raise DataError(
            f"{path} says that {', '.join(map(repr, other))} left, but everybody who can write to "
            "the folder can write this. If you decided to continue without, name it in each step "
            "and at the end (without=, --without); otherwise delete the file."
        )


def run_in_folder(
    folder: str | Path, without: Sequence[str] = (), peers: Mapping[str, PublicKeys] | None = None
) -> LeadResult:
    """Run the lead's computation as far as the answers in a folder allow.

    Parameters
    ----------
    without : sequence of str
        Sites that have not answered a request and without which the lead continues. They are named
        in each later step too.
    peers : dict of str to PublicKeys, optional
        Public keys of the sites, to check their signatures.

    Returns
    -------
    FederatedResult or Profiles

    Raises
    ------
    WaitingError
        Some sites have not answered the last request.
    """
    plan = read_plan(folder)
    program = LeadProgram(plan)
    while (request := program.request) is not None:
        path = _at(folder, request.round) / "request.json"
        if _request(folder, request.round) is None:
            _write(folder, path, encode(request))
        known = _request(folder, request.round)
        if known is None or not same_request(known, request):
            raise DataError(
                f"{path} does not follow from the answers before it: a file of an earlier round "
                "was changed. Delete the folders of all rounds after the changed one."
            )
        done, missing = _replies(folder, known)
        refused = tuple(a for a in done.answers if a.kind == "refusal")
        if missing and set(without) & set(missing):
            gone = [s for s in missing if s in without]
            _write(folder, path.with_name("left.json"), json.dumps(gone).encode())
            done, missing = _replies(folder, known)
        _refuse_unnamed(done, without, path.with_name("left.json"))
        if missing and not refused:
            raise WaitingError(known.round, missing)
        if refused:
            done = Round(known, refused)
        elif peers is not None:
            refuse_unsigned(done, peers)
        program.resume(done)
    assert program.found is not None
    return program.found
