"""Checks of correctness: kernels, every family against the CPU, and tests on the device."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["families", "kernels", "suite"]

# Files of tests that fit on the device, or compare it with the CPU: profiles, robust covariances,
# residuals, bootstrap draws, curves, many outcomes, blocks of rows, and quadratic models.
TESTS = (
    "tests/models/test_devices.py", "tests/solve/test_device_minimiser.py",
    "tests/infer/test_covariance.py", "tests/infer/test_bootstrap.py",
    "tests/models/test_residuals.py", "tests/shards/test_shards.py",
)  # fmt: skip
OUTCOME = re.compile(r"\b(PASSED|FAILED|ERROR) \S+::|^\S+::.* (PASSED|FAILED|ERROR)")


def _check(
    cases: Iterable[tuple[str, Callable[[], list[str]]]], say: Callable[..., None]
) -> dict[str, Any]:
    """Run cases, each of which lists what it found; an exception is a finding too."""
    differences: list[str] = []
    done = 0
    for name, check in cases:
        try:
            differences += check()
        except Exception as error:
            traceback.print_exc()
            differences.append(f"{name}: {type(error).__name__}: {error}"[:300])
        done += 1
        say(cases=done, differences=differences)
    return {"ok": not differences, "cases": done, "differences": differences}


def kernels(options: Namespace, say: Callable[..., None]) -> dict[str, Any]:
    """Compare kernels with their twins; on the CPU, in Triton's interpreter."""
    if options.device == "torch-cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
    from steropes.backends.pytorch.kernels.triton_or_pytorch_choice import tl

    if tl is None:
        return {"ok": options.device == "torch-cpu", "error": "Triton is not installed"}
    from .kernel_cases import failures, kernel_cases

    device = "cpu" if options.device == "torch-cpu" else options.device
    n, lanes = (48, (1, 3)) if options.small else (20_000, (1, 10, 100))
    cases = kernel_cases(device, n, lanes)
    return _check(((case.name, partial(failures, case, 3)) for case in cases), say)


def families(options: Namespace, say: Callable[..., None]) -> dict[str, Any]:
    """Fit every family on the device and on the CPU."""
    from .. import device_check

    n, p, density = (60, 4, 0.4) if options.small else (20_000, 40, 0.1)
    given = Namespace(n=n, p=p, density=density, device=options.device)
    chosen = [
        case
        for family in device_check.FAMILIES
        for case in device_check.cases(family)[::9]
        if case.family == family
    ]

    def differences(case: device_check.Case) -> list[str]:
        row, good = device_check.compare(case, given, 1.0)
        return [] if good else [" | ".join(row[:5])]

    own = chosen[options.part :: options.parts]
    return _check(((str(case), partial(differences, case)) for case in own), say)


def suite(options: Namespace, say: Callable[..., None]) -> dict[str, Any]:
    """Run `TESTS` on the device, in six processes where pytest-xdist is installed."""
    if find_spec("pytest") is None:
        return {"ok": False, "error": "pytest is not installed"}
    count = min(6, options.threads)
    several = ["-n", str(count), "--dist", "worksteal"] if find_spec("xdist") else []
    tests = TESTS[1:2] if options.small else TESTS
    # Without the option, comparisons with the CPU use PyTorch's CPU device.
    device = ["--device", "cuda"] if options.device == "cuda" else []
    # The settings of the repository have a -q, so that -vv prints the name of each test.
    command = [
        sys.executable, "-m", "pytest", *device, "-vv", "-rfE", "--tb=short", "--no-header",
        "-p", "no:cacheprovider", "-o", "filterwarnings=default", *several, *tests,
    ]  # fmt: skip
    cases, differences, summary = 0, [], False
    run = partial(subprocess.Popen, stdout=subprocess.PIPE, stderr=sys.stderr, text=True)
    with run(command, cwd=Path(__file__).resolve().parents[2]) as done:
        for line in done.stdout or ():
            sys.stderr.write(line)
            summary |= "short test summary" in line  # Which repeats failures with their messages.
            found = OUTCOME.search(line.strip())
            if summary and line.startswith(("FAILED", "ERROR")):
                differences.append(line.strip()[:300])
            elif found and not summary:
                cases += 1
                failed = "PASSED" not in found.groups()
                say(cases=cases, **({"last failure": line.strip()[:300]} if failed else {}))
    code = done.returncode
    error = {} if code in (0, 1) else {"error": f"pytest ended with status {code}"}
    return {"ok": code == 0, "cases": cases, "differences": differences, **error}
