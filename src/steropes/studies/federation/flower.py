"""Federated analyses over Flower, with the lead as ServerApp and the sites as SuperNodes.

The messages, masks and checks are those of a shared folder; Flower transports them over TLS. A
SuperNode's configuration, set by the owner, names the site, its data and its owner's folder:

    flower-supernode --node-config 'site="north" data="rows.parquet" owner="/srv/owner"' …
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steropes.errors import DataError
from steropes.federated import FederatedPlan, FederatedSite, Message, Owner, PublicKeys, Round
from steropes.federated.message_exchange import check_answer
from steropes.federated.message_files import decode, encode, write_new
from steropes.federated.request_envelope import pack_envelope, read_envelope
from steropes.federated.request_verification import refuse_unsigned
from steropes.federated.resumable_lead_program import LeadProgram
from steropes.studies.federation.federated_runs import UNSIGNED, combined, with_note

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.app import Message as FlowerMessage
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

    from steropes.federated import FederatedResult
    from steropes.studies.federation.site_profiles import FederatedProfiles

__all__ = ["lead_app", "site_app", "write_flower_app"]

RECORD = "steropes"  # The name of the record that contains a message.
TIMEOUT = 3600.0  # A round waits this many seconds for the sites.
PAUSE = 1.0  # Seconds between two looks for sites that have not connected.

APP = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "steropes-federated"
version = "1.0.0"
description = "A federated analysis of steropes"
license = "Apache-2.0"
dependencies = ["steropes[flower]"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "steropes"

[tool.flwr.app.components]
serverapp = "lead:app"
clientapp = "site_of_owner:app"

[tool.flwr.app.config]
"""
LEAD = "from steropes.studies.federation.flower import lead_app\n\napp = lead_app()\n"
SITE = "from steropes.studies.federation.flower import site_app\n\napp = site_app()\n"


def write_flower_app(
    folder: str | Path,
    plan: FederatedPlan,
    output: str | Path,
    peers: Mapping[str, PublicKeys] | None = None,
) -> Path:
    """Write a Flower app for `flwr run` that contains a plan and no code except two imports.

    Parameters
    ----------
    folder : path
        A new folder for the app.
    output : path
        File of the result on the SuperLink's machine.
    peers : dict of str to PublicKeys, optional
        Public keys of the sites, with which the lead checks their signatures. Without them, the
        notes of the result say that those of the last answers were not checked.
    """
    path = Path(folder)
    keys = {site: public.to_dict() for site, public in (peers or {}).items()}
    config = {
        "plan": json.dumps(plan.to_dict()), "output": str(output), "keys": json.dumps(keys)
    }  # fmt: skip
    lines = [f"{name} = {json.dumps(value)}" for name, value in config.items()]
    write_new(path / "pyproject.toml", (APP + "\n".join(lines) + "\n").encode())
    write_new(path / "lead.py", LEAD.encode())
    write_new(path / "site_of_owner.py", SITE.encode())
    return path


# -- a site ----------------------------------------------------------------------------------------


def site_app() -> ClientApp:
    """Make the ClientApp of a site, whose node configuration names the data and the owner."""
    from flwr.app import ConfigRecord, RecordDict
    from flwr.app import Message as FlowerMessage
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query()
    def query(message: FlowerMessage, context: Context) -> FlowerMessage:
        given = message.content[RECORD]
        found = _reply(dict(given), context.node_config)
        return FlowerMessage(RecordDict({RECORD: ConfigRecord(found)}), reply_to=message)

    return app


