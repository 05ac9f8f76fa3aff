"""The settings type of a concept id, which is validated."""

from __future__ import annotations

from typing import Annotated, Any

from steropes.designs.settings.validated_types import LARGEST, Whole

__all__ = ["ConceptId", "ConceptIdNumber"]


class ConceptIdNumber(Whole):
    """The id of a concept or of a cohort that stands in its place."""

    def check(self, value: Any) -> int:
        """Return a value as an int, or raise ValueError with the requirement."""
        if isinstance(value, str):
            raise ValueError(
                f"must be a concept id, a whole number such as 1118084, not {value!r}; "
                "look up the id of a name in the table concept, or by steropes concepts"
            )
        try:
            return super().check(value)
        except ValueError:
            raise ValueError(
                f"must be a concept id, a whole number from 1 to {LARGEST}, not {value!r}"
            ) from None


ConceptId = Annotated[int, ConceptIdNumber(1)]
