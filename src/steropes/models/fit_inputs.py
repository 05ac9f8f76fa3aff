"""Arguments of ``fit`` with an entry for each row of X."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..data import refuse_other_order
from ..data.input_types import LabelsLike, VectorLike
from ..errors import DataError
from .setting_types import MatrixLike

__all__ = ["FitInputs"]


@dataclass(frozen=True)
class FitInputs:
    """Outcome and vectors as the user passed them to ``fit``, before validation.

    Attributes
    ----------
    y
        Outcome, in a form that depends on the model.
    sample_weight, offset, exposure, strata
        Arguments of ``fit``, or None.
    """

    y: VectorLike
    sample_weight: VectorLike | None = None
    offset: VectorLike | None = None
    exposure: VectorLike | None = None
    strata: LabelsLike | None = None

    def refuse_other_order(self, X: MatrixLike) -> None:
        """Refuse vectors with the row labels of X, or of y, in another order."""
        vectors: dict[str, Any] = {
            "sample_weight": self.sample_weight, "offset": self.offset,
            "exposure": self.exposure, "strata": self.strata,
        }  # fmt: skip
        refuse_other_order(X, y=self.y, **vectors)
        refuse_other_order(self.y, "y", **vectors)  # X may have no labels

    def refuse_extras(self, model: object, *names: str) -> None:
        """Refuse the named arguments, which the model would otherwise ignore."""
        for name in names:
            if getattr(self, name) is not None:
                raise DataError(f"{type(model).__name__} has no use for {name}; leave it out.")
