"""Find R and its packages, and run a program of this folder."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
from pathlib import Path

__all__ = ["RAbsent", "RTooSlow", "install_packages", "r_versions", "run_r"]

HERE = Path(__file__).parent


class RAbsent(Exception):
    """R or one of its packages cannot be found; the message names which."""


class RTooSlow(Exception):
    """R was stopped at its limit of processor seconds.

    Attributes
    ----------
    printed : str
        What it had printed.
    """

    def __init__(self, message: str, printed: str) -> None:
        super().__init__(message)
        self.printed = printed


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


def install_packages(mirrors: Path, library: Path | None = None, fetch: bool = False) -> None:
    """Build the packages of OHDSI from clones of their repositories, on Debian.

    Parameters
    ----------
    mirrors : Path
        Folder with a bare clone ``OWNER+NAME/repo`` of each repository.
    library : Path, optional
        R library to install into. Default: the first of R's own.
    fetch : bool
        Whether absent clones are made from GitHub.

    Raises
    ------
    RAbsent
        If the clones or the programs that build them are absent, or a package does not build.
    """
    absent = [name for name in ("bash", "git", "apt-get") if shutil.which(name) is None]
    if absent:
        raise RAbsent(f"R's packages cannot be built: there is no {' and no '.join(absent)}")
    if not (fetch or any(mirrors.glob("*+*/repo"))):
        raise RAbsent(f"{mirrors} has no clones OWNER+NAME/repo; make them, or add --fetch")
    arguments = [str(mirrors), *([] if library is None else [str(library)])]
    done = subprocess.run(
        ["bash", str(HERE / "install.sh"), *arguments],
        check=False,
        env={**os.environ, **({"FETCH": "1"} if fetch else {})},
    )
    if done.returncode:
        raise RAbsent("R's packages could not be built; the lines above have the reason")


def run_r(script: str, *arguments: str | Path, limit: float = math.inf) -> str:
    """Run a script of this folder with one thread, and return what it printed.

    Parameters
    ----------
    script : str
    *arguments : str or Path
    limit : float
        Processor seconds after which it is stopped. Default: it is not.

    Raises
    ------
    RAbsent
        If R is not installed.
    RTooSlow
        If it was stopped.
    RuntimeError
        If the script failed, with the last lines of its messages.
    """
    program = shutil.which("Rscript")
    if program is None:
        raise RAbsent("R is not installed: there is no Rscript on the path")
    called = [program, str(HERE / script), *map(str, arguments)]
    if math.isfinite(limit):
        called = ["bash", "-c", f'ulimit -t {math.ceil(limit)}; exec "$@"', "bash", *called]
    done = subprocess.run(
        called,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL) and math.isfinite(limit):
        raise RTooSlow(f"{script} was stopped after {limit:,.0f} processor seconds", done.stdout)
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-12:])
        raise RuntimeError(f"{script} ended with status {done.returncode}:\n{last}")
    return done.stdout
