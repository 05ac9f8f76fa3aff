"""Terms of formulas with effects that change with time: ``step(x, [365])`` and ``tt(x, 'log')``.

Both are the term x with the setting ``time_varying`` for its columns, so that no row of the data is
repeated. Terms are described in `steropes.PenalizedModel.from_formula`.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from ...errors import DataError

__all__ = ["TimeEffect", "read_time_effect"]

CALL = re.compile(r"^(step|tt)\((.*)\)$", re.DOTALL)
# An expression that is one operand of a term: a column, or a call of a function.
OPERAND = re.compile(r"^(\w+|`[^`]*`|[\w.]+\(.*\))$", re.DOTALL)
FORMS = (
    "such as step(x, [90, 180]) for an effect in each period between times, or tt(x, 'log') for an "
    "effect that is linear in the logarithm of time"
)


@dataclass(frozen=True)
class TimeEffect:
    """A term whose effect changes with time.

    Attributes
    ----------
    expression : str
        The term without the change.
    setting : object
        The value of ``time_varying`` for its columns.
    """

    expression: str
    setting: object


def read_time_effect(text: str) -> TimeEffect | None:
    """Read a factor of a term; return None if its effect is constant.

    Raises
    ------
    DataError
        If the second argument of ``step`` or ``tt`` is missing or not a constant.
    """
    call = CALL.match(text)
    if call is None:
        return None
    name, inside = call.groups()
    comma = _last_comma(inside)
    if comma is None:
        raise DataError(f"{text} needs two arguments, {FORMS}.")
    expression = inside[:comma].strip()
    try:
        setting = ast.literal_eval(inside[comma + 1 :].strip())
    except (ValueError, SyntaxError):
        raise DataError(f"The second argument of {text} must be a constant, {FORMS}.") from None
    if name == "step" and not isinstance(setting, list | tuple):
        setting = [setting]
    if name == "tt" and isinstance(setting, list | tuple):
        raise DataError(f"tt() has no list of times: write step({expression}, {list(setting)!r}).")
    setting = list(setting) if isinstance(setting, tuple) else setting
    operand = expression if OPERAND.match(expression) else f"I({expression})"
    return TimeEffect(operand, setting)


def _last_comma(text: str) -> int | None:
    """Return the position of the last comma outside of parentheses; None if there is none."""
    depth, found = 0, None
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            found = i
    return found
