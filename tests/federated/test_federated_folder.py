"""A folder that sites share: step by step it ends where one process ends, and files are checked."""

import base64
import json
from dataclasses import replace

import numpy as np
import pytest
from federated_data import OPEN, plan_of, pooled_fit, run, site_tables
from owners import owners_of

from steropes.errors import DataError
from steropes.federated import FederatedSite, OwnerRules, WaitingError
from steropes.federated.message_files import encode, read_message
from steropes.federated.shared_folder import history
from steropes.federated.site_rows import _read_file
from steropes.studies.federation import (
    federate_answer,
    federate_finish,
    federate_init,
    federate_step,
    federate_withdraw,
)

TABLES = site_tables("logistic", sites={"north": 120, "south": 140, "west": 100, "east": 90})
PLAN = plan_of("logistic", TABLES)


@pytest.fixture
def owners():
    return owners_of(TABLES)


def all_answer(folder, owners, but=()):
    for site, table in TABLES.items():
        if site not in but:
            federate_answer(folder, site, table, owners[site])


def test_a_folder_ends_where_one_process_ends(tmp_path, owners):
    federate_init(tmp_path, PLAN)
    rounds = 0
    while isinstance(step := federate_step(tmp_path), WaitingError):
        assert step.round == rounds
        all_answer(tmp_path, owners)
        rounds += 1
    assert step.rounds == rounds
    found = federate_finish(tmp_path)
    assert np.array_equal(found.coef, run(PLAN, TABLES).coef)
    assert np.abs(found.coef / pooled_fit("logistic", TABLES).coef_[4:] - 1).max() < 1e-8
    said = json.loads((tmp_path / "result.json").read_text())
    assert [c["coef"] for c in said["coefficients"]] == found.coef.tolist()
    assert said["bytes"] == found.bytes
    with pytest.raises(DataError, match="exists already"):
        federate_init(tmp_path, PLAN)
    keys = {s: o.keys.public for s, o in owners.items()}
    assert np.array_equal(federate_step(tmp_path, peers=keys).coef, found.coef)


@pytest.fixture
def second_round(tmp_path, owners):
    """A folder whose first round is answered and whose second is asked."""
    federate_init(tmp_path, PLAN)
    all_answer(tmp_path, owners)
    federate_step(tmp_path)
    return tmp_path


def answers(folder, n):
    return folder / "rounds" / f"{n:03d}"


def test_missing_sites_are_named(second_round, owners):
    all_answer(second_round, owners, but=["south"])
    waiting = federate_step(second_round)
    assert isinstance(waiting, WaitingError)
    assert waiting.sites == ("south",)
    with pytest.raises(DataError, match="round 1 waits for south"):
        federate_finish(second_round)


def test_an_answer_to_an_old_round_is_named(second_round, owners):
    all_answer(second_round, owners)
    old = (answers(second_round, 0) / "west.json").read_bytes()
    (answers(second_round, 1) / "west.json").write_bytes(old)
    with pytest.raises(DataError, match=r"west.json answers round 0, but this is round 1"):
        federate_step(second_round)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": "steropes.federated/0"}, "schema 'steropes.federated/0'"),
        ({"site": "north"}, "west.json is from site 'north'"),
        ({"study": "another"}, "west.json belongs to another study"),
        ({"request": "0" * 64}, "west.json answers another request of round 1"),
        ({"sums": ""}, "site 'west' in round 1 .* has 0 bytes of sums"),
        ({"kind": "request", "id": ""}, "west.json: a message of kind 'request' has no"),
    ],
)
def test_what_is_no_answer_is_named(second_round, owners, change, said):
    all_answer(second_round, owners)
    path = answers(second_round, 1) / "west.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError, match=said):
        federate_step(second_round)


def test_a_file_that_was_cut_off_is_named(second_round, owners):
    all_answer(second_round, owners)
    path = answers(second_round, 1) / "west.json"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"west.json cannot be read"):
        federate_step(second_round)
    path.unlink()
    federate_answer(second_round, "west", TABLES["west"], owners["west"])
    assert federate_step(second_round).round == 2


def test_an_answer_is_never_overwritten_and_a_refusal_gives_way(second_round, owners):
    all_answer(second_round, owners)
    with pytest.raises(DataError, match=r"west.json exists already"):
        federate_answer(second_round, "west", TABLES["west"], owners["west"])
    (answers(second_round, 1) / "west.json").unlink()
    owners["west"].rules = OwnerRules(least=1000)
    assert federate_answer(second_round, "west", TABLES["west"], owners["west"]).kind == "refusal"
    with pytest.raises(DataError, match=r"round 1 \(evaluate\) was refused. site 'west': there"):
        federate_step(second_round)
    owners["west"].rules = OPEN
    federate_answer(second_round, "west", TABLES["west"], owners["west"])
    assert federate_step(second_round).round == 2


