"""No kernel reads or writes out of bounds, or reads what nobody wrote."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
def test_kernels_as_plain_python():
    """Runs them in a process of its own: the compiler must be off before the import."""
    files = [str(HERE / name) for name in ("interpreted.py", "test_coordinate_descent.py")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *files],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=HERE.parent.parent,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
