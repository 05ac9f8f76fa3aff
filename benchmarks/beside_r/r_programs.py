"""Find R and its packages, and run a program of this folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["RAbsent", "r_versions", "run_r"]

HERE = Path(__file__).parent


class RAbsent(Exception):
    """R or one of its packages cannot be found; the message names which."""


def r_versions(*packages: str) -> dict[str, str]:
    """Versions of R's packages.

    The library is R's own, or the folder that the environment variable ``R_LIBS`` names.

    Raises
    ------
    RAbsent
        If R is not installed, or one of the packages is not.
    """
    program = shutil.which("Rscript")
    if program is None:
        raise RAbsent("R is not installed: there is no Rscript on the path")
    names = ", ".join(f'"{name}"' for name in packages)
    code = (
        f"for (p in c({names})) cat(p, if (requireNamespace(p, quietly = TRUE)) "
        'as.character(packageVersion(p)) else "", "\\n")'
    )
    done = subprocess.run([program, "-e", code], capture_output=True, text=True, check=False)
    lines = [line.split() for line in done.stdout.splitlines()]
    found = {line[0]: line[1] for line in lines if len(line) == 2}
    absent = [name for name in packages if name not in found]
    if absent:
        raise RAbsent(
            f"R has no package {', '.join(absent)}: install it, or name the library that has it in "
            "the environment variable R_LIBS"
        )
    return found


def run_r(script: str, *arguments: str | Path, timeout: float | None = None) -> str:
    """Run a script of this folder with one thread, and return what it printed.

    Raises
    ------
    RAbsent
        If R is not installed.
    RuntimeError
        If the script failed, with the last lines of its messages.
    """
    program = shutil.which("Rscript")
    if program is None:
        raise RAbsent("R is not installed: there is no Rscript on the path")
    done = subprocess.run(
        [program, str(HERE / script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-12:])
        raise RuntimeError(f"{script} ended with status {done.returncode}:\n{last}")
    return done.stdout
