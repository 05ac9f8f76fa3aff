"""Temporary folders go with their process, even if it is killed."""

import os
import signal
import subprocess
import sys

import pytest

from steropes.studies import OmopDatabase
from steropes.studies.database.temporary_folder import ScratchFolder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="locks of POSIX")

HOLD = """
import sys, time
from steropes.studies.database.temporary_folder import ScratchFolder
folder = ScratchFolder(sys.argv[1])
(folder.path / "spilled").write_text("people")
print(folder.path, flush=True)
time.sleep(60)
"""


@pytest.fixture
def process(tmp_path):
    """Another process that holds a folder: (process, folder)."""
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    yield other, type(tmp_path)(other.stdout.readline().strip())
    other.kill()
    other.wait()
    other.stdout.close()


def test_a_killed_process_s_folder_goes_when_the_next_begins(tmp_path, process):
    other, left = process
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert (left / "spilled").exists()
    ScratchFolder(tmp_path).cleanup()
    assert list(tmp_path.iterdir()) == []


def test_a_living_process_keeps_its_folder(tmp_path, process):
    _, theirs = process
    mine = ScratchFolder(tmp_path)
    another = ScratchFolder(tmp_path)
    assert (theirs / "spilled").exists()
    assert mine.path.exists()
    for folder in (mine, another):
        folder.cleanup()
        folder.cleanup()
    assert list(tmp_path.iterdir()) == [theirs]


def test_folders_of_others_are_left_alone(tmp_path):
    (tmp_path / "steropes-notes").mkdir()
    (tmp_path / "steropes-demo").mkdir()
    (tmp_path / "steropes-demo" / "report.html").touch()
    ScratchFolder(tmp_path).cleanup()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_database_leaves_no_folder(omop, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    path = omop.write()
    with OmopDatabase(path):
        assert len(list((tmp_path / "tmp").iterdir())) == 1
    with pytest.raises(ValueError, match="no tables in schema"):
        OmopDatabase(path, "elsewhere")
    assert list((tmp_path / "tmp").iterdir()) == []
