"""``steropes federate``: init, answer, step, finish."""

import json

import numpy as np
import pandas as pd
import pytest

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


def test_schemas_are_printed(capsys):
    assert call("schema") == 0
    assert json.loads(capsys.readouterr().out)["title"] == "steropes.federated/2"
    assert call("schema", "--plan") == 0
    assert "baseline" in json.loads(capsys.readouterr().out)["properties"]
