"""Requests over Flower: the same messages, and three sites in processes of their own."""

import datetime
import importlib.util
import ipaddress
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from federated_data import OPEN, plan_of, run, site_tables
from owners import owners_of

from steropes.errors import DataError
from steropes.federated import FederatedSite, Owner, Round, request_envelope
from steropes.federated.message_files import decode, encode
from steropes.federated.request_envelope import pack_envelope, read_envelope
from steropes.federated.resumable_lead_program import LeadProgram
from steropes.studies.federation import flower, read_public_keys
from steropes.studies.federation.flower import _reply, write_flower_app

TABLES = site_tables("linear", sites={"north": 120, "south": 140, "west": 100})
PLAN = plan_of("linear", TABLES)


def test_an_envelope_holds_all_that_a_site_checks():
    owners = owners_of(TABLES)
    sites = {s: FederatedSite(s, d, owners[s]) for s, d in TABLES.items()}
    program, rounds = LeadProgram(PLAN), []
    while (request := program.request) is not None:
        answers = []
        for site in sites.values():
            plan, asked, earlier = read_envelope(pack_envelope(PLAN, request, rounds))
            assert (plan, asked.id) == (PLAN, request.id)
            answers.append(site.answer(plan, asked, earlier))
        rounds.append(Round(request, tuple(answers)))
        program.resume(rounds[-1])
    assert np.array_equal(program.found.coef, run(PLAN, TABLES).coef)
    left = replace(rounds[0], answers=(), left=("west",))
    assert read_envelope(pack_envelope(PLAN, request or rounds[0].request, [left]))[2] == [left]


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"[" * 100_000, b'{"rounds": [1], "plan": {}, "request": {}}']
)
def test_bytes_that_are_no_envelope_are_refused(content):
    with pytest.raises(DataError, match=r"the request|the plan"):
        read_envelope(content)


def test_rounds_that_no_site_would_read_are_not_sent(monkeypatch):
    """Before, the lead learnt only that a site had failed."""
    monkeypatch.setattr(request_envelope, "LARGEST_FILE", 100)
    with pytest.raises(DataError, match="round 0 with all rounds before it has more than"):
        pack_envelope(PLAN, LeadProgram(PLAN).request, [])


def owner_folders(path):
    """Owners' folders whose public keys are exchanged, and the rows, as files."""
    owners = {s: Owner.create(path / f"owner-{s}") for s in TABLES}
    for site, owner in owners.items():
        rules = path / f"owner-{site}" / "rules.toml"
        rules.write_text(rules.read_text().replace("least = 5", "least = 0"))
        TABLES[site].to_csv(path / f"{site}.csv", index=False)
        for other in TABLES:
            if other != site:
                public = path / f"{other}.public"
                public.write_text(json.dumps(owners[other].keys.public.to_dict()))
                owner.trust(other, public)


def test_a_site_replies_with_its_answer_and_without_its_errors(tmp_path):
    owner_folders(tmp_path)
    node = {"site": "west", "data": str(tmp_path / "west.csv"), "owner": tmp_path / "owner-west"}
    assert _reply({"ask": "site"}, node) == {"site": "west"}
    request = LeadProgram(PLAN).request
    envelope = pack_envelope(PLAN, request, [])
    answer = decode(_reply({"envelope": envelope}, node)["answer"], "it")
    assert (answer.kind, answer.site, answer.request) == ("answer", "west", request.id)
    TABLES["west"].assign(y=np.nan).to_csv(tmp_path / "west.csv", index=False)
    said = _reply({"envelope": envelope}, node)
    assert said == {"site": "west", "failed": "its owner finds the reason in audit.log"}
    assert "NaN" in (tmp_path / "owner-west" / "audit.log").read_text()


@pytest.mark.parametrize("failure", ["rows", "owner", "request"])
def test_no_exception_reaches_flower_which_would_send_its_text_to_the_lead(tmp_path, failure):
    """Before, a table that pandas could not read raised an error that quoted its values."""
    owner_folders(tmp_path)
    node = {"site": "west", "data": str(tmp_path / "west.csv"), "owner": tmp_path / "owner-west"}
    given = {"envelope": pack_envelope(PLAN, LeadProgram(PLAN).request, [])}
    reason = "its owner finds the reason in audit.log"
    if failure == "rows":
        (tmp_path / "west.csv").write_bytes(b"y,drug\n1,0\n1,0,hiv,\xff\n")
    elif failure == "owner":
        (tmp_path / "owner-west" / "keys.json").write_text("{")
        reason = "the folder of its owner cannot be read"
    else:
        given = {"envelope": 10**12}
    assert _reply(given, node) == {"site": "west", "failed": reason}
    if failure != "owner":
        assert "not answered: " in (tmp_path / "owner-west" / "audit.log").read_text()


