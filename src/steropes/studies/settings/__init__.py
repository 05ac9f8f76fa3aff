"""Settings of all designs: validated types, classes, readers, schemas and protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steropes.studies._optional_packages import lazy_names

if TYPE_CHECKING:  # the same names for editors and type checkers
    from .frozen_protocol import ProtocolStatement

__all__ = [
    "ProtocolStatement",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "frozen_protocol": ["ProtocolStatement"],
        },
    )
