"""A shared folder to which others can write: links, forged and huge files, and several leads."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from federated_data import OPEN, plan_of, site_tables
from owners import owners_of

from steropes.errors import DataError
from steropes.federated import WaitingError, message_files
from steropes.federated.message_files import LARGEST_FILE, read_bytes, read_message, write_new
from steropes.federated.request_envelope import read_envelope
from steropes.federated.shared_folder import history, write_answer
from steropes.studies.federation import (
    federate_answer,
    federate_finish,
    federate_init,
    federate_step,
)

TABLES = site_tables("linear", sites={"north": 120, "south": 140, "west": 100, "east": 90})
PLAN = plan_of("linear", TABLES)
SITES = ("north", "south", "west", "east")


@pytest.fixture
def owners():
    return owners_of(TABLES)


@pytest.fixture
def begun(tmp_path):
    """A folder with the request of round 0."""
    federate_init(tmp_path / "shared", PLAN)
    return tmp_path / "shared"


def all_answer(folder, owners, but=()):
    for site, table in TABLES.items():
        if site not in but:
            federate_answer(folder, site, table, owners[site])


# -- links -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("linked", ["rounds", "rounds/000"])
def test_a_site_neither_reads_nor_writes_through_a_linked_folder(begun, tmp_path, owners, linked):
    """Before, only the last part of a path was not followed."""
    (begun / linked).rename(tmp_path / "elsewhere")
    (begun / linked).symlink_to(tmp_path / "elsewhere")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match=f"{linked} is a link, and links are not followed"):
        federate_answer(begun, "north", TABLES["north"], owners["north"])
    with pytest.raises(DataError, match=f"{linked} is a link"):
        federate_step(begun)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("there", [True, False])
def test_a_lead_does_not_write_through_a_linked_folder(begun, tmp_path, owners, there):
    all_answer(begun, owners)
    elsewhere = tmp_path / "elsewhere"
    if there:
        elsewhere.mkdir()
    (begun / "rounds" / "001").symlink_to(elsewhere)
    with pytest.raises(DataError, match="001 is a link"):
        federate_step(begun)
    assert not elsewhere.exists() or not list(elsewhere.iterdir())


def test_a_site_writes_no_answer_through_a_folder_that_is_linked_meanwhile(begun, tmp_path, owners):
    """The folder of the round is replaced after the site has read the request."""
    request, _ = history(begun)
    (begun / "rounds" / "000").rename(tmp_path / "elsewhere")
    (begun / "rounds" / "000").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="000 is a link"):
        write_answer(begun, request.reply("withdrawal", "north"))
    assert [p.name for p in (tmp_path / "elsewhere").iterdir()] == ["request.json"]


def test_without_descriptors_of_folders_links_are_refused_too(begun, tmp_path, monkeypatch):
    monkeypatch.setattr(message_files, "BY_DESCRIPTOR", False)
    assert isinstance(federate_step(begun), WaitingError)
    write_new(begun / "a" / "b.json", b"{}", root=begun)
    assert read_bytes(begun / "a" / "b.json", begun) == b"{}"
    (begun / "a").rename(tmp_path / "elsewhere")
    (begun / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="links are not followed"):
        read_bytes(begun / "a" / "b.json", begun)
    with pytest.raises(DataError, match="links are not followed"):
        write_new(begun / "a" / "c.json", b"{}", root=begun)
    assert [p.name for p in (tmp_path / "elsewhere").iterdir()] == ["b.json"]


def test_a_shared_folder_that_is_itself_a_link_is_used(begun, tmp_path, owners):
    """The reader chose this path; only what is below it can be written by others."""
    (tmp_path / "mount").symlink_to(begun)
    all_answer(tmp_path / "mount", owners)
    assert federate_step(tmp_path / "mount").round == 1


@pytest.mark.parametrize("name", ["../../plan", "/etc/passwd"])
def test_a_name_of_a_site_does_not_leave_the_folder(begun, name):
    with pytest.raises(DataError, match="is not in"):
        read_message(begun / "rounds" / f"{name}.json", begun)


def test_a_result_does_not_replace_the_target_of_a_link(begun, tmp_path, owners):
    (tmp_path / "precious").write_text("mine")
    (begun / "result.json").symlink_to(tmp_path / "precious")
    while isinstance(federate_step(begun), WaitingError):
        all_answer(begun, owners)
    federate_finish(begun)
    assert (tmp_path / "precious").read_text() == "mine"
    whole = (begun / "result.json").read_bytes()
    assert not (begun / "result.json").is_symlink()
    federate_finish(begun)
    federate_finish(begun, tmp_path / "other.json")
    assert (begun / "result.json").read_bytes() == (tmp_path / "other.json").read_bytes() == whole


# -- forged files ----------------------------------------------------------------------------------


def test_a_site_has_not_left_because_a_file_without_signature_says_so(begun, owners):
    """Before, everybody who can write to the folder could end the plan or leave a site out."""
    all_answer(begun, owners)
    forged = begun / "rounds" / "000" / "left.json"
    forged.write_text('["east"]')
    for take in (federate_step, federate_finish):
        with pytest.raises(DataError, match=r"left.json says that 'east' left, but everybody"):
            take(begun)
    assert not (begun / "rounds" / "001").exists()
    forged.unlink()
    assert federate_step(begun).round == 1


def test_a_lead_names_a_silent_site_until_the_end(begun, owners):
    for owner in owners.values():
        owner.rules = replace(OPEN, gone=("east",))
    all_answer(begun, owners, but=["east"])
    while isinstance(federate_step(begun, without=["east"]), WaitingError):
        all_answer(begun, owners, but=["east"])
    with pytest.raises(DataError, match="'east' left, but everybody"):
        federate_finish(begun)
    assert "'east' left" in federate_finish(begun, without=["east"]).notes[0]


# -- two processes at once -------------------------------------------------------------------------


def test_steps_of_several_leads_at_once_write_one_request(begun, owners):
    """Before, all but one failed, because the file existed already."""
    all_answer(begun, owners)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: federate_step(begun), range(8)))
    assert [(w.round, w.sites) for w in found] == [(1, SITES)] * 8
    assert [p.name for p in (begun / "rounds" / "001").iterdir()] == ["request.json"]


def test_one_of_several_leads_starts_a_folder(tmp_path):
    plans = [replace(PLAN, tol=10.0**-k) for k in range(5, 9)]

    def start(plan):
        try:
            return federate_init(tmp_path / "new", plan).study
        except DataError as error:
            return str(error)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(start, plans))
    begun = [plan.study for plan, said in zip(plans, found, strict=True) if said == plan.study]
    assert len(begun) == 1
    assert all("exists already" in said for said in found if said not in begun)
    assert history(tmp_path / "new")[0].study == begun[0]


# -- huge files ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["plan.json", "rounds/000/request.json", "rounds/000/east.json", "rounds/000/left.json"],
)
def test_a_huge_file_is_refused_before_it_is_read(begun, owners, name):
    all_answer(begun, owners, but=["east"])
    with (begun / name).open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with pytest.raises(DataError, match=f"{name} has more than 64 MB, which no message needs"):
        federate_step(begun)


def test_a_pipe_is_refused_without_waiting_for_a_writer(begun, owners):
    all_answer(begun, owners, but=["east"])
    os.mkfifo(begun / "rounds" / "000" / "east.json")
    with pytest.raises(DataError, match=r"east.json is not a regular file"):
        federate_step(begun)


def test_what_nobody_would_read_is_neither_written_nor_decoded(tmp_path):
    huge = bytes(LARGEST_FILE + 1)
    with pytest.raises(DataError, match="too many columns, times or points"):
        write_new(tmp_path / "a.json", huge)
    assert not list(tmp_path.iterdir())
    with pytest.raises(DataError, match="the request has more than 64 MB"):
        read_envelope(huge)
