"""Diagnostics that decide whether an estimate may be shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steropes.studies._optional_packages import lazy_names

if TYPE_CHECKING:  # the same names for editors and type checkers
    from .comparative_diagnostics import Diagnostics, DiagnosticThresholds

__all__ = [
    "DiagnosticThresholds",
    "Diagnostics",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "comparative_diagnostics": ["DiagnosticThresholds", "Diagnostics"],
        },
    )
