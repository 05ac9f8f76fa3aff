"""A folder that sites share: step by step it ends where one process ends, and files are checked."""

import json

import numpy as np
import pytest
from federated_data import COLUMNS, ROLES, pooled_fit, site_tables

from steropes.errors import DataError
from steropes.federated import CellRules, FederatedPlan, FederatedSite, WaitingError
from steropes.federated.folder import latest_request
from steropes.federated.rows import _read_file
from steropes.studies import (
    federate,
    federate_answer,
    federate_finish,
    federate_init,
    federate_step,
)

ALL = CellRules(0)
TABLES = site_tables("logistic")


def plan_of(**more):
    settings = {"model": "logistic", "columns": COLUMNS, "sites": tuple(TABLES)}
    return FederatedPlan(**settings | ROLES["logistic"] | more)


def all_answer(folder, but=()):
    for site, table in TABLES.items():
        if site not in but:
            federate_answer(folder, site, table, ALL)


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_folder_ends_where_one_process_ends(tmp_path, kind):
    plan = plan_of(format=kind)
    federate_init(tmp_path, plan)
    rounds = 0
    while isinstance(step := federate_step(tmp_path), WaitingError):
        assert step.round == rounds
        all_answer(tmp_path)
        rounds += 1
    assert step.rounds == rounds
    found = federate_finish(tmp_path)
    same = federate(plan, {s: FederatedSite(s, d, ALL) for s, d in TABLES.items()})
    assert np.array_equal(found.coef, same.coef)
    assert np.abs(found.coef / pooled_fit("logistic", TABLES).coef_ - 1).max() < 1e-8
    said = json.loads((tmp_path / "result.json").read_text())
    assert [c["coef"] for c in said["coefficients"]] == found.coef.tolist()
    assert said["bytes"] == found.bytes
    with pytest.raises(DataError, match="is there already"):
        federate_init(tmp_path, plan)


@pytest.fixture
def second_round(tmp_path):
    """A folder whose first round is answered and whose second is asked."""
    federate_init(tmp_path, plan_of())
    all_answer(tmp_path)
    federate_step(tmp_path)
    return tmp_path


def test_missing_sites_are_named(second_round):
    all_answer(second_round, but=["south"])
    waiting = federate_step(second_round)
    assert isinstance(waiting, WaitingError)
    assert waiting.sites == ("south",)
    with pytest.raises(DataError, match="round 1 waits for south"):
        federate_finish(second_round)


def answers(folder, n):
    return folder / "rounds" / f"{n:03d}"


def test_an_answer_to_an_old_round_is_named(second_round):
    all_answer(second_round)
    old = (answers(second_round, 0) / "west.json").read_bytes()
    (answers(second_round, 1) / "west.json").write_bytes(old)
    with pytest.raises(DataError, match=r"west.json is to round 0, but this is round 1"):
        federate_step(second_round)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": "steropes.federated/0"}, "schema 'steropes.federated/0'"),
        ({"site": "north"}, "west.json is from site 'north'"),
        ({"study": "another"}, "west.json belongs to another study"),
        ({"request": "0" * 32}, "west.json is to another request of round 1"),
        ({"arrays": {}}, "site 'west' in round 1 .* has no array 'loss'"),
        ({"kind": "request", "id": ""}, "west.json: 'site' is nothing that a message of its kind"),
    ],
)
def test_what_is_no_answer_is_named(second_round, change, said):
    all_answer(second_round)
    path = answers(second_round, 1) / "west.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError, match=said):
        federate_step(second_round)


def test_a_file_that_was_cut_off_is_named(second_round):
    all_answer(second_round)
    path = answers(second_round, 1) / "west.json"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"west.json cannot be read"):
        federate_step(second_round)
    federate_answer(second_round, "west", TABLES["west"], ALL)
    assert federate_step(second_round).round == 2


def test_other_columns_are_named(second_round):
    path = answers(second_round, 0) / "west.json"
    said = json.loads(path.read_text())
    said["values"]["columns"] = ["drug", "age", "marker"]
    path.write_text(json.dumps(said))
    with pytest.raises(DataError, match=r"site 'west' in round 0 .*'columns' must be the plan's"):
        federate_step(second_round)
    with pytest.raises(DataError, match="site 'west': the table has no column 'year'"):
        federate_answer(second_round, "west", TABLES["west"].drop(columns="year"))
    with pytest.raises(DataError, match="NaN or infinity: column 'year'"):
        federate_answer(second_round, "west", TABLES["west"].assign(year=np.nan))
    assert not (answers(second_round, 1) / "west.json").exists()


def test_an_earlier_answer_that_changed_is_noticed(second_round):
    all_answer(second_round)
    federate_step(second_round)
    path = answers(second_round, 1) / "west.json"
    said = json.loads(path.read_text())
    said["arrays"]["gradient"]["values"][1] += 50.0
    path.write_text(json.dumps(said))
    all_answer(second_round)
    with pytest.raises(DataError, match="a file of an earlier round was changed"):
        federate_step(second_round)


def test_a_refusal_reaches_the_lead(second_round):
    all_answer(second_round, but=["west"])
    message = federate_answer(second_round, "west", TABLES["west"].iloc[:3])
    assert message.kind == "refusal"
    with pytest.raises(DataError, match=r"round 1 \(evaluate\) was refused. site 'west': there"):
        federate_step(second_round)


def test_plans_that_were_changed_and_unknown_sites_are_named(second_round):
    with pytest.raises(DataError, match="no site 'east'"):
        federate_answer(second_round, "east", TABLES["west"])
    path = second_round / "plan.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tol": 1e-3}))
    with pytest.raises(DataError, match="was changed after it was written"):
        federate_step(second_round)


def test_a_folder_without_a_plan_or_request_says_so(tmp_path):
    with pytest.raises(DataError, match=r"no plan.json"):
        federate_step(tmp_path)
    with pytest.raises(DataError, match="no request yet"):
        latest_request(tmp_path)


def test_only_the_lead_is_asked_for_a_surrogate(tmp_path):
    federate_init(tmp_path, plan_of(baseline="common", method="odal", lead="south"))
    for _ in range(2):
        all_answer(tmp_path)
        waiting = federate_step(tmp_path)
    assert waiting.sites == ("south",)
    with pytest.raises(DataError, match="asks nothing of site 'west'"):
        federate_answer(tmp_path, "west", TABLES["west"], ALL)
    federate_answer(tmp_path, "south", TABLES["south"], ALL)
    assert federate_finish(tmp_path).rounds == 3


def test_times_of_a_csv_file_stay_tied(tmp_path):
    """A number of a CSV file is read to its last digit: 0.07 + 0.01 is not 0.08."""
    table = site_tables("cox")["north"]
    table.to_csv(tmp_path / "north.csv", index=False)
    read = _read_file(tmp_path / "north.csv")
    for name in ("t", "e", "w", "marker"):
        assert np.array_equal(read[name], table[name])
