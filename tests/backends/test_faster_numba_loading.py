"""What Numba knows is loaded once, and Python's garbage collector is left as it was."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from contextlib import suppress

import pytest

from steropes.backends.cpu.compilation import faster_numba_loading

PROGRAM = """
import gc
from numba.core.registry import cpu_target
from steropes.backends.cpu import CpuBackend
from steropes.backends.cpu.compilation import faster_numba_loading

count = []
refresh = cpu_target.target_context.refresh
def counted():
    count.append(gc.isenabled())
    refresh()
cpu_target.target_context.refresh = counted
{before}
CpuBackend(1)
first = len(count)
CpuBackend(1)
print(first > 0, len(count) == first, any(count), gc.isenabled())
"""


@pytest.mark.parametrize(("before", "after"), [("", True), ("gc.disable()", False)])
def test_a_first_backend_loads_it_without_collections_and_a_second_does_not(
    before: str, after: bool
) -> None:
    program = PROGRAM.format(before=before)
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "0"},
    )  # fmt: skip
    assert answer.stdout.strip() == f"True True False {after}"


def test_collections_are_back_after_an_error() -> None:
    assert gc.isenabled()
    meanwhile = []
    with suppress(RuntimeError), faster_numba_loading.without_collection():
        meanwhile.append(gc.isenabled())
        raise RuntimeError
    assert meanwhile == [False]
    assert gc.isenabled()


COMPILED = """
import gc
from numba import njit
from numba.core import event
from steropes.backends.cpu import CpuBackend

CpuBackend(1)
seen = []

class Look(event.Listener):
    def on_start(self, compiling):
        seen.append(gc.isenabled())
    def on_end(self, compiling):
        pass

event.register("numba:compile", Look())

def kernel(x):
    return inner(x) + 1

@njit
def inner(x):
    return 2 * x

for module, argument in (
    ("steropes.kernels", 1), ("steropes.kernels", "two"), ("another.kernels", 1)
):
    seen.clear()
    inner.py_func.__module__ = kernel.__module__ = module
    try:
        njit(kernel)(argument)
    except Exception:
        print("refused", end=" ")
    print(len(seen) > 0, any(seen), gc.isenabled())
"""


@pytest.mark.slow
def test_kernels_of_this_library_are_compiled_without_collections() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", COMPILED], capture_output=True, text=True, check=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "0"},
    )  # fmt: skip
    assert answer.stdout.splitlines() == [
        "True False True",
        "refused True False True",
        "True True True",
    ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_child_of_a_process_that_has_stopped_them_collects() -> None:
    program = (
        "import gc, os\n"
        "from steropes.backends.cpu.compilation import faster_numba_loading\n"
        "with faster_numba_loading.without_collection():\n"
        "    if os.fork() == 0:\n"
        "        os._exit(gc.isenabled())\n"
        "    status = os.waitstatus_to_exitcode(os.wait()[1])\n"
        "    print(status, gc.isenabled())\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == ["1", "False"]
