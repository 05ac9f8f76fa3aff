"""Errors of names that have moved to another package."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

__all__ = ["refuse_moved"]


def refuse_moved(package: str, name: str, moved: Mapping[str, Sequence[str]]) -> None:
    """Raise an error that names the new place of a name of a package; call it in ``__getattr__``.

    Parameters
    ----------
    package : str
        Dotted name of the package that had the name.
    name : str
        Name that somebody asks for.
    moved : mapping of str to sequence of str
        Packages of steropes, such as ``"designs.effects"``, and the names that moved there.

    Raises
    ------
    AttributeError, ImportError
        The name has moved. ``from package import name`` would hide the message of an
        AttributeError, so it gets the other.
    """
    place = next((place for place, names in moved.items() if name in names), None)
    if place is None:
        return
    importing = sys._getframe(2).f_code.co_name == "_handle_fromlist"
    raise (ImportError if importing else AttributeError)(
        f"module {package!r} has no attribute {name!r}; it is steropes.{place}.{name}"
    )
