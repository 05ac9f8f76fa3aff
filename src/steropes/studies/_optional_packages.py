"""Imports of optional packages, with an error that names the command to install them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

__all__ = ["MissingExtraError", "lazy_names", "need"]


class MissingExtraError(ImportError):
    """A package of an extra, such as ``steropes[study]``, is not installed."""


def need(module: str, extra: str = "study") -> ModuleType:
    """Import a module; if its package or pydantic is missing, name the command that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in (module.partition(".")[0], "pydantic"):
            raise
        what = "studies need" if extra == "study" else f"{extra} needs"
        raise MissingExtraError(
            f'{what} the package {error.name}: pip install "steropes[{extra}]"', name=error.name
        ) from None


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose names are imported when used.

    Parameters
    ----------
    package : str
        Dotted name of the package.
    homes : mapping of str to sequence of str
        The names that each module of the package defines.
    """
    home = {name: module for module, names in homes.items() for name in names}

    def getattr_of_package(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(need(f"{package}.{home[name]}"), name)

    return getattr_of_package, lambda: sorted(home)