def lead_of_sites(monkeypatch, path, forge=lambda record, site: record):
    """The estimate of the lead with the sites of this process instead of Flower's nodes."""
    nodes = {n: {"site": s, "data": str(path / f"{s}.csv"), "owner": path / f"owner-{s}"}
             for n, s in enumerate(TABLES)}  # fmt: skip

    def send(grid, sent):
        return [
            Reply(n, {"steropes": forge(_reply(record, nodes[n]), nodes[n]["site"])})
            for n, record in sent.items()
        ]

    monkeypatch.setattr(flower, "_send", send)
    return SimpleNamespace(get_node_ids=lambda: list(nodes))


def test_a_lead_over_flower_checks_signatures_if_its_app_has_the_keys(monkeypatch, tmp_path):
    """Before, nobody checked those of the last round, so that a forged answer was the result."""
    owner_folders(tmp_path)
    (tmp_path / "keys").mkdir()
    for site in TABLES:
        public = Owner.open(tmp_path / f"owner-{site}").keys.public
        (tmp_path / "keys" / f"{site}.json").write_text(json.dumps(public.to_dict()))
    peers = read_public_keys(tmp_path / "keys")
    app = write_flower_app(tmp_path / "app", PLAN, tmp_path / "result.json", peers)
    config = tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    assert flower._peers(config["keys"]) == peers
    found = flower._found(lead_of_sites(monkeypatch, tmp_path), PLAN, peers)
    assert np.array_equal(found.coef, run(PLAN, TABLES, OPEN).coef)
    assert not any("signatures" in note for note in found.notes)

    def forge(record, site):
        if "answer" not in record or site != "south":
            return record
        answer = decode(record["answer"], "it")
        sums = bytes([answer.sums[0] ^ 1]) + answer.sums[1:]
        return record | {"answer": encode(replace(answer, sums=sums))} if answer.sums else record

    grid = lead_of_sites(monkeypatch, tmp_path, forge)
    with pytest.raises(DataError, match=r"'south' in round \d is not signed with"):
        flower._found(grid, PLAN, peers)


class Reply:
    """A reply of Flower; content None stands for an error."""

    def __init__(self, node, content):
        self.content, self.metadata = content, SimpleNamespace(src_node_id=node)

    def has_content(self):
        return self.content is not None


NODES = {"north": 1, "south": 2, "west": 3}
GRID = SimpleNamespace(get_node_ids=lambda: list(NODES.values()))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "'south' replied without a record 'steropes'"),
        ({"steropes": 3}, "'south' replied without a record 'steropes'"),
        ({"steropes": {}}, "'south' in round 0 is not bytes"),
        ({"steropes": {"answer": 10**12}}, "'south' in round 0 is not bytes"),
        ({"steropes": {"answer": b"{"}}, "site 'south' cannot be read"),
        ({"steropes": {"answer": b"x" * ((64 << 20) + 1)}}, "'south' has more than 64 MB"),
        ({"steropes": {"failed": "hiv 1"}}, "'south' did not answer round 0: its owner finds"),
    ],
)
def test_replies_of_other_types_name_the_site(monkeypatch, content, said):
    monkeypatch.setattr(flower, "_send", lambda grid, sent: [Reply(2, content)])
    with pytest.raises(DataError, match=said) as error:
        flower._round(GRID, NODES, PLAN, LeadProgram(PLAN).request, [])
    assert "hiv" not in str(error.value)


def test_a_reply_of_a_node_that_was_not_asked_is_refused(monkeypatch):
    monkeypatch.setattr(flower, "_send", lambda grid, sent: [Reply(7, {})])
    with pytest.raises(DataError, match="a SuperNode that was not asked"):
        flower._round(GRID, NODES, PLAN, LeadProgram(PLAN).request, [])


