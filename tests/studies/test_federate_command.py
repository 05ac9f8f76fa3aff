"""``steropes federate``: keys, trust, init, answer, step, withdraw and finish."""

import contextlib
import io
import json
import shutil
import stat

import numpy as np
import pandas as pd
import pytest

from steropes.federated import Message
from steropes.studies.cli.command_line import run

NAMES = ("north", "south", "west")
PLAN = """
model = "logistic"
columns = ["x", "z"]
sites = ["north", "south", "west"]
outcome = "y"
"""


def call(*arguments):
    return run([str(a) for a in ("federate", *arguments)])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Rows, owners that know each other's public keys, and a plan."""
    folder, rng = tmp_path_factory.mktemp("sites"), np.random.default_rng(20240901)
    for site in NAMES:
        x, z = rng.normal(size=400), (rng.random(400) < 0.5).astype(float)
        y = (rng.random(400) < 1 / (1 + np.exp(-x))).astype(int)
        pd.DataFrame({"x": x, "z": z, "y": y}).to_csv(folder / f"{site}.csv", index=False)
        with contextlib.redirect_stdout(io.StringIO()) as public:
            assert call("keys", folder / f"owner-{site}") == 0
        (folder / f"{site}.public").write_text(public.getvalue())
    for site in NAMES:
        for other in NAMES:
            if other != site:
                trusted = folder / f"{other}.public"
                assert call("trust", folder / f"owner-{site}", other, trusted) == 0
    (folder / "plan.toml").write_text(PLAN)
    return folder


@pytest.fixture
def sites(prepared, tmp_path):
    """A copy of them for a test."""
    return shutil.copytree(prepared, tmp_path / "sites")


def answer(sites, site):
    return call("answer", sites / "shared", site, sites / f"{site}.csv", sites / f"owner-{site}")


def set_rule(sites, site, name, value):
    path = sites / f"owner-{site}" / "rules.toml"
    lines = [x for x in path.read_text().splitlines() if not x.startswith(f"{name} =")]
    path.write_text("\n".join([*lines, f"{name} = {value}"]) + "\n")


def test_from_init_to_finish(sites, capsys):
    folder = sites / "shared"
    assert call("init", folder, sites / "plan.toml") == 0
    assert "round 0 asks north, south, west" in capsys.readouterr().out
    for _ in range(15):
        for site in NAMES:
            assert answer(sites, site) == 0
        assert call("step", folder) == 0
        if "done after" in capsys.readouterr().out:
            break
    assert call("finish", folder) == 0
    out = capsys.readouterr().out
    assert "intercept" not in out
    assert "rounds" in out
    assert json.loads((folder / "result.json").read_text())["converged"]
    assert "the signatures of the last answers were not checked" in out
    (sites / "keys").mkdir()
    assert call("finish", folder, "--keys", sites / "keys") == 2
    assert "has no public keys" in capsys.readouterr().err
    for site in NAMES:
        shutil.copy(sites / f"{site}.public", sites / "keys" / f"{site}.json")
    assert call("finish", folder, "--keys", sites / "keys") == 0
    assert "were not checked" not in capsys.readouterr().out
    shutil.copy(sites / "west.public", sites / "keys" / "north.json")
    assert call("finish", folder, "--keys", sites / "keys") == 2
    assert "'north' in round 0 is not signed with the key" in capsys.readouterr().err
    log = (sites / "owner-north" / "audit.log").read_text()
    assert "answered round 0 (describe) of plan" in log
    assert "masked, with north, south, west" in log
    told = json.loads((sites / "owner-north" / "ledger.json").read_text())["plans"]
    assert [len(p["answered"]) for p in told] == [log.count("answered round")]


def test_an_owners_folder_is_private_and_is_made_once(sites, capsys):
    owner = sites / "owner-north"
    assert stat.S_IMODE(owner.stat().st_mode) == 0o700
    assert stat.S_IMODE((owner / "keys.json").stat().st_mode) == 0o600
    before = (owner / "keys.json").read_text()
    assert call("keys", owner) == 0
    said = capsys.readouterr()
    assert (owner / "keys.json").read_text() == before
    assert json.loads(said.out) == json.loads((sites / "north.public").read_text())
    assert said.err.startswith("fingerprint ")
    assert call("trust", owner, "west", sites / "west.public") == 2
    assert "west.json exists already" in capsys.readouterr().err
    (owner / "keys.json").chmod(0o644)
    assert call("keys", owner) == 2
    assert "can be read by others" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_to_is_named(sites, capsys):
    (sites / "taken").write_text("")
    assert call("init", sites / "taken", sites / "plan.toml") == 2
    assert capsys.readouterr().err == f"steropes: {sites / 'taken'}: File exists\n"


@pytest.mark.slow
def test_folds_choose_the_variance(sites, capsys):
    folder, plan = sites / "shared", sites / "plan.toml"
    assert call("init", folder, plan, "--cv", "4") == 2
    assert "folds choose the variance of a prior" in capsys.readouterr().err
    plan.write_text(PLAN + "prior = 'normal'\nsearch = [0.1, 1.0]\n")
    assert call("init", folder, plan, "--cv", "4", "--seed", "3") == 0
    for site in NAMES:
        set_rule(sites, site, "answers_per_cell", 100)
    while call("step", folder) == 0:
        if "done after" in capsys.readouterr().out:
            break
        for site in NAMES:
            assert answer(sites, site) == 0
    assert call("finish", folder) == 0
    assert "chosen by 4 folds of each site" in capsys.readouterr().out


