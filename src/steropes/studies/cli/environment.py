"""The environment for bug reports: versions, threads, the graphics processor, missing packages.

It contains nothing about databases and no names of users or machines.
"""

from __future__ import annotations

import platform
import re
from importlib import metadata

__all__ = ["environment"]

# Extras for developers, which are not listed.
DEVELOPMENT = ("test", "docs", "dev")
NAME = re.compile(r"[A-Za-z0-9._-]+")
EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")


def environment() -> dict[str, str]:
    """Collect the versions of steropes and its dependencies, the threads and the extras.

    Returns
    -------
    dict of str to str
        "steropes", "Python", "system", "threads" and "GPU"; then the version of each package; then
        each extra, such as "extra plots", with "installed" or the missing packages.

    Examples
    --------
    >>> from steropes.studies import environment
    >>> list(environment())[:4]
    ['steropes', 'Python', 'system', 'threads']
    """
    from steropes.backends.pytorch import why_not
    from steropes.backends.thread_pool import count_threads
    from steropes.version import __version__

    why = why_not("cuda")
    found = {
        "steropes": __version__,
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": f"{platform.system()} {platform.machine()}",
        "threads": str(count_threads(None)),
        "GPU": f"not usable: {why}" if why else 'usable (device="cuda")',
    }
    always, extras = _requirements()
    found |= {name: _version(name) or "missing" for name in always}
    for extra, names in extras.items():
        gone = [name for name in names if not _version(name)]
        whole = ", ".join(f"{name} {_version(name)}" for name in names)
        found[f"extra {extra}"] = f"lacks {', '.join(gone)}" if gone else whole
    return found


def _requirements() -> tuple[list[str], dict[str, list[str]]]:
    """Return the packages that are always required, and those of each extra for users."""
    always: list[str] = []
    extras: dict[str, list[str]] = {}
    try:
        lines = metadata.requires("steropes") or []
    except metadata.PackageNotFoundError:  # The source tree is not installed.
        lines = []
    for line in lines:
        named = NAME.match(line)
        if named is None:
            continue
        extra = EXTRA.search(line)
        if extra is None:
            always.append(named[0])
        elif extra[1] not in DEVELOPMENT:
            extras.setdefault(extra[1], []).append(named[0])
    return sorted({*always}), {e: sorted({*n}) for e, n in sorted(extras.items())}


def _version(package: str) -> str:
    """Return the version of a package, or "" if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
