"""Restrictions on the expressions in formulas from untrusted sources.

formulaic evaluates each term of a formula as Python, and a formula may be part of a specification
or notebook by someone else. Expressions are therefore restricted to arithmetic, comparisons and
documented functions of the columns.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from ...errors import DataError

__all__ = [
    "MAX_CHARACTERS",
    "MAX_EXPONENT",
    "ONE_SIDE",
    "QUOTED",
    "refuse_unsafe_expression",
    "refuse_unsafe_formula",
    "short_quote",
]

FUNCTIONS = {
    "abs", "cos", "expm1", "floor", "log1p", "sin", "sqrt", "tan",
    "C", "Censored", "I", "Surv", "bs", "cc", "center", "cr", "cs", "exp", "exp10", "exp2",
    "cluster", "hashed", "lag", "log", "log10", "log2", "ns", "offset", "poly", "rcs", "scale",
    "standardize", "strata",
    "Treatment", "Sum", "Helmert", "Diff", "Poly", "Q",
}  # fmt: skip
# Functions of NumPy that take numbers entry by entry.
NUMPY = {
    "abs", "absolute", "arccos", "arcsin", "arctan", "arctan2", "cbrt", "ceil", "clip", "cos",
    "cosh", "deg2rad", "exp", "exp2", "expm1", "floor", "fmax", "fmin", "hypot", "isfinite",
    "isnan", "log", "log10", "log1p", "log2", "logical_and", "logical_not", "logical_or",
    "maximum", "minimum", "mod", "power", "rad2deg", "rint", "round", "sign", "sin", "sinh",
    "sqrt", "square", "tan", "tanh", "trunc", "where",
}  # fmt: skip
CONTRASTS = {"treatment", "sum", "helmert", "diff", "poly", "SAS"}
# Attributes that need no call.
CONSTANTS = {("np", name) for name in ("e", "inf", "nan", "pi")} | {
    ("contr", name) for name in CONTRASTS
}
SYNTAX = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.keyword,
    ast.Name, ast.Attribute, ast.Constant, ast.Tuple, ast.List, ast.Load,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip
QUOTED = re.compile(r"`[^`]*`")  # a column with a name that Python cannot read
REMEDY = (
    "Compute it as a column of the data first, or, if you wrote the formula yourself, pass "
    "trusted=True, which evaluates any Python in it."
)
# A longer formula would take the parser minutes and gigabytes.
MAX_CHARACTERS = 100_000
# Maximum depth of nested parentheses, far below the limit of Python's parser.
MAX_DEPTH = 50
# Maximum number of ".", each of which is replaced by all other columns.
MAX_DOTS = 10
# Larger constant exponents are refused, because 9 ** 9 ** 9 would not terminate.
MAX_EXPONENT = 100
ONE_SIDE = "A formula here has one right-hand side; '|' divides it in several."


def refuse_unsafe_formula(text: str, dots: int) -> None:
    """Refuse a formula whose size or nesting would exhaust memory.

    Parameters
    ----------
    dots : int
        Number of times that "." stands for all other columns.

    Raises
    ------
    DataError
    """
    if len(text) > MAX_CHARACTERS:
        raise DataError(
            f"The formula has {len(text):,} characters, more than {MAX_CHARACTERS:,}. Pass X as "
            "a matrix or table instead, or use '.' for all columns."
        )
    if dots > MAX_DOTS:
        raise DataError(f"The formula has '.' {dots:,} times; write it once.")
    depth = deepest = 0
    for character in re.sub("`[^`]*`", "", text):
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
        if character == "|" and depth == 0:  # whose parsing takes the square of their number
            raise DataError(ONE_SIDE)
    if deepest > MAX_DEPTH:
        raise DataError(f"The formula has more than {MAX_DEPTH} parentheses within each other.")


def refuse_unsafe_expression(text: str, columns: Collection[str]) -> None:
    """Refuse an expression that is more than documented functions of columns.

    Parameters
    ----------
    text : str
        Python, as formulaic would evaluate it.

    Raises
    ------
    DataError
        The message names the part that is not allowed.
    """
    if text in columns:
        return
    try:
        tree = ast.parse(QUOTED.sub("quoted_column", text), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise DataError(
            f"The formula cannot be evaluated: {short_quote(text)} is not valid."
        ) from None
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if id(node) in called and isinstance(node, ast.Name) and node.id in NUMPY - FUNCTIONS:
            raise DataError(f"Write np.{node.id}() for {node.id}() in a formula.")
        if not isinstance(node, SYNTAX) or (id(node) in called and not _is_function(node)):
            raise DataError(f"A formula cannot contain {short_quote(ast.unparse(node))}. {REMEDY}")
        if isinstance(node, ast.Attribute) and ast.unparse(node) in columns:
            name = ast.unparse(node)
            raise DataError(f"Write `{name}` in backticks, because its name has a dot.")
        if isinstance(node, ast.Attribute) and id(node) not in called and not _is_constant(node):
            raise DataError(f"A formula cannot contain {short_quote(ast.unparse(node))}. {REMEDY}")
        _refuse_large_constants(node)


def _is_function(node: ast.AST) -> bool:
    """Return whether a called expression is one of the documented functions."""
    match node:
        case ast.Name():
            return node.id in FUNCTIONS
        case ast.Attribute(value=ast.Name(id="np")):
            return node.attr in NUMPY
        case ast.Attribute(value=ast.Name(id="contr")):
            return node.attr in CONTRASTS
    return False


def _is_constant(node: ast.Attribute) -> bool:
    """Return whether an attribute is a documented constant of NumPy or a coding."""
    return isinstance(node.value, ast.Name) and (node.value.id, node.attr) in CONSTANTS


def _refuse_large_constants(node: ast.AST) -> None:
    """Refuse arithmetic of constants that exhausts memory: 9 ** 9 ** 9, "a" * 10 ** 9."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value >= 2**63:
        raise DataError("The formula has a whole number of 2⁶³ or more; write it as a float.")
    if isinstance(node, ast.BinOp) and (_repeats(node) or _explodes(node)):
        raise DataError(f"A formula cannot compute {short_quote(ast.unparse(node))}. {REMEDY}")


def _repeats(node: ast.BinOp) -> bool:
    """Return whether one side is a text or a list, which a product would repeat."""
    return any(
        isinstance(side, ast.List | ast.Tuple)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        for side in (node.left, node.right)
    )


def _explodes(node: ast.BinOp) -> bool:
    """Return whether a power may have more digits than fit into memory."""
    if not isinstance(node.op, ast.Pow | ast.LShift):
        return False
    match node.right:
        case ast.Constant(value=int() | float() as exponent):
            fits = exponent <= MAX_EXPONENT
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()) | ast.Name():
            fits = True
        case _:
            fits = False
    has_column = any(isinstance(part, ast.Name) for part in ast.walk(node.left))
    return not fits or not (has_column or isinstance(node.left, ast.Constant))


def short_quote(text: str) -> str:
    """Quote an expression, abbreviated to 60 characters."""
    return repr(text if len(text) <= 60 else text[:57] + "…")
