"""``steropes federate``: init, answer, step, finish."""

import json

import numpy as np
import pandas as pd
import pytest

from steropes.federated import Message
from steropes.studies.cli import run

PLAN = """
model = "logistic"
columns = ["x", "z"]
sites = ["north", "south"]
outcome = "y"
"""


@pytest.fixture
def sites(tmp_path, rng):
    for site in ("north", "south"):
        x, z = rng.normal(size=200), (rng.random(200) < 0.5).astype(float)
        y = (rng.random(200) < 1 / (1 + np.exp(-x))).astype(int)
        pd.DataFrame({"x": x, "z": z, "y": y}).to_csv(tmp_path / f"{site}.csv", index=False)
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


def call(*arguments):
    return run([str(a) for a in ("federate", *arguments)])


def test_from_init_to_finish(sites, capsys):
    folder = sites / "shared"
    assert call("init", folder, sites / "plan.toml") == 0
    assert "round 0 asks north, south" in capsys.readouterr().out
    for _ in range(15):
        for site in ("north", "south"):
            assert call("answer", folder, site, sites / f"{site}.csv") == 0
        assert call("step", folder) == 0
        if "done after" in capsys.readouterr().out:
            break
    assert call("finish", folder) == 0
    out = capsys.readouterr().out
    assert "intercept[north]" in out
    assert "rounds" in out
    said = json.loads((folder / "result.json").read_text())
    assert said["converged"]


def test_a_place_that_cannot_be_written_to_is_named(sites, capsys):
    (sites / "taken").write_text("")
    assert call("init", sites / "taken", sites / "plan.toml") == 2
    assert capsys.readouterr().err == f"steropes: {sites / 'taken'}: File exists\n"


def test_folds_choose_the_variance(sites, capsys):
    folder = sites / "shared"
    plan = sites / "plan.toml"
    assert call("init", folder, plan, "--cv", "4") == 2
    assert "folds choose the variance of a prior" in capsys.readouterr().err
    plan.write_text(PLAN + "prior = 'normal'\nsearch = [0.1, 1.0]\n")
    assert call("init", folder, plan, "--cv", "4", "--seed", "3") == 0
    while call("step", folder) == 0:
        if "done after" in capsys.readouterr().out:
            break
        for site in ("north", "south"):
            assert call("answer", folder, site, sites / f"{site}.csv") == 0
    assert call("finish", folder) == 0
    assert "chosen by 4 folds of each site" in capsys.readouterr().out


def test_what_goes_wrong_is_one_line(sites, capsys):
    folder = sites / "shared"
    call("init", folder, sites / "plan.toml")
    assert call("finish", folder) == 2
    assert "round 0 waits for north, south" in capsys.readouterr().err
    assert call("answer", folder, "east", sites / "north.csv") == 2
    assert "no site 'east'" in capsys.readouterr().err
    assert call("answer", folder, "north", sites / "gone.csv") == 2
    assert "there is no file" in capsys.readouterr().err
    assert call("answer", folder, "north", sites / "north.csv", "--min-cell", "1000") == 2
    assert "round 0 is refused: there are fewer than 1000 people" in capsys.readouterr().err
    assert call("step", folder) == 2
    assert "was refused. site 'north'" in capsys.readouterr().err
    assert call("answer", folder, "north", sites / "north.csv", "--without", "cells") == 2
    assert "no check 'cells'" in capsys.readouterr().err
    (sites / "bad.toml").write_text(PLAN.replace("columns", "colums"))
    assert call("init", sites / "other", sites / "bad.toml") == 2
    assert "bad.toml, line 3 (colums): there is no setting 'colums'" in capsys.readouterr().err


def test_a_site_that_refuses_lets_nothing_out_and_can_answer_later(sites, capsys):
    table = pd.read_csv(sites / "north.csv")
    table["z"] = (np.arange(200) < 3) * 1.0
    table.to_csv(sites / "north.csv", index=False)
    folder = sites / "shared"
    call("init", folder, sites / "plan.toml")
    assert call("answer", folder, "south", sites / "south.csv") == 0
    assert call("answer", folder, "north", sites / "north.csv") == 2
    assert "fewer than 5 people differ from the others in 'z'" in capsys.readouterr().err
    at = folder / "rounds" / "000"
    assert sorted(p.name for p in at.iterdir()) == ["north.json", "request.json", "south.json"]
    said = json.loads((at / "north.json").read_text())
    assert said["kind"] == "refusal"
    assert not {"values", "arrays"} & set(said)
    assert not any(c.isdigit() for c in "".join(said["reasons"]).replace("fewer than 5", ""))
    assert call("step", folder) == 2
    assert "site 'north': fewer than 5" in capsys.readouterr().err
    assert call("answer", folder, "north", sites / "north.csv", "--min-cell", "0") == 0
    assert call("step", folder) == 0
    assert "round 1 waits for north, south" in capsys.readouterr().out


def first_request(sites):
    return sites / "shared" / "rounds" / "000" / "request.json"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ask": "evaluate"}, "its id is"),
        ({"arrays": {"points": {"shape": [1, 2], "values": [0, 1]}}}, "its id is"),
        ({"id": "0" * 32}, "'00000000000000000000000000000000', but that of its content '"),
        ({"id": None}, "'id' is missing"),
        ({"note": "more"}, "'note' is nothing that a message of its kind has"),
        ("another plan", "of study '"),
        ("another round", "is the request of round 1, not the request of round 0"),
    ],
)
def test_a_request_that_does_not_fit_is_not_answered(sites, change, said, capsys):
    call("init", sites / "shared", sites / "plan.toml")
    path = first_request(sites)
    request = json.loads(path.read_text())
    if isinstance(change, dict):
        request |= change
    elif change == "another plan":
        (sites / "plan.toml").write_text(PLAN + "tol = 1e-9\n")
        call("init", sites / "other", sites / "plan.toml")
        request = json.loads((sites / "other" / "rounds" / "000" / "request.json").read_text())
    else:
        later = Message("request", request["study"], 1, "describe")
        request = later.to_dict()
    path.write_text(json.dumps(request))
    assert call("answer", sites / "shared", "north", sites / "north.csv") == 2
    error = capsys.readouterr().err
    assert said in error
    assert not (path.parent / "north.json").exists()
    path.unlink()
    assert call("step", sites / "shared") == 0  # the remedy
    assert call("answer", sites / "shared", "north", sites / "north.csv") == 0


def test_schemas_are_printed(capsys):
    assert call("schema") == 0
    assert json.loads(capsys.readouterr().out)["title"] == "steropes.federated/4"
    assert call("schema", "--plan") == 0
    assert "baseline" in json.loads(capsys.readouterr().out)["properties"]
