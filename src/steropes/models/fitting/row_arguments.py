"""Arguments of ``fit`` with an entry for each row of X."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from ...data import refuse_other_order
from ...data.input_types import LabelsLike, VectorLike
from ...errors import DataError
from .setting_types import MatrixLike

__all__ = ["FitInputs", "OutcomeRows"]


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
        vectors: dict[str, object] = {
            "sample_weight": self.sample_weight, "offset": self.offset,
            "exposure": self.exposure, "strata": self.strata,
        }  # fmt: skip
        refuse_other_order(X, "X", y=self.y, **vectors)
        refuse_other_order(self.y, "y", **vectors)  # X may have no labels

    def refuse_extras(self, model: object, *names: str) -> None:
        """Refuse the named arguments, which the model would otherwise ignore."""
        for name in names:
            if getattr(self, name) is not None:
                raise DataError(f"{type(model).__name__} has no use for {name}; leave it out.")


class OutcomeRows(TypedDict, total=False):
    """Vectors over the rows of X that a family derives from the outcome for the `Problem`.

    ``fold_label`` and ``fold_together`` are those of `Problem`; ``offset`` is added to the user's
    offset, such as the logarithm of an exposure.
    """

    fold_label: np.ndarray
    fold_together: np.ndarray
    offset: np.ndarray | None
