"""A process that runs stages, one after another; `workers` starts and watches it.

It reads a request from each line of its standard input and writes records in lines of JSON. A
record with ``partial`` says how far a stage is, for the case that the process is ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import traceback
import warnings
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

__all__ = ["main"]

PACKAGES = ("torch", "triton", "numpy", "numba")


def versions() -> dict[str, str]:
    """Return versions of packages, and the names of the device and the host's processor."""
    out = {}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            out[name] = version(name)
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        out["host"] = next((x.split(":")[1].strip() for x in file if "model name" in x), "")
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        out["device"] = torch.cuda.get_device_name()
    return out


def answer(request: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Run a stage and return its record; an exception becomes a failure."""
    options, start = Namespace(**request), time.perf_counter()

    def partial(**record: Any) -> None:
        say({"stage": options.stage, "partial": True, **record})

    try:
        module, _, name = options.run.partition(":")
        # Names with a dot are of other packages, as those of tests.
        package = "benchmarks.gpu." if "." not in module else ""
        record = getattr(import_module(package + module), name)(options, partial)
    except Exception as error:
        traceback.print_exc()
        record = {"ok": False, "error": f"{type(error).__name__}: {error}"[:500]}
    took = round(time.perf_counter() - start, 3)
    return {"stage": options.stage, **record, "took": took, "versions": versions()}


def main() -> None:
    """Answer requests until the input ends."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Anything that is printed goes to the messages.
    warnings.simplefilter("ignore")

    def say(record: dict[str, Any]) -> None:
        print(json.dumps(record), file=out, flush=True)

    for line in sys.stdin:
        say(answer(json.loads(line), say))


if __name__ == "__main__":
    main()
