"""Protocols: question and settings of a study, frozen before its outcomes are read."""

from __future__ import annotations

import datetime as dt
import getpass
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from steropes.data.html_representations import FieldsInHtml
from steropes.designs.settings.settings_base_class import Settings
from steropes.errors import DataError
from steropes.studies.result_files.atomic_files import write_files
from steropes.version import __version__

__all__ = [
    "Protocol", "ProtocolStatement", "freeze_protocol", "now_utc", "open_protocol", "read_protocol",
    "user_name", "values_hash",
]  # fmt: skip

FORMAT = 1
# Settings of a site or of its output, which are not part of a protocol.
OF_SITE = ("unblind", "database_id", "schema", "min_cell")


@dataclass(frozen=True)
class ProtocolStatement(FieldsInHtml):
    """The statement of a report on its protocol.

    Attributes
    ----------
    hash : str
        SHA-256 of the frozen part.
    frozen_at, frozen_by, version : str
        Time (UTC), person and version of the software at which it was frozen.
    deviations : tuple of (str, str, str)
        Setting, frozen value and value of the run, of everything that differs.
    unblinded : dict or None
        ``at``, ``by`` and ``why`` of the first run that showed an estimate of interest.

    Examples
    --------
    >>> from steropes.studies.settings import ProtocolStatement
    >>> statement = ProtocolStatement("1f", "2026-11-26 12:00:00 UTC", "Ada", "0.2.0", (), None)
    >>> statement.sentences()[1]
    'Settings and code of this run are those that were frozen.'
    """

    hash: str
    frozen_at: str
    frozen_by: str
    version: str
    deviations: tuple[tuple[str, str, str], ...]
    unblinded: dict[str, str] | None

    def sentences(self) -> list[str]:
        """Describe the protocol and whether the run follows it.

        Returns
        -------
        list of str
            Sentences.
        """
        found = [
            f"The protocol was frozen by {self.frozen_by} at {self.frozen_at} with steropes "
            f"{self.version}, before outcomes were read (SHA-256 {self.hash})."
        ]
        if not self.deviations:
            found.append("Settings and code of this run are those that were frozen.")
        for name, before, now in self.deviations:
            found.append(f"Deviation: {name} is {now}; the protocol has {before}.")
        if self.unblinded is None:
            found.append("No run by this protocol has shown an estimate yet.")
        else:
            u = self.unblinded
            found.append(f"Estimates were first shown to {u['by']} at {u['at']}: {u['why']}.")
        return found