def test_data_that_the_plan_cannot_use_are_named(second_round, owners):
    owner = owners["west"]
    with pytest.raises(DataError, match="site 'west': the table has no column 'year'"):
        federate_answer(second_round, "west", TABLES["west"].drop(columns="year"), owner)
    with pytest.raises(DataError, match="NaN or infinity: column 'year'"):
        federate_answer(second_round, "west", TABLES["west"].assign(year=np.nan), owner)
    assert not (answers(second_round, 1) / "west.json").exists()


def test_a_site_notices_that_its_rows_are_others(second_round, owners):
    west = TABLES["west"]
    for change in (west.iloc[1:], west.assign(marker=west.marker * (1 + 1e-15)),
                   west.assign(y=west.y.where(west.index > 0, 1 - west.y))):  # fmt: skip
        with pytest.raises(DataError, match="rows are not those of the earlier answers"):
            federate_answer(second_round, "west", change, owners["west"])
    assert not (answers(second_round, 1) / "west.json").exists()
    all_answer(second_round, owners, but=["west"])
    federate_answer(second_round, "west", west.iloc[::-1], owners["west"])  # sums know no order
    assert federate_step(second_round).round == 2


def test_plans_that_were_changed_and_unknown_sites_are_named(second_round, owners):
    with pytest.raises(DataError, match="site 'mid': the plan does not name this site"):
        federate_answer(second_round, "mid", TABLES["west"], owners["west"])
    path = second_round / "plan.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tol": 1e-3}))
    with pytest.raises(DataError, match="was changed after it was written"):
        federate_step(second_round)


