"""Models that stand beside others of the same kind and X, as outcomes of `fit_many` do."""

from __future__ import annotations

from typing import ClassVar, Literal

__all__ = ["Together"]

When = Literal["never", "laplace", "always"]


class Together:
    """Whether a model's outcomes may be lanes of one batch."""

    _batched_outcomes: ClassVar[When] = "never"  # see `_outcomes_together`

    @classmethod
    def _outcomes_together(cls) -> When:
        """When many outcomes of `fit_many` are lanes of one batch, as this very class says.

        "laplace" is under such a prior, where lanes share a Hessian; "always" is also without
        one, where curvature does not depend on y. A subclass doesn't inherit it: what it does
        otherwise is not known here, and each of its outcomes is a call of its own `fit`, unless
        it has ``_batched_outcomes`` itself.
        """
        own: When = cls.__dict__.get("_batched_outcomes", "never")
        return own
