"""Import what the optional extra brings, or say how to install it."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["MissingExtraError", "need"]


class MissingExtraError(ImportError):
    """A package of the extra ``steropes[study]`` is not installed."""


def need(module: str) -> ModuleType:
    """Import ``module``; without it raise an error that names the command that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise MissingExtraError(
            f'studies need the package {error.name}: pip install "steropes[study]"', name=error.name
        ) from None
