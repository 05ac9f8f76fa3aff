"""What a fit is given beside X, until it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..data import refuse_other_order
from ..errors import DataError

__all__ = ["FitInputs"]


@dataclass(frozen=True)
class FitInputs:
    """Outcome and vectors, a value a row of X each, as the user holds them.

    Attributes
    ----------
    y
        Outcome; what it may be is the model's to say.
    sample_weight, offset, exposure, strata
        As of ``fit``, or None.
    """

    y: Any
    sample_weight: Any = None
    offset: Any = None
    exposure: Any = None
    strata: Any = None

    def refuse_other_order(self, X: Any) -> None:
        """Refuse rows that are labelled in another order than X's, or each other's."""
        vectors = {
            "sample_weight": self.sample_weight, "offset": self.offset,
            "exposure": self.exposure, "strata": self.strata,
        }  # fmt: skip
        refuse_other_order(X, y=self.y, **vectors)
        refuse_other_order(self.y, "y", **vectors)  # where X has no labels

    def refuse_extras(self, model: Any, *names: str) -> None:
        """Refuse those of these that the model has no use for, instead of ignoring them."""
        for name in names:
            if getattr(self, name) is not None:
                raise DataError(f"{type(model).__name__} has no use for {name}; leave it out.")
