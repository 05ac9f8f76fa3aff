"""Models that stand beside others of the same kind and X, as outcomes of `fit_many` do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import ClassVar, Literal

from ..fit import Problem

__all__ = ["Together"]

When = Literal["never", "laplace", "always"]


class Together:
    """Whether a model's outcomes may be lanes of one batch, and the columns that they share."""

    _together: ClassVar[When] = "never"  # see `_outcomes_together`
    _beside: Problem | None = None  # whose columns these are too, meanwhile; see `_arranged_as`

    @classmethod
    def _outcomes_together(cls) -> When:
        """When many outcomes of `fit_many` are lanes of one batch, as this very class says.

        "laplace" is under such a prior, where lanes share a Hessian; "always" is also without
        one, where curvature does not depend on y. A subclass doesn't inherit it: what it does
        otherwise is not known here, and each of its outcomes is a call of its own `fit`, unless
        it has ``_together`` itself.
        """
        own: When = cls.__dict__.get("_together", "never")
        return own

    @contextlib.contextmanager
    def _arranged_as(self, other: Problem | None) -> Iterator[None]:
        """Meanwhile have the columns, and the intercept, of a problem of the same model and X."""
        if other is None:
            yield
            return
        self._beside = other
        try:
            yield
        finally:  # or the model would hold the other's outcome
            del self._beside
