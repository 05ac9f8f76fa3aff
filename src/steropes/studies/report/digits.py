"""Numbers as text, with the digits that tell a value from the limit it is held against."""

from __future__ import annotations

import math
from typing import Literal

__all__ = ["Relation", "deciding", "deciding_p", "decimals", "limit_text", "passes"]

Relation = Literal["below", "at most", "at least", "above"]

MOST = 12  # decimals, beyond which a value and its limit count as one


def decimals(x: float | None, digits: int = 2) -> str:
    """Format a number with a fixed number of decimals; a dash where there is none."""
    if x is None or math.isnan(x):
        return "–"
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    return f"{x:.{digits}f}".replace("-", "−")


def deciding(x: float | None, *limits: float | None, digits: int = 2) -> str:
    """Format a number with as many decimals as tell it from every limit.

    A value of 0.248 reads "0.25" by itself and "0.248" beside a limit of 0.25.

    Parameters
    ----------
    x : float or None
    *limits : float or None
        Limits that the number is compared with; None and numbers without an end count for nothing.
    digits : int, default 2
        Fewest decimals.
    """
    if x is None or not math.isfinite(x):
        return decimals(x, digits)
    known = [limit for limit in limits if limit is not None and math.isfinite(limit)]
    for d in range(digits, MOST + 1):
        if all(_side(round(x, d), limit) == _side(x, limit) for limit in known):
            return decimals(x, d)
    return decimals(x, MOST)


def deciding_p(p: float, *limits: float | None) -> str:
    """Format a p value as journals print it, with the digits that tell it from every limit."""
    if math.isnan(p):
        return "–"
    known = [limit for limit in limits if limit is not None]
    if p < 0.001 and all(limit >= 0.001 for limit in known):
        return "< 0.001"
    return deciding(p, *known, digits=3 if p < 0.1 else 2)


def passes(x: float, relation: Relation, limit: float) -> bool:
    """Whether a number is below or above a limit, or at most or at least the limit."""
    if relation == "at least":
        return x >= limit
    if relation == "above":
        return x > limit
    return x < limit if relation == "below" else x <= limit


def limit_text(limit: float) -> str:
    """Format a limit with all the digits that it was given with."""
    return f"{limit:.{MOST}g}"


def _side(x: float, limit: float) -> int:
    return (x > limit) - (x < limit)
