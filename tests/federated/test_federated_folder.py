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
    said["arrays"]["gradient"]["values"][1] *= 1.001
    path.write_text(json.dumps(said))
    with pytest.raises(DataError, match="a file of an earlier round was changed"):
        federate_step(second_round)


def test_a_refusal_reaches_the_lead(second_round):
    all_answer(second_round, but=["west"])
    message = federate_answer(second_round, "west", TABLES["west"], CellRules(1000))
    assert message.kind == "refusal"
    with pytest.raises(DataError, match=r"round 1 \(evaluate\) was refused. site 'west': there"):
        federate_step(second_round)


def test_a_site_notices_that_its_rows_are_others(second_round):
    west = TABLES["west"]
    for change, said in (
        (west.iloc[1:], "round 0, .* another 'rows'"),
        (west.assign(marker=west.marker * (1 + 1e-6)), "round 0, .* another 'mean'"),
    ):
        with pytest.raises(DataError, match=f"rows of site 'west' are not those of {said}"):
            federate_answer(second_round, "west", change, ALL)
    assert not (answers(second_round, 1) / "west.json").exists()
    all_answer(second_round)
    before = (answers(second_round, 1) / "west.json").read_bytes()
    federate_answer(second_round, "west", west.iloc[::-1], ALL)  # sums know no order
    assert federate_step(second_round).round == 2
    federate_answer(second_round, "west", west, ALL)
    same = (answers(second_round, 2) / "west.json").read_bytes()
    federate_answer(second_round, "west", west, ALL)
    assert (answers(second_round, 2) / "west.json").read_bytes() == same != before
    path = answers(second_round, 1) / "west.json"
    said = json.loads(path.read_text())
    said["arrays"]["loss"]["values"][-1] *= 1 + 1e-6
    path.write_text(json.dumps(said))
    with pytest.raises(DataError, match=r"round 1, or its answer .* another 'loss'"):
        federate_answer(second_round, "west", west, ALL)


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


def test_a_folder_with_rounds_of_another_study_is_not_begun_again(tmp_path):
    federate_init(tmp_path, plan_of())
    (tmp_path / "plan.json").unlink()
    with pytest.raises(DataError, match="rounds is there already"):
        federate_init(tmp_path, plan_of(tol=1e-6))
    assert not (tmp_path / "plan.json").exists()


def test_a_step_that_was_interrupted_is_taken_again(second_round):
    """What a killed process leaves: files that were not renamed, or no file."""
    at = answers(second_round, 1)
    whole = (at / "request.json").read_bytes()
    (at / "request.json.77.part").write_bytes(whole[:50])
    (at / "request.json").unlink()
    assert federate_step(second_round).sites == tuple(TABLES)
    assert (at / "request.json").read_bytes() == whole
    (at / "west.json.77.part").write_bytes(b"{")
    all_answer(second_round)
    assert federate_step(second_round).round == 2


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


def test_ties_of_csv_files_are_those_of_all_rows(tmp_path):
    """Times in thirds and sums of 0.1, entries and weights: as all rows in one place."""
    tables = site_tables("cox")
    for site, d in tables.items():
        steps = np.ceil(d.t * 4).to_numpy(int)
        d["e"] = np.floor(d.e * 9) / 3
        d["t"] = d.e + np.where(d.drug > 0, steps / 3, np.cumsum(np.full(99, 0.1))[steps % 99])
        d.to_csv(tmp_path / f"{site}.csv", index=False)
    plan = FederatedPlan(
        model="cox", columns=COLUMNS, sites=tuple(tables), baseline="common", **ROLES["cox"]
    )
    folder = tmp_path / "shared"
    federate_init(folder, plan)
    while isinstance(federate_step(folder), WaitingError):
        for site in tables:
            federate_answer(folder, site, tmp_path / f"{site}.csv", ALL)
    found, pooled = federate_finish(folder), pooled_fit("cox", tables, "common")
    assert np.abs(found.coef / pooled.coef_ - 1).max() < 1e-8
    assert found.log_likelihood == pytest.approx(pooled.log_likelihood_, rel=1e-13)


def test_times_of_a_csv_file_stay_tied(tmp_path):
    """A number of a CSV file is read to its last digit: 0.07 + 0.01 is not 0.08."""
    table = site_tables("cox")["north"]
    table.to_csv(tmp_path / "north.csv", index=False)
    read = _read_file(tmp_path / "north.csv")
    for name in ("t", "e", "w", "marker"):
        assert np.array_equal(read[name], table[name])


def test_rounding_of_another_machine_is_no_other_row(tmp_path, rng):
    x, y = rng.normal(size=(2, 60))
    table = {"X": ((x - x.mean()) / x.std())[:, None], "y": (y - y.mean()) / y.std()}
    plan = FederatedPlan(model="linear", columns=("x",), sites=("north",))
    federate_init(tmp_path, plan)
    federate_answer(tmp_path, "north", table, ALL)
    federate_step(tmp_path)
    path = tmp_path / "rounds" / "000" / "north.json"
    said = json.loads(path.read_text())
    said["values"]["outcome"] += 1e-14
    said["arrays"]["mean"]["values"][0] -= 1e-16
    path.write_text(json.dumps(said))
    assert federate_answer(tmp_path, "north", table, ALL).kind == "answer"
    said["values"]["outcome"] += 1e-5
    path.write_text(json.dumps(said))
    with pytest.raises(DataError, match="another 'outcome'"):
        federate_answer(tmp_path, "north", table, ALL)
