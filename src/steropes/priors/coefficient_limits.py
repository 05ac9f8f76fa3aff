"""Lower and upper limits of coefficients, as settings of priors without further terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, cast

import numpy as np

from ..errors import DataError
from .penalty_within_limits import LimitedPenalty
from .prior_base_class import Prior

__all__ = ["Limit", "LimitedPrior"]

# One limit for all columns, or one for each: in their order, or by name.
Limit = float | Sequence[float] | np.ndarray | Mapping[str, float]


@dataclass(frozen=True, repr=False)
class LimitedPrior(Prior):
    """Base class of priors with λ and κ only, which may be truncated to an interval.

    Subclasses have the fields ``lower`` and ``upper``.
    """

    optional_entries: ClassVar[frozenset[str]] = frozenset({"lower", "upper"})

    lower = cast("Limit", -np.inf)  # fields of the subclasses, after the variances
    upper = cast("Limit", np.inf)

    def __repr__(self) -> str:
        """Format the settings, without limits that are infinite."""
        shown = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, never in (("lower", -np.inf), ("upper", np.inf)):
            if np.ndim(shown[name]) == 0 and shown[name] == never:
                del shown[name]
        inside = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return f"{type(self).__name__}({inside})"

    @property
    def plain(self) -> bool:
        """Whether the prior has λ and κ only, and no limits; a subclass may add other terms."""
        cls = type(self)
        smooth = cls.smooth is not Prior.smooth or bool(self.information_power)
        grouped = cls.group_penalty is not LimitedPrior.group_penalty
        return not (self.limited or smooth or self.adaptive or grouped)

    @property
    def limited(self) -> bool:
        """Whether some coefficient may have a limit."""
        return any(
            isinstance(value, Mapping) or np.ndim(value) > 0 or value != never
            for value, never in ((self.lower, -np.inf), (self.upper, np.inf))
        )

    def group_penalty(self, names: Sequence[str]) -> LimitedPenalty | None:
        """Return the penalty with its limits; None without limits.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        LimitedPenalty or None
            The penalty, in X's units.

        Raises
        ------
        DataError
            If limits are no numbers, do not include zero, or name other columns.
        """
        if not self.limited:
            return None
        penalty = self.separable(names)
        lower = self._limit("lower", self.lower, names, -np.inf)
        upper = self._limit("upper", self.upper, names, np.inf)
        for what, wrong in (("lower", ~(lower <= 0)), ("upper", ~(upper >= 0))):
            if wrong.any():  # NaN too
                j = int(wrong.argmax())
                sign = "zero or negative" if what == "lower" else "zero or positive"
                raise DataError(
                    f"{type(self).__name__}'s {what} must be {sign}, so that a coefficient can be "
                    f"zero, but is {(lower if what == 'lower' else upper)[j]:g} for {names[j]!r}. "
                    "For limits around another value v, add v times the column to the offset."
                )
        return LimitedPenalty(penalty.l1, l2=penalty.l2, lower=lower, upper=upper)

    def _limit(self, what: str, value: Any, names: Sequence[str], never: float) -> np.ndarray:
        """Convert a limit to one number per column, (p,)."""
        if isinstance(value, Mapping):
            value = self._by_name(what, value, names, {})
        elif (entries := self._entries(what, names)) is not None:
            value = entries
        try:
            given = [value] if np.ndim(value) == 0 else value
            each = np.array([never if x is None else x for x in given], np.float64)
        except (TypeError, ValueError):
            raise DataError(
                f"{type(self).__name__}'s {what} must be a number, or one for each column or name, "
                f"not {value!r}."
            ) from None
        return np.broadcast_to(each, (len(names),)).copy()
