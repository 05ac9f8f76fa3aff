"""Names of the two cohorts of a comparison."""

from __future__ import annotations

__all__ = ["ARMS", "TREATED_ARMS"]

ARMS = ("target", "comparator")
# The values of the column ``treated`` with the arms that they mean.
TREATED_ARMS = ((1, "target"), (0, "comparator"))