def test_another_plan_in_a_folder_that_a_site_has_answered_in_is_refused(tmp_path, owners):
    """The plan is the one of the first answer."""
    federate_init(tmp_path, PLAN)
    federate_answer(tmp_path, "north", TABLES["north"], owners["north"])
    (tmp_path / "plan.json").unlink()
    for path in sorted(tmp_path.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    federate_init(tmp_path, replace(PLAN, columns=("drug",)))
    with pytest.raises(DataError, match="the plan was changed after the first answer"):
        federate_answer(tmp_path, "north", TABLES["north"], owners["north"])


def test_a_folder_without_a_plan_or_request_says_so(tmp_path):
    with pytest.raises(DataError, match=r"no plan.json"):
        federate_step(tmp_path)
    with pytest.raises(DataError, match="no request yet"):
        history(tmp_path)


def test_a_folder_with_rounds_of_another_study_is_not_begun_again(tmp_path):
    federate_init(tmp_path, PLAN)
    (tmp_path / "plan.json").unlink()
    with pytest.raises(DataError, match="rounds exists already"):
        federate_init(tmp_path, replace(PLAN, tol=1e-6))
    assert not (tmp_path / "plan.json").exists()


def test_a_step_that_was_interrupted_is_taken_again(second_round, owners):
    """What a killed process leaves: files that have not got their name, or no file."""
    at = answers(second_round, 1)
    whole = (at / "request.json").read_bytes()
    (at / ".request.json.77.part").write_bytes(whole[:50])
    (at / "request.json").unlink()
    assert federate_step(second_round).sites == tuple(TABLES)
    assert (at / "request.json").read_bytes() == whole
    all_answer(second_round, owners)
    assert federate_step(second_round).round == 2


def test_a_round_is_repeated_without_a_site_that_withdraws(second_round, owners):
    all_answer(second_round, owners, but=["east"])
    federate_withdraw(second_round, "east", TABLES["east"], owners["east"], consent=True)
    waiting = federate_step(second_round)
    assert (waiting.round, waiting.sites) == (2, ("north", "south", "west"))
    with pytest.raises(DataError, match=r"has no request to this site"):
        federate_answer(second_round, "east", TABLES["east"], owners["east"])
    while isinstance(federate_step(second_round), WaitingError):
        all_answer(second_round, owners, but=["east"])
    found = federate_finish(second_round)
    three = {s: d for s, d in TABLES.items() if s != "east"}
    assert found.coef == pytest.approx(run(plan_of("logistic", three), three).coef, rel=1e-8)
    assert found.rows == sum(len(d) for d in three.values())
    assert "'east' left before the end" in " ".join(found.notes)
    assert found.revealed()["tells"][1] == "nothing, as east left"


def test_a_site_that_is_silent_is_left_out_only_where_owners_confirm(tmp_path, owners):
    federate_init(tmp_path, plan_of("logistic", TABLES))
    all_answer(tmp_path, owners, but=["east"])
    waiting = federate_step(tmp_path, without=["east"])
    assert waiting.sites == ("north", "south", "west")
    with pytest.raises(DataError, match="continues without site 'east', which has not withdrawn"):
        federate_answer(tmp_path, "north", TABLES["north"], owners["north"])
    for site in ("north", "south", "west"):
        owners[site].rules = replace(OPEN, gone=("east",))
    all_answer(tmp_path, owners, but=["east"])
    assert federate_step(tmp_path, without=["east"]).round == 2


def test_after_a_total_no_round_is_repeated_without_a_silent_site(second_round, owners):
    """The description with and without a site is the site's own, whatever owners confirm."""
    for owner in owners.values():
        owner.rules = replace(OPEN, gone=("east",))
    all_answer(second_round, owners, but=["east"])
    with pytest.raises(DataError, match="'east' left in round 1, and totals with its sums"):
        federate_step(second_round, without=["east"])


def test_a_site_withdraws_after_a_total_only_with_its_owner_s_consent(second_round, owners):
    with pytest.raises(DataError, match="its own sums would follow"):
        federate_withdraw(second_round, "east", TABLES["east"], owners["east"])
    assert not (answers(second_round, 1) / "east.json").exists()


def test_a_site_that_answered_cannot_withdraw_from_that_round(second_round, owners):
    all_answer(second_round, owners)
    with pytest.raises(DataError, match="this round is answered already"):
        federate_withdraw(second_round, "east", TABLES["east"], owners["east"])


def test_a_site_that_withdrew_never_answers_that_plan_again(second_round, owners):
    federate_withdraw(second_round, "east", TABLES["east"], owners["east"], consent=True)
    (answers(second_round, 1) / "east.json").unlink()
    with pytest.raises(DataError, match="has withdrawn from the plan"):
        federate_answer(second_round, "east", TABLES["east"], owners["east"])


def test_two_sites_are_not_added_up(tmp_path):
    tables = {s: TABLES[s] for s in ("north", "south", "west")}
    owners = owners_of(tables)
    federate_init(tmp_path, plan_of("logistic", tables))
    federate_withdraw(tmp_path, "west", tables["west"], owners["west"])
    with pytest.raises(DataError, match="fewer than 3 sites remain"):
        federate_step(tmp_path)


def test_only_the_lead_is_asked_for_a_surrogate(tmp_path, owners):
    federate_init(tmp_path, plan_of("logistic", TABLES, baseline="common", method="odal",
                                    lead="south"))  # fmt: skip
    for _ in range(3):
        all_answer(tmp_path, owners)
        waiting = federate_step(tmp_path)
    assert waiting.sites == ("south",)
    with pytest.raises(DataError, match="has no request to this site"):
        federate_answer(tmp_path, "west", TABLES["west"], owners["west"])
    federate_answer(tmp_path, "south", TABLES["south"], owners["south"])
    assert federate_finish(tmp_path).rounds == 4


def test_signatures_are_checked_by_a_lead_that_has_the_keys(second_round, owners):
    keys = {s: o.keys.public for s, o in owners.items()}
    all_answer(second_round, owners)
    path = answers(second_round, 1) / "west.json"
    message, _ = read_message(path)
    sums = bytes([message.sums[0] ^ 1]) + message.sums[1:]
    path.write_bytes(encode(replace(message, sums=sums)))
    with pytest.raises(DataError, match="'west' in round 1 is not signed with the key"):
        federate_step(second_round, peers=keys)


def test_ties_of_csv_files_are_those_of_all_rows(tmp_path):
    """Times in thirds and sums of 0.1, entries and weights: as all rows in one place."""
    tables = site_tables("cox", sites={"north": 90, "south": 60, "west": 50})
    for site, d in tables.items():
        steps = np.ceil(d.t * 4).to_numpy(int)
        d["e"] = np.floor(d.e * 9) / 3
        d["t"] = d.e + np.where(d.drug > 0, steps / 3, np.cumsum(np.full(99, 0.1))[steps % 99])
        d.to_csv(tmp_path / f"{site}.csv", index=False)
    plan = plan_of("cox", tables, baseline="common")
    sites = {s: FederatedSite(s, tmp_path / f"{s}.csv", OPEN) for s in tables}
    found, pooled = run_sites(plan, sites), pooled_fit("cox", tables, "common")
    assert np.abs(found.coef / pooled.coef_ - 1).max() < 1e-8
    assert found.log_likelihood == pytest.approx(pooled.log_likelihood_, rel=1e-13)


def run_sites(plan, sites):
    from steropes.studies.federation import federate

    return federate(plan, sites)


def test_times_of_a_csv_file_stay_tied(tmp_path):
    """A number of a CSV file is read to its last digit: 0.07 + 0.01 is not 0.08."""
    table = site_tables("cox")["north"]
    table.to_csv(tmp_path / "north.csv", index=False)
    read = _read_file(tmp_path / "north.csv")
    for name in ("t", "e", "w", "marker"):
        assert np.array_equal(read[name], table[name])


def test_sums_that_no_site_can_have_are_refused_in_each_round(second_round, owners, rng):
    """Before, the lead advised to drop columns, because a Hessian of noise is singular."""
    all_answer(second_round, owners)
    path = answers(second_round, 1) / "north.json"
    given = json.loads(path.read_text())
    size = len(base64.b64decode(given["sums"]))
    given["sums"] = base64.b64encode(rng.bytes(size)).decode()
    path.write_text(json.dumps(given))
    with pytest.raises(DataError, match="larger than sums of sites can be: an answer is wrong"):
        federate_step(second_round)