@dataclass(frozen=True)
class Protocol(FieldsInHtml):
    """A frozen protocol and the record of the runs by it.

    Attributes
    ----------
    frozen : dict
        ``design``, ``settings``, ``software``, ``at`` and ``by``.
    runs : tuple of dict
        Runs in their order. Each has the hash of itself and all before it, so that none can be
        changed or removed without notice, except the last ones.

    See Also
    --------
    freeze_protocol : Freeze the settings of a study.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from steropes.studies import DEMO, StudySettings, freeze_protocol
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     protocol = freeze_protocol(Path(folder, "protocol.json"), StudySettings(**DEMO), "Ada")
    >>> protocol.deviations(StudySettings(**DEMO, caliper=0.1))
    (('caliper', '0.2', '0.1'),)
    """

    frozen: dict[str, Any]
    runs: tuple[dict[str, Any], ...] = ()

    @property
    def hash(self) -> str:
        """SHA-256 of the frozen part."""
        return values_hash(self.frozen)

    def deviations(self, settings: Settings) -> tuple[tuple[str, str, str], ...]:
        """List the differences between the protocol and a run with the given settings.

        Parameters
        ----------
        settings : StudySettings or GridSpec
            The settings of the run.

        Returns
        -------
        tuple of (str, str, str)
            Setting, frozen value and value of the run.
        """
        now = _frozen(settings, "", "")
        pairs = [dict(_leaves(part["settings"])) for part in (self.frozen, now)]
        names = list(dict.fromkeys([*pairs[0], *pairs[1]]))
        found = [(n, *(_text(p.get(n)) for p in pairs)) for n in names]
        found += [
            (f"software {name}", *(str(part["software"][name]) for part in (self.frozen, now)))
            for name in ("version", "code")
        ]
        found.insert(0, ("design", self.frozen["design"], now["design"]))
        return tuple((name, a, b) for name, a, b in found if a != b)

    def recorded(self, settings: Settings, by: str | None, unblinded: str) -> Protocol:
        """Return the protocol with one more run.

        Parameters
        ----------
        settings : StudySettings or GridSpec
            The settings of the run.
        by : str, optional
            Who ran it. Default: the name of the user.
        unblinded : str
            Why estimates were shown; "" if none was.

        Returns
        -------
        Protocol
            With the run as its last.
        """
        run: dict[str, Any] = {
            "at": now_utc(),
            "by": by or user_name(),
            "deviations": [list(d) for d in self.deviations(settings)],
            "unblinded": unblinded,
        }
        before = self.runs[-1]["hash"] if self.runs else self.hash
        return replace(self, runs=(*self.runs, {**run, "hash": values_hash([before, run])}))

    def statement(self, settings: Settings) -> ProtocolStatement:
        """Return the statement of a report on a run with the given settings.

        Parameters
        ----------
        settings : StudySettings or GridSpec
            The settings of the run.

        Returns
        -------
        ProtocolStatement
            Whether the run follows the protocol, and who first saw estimates.
        """
        first = next((run for run in self.runs if run["unblinded"]), None)
        shown = first and {"at": first["at"], "by": first["by"], "why": first["unblinded"]}
        f = self.frozen
        deviations = self.deviations(settings)
        version = f["software"]["version"]
        return ProtocolStatement(self.hash, f["at"], f["by"], version, deviations, shown)

    def record(
        self, path: str | Path, settings: Settings, by: str | None, unblinded: str
    ) -> ProtocolStatement:
        """Add a run to the protocol's file.

        Parameters
        ----------
        path : str or Path
            The file.
        settings : StudySettings or GridSpec
            The settings of the run.
        by : str, optional
            Who ran it. Default: the name of the user.
        unblinded : str
            Why estimates were shown; "" if none was.

        Returns
        -------
        ProtocolStatement
            The statement of a report on the run.
        """
        after = self.recorded(settings, by, unblinded)
        after.write(path)
        return after.statement(settings)

    def write(self, path: str | Path) -> None:
        """Write the protocol to a JSON file.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        values = {"format": FORMAT, "frozen": self.frozen, "hash": self.hash, "runs": self.runs}
        text = json.dumps(values, indent=1, ensure_ascii=False) + "\n"
        write_files(Path(path).absolute().parent, {Path(path).name: text})


def freeze_protocol(path: str | Path, settings: Settings, by: str | None = None) -> Protocol:
    """Freeze the settings of a study in a new file, before any data are read.

    Parameters
    ----------
    path : str or Path
        A JSON file that does not exist yet.
    settings : StudySettings or GridSpec
        Question and settings.
    by : str, optional
        Who freezes it. Default: the name of the user.

    Returns
    -------
    Protocol
        The protocol, which is also in the file.

    Raises
    ------
    DataError
        The file exists.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from steropes.studies import DEMO, StudySettings, freeze_protocol
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     protocol = freeze_protocol(Path(folder, "protocol.json"), StudySettings(**DEMO), "Ada")
    >>> protocol.frozen["by"]
    'Ada'
    """
    if Path(path).exists():
        raise DataError(f"{path} is frozen already; a changed study needs another file")
    protocol = Protocol(_frozen(settings, now_utc(), by or user_name()))
    protocol.write(path)
    return protocol


def read_protocol(path: str | Path) -> Protocol:
    """Read a protocol and check that nothing of it was changed.

    Parameters
    ----------
    path : str or Path
        A file of `freeze_protocol`.

    Returns
    -------
    Protocol
        The protocol.

    Raises
    ------
    DataError
        The file is not a protocol, or its content does not have the hashes that it states.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from steropes.studies import DEMO, StudySettings, freeze_protocol, read_protocol
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "protocol.json")
    ...     frozen = freeze_protocol(path, StudySettings(**DEMO), "Ada")
    ...     read_protocol(path) == frozen
    True
    """
    try:
        values = json.loads(Path(path).read_text("utf-8"))
        protocol = Protocol(values["frozen"], tuple(values["runs"]))
        stated, before = values["hash"], protocol.hash
        intact = stated == before and values["format"] == FORMAT
        for run in protocol.runs:
            own = {k: v for k, v in run.items() if k != "hash"}
            before = values_hash([before, own])
            intact &= run["hash"] == before
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"{path} is not a protocol of steropes") from None
    if not intact:
        raise DataError(f"{path} was changed after it was frozen: its content has another hash")
    return protocol


def open_protocol(path: str | Path, settings: Settings, by: str | None = None) -> Protocol:
    """Read the protocol in a file, or freeze the settings in it if there is none."""
    return read_protocol(path) if Path(path).exists() else freeze_protocol(path, settings, by)


def _frozen(settings: Settings, at: str, by: str) -> dict[str, Any]:
    """Return the part of a protocol that is frozen."""
    values = {k: v for k, v in asdict(settings).items() if k not in OF_SITE}
    plain = json.loads(json.dumps(values, default=str))
    software = {"name": "steropes", "version": __version__, "code": _code()}
    return {
        "design": type(settings).__name__,
        "settings": plain,
        "software": software,
        "at": at,
        "by": by,
    }


@cache
def _code() -> str:
    """Hash the source of the package, which distinguishes versions with the same number."""
    root = Path(__file__).parents[2]
    found = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".jinja")):
        found.update(str(path.relative_to(root).as_posix()).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def values_hash(values: object) -> str:
    """Return the SHA-256 of values as JSON without spaces."""
    text = json.dumps(values, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _leaves(values: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables with their dotted names; a list of values is one value."""
    if isinstance(values, list) and any(isinstance(v, Mapping) for v in values):
        values = {str(i + 1): v for i, v in enumerate(values)}
    if not isinstance(values, Mapping) or not values:
        yield place, values
        return
    for name, value in values.items():
        yield from _leaves(value, f"{place}.{name}" if place else str(name))


def _text(value: Any) -> str:
    """Format the value of a setting."""
    return "none" if value in (None, [], {}, "") else str(value)


def now_utc() -> str:
    """Return the time in UTC."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def user_name() -> str:
    """Return the name of the user, as the system knows it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
