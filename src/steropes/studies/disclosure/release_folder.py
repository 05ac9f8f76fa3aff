"""The folder ``release``: files that may leave a site, with a manifest and the rules applied."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.result_files.atomic_files import write_files
from steropes.version import __version__

__all__ = ["EXACT_NOTE", "MANIFEST", "RELEASE", "released_rules", "write_release"]

RELEASE, MANIFEST = "release", "manifest.json"
EXACT_NOTE = "EXACT-DO-NOT-RELEASE.txt"
EXACT_TEXT = (
    "The files in this folder hold exact numbers, some of them of single people.\n"
    "Only the folder release may leave the site: disclosure control has been applied to it.\n"
)


def write_release(
    folder: str | Path,
    texts: Mapping[str, str | bytes],
    rules: DisclosureRules,
    *,
    add: bool = False,
    exact: bool = False,
) -> list[Path]:
    """Write the files that may be released, all of them or none, and list them in a manifest.

    Where the folder holds an earlier release with other numbers, the manifest lists the checksum of
    its manifest under ``earlier``: if that release has left the site, numbers can be subtracted.

    Parameters
    ----------
    folder : str or Path
        The files go into its folder ``release``.
    texts : mapping of str to str or bytes
        By name, which may have a folder before it.
    rules : DisclosureRules
        Disclosure rules that have been applied to them.
    add : bool, default False
        Keep the files of an earlier release by the same rules. Otherwise those that this one does
        not have are removed.
    exact : bool, default False
        Exact results are in ``folder``; a note there states it.

    Returns
    -------
    list of Path
        Of the texts, in their order.

    Raises
    ------
    DataError
        The folder cannot be written to.
    """
    folder = Path(folder)
    into = folder / RELEASE
    earlier = _earlier(into)
    kept = earlier.files if add and earlier.rules == rules.record() else {}
    gone = [into / name for name in earlier.files if name not in {*texts, *kept}]
    files = kept | {
        name: hashlib.sha256(t if isinstance(t, bytes) else t.encode()).hexdigest()
        for name, t in texts.items()
    }
    manifest = {
        "software": {"name": "steropes", "version": __version__},
        "disclosure": rules.record(),
        "files": dict(sorted(files.items())),
        "earlier": earlier.before(files, rules),
    }
    text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    written = write_files(into, {**texts, MANIFEST: text}, gone)
    if exact:
        write_files(folder, {EXACT_NOTE: EXACT_TEXT})
    return written[:-1]


def released_rules(path: Path, folder: Path | None = None) -> str | None:
    """Find the rules of a released file in a manifest; None if not known.

    Parameters
    ----------
    folder : Path, optional
        The folder of the manifest. Default: the folder of the file.
    """
    folder = path.parent if folder is None else folder
    found = _earlier(folder)
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
    place = path.relative_to(folder).as_posix()
    if found.files.get(place) != digest or not isinstance(found.rules, dict):
        return None
    name, least = found.rules.get("rules"), found.rules.get("min_cell")
    if name == "none":
        return "none"
    return f"{name}, smallest count {least}" if isinstance(name, str) else None


@dataclass(frozen=True)
class _Release:
    """The contents of a manifest."""

    rules: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    digest: str = ""
    earlier: list[str] = field(default_factory=list)

    def before(self, files: Mapping[str, str], rules: DisclosureRules) -> list[str]:
        """List the checksums of manifests of earlier releases that differ from this one."""
        same = all(files.get(name) == digest for name, digest in self.files.items())
        if not self.files or (same and self.rules == rules.record()):
            return self.earlier
        return [*self.earlier, self.digest]


def _earlier(folder: Path) -> _Release:
    """Read the release in a folder; an empty one if there is none that can be read."""
    try:
        content = (folder / MANIFEST).read_bytes()
        values = json.loads(content)
        earlier = [str(x) for x in values.get("earlier", [])]
        files = {str(k): str(v) for k, v in values["files"].items()}
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return _Release()
    inside = {
        name: digest
        for name, digest in files.items()
        if not PurePosixPath(name).is_absolute() and ".." not in PurePosixPath(name).parts
    }
    digest = hashlib.sha256(content).hexdigest()
    return _Release(values.get("disclosure", {}), inside, digest, earlier)
