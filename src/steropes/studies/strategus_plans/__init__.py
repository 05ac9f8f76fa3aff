"""Plans of Strategus and ATLAS specifications: modules that run, and differences from R."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steropes.studies._optional_packages import lazy_names

if TYPE_CHECKING:  # the same names for editors and type checkers
    from .specification_plan import SpecificationPlan

__all__ = [
    "SpecificationPlan",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "specification_plan": ["SpecificationPlan"],
        },
    )
