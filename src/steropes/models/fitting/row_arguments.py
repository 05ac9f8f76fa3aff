"""Arguments of ``fit`` with an entry for each row of X."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, TypedDict, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from ...data import refuse_other_order
from ...data.input_types import LabelsLike, VectorLike
from ...data.interval_weights import IntervalWeights
from ...errors import DataError
from .setting_types import MatrixLike

__all__ = ["FitInputs", "OutcomeRows", "refuses_other_rows"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class FitInputs:
    """Outcome and vectors as the user passed them to ``fit``, before validation.

    Attributes
    ----------
    y
        Outcome, in a form that depends on the model.
    sample_weight, offset, exposure, strata, interval_weights
        Arguments of ``fit``, or None.
    """

    y: Any
    sample_weight: VectorLike | None = None
    offset: VectorLike | None = None
    exposure: VectorLike | None = None
    strata: LabelsLike | None = None
    interval_weights: IntervalWeights | ArrayLike | None = None

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


def refuses_other_rows(fit: F) -> F:
    """Let ``fit`` refuse row arguments of other families by a sentence, as `FitInputs` does.

    ``fit`` has the arguments that its family uses, so that editors show no others. In formulas and
    `fit_many` they have a meaning or are None in all families.
    """
    known = set(signature(fit).parameters)
    others = [name for name in FitInputs.__dataclass_fields__ if name not in known]

    @wraps(fit)
    def fit_or_refuse(self: object, *args: Any, **given: Any) -> Any:
        absent = {name: given.pop(name) for name in others if name in given}
        FitInputs(None, **absent).refuse_extras(self, *absent)
        return fit(self, *args, **given)

    return cast(F, fit_or_refuse)


class OutcomeRows(TypedDict, total=False):
    """Vectors over the rows of X that a family derives from the outcome for the `Problem`.

    ``fold_label`` and ``fold_together`` are those of `Problem`; ``offset`` is added to the user's
    offset, such as the logarithm of an exposure.
    """

    fold_label: np.ndarray
    fold_together: np.ndarray
    offset: np.ndarray | None
