"""Imports of optional packages, with an error that names the command to install them."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["MissingExtraError", "need"]


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
