"""Kernels are kept where something can be written, and compiled in each process elsewhere."""

import os
import stat

import pytest

from steropes.backends import kernel_cache


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """Make Numba find no folder of its own: the package is read-only and there is no home."""
    tried = []

    def can_cache():
        tried.append(kernel_cache.config.CACHE_DIR)
        return bool(kernel_cache.config.CACHE_DIR)

    monkeypatch.setattr(kernel_cache, "_can_cache", can_cache)
    monkeypatch.setattr(kernel_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(kernel_cache.config, "CACHE_DIR", "")
    return tmp_path


def test_without_a_writable_package_or_home_kernels_go_to_a_private_folder(nowhere):
    assert kernel_cache._prepare()
    folder = os.lstat(kernel_cache.config.CACHE_DIR)
    assert os.path.dirname(kernel_cache.config.CACHE_DIR) == str(nowhere)
    assert stat.S_IMODE(folder.st_mode) == 0o700


def test_without_any_writable_folder_kernels_are_not_kept(nowhere, monkeypatch):
    monkeypatch.setattr(kernel_cache.tempfile, "gettempdir", lambda: str(nowhere / "none"))
    assert not kernel_cache._prepare()
    assert kernel_cache.config.CACHE_DIR == ""


@pytest.mark.parametrize("planted", ["link", "open to others"])
def test_a_folder_that_others_can_write_to_is_not_used(nowhere, planted):
    folder = nowhere / f"steropes-kernels-{os.getuid()}"
    if planted == "link":
        (nowhere / "elsewhere").mkdir()
        folder.symlink_to(nowhere / "elsewhere")
    else:
        folder.mkdir()
        folder.chmod(0o777)
    assert not kernel_cache._prepare()