def test_errors_are_one_line(sites, capsys):
    folder = sites / "shared"
    call("init", folder, sites / "plan.toml")
    assert call("finish", folder) == 2
    assert "round 0 waits for north, south, west" in capsys.readouterr().err
    assert call("answer", folder, "east", sites / "north.csv", sites / "owner-north") == 2
    assert "'east': the plan does not name this site" in capsys.readouterr().err
    assert call("answer", folder, "north", sites / "gone.csv", sites / "owner-north") == 2
    assert "there is no file" in capsys.readouterr().err
    assert call("answer", folder, "north", sites / "north.csv", sites / "nobody") == 2
    assert "nobody has no keys.json" in capsys.readouterr().err
    set_rule(sites, "north", "least", 1000)
    assert answer(sites, "north") == 2
    assert "round 0 is refused: there are fewer than 1000 people" in capsys.readouterr().err
    assert call("step", folder) == 2
    assert "was refused. site 'north'" in capsys.readouterr().err
    set_rule(sites, "north", "leest", 1000)
    assert answer(sites, "north") == 2
    assert "rules.toml has no rule 'leest'" in capsys.readouterr().err
    (sites / "bad.toml").write_text(PLAN.replace("columns", "colums"))
    assert call("init", sites / "other", sites / "bad.toml") == 2
    assert "bad.toml, line 3 (colums): the plan has no setting 'colums'" in capsys.readouterr().err


def test_a_site_that_refuses_lets_nothing_out_and_can_answer_later(sites, capsys):
    whole = pd.read_csv(sites / "north.csv")
    whole.assign(z=(np.arange(400) < 3) * 1.0).to_csv(sites / "north.csv", index=False)
    folder = sites / "shared"
    call("init", folder, sites / "plan.toml")
    for site in ("south", "west"):
        assert answer(sites, site) == 0
    assert answer(sites, "north") == 2
    assert "fewer than 5 people have one of the values of 'z'" in capsys.readouterr().err
    at = folder / "rounds" / "000"
    files = ["north.json", "request.json", "south.json", "west.json"]
    assert sorted(p.name for p in at.iterdir()) == files
    said = json.loads((at / "north.json").read_text())
    assert said["kind"] == "refusal"
    assert not {"values", "arrays", "sums"} & set(said)
    assert "refused round 0" in (sites / "owner-north" / "audit.log").read_text()
    assert call("step", folder) == 2
    assert "site 'north': fewer than 5" in capsys.readouterr().err
    whole.to_csv(sites / "north.csv", index=False)
    assert answer(sites, "north") == 0
    assert call("step", folder) == 0
    assert "round 1 waits for north, south, west" in capsys.readouterr().out


def test_a_site_withdraws(sites, capsys):
    folder = sites / "shared"
    call("init", folder, sites / "plan.toml")
    capsys.readouterr()
    arguments = ("north", sites / "north.csv", sites / "owner-north")
    assert call("withdraw", folder, *arguments) == 0
    assert "site north has withdrawn in round 0" in capsys.readouterr().out
    assert call("step", folder) == 2
    assert "fewer than 3 sites remain" in capsys.readouterr().err


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ask": "evaluate"}, "its id is"),
        ({"arrays": {"points": {"shape": [1, 2], "values": [0, 1]}}}, "its id is"),
        ({"id": "0" * 64}, "0000', but that of its content '"),
        ({"id": None}, "'id' is missing"),
        ({"note": "more"}, "a message of kind 'request' has no 'note'"),
        ("another plan", "belongs to study '"),
        ("another round", "is the request of round 1, not the request of round 0"),
        ("another question", "does not follow from the plan"),
    ],
)
def test_a_request_that_does_not_fit_is_not_answered(sites, change, said, capsys):
    call("init", sites / "shared", sites / "plan.toml")
    path = sites / "shared" / "rounds" / "000" / "request.json"
    request = json.loads(path.read_text())
    if isinstance(change, dict):
        request |= change
    elif change == "another plan":
        (sites / "plan.toml").write_text(PLAN + "tol = 1e-9\n")
        call("init", sites / "other", sites / "plan.toml")
        request = json.loads((sites / "other" / "rounds" / "000" / "request.json").read_text())
    else:
        n, ask = (1, "describe") if change == "another round" else (0, "evaluate")
        made = Message("request", request["study"], n, ask, values={"sites": list(NAMES)})
        request = made.to_dict()
    path.write_text(json.dumps(request))
    assert answer(sites, "north") == 2
    assert said in capsys.readouterr().err
    assert not (path.parent / "north.json").exists()
    path.unlink()
    assert call("step", sites / "shared") == 0  # the remedy
    assert answer(sites, "north") == 0


def test_an_app_for_flower_is_written(sites, capsys):
    assert call("flower", sites / "app", sites / "plan.toml", sites / "result.json") == 0
    assert capsys.readouterr().out == f"flwr run {sites / 'app'}\n"
    assert 'serverapp = "lead:app"' in (sites / "app" / "pyproject.toml").read_text()


def test_schemas_are_printed(capsys):
    assert call("schema") == 0
    assert json.loads(capsys.readouterr().out)["title"] == "steropes.federated/6"
    assert call("schema", "--plan") == 0
    assert "baseline" in json.loads(capsys.readouterr().out)["properties"]