def test_two_nodes_of_one_name_are_refused_and_one_that_fails_is_not_asked_for_ever(monkeypatch):
    """Before, the last node had the name, and the lead asked a failing node without a pause."""
    replies = [Reply(n, {"steropes": {"site": "north"}}) for n in (1, 2)]
    monkeypatch.setattr(flower, "_send", lambda grid, sent: replies)
    with pytest.raises(DataError, match="two SuperNodes are configured as site 'north'"):
        flower._nodes(GRID, PLAN)
    monkeypatch.setattr(flower, "_send", lambda grid, sent: [Reply(1, None)])
    monkeypatch.setattr(flower, "TIMEOUT", 0.0)
    monkeypatch.setattr(flower, "PAUSE", 0.0)
    with pytest.raises(DataError, match="no SuperNode of site 'north' has connected"):
        flower._nodes(GRID, PLAN)


def test_an_app_holds_the_plan_and_no_code_but_imports(tmp_path):
    app = write_flower_app(tmp_path / "app", PLAN, tmp_path / "result.json")
    config = tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    assert json.loads(config["plan"]) == PLAN.to_dict()
    for name in ("lead.py", "site_of_owner.py"):
        lines = [x for x in (app / name).read_text().splitlines() if x]
        assert [x.split()[0] for x in lines] == ["from", "app"]


def certificates(path):
    """A certificate authority and a server's certificate for this machine."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    pem, now = serialization.Encoding.PEM, datetime.datetime.now(datetime.UTC)
    keys = {n: ec.generate_private_key(ec.SECP256R1()) for n in ("ca", "server")}
    names = {n: x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, n)]) for n in keys}
    for name, key in keys.items():
        made = (
            x509.CertificateBuilder().subject_name(names[name]).issuer_name(names["ca"])
            .public_key(key.public_key()).serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(name == "ca", None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
                critical=False,
            )
        )  # fmt: skip
        (path / f"{name}.pem").write_bytes(made.sign(keys["ca"], hashes.SHA256()).public_bytes(pem))
    kind = serialization.PrivateFormat.PKCS8
    key = keys["server"].private_bytes(pem, kind, serialization.NoEncryption())
    (path / "server.key").write_bytes(key)


def free_ports(n):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def wait_for(path, text):
    for _ in range(600):
        if path.exists() and text in path.read_text():
            return
        time.sleep(0.2)
    raise AssertionError(f"{path} has no {text!r}: {path.read_text()}")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("flwr") is None, reason="flwr is not installed")
def test_three_processes_over_tls_find_the_estimate_of_one(tmp_path):
    owner_folders(tmp_path)
    certificates(tmp_path)
    port, *own = free_ports(4)
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\n'
        f'root-certificates = "{tmp_path / "ca.pem"}"\n'
    )
    scripts = Path(sys.executable).parent
    environment = os.environ | {
        "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0",
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }  # fmt: skip
    started = []

    def start(log, *command):
        at = shutil.which(command[0], path=environment["PATH"])
        with (tmp_path / log).open("w") as file:
            started.append(
                subprocess.Popen([at, *map(str, command[1:])], stdout=file, stderr=file,
                                 env=environment, cwd=tmp_path)
            )  # fmt: skip

    try:
        start("link.log", "flower-superlink", "--ssl-certfile", "server.pem", "--ssl-keyfile",
              "server.key", "--ssl-ca-certfile", "ca.pem", "--host", "127.0.0.1", "--port", port,
              "--disable-runtime-dependency-installation")  # fmt: skip
        wait_for(tmp_path / "link.log", "running on https")
        for site, at in zip(TABLES, own, strict=True):
            node = {"site": site, "data": f"{tmp_path}/{site}.csv",
                    "owner": f"{tmp_path}/owner-{site}"}  # fmt: skip
            config = " ".join(f'{k}="{v}"' for k, v in node.items())
            start(f"{site}.log", "flower-supernode", "--root-certificates", "ca.pem",
                  "--superlink", f"127.0.0.1:{port}", "--host", "127.0.0.1", "--port", at,
                  "--node-config", config)  # fmt: skip
        write_flower_app(tmp_path / "app", PLAN, tmp_path / "result.json")
        start("run.log", "flwr", "run", "app", "here", "--stream")
        started[-1].wait(timeout=500)
        assert (tmp_path / "result.json").exists(), (tmp_path / "run.log").read_text()
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(timeout=30)
    found = json.loads((tmp_path / "result.json").read_text())
    coef = [line["coef"] for line in found["coefficients"]]
    assert np.array_equal(coef, run(PLAN, TABLES, OPEN).coef)
    for site in TABLES:
        assert (
            "masked, with north, south, west"
            in (tmp_path / f"owner-{site}" / "audit.log").read_text()
        )
