"""Fixtures that every room's tests share; `simulators` and `reference` hold the functions."""

from __future__ import annotations

import gc
import math
import os
import zlib
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import settings

from device_use import DeviceUse
from steropes.backends import get_backend
from steropes.fit.shards.local_blocks import LocalBlocks

# The same examples on every run: a failure is a change of the code, not of the dice.
settings.register_profile("steropes", derandomize=True, deadline=None)
settings.load_profile("steropes")


# The default run of a test marked as `sampled` has this part of a list of cases, at least two.
# All cases took a third of the processor time of all tests.
PART = 1 / 4
# The modules that create the backend of a fit.
WITH_DEVICES = (
    "models.fitting.fit_steps",
    "models.cumulative.cumulative_probability_model",
    "fit.shards.row_block",
)


def pytest_addoption(parser):
    parser.addoption(
        "--device",
        default="cpu",
        choices=["cpu", "torch-cpu", "cuda"],
        help="device of all fits for which a test chooses none",
    )


def pytest_configure(config):
    """Count the tests that fit on another device than the CPU."""
    # Threads of PyTorch that wait for each other keep a core busy, which another worker needs.
    # Workers and programs inherit the limit before they import anything.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    chosen = config.getoption("--device")
    if chosen != "cpu":
        config.pluginmanager.register(DeviceUse(chosen), "device_use")
    DeviceUse.name_in_torch = "cuda" if chosen == "cuda" else "cpu"


@pytest.fixture(scope="session", autouse=True)
def default_device(request):
    """Let device="torch-cpu" mean that of --device, and "cpu" too unless a test compares both."""
    use = request.config.pluginmanager.get_plugin("device_use")
    if use is None:
        yield
        return

    def other_backend(device="cpu", n_jobs=None, work=0.0):
        if device == "torch-cpu" or (device == "cpu" and not use.compares):
            use.record()
            device = use.device
        return get_backend(device, n_jobs, work)

    created = LocalBlocks.__init__

    def without_device(self, *arguments, **named):
        created(self, *arguments, **named)
        if not use.compares:
            self.device = None  # so that a fit chooses one for its blocks too

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalBlocks, "__init__", without_device)
        for module in WITH_DEVICES:
            patch.setattr(f"steropes.{module}.get_backend", other_backend)
        yield


@pytest.fixture(autouse=True)
def memory_of_device(request):
    """Let tests on PyTorch's CPU device fail where a GPU would, at tensors of the host."""
    chosen = request.config.getoption("--device")
    compared = chosen == "cpu" and request.node.get_closest_marker("both_devices")
    if chosen != "torch-cpu" and not compared:
        yield
        return
    from separate_memories import SeparateMemories

    with SeparateMemories():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Leave modules and tests, which are never garbage, out of all collections of garbage."""
    gc.disable()
    collected = yield
    gc.freeze()
    gc.enable()
    return collected


def _mark_cases_as_slow(items):
    """Leave each value of crossed parameters, and a part of a list of cases, in the default run."""
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            cases[item.nodeid.split("[")[0]].append(item)
    for of_test in cases.values():
        # In an order that depends on the names alone, so that the cases are scattered.
        of_test.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        crossed = sum(1 for _ in of_test[0].iter_markers("parametrize")) > 1
        kept, seen = max(2, math.ceil(PART * len(of_test))), set()
        for number, item in enumerate(of_test):
            values = {(name, id(value)) for name, value in item.callspec.params.items()}
            if values <= seen if crossed else number >= kept:
                item.add_marker("slow")
            seen |= values


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark cases as slow, and leave out those that another device does not concern."""
    _mark_cases_as_slow(items)
    device = config.getoption("--device")
    if device == "cpu":
        return
    # Comparisons of the CPU with torch-cpu are the same without the option.
    absent = {"host"} | ({"both_devices"} if device == "torch-cpu" else set())
    out = [item for item in items if any(item.get_closest_marker(name) for name in absent)]
    config.hook.pytest_deselected(items=out)
    left = set(out)
    items[:] = [item for item in items if item not in left]


@pytest.fixture
def rng():
    return np.random.default_rng(20240901)


@pytest.fixture
def eager_threads(monkeypatch):
    """Chunks go to threads however short they are, as only those of large data do."""
    for least in ("FEW", "LONG"):
        monkeypatch.setattr(f"steropes.backends.thread_pool.{least}", 0)