def _reply(given: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the site's name or its answer; errors, which may quote rows, go to the audit log.

    Flower sends the text of an exception to the lead and logs it, so that none may leave here.
    """
    site = str(node["site"])
    if "envelope" not in given:
        return {"site": site}
    owner = None
    try:
        owner = Owner.open(str(node["owner"]))
        envelope = given["envelope"]
        if not isinstance(envelope, bytes):
            raise DataError("the request is not bytes")
        plan, request, rounds = read_envelope(envelope)
        answer = FederatedSite(site, str(node["data"]), owner).answer(plan, request, rounds)
        return {"site": site, "answer": encode(answer)}
    except Exception as error:
        if owner is None:
            return {"site": site, "failed": "the folder of its owner cannot be read"}
        what = "" if isinstance(error, DataError) else f"{type(error).__name__}: "
        owner.note(f"a request over Flower was not answered: {what}{error}")
    return {"site": site, "failed": "its owner finds the reason in audit.log"}


# -- the lead --------------------------------------------------------------------------------------


def lead_app() -> ServerApp:
    """Make the ServerApp of the lead, which runs the plan of the app's configuration."""
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        """Run the plan and write its result."""
        config = context.run_config
        plan = FederatedPlan.from_dict(json.loads(str(config["plan"])))
        found = _found(grid, plan, _peers(str(config.get("keys", "{}"))))
        found.write(str(config["output"]))

    return app


def _found(
    grid: Grid, plan: FederatedPlan, peers: Mapping[str, PublicKeys]
) -> FederatedResult | FederatedProfiles:
    """Run the lead's program, with one round of messages for each of its requests."""
    program, rounds = LeadProgram(plan), list[Round]()
    nodes = _nodes(grid, plan)
    while (request := program.request) is not None:
        done = _round(grid, nodes, plan, request, rounds)
        if peers and all(a.kind != "refusal" for a in done.answers):
            refuse_unsigned(done, peers)
        rounds.append(done)
        program.resume(done)
    assert program.found is not None
    found = combined(program.found)
    return found if peers else with_note(found, UNSIGNED)


def _peers(text: str) -> dict[str, PublicKeys]:
    """Decode the public keys of the sites from the app's configuration."""
    return {
        site: PublicKeys.from_dict(given, f"the key of site {site!r}")
        for site, given in json.loads(text).items()
    }


def _send(grid: Grid, content: Mapping[int, dict[str, object]]) -> list[FlowerMessage]:
    """Send a record to each of some nodes and return the replies within the timeout."""
    from flwr.app import ConfigRecord, RecordDict
    from flwr.app import Message as FlowerMessage

    messages = [
        FlowerMessage(
            RecordDict({RECORD: ConfigRecord(record)}), dst_node_id=node, message_type="query"
        )
        for node, record in content.items()
    ]
    return list(grid.send_and_receive(messages, timeout=TIMEOUT))


def _nodes(grid: Grid, plan: FederatedPlan) -> dict[str, int]:
    """Wait until all sites of the plan are connected, and return their nodes."""
    known: dict[int, str] = {}
    end = time.monotonic() + TIMEOUT
    while gone := [s for s in plan.sites if s not in known.values()]:
        new = [n for n in grid.get_node_ids() if n not in known]
        for reply in _send(grid, {n: {"ask": "site"} for n in new}) if new else ():
            if reply.has_content():
                site = str(_record(reply, "a SuperNode").get("site", ""))
                if site in known.values() and site in plan.sites:
                    raise DataError(
                        f"two SuperNodes are configured as site {site!r}: one of them has the "
                        "name of another site, or is connected twice"
                    )
                known[reply.metadata.src_node_id] = site
        if gone == [s for s in plan.sites if s not in known.values()]:
            if time.monotonic() > end:
                raise DataError(f"no SuperNode of site {gone[0]!r} has connected")
            time.sleep(PAUSE)
    return {site: node for node, site in known.items()}


def _record(reply: FlowerMessage, who: str) -> Mapping[str, Any]:
    """Return the record of a reply."""
    try:
        return dict(reply.content[RECORD])
    except (KeyError, TypeError, ValueError):
        raise DataError(
            f"{who} replied without a record {RECORD!r}: it does not run the app of this analysis"
        ) from None


def _answer(record: Mapping[str, Any], request: Message, site: str) -> Message:
    """Decode the answer of a site."""
    where = f"the answer of site {site!r}"
    if "failed" in record:
        raise DataError(
            f"site {site!r} did not answer round {request.round}: its owner finds the reason in "
            "audit.log, or the folder of its owner cannot be read"
        )
    content = record.get("answer")
    if not isinstance(content, bytes):
        raise DataError(f"{where} in round {request.round} is not bytes")
    answer = decode(content, where)
    check_answer(answer, request, site, where)
    return answer


def _round(
    grid: Grid, nodes: Mapping[str, int], plan: FederatedPlan, request: Message, rounds: list[Round]
) -> Round:
    """Send a request to the sites; sites without a reply in time have left."""
    envelope = pack_envelope(plan, request, rounds)
    names = {nodes[s]: s for s in request.sites}
    answers: dict[str, Message] = {}
    for reply in _send(grid, {node: {"envelope": envelope} for node in names}):
        site = names.get(reply.metadata.src_node_id)
        if site is None:
            raise DataError(f"a SuperNode that was not asked replied in round {request.round}")
        if reply.has_content():
            answers[site] = _answer(_record(reply, f"site {site!r}"), request, site)
    left = tuple(s for s in request.sites if s not in answers or answers[s].kind == "withdrawal")
    some = [answers[s] for s in request.sites if s in answers]
    if left:
        some = [a for a in some if a.kind == "withdrawal"]
    return Round(request, tuple(some), left)
