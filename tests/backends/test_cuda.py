"""The CUDA backend, end to end in Numba's simulator; and what is said where there is no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

import steropes
from steropes.backends import cuda, get_backend

HERE = Path(__file__).parent
without_gpu = pytest.mark.skipif(cuda.available(), reason="there is a GPU, or the simulator is on")


def test_whole_path_in_the_simulator():
    """Runs `simulated.py`, in a process of its own: the simulator must be on before the import."""
    assert not config.ENABLE_CUDASIM
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(HERE / "simulated.py")],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        cwd=HERE.parent.parent,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_check_for_a_machine_with_a_gpu_runs_in_the_simulator():
    """Some cases of it; a case that differs makes it fail."""
    check = HERE.parent.parent / "benchmarks" / "device_check.py"
    done = subprocess.run(
        [sys.executable, str(check), "--simulate", "--limit", "9"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 differ" in done.stdout


@without_gpu
def test_missing_gpu_is_named_with_the_remedy():
    with pytest.raises(steropes.DataError, match=r"CuPy.*pip install 'steropes\[gpu\]'"):
        steropes.LogisticRegression(device="cuda").fit([[0.0], [1.0], [2.0]], [0, 1, 0])


@without_gpu
def test_auto_takes_the_cpu():
    assert get_backend("auto", 1).name == "cpu"


def test_ccd_is_refused_on_a_device():
    """solver="ccd" is the CPU's; nothing falls back silently."""
    from steropes.solve.cyclic_descent import solve_ccd

    class Problem:
        design = None

        class likelihood:
            class backend:
                name = "cuda"
                on_host = False

    with pytest.raises(steropes.DataError, match="device='cpu'"):
        solve_ccd(Problem, None, None, 1e-8, 1)
