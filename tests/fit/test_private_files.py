"""Files about single people can be read by their owner alone, whatever the umask."""

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from steropes import DataError
from steropes.design_matrix import as_design
from steropes.federated.data_owner import Owner
from steropes.fit.fit_checkpoints import Packing, ResultFolder
from steropes.fit.shards.local_blocks import write_design
from steropes.private_files import open_private, private_draft, private_folder, refuse_foreign
from steropes.studies.database.temporary_folder import ScratchFolder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")


@pytest.fixture(params=[0, 0o022, 0o077], autouse=True)
def mask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder):
    """Return the modes of a folder and all files and folders in it."""
    paths = [folder, *folder.rglob("*")]
    return {path: stat.S_IMODE(path.stat().st_mode) for path in paths}


def assert_private(folder):
    for path, mode in modes(folder).items():
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_new_folders_are_private_with_those_above_them(tmp_path):
    private_folder(tmp_path / "a" / "b")
    assert_private(tmp_path / "a")


def test_an_empty_folder_is_closed_and_one_with_other_contents_is_not(tmp_path):
    for name in ("empty", "earlier", "others"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o755)
    (tmp_path / "earlier" / "results.duckdb").touch()
    (tmp_path / "others" / "thesis.tex").touch()
    for name, mode in {"empty": 0o700, "earlier": 0o700, "others": 0o755}.items():
        folder = private_folder(tmp_path / name, "results.duckdb")
        assert stat.S_IMODE(folder.stat().st_mode) == mode, name


def test_an_existing_file_is_closed_and_a_link_is_not_followed(tmp_path):
    (tmp_path / "log").touch()
    (tmp_path / "log").chmod(0o664)
    os.close(open_private(tmp_path / "log", os.O_WRONLY | os.O_APPEND))
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "log")
    with pytest.raises(OSError, match="link"):
        open_private(tmp_path / "link", os.O_WRONLY)


def test_a_draft_is_private_from_its_first_byte_and_replaces_the_file_at_the_end(tmp_path):
    path = tmp_path / "people.txt"
    path.write_text("old")
    with private_draft(path) as draft:
        draft.write_text("new")
        assert stat.S_IMODE(draft.parent.stat().st_mode) == 0o700
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileNotFoundError), private_draft(path):
        (tmp_path / "absent").read_text()
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["people.txt"]


def test_drafts_of_killed_processes_are_removed_and_running_ones_are_not(tmp_path):
    old, running = tmp_path / ".a.draft-1", tmp_path / ".a.draft-2"
    old.mkdir()
    running.mkdir()
    os.utime(old, (0, 0))
    with private_draft(tmp_path / "a") as draft:
        draft.touch()
    assert not old.exists()
    assert running.exists()


def test_stored_fits_blocks_and_keys_are_private(tmp_path):
    folder = ResultFolder(tmp_path / "store", Packing(lambda x: ({"x": x}, 0), lambda a, f: a))
    folder.save(folder.file("a"), np.ones(3))
    write_design(as_design(np.eye(3)), tmp_path / "block")
    Owner.create(tmp_path / "owner").note("a request of 3 rows")
    for name in ("store", "block"):
        assert_private(tmp_path / name)
    found = modes(tmp_path / "owner")
    assert not any(mode & 0o077 for mode in found.values())
    assert {path.name for path in found} >= {"audit.log", "keys.json", "rules.toml", "peers"}


def test_temporary_folders_are_private(tmp_path):
    scratch = ScratchFolder(tmp_path)
    assert_private(scratch.path)
    scratch.cleanup()


def test_cohorts_and_exact_results_are_private_at_every_moment(tmp_path):
    pytest.importorskip("duckdb")
    from steropes.studies.cohorts.cohort_table import CohortTable
    from steropes.studies.execution.result_store import ResultStore
    from steropes.studies.strategus.cohort_generation import write_cohort_table

    day = np.array(["2020-01-01"], "datetime64[D]")
    table = CohortTable(np.array([1]), np.array([7]), day, day, names={1: "users"})
    folder = private_folder(tmp_path / "out")
    write_cohort_table(folder / "cohorts.duckdb", table)
    assert_private(folder)
    columns, keys = {"t": {"a": "BIGINT"}}, {"t": ("a",)}
    with ResultStore(folder / "results.duckdb", "x", columns, keys) as store:
        assert stat.S_IMODE((folder / "results.duckdb").stat().st_mode) == 0o600
        store.add("step", {"t": [{"a": 1}]})
        store.finish()
    assert_private(folder)
    (folder / "results.duckdb").chmod(0o644)  # of an earlier version
    with ResultStore(folder / "results.duckdb", "x", columns, keys):
        assert_private(folder)


def test_results_that_others_could_have_written_are_not_continued(tmp_path, monkeypatch):
    pytest.importorskip("duckdb")
    from steropes.studies.execution.result_store import ResultStore

    def opened(path):
        return ResultStore(path, "x", {"t": {"a": "BIGINT"}}, {"t": ("a",)})

    path = tmp_path / "results.duckdb"
    opened(path).close()
    path.chmod(0o660)
    with pytest.raises(DataError, match="chmod go-w"):
        opened(path)
    path.chmod(0o600)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(DataError, match="symbolic link"):
        opened(tmp_path / "link")
    (tmp_path / "nowhere").symlink_to(tmp_path / "made")
    with pytest.raises(DataError, match="symbolic link"):
        opened(tmp_path / "nowhere")
    assert not (tmp_path / "made").exists()
    monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(DataError, match="belongs to another user"):
        opened(path)
    with pytest.raises(DataError, match="belongs to another user"):
        refuse_foreign(tmp_path, tmp_path.lstat(), stat.S_ISDIR)


def test_the_log_of_a_store_is_private_in_a_folder_that_others_can_enter(tmp_path):
    """DuckDB creates it with the first change, and anew after it has written the changes."""
    from steropes.studies.execution.result_store import ResultStore

    tmp_path.chmod(0o755)
    (tmp_path / "thesis.tex").touch()
    path = tmp_path / "results.duckdb"
    with ResultStore(path, "x", {"t": {"a": "BIGINT"}}, {"t": ("a",)}) as store:
        for step in range(3):
            store.add(str(step), {"t": [{"a": step}]})
            log = path.with_name("results.duckdb.wal")
            assert stat.S_IMODE(log.stat().st_mode) == 0o600
            store._db.execute("CHECKPOINT")
            assert not log.exists()
        assert store.table("t")["a"].tolist() == [0, 1, 2]


def test_reports_have_the_mode_of_the_umask_which_no_thread_sees_changed(tmp_path, mask):
    from steropes.studies.result_files.atomic_files import write_files

    stop, seen = threading.Event(), set()

    def watch():
        while not stop.is_set():
            path = tmp_path / "watched"
            path.touch()
            seen.add(stat.S_IMODE(path.stat().st_mode))
            path.unlink()

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        try:
            for _ in range(50):
                [path] = write_files(tmp_path / "release", {"report.html": "text"})
        finally:
            stop.set()
        watching.result()
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    assert seen <= {0o666 & ~mask}
