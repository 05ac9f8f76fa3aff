"""Numbers as text, with enough digits to distinguish a value from its limit."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

__all__ = [
    "Relation",
    "counted",
    "crossing",
    "deciding",
    "deciding_p",
    "decimals",
    "effect",
    "limit_text",
    "number",
    "passes",
    "value_text",
]

Relation = Literal["below", "at most", "at least", "above"]

MOST = 12  # Values that agree with their limit in this many decimals count as equal to it.


def decimals(x: float | None, digits: int = 2) -> str:
    """Format a number with a fixed number of decimals; a dash if it is missing."""
    if x is None or math.isnan(x):
        return "–"
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    return f"{x:.{digits}f}".replace("-", "−")


def deciding(x: float | None, *limits: float | None, digits: int = 2) -> str:
    """Format a number with enough decimals to distinguish it from every limit.

    A value of 0.248 is shown as "0.25" alone and as "0.248" with a limit of 0.25.

    Parameters
    ----------
    *limits : float or None
        Limits that the number is compared with; None and infinite limits are ignored.
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
    """Format a p value as journals do, with enough digits to distinguish it from every limit."""
    if math.isnan(p):
        return "–"
    known = [limit for limit in limits if limit is not None]
    if p < 0.001 and all(limit >= 0.001 for limit in known):
        return "< 0.001"
    return deciding(p, *known, digits=3 if p < 0.1 else 2)


def passes(x: float, relation: Relation, limit: float) -> bool:
    """Check whether a number has the given relation to a limit."""
    if relation == "at least":
        return x >= limit
    if relation == "above":
        return x > limit
    return x < limit if relation == "below" else x <= limit


def crossing(x: float, relation: Relation, limit: float, verdict: str) -> str:
    """Return "<" or ">" if a rounded value lies on the wrong side of its limit; else ""."""
    passed = verdict == "PASS"
    if verdict == "NOT EVALUATED" or not math.isfinite(x) or passes(x, relation, limit) == passed:
        return ""
    return ">" if passed == (relation in ("at least", "above")) else "<"


def limit_text(limit: float) -> str:
    """Format a limit with all its digits."""
    return f"{limit:.{MOST}g}"


def effect(ratio: float, low: float, high: float, digits: int = 2) -> str:
    """Format an estimate with its limits; "" if it is missing or infinite."""
    if not math.isfinite(ratio):
        return ""
    return f"{decimals(ratio, digits)} ({decimals(low, digits)} to {decimals(high, digits)})"


def number(x: Any, digits: int) -> str:
    """Format a number; "" if it is missing or infinite."""
    value = math.nan if x is None else float(x)
    return decimals(value, digits) if math.isfinite(value) else ""


def counted(n: Any) -> str:
    """Format a count, where -n stands for fewer than n; a dash if it is missing."""
    value = math.nan if n is None else float(n)
    if math.isnan(value):
        return "–"
    return f"<{-value:,.0f}" if value < 0 else f"{value:,.0f}"


def _side(x: float, limit: float) -> int:
    """Compare a number with a limit: 1 above it, 0 at it, -1 below it."""
    return (x > limit) - (x < limit)


def value_text(value: object) -> str:
    """Return a value as a label, in all its digits, with whole numbers without decimals."""
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, float | np.floating) and np.isfinite(value):
        return np.format_float_positional(value, trim="-")
    return str(value)
