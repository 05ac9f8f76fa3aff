"""Stored fits are data: reading a folder runs nothing and trusts nobody else's files."""

import os
import pickle

import joblib
import numpy as np
import pytest

import steropes
from steropes import DataError


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def call(tmp_path):
    rng = np.random.default_rng(0)
    X, outcomes = rng.normal(size=(60, 2)), {"a": rng.integers(0, 2, 60), "b": [1] * 60}

    def run(store=tmp_path / "store"):
        return steropes.fit_many(steropes.LogisticRegression(), X, outcomes, store=store)

    return run


def test_a_folder_gives_the_same_table(call, tmp_path):
    first, again = call(), call()
    assert first["note"].str.len().gt(0).any()  # of the outcome that cannot be fitted
    assert first.equals(again)
    assert {file.suffix for file in (tmp_path / "store").iterdir()} == {".npz"}
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("how", ["pickle", "joblib", "object array"])
def test_a_planted_file_runs_nothing(call, tmp_path, how):
    call()
    target = tmp_path / "executed"
    for file in (tmp_path / "store").iterdir():
        if how == "pickle":
            file.write_bytes(pickle.dumps(Payload(target)))
        elif how == "joblib":
            with file.open("wb") as stream:
                joblib.dump(Payload(target), stream)
        else:
            np.savez(file, facts=np.array([Payload(target)], object))
    with pytest.raises(DataError, match="remove it"):
        call()
    assert not target.exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a zip archive"])
def test_a_damaged_file_is_named(call, tmp_path, content):
    call()
    for file in (tmp_path / "store").iterdir():
        file.write_bytes(content)
    with pytest.raises(DataError, match=r"\.npz .*remove it"):
        call()


def test_links_and_what_others_can_write_are_refused(call, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(DataError, match="symbolic link"):
        call(tmp_path / "link")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o770)
    with pytest.raises(DataError, match="chmod go-w"):
        call(tmp_path / "open")
    call()
    (file, *_) = (tmp_path / "store").iterdir()
    file.chmod(0o666)
    with pytest.raises(DataError, match="chmod go-w"):
        call()
    file.rename(tmp_path / "moved.npz")
    file.symlink_to(tmp_path / "moved.npz")
    with pytest.raises(DataError, match="cannot be read"):
        call()


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs another user")
def test_a_folder_of_another_user_is_refused(call, tmp_path):
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 65534, 65534)
    with pytest.raises(DataError, match="belongs to another user"):
        call(tmp_path / "theirs")


def test_a_bootstrap_with_chosen_variances_is_stored(tmp_path):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    cv = steropes.CrossValidation(3, search=[0.1, 1.0], random_state=1)
    model = steropes.LogisticRegression(prior=steropes.Laplace(), cv=cv).fit(X, y)
    first, again = (
        model.inference.bootstrap(4, reselect=True, random_state=1, store=tmp_path / "s")
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.coef, again.coef)
    np.testing.assert_array_equal(first.variance, again.variance)
