"""Limits of the terms and columns of formulas from untrusted sources, before they are computed.

A product of 18 factors of three terms has 3¹⁸ terms, and ``bs(x, df=10**8)`` has 10⁸ columns.
Names, numbers and operators are counted before the formula is parsed, terms in the parsed formula
before its products are expanded, and columns from the constants that functions take.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from ...design_matrix.memory_estimate import free_memory
from ...errors import DataError
from .formula_data_types import names_in
from .formula_evaluation import evaluate_expression
from .formula_safety import MAX_EXPONENT, QUOTED, short_quote
from .formula_splines import first_argument

__all__ = [
    "refuse_many_columns",
    "refuse_many_parts",
    "refuse_many_terms",
    "refuse_wide_expression",
]

# formulaic adds terms one by one to copies of their set and parses powers from the right, both at
# the cost of the square of their number: 2 s for this number of names, numbers and operators.
MAX_PARTS = 6_000
# formulaic takes 0.4 to 2 ms for a term or column, measured with 40 and 1,000 rows and products of
# two and three columns: up to 20 s for this number.
MAX_COLUMNS = 10_000
# The matrices of a spline or a contrast are inverted, at the cost of the cube of this number.
MAX_DEGREES_OF_FREEDOM = 1_000
# A column of a spline, polynomial or hash takes a millisecond or more.
MAX_BASIS_COLUMNS = 2 * MAX_DEGREES_OF_FREEDOM
# The cost of a B-spline grows with its degree; 3 is usual.
MAX_DEGREE = 10
# Arguments that determine the number of columns, in their order after the first argument.
SIZES = {
    "bs": ("df", "knots", "degree"), "ns": ("df", "knots"), "cr": ("df", "knots"),
    "cs": ("df", "knots"), "cc": ("df", "knots"), "rcs": ("knots",), "poly": ("degree",),
    "hashed": ("levels",),
}  # fmt: skip
LIMITS = {("bs", "degree"): MAX_DEGREE, ("hashed", "levels"): MAX_BASIS_COLUMNS}
# Columns of a spline beyond the number of its knots, apart from the degree of bs().
DEFAULT_SIZE = 5
REMEDY = (
    "Pass X as a matrix or table instead, or, if you wrote the formula yourself, pass trusted=True."
)


def refuse_many_parts(outcome: str, tokens: Iterable[Any]) -> None:
    """Refuse a formula with too many names, numbers and operators, also within expressions.

    Parameters
    ----------
    outcome : str
        The left-hand side, which is one expression or empty.
    tokens : iterable of formulaic's Token
        The right-hand side, in which "." is not replaced by the columns for which it stands.

    Raises
    ------
    DataError
    """
    seen: set[str] = set()
    parts = _parts(outcome)
    for token in tokens:
        parts += len(token.token) if token.kind.value == "operator" else 1
        if token.kind.value == "python" and token.token not in seen:
            seen.add(token.token)
            parts += _parts(token.token)
        if parts > MAX_PARTS:
            raise DataError(
                f"The formula has more than {MAX_PARTS:,} names, numbers and operators. Use '.' "
                f"for all columns. {REMEDY}"
            )


def _parts(text: str) -> int:
    """Return the number of names, numbers and operators in an expression."""
    kinds = (ast.Name, ast.Constant, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
    return sum(isinstance(node, kinds) for node in ast.walk(_parsed(text)))


def refuse_many_terms(tree: Any) -> None:
    """Refuse a formula whose products would expand to too many terms.

    Parameters
    ----------
    tree : formulaic's ASTNode or Token
        The formula after parsing, in which products and powers are not expanded.

    Raises
    ------
    DataError
    """
    counts: dict[int, int] = {}
    total = 0
    for node in _children_first(tree):
        terms = [counts.get(id(arg), 1) for arg in node.args]
        symbol, products = node.operator.symbol, 0
        match symbol, terms:
            case (("*" | ":" | "/" | "in"), [a, b]):
                products = a * b
                counts[id(node)] = products + (a + b if symbol == "*" else a)
            case (("**" | "^"), [a, _]):
                k = _exponent(node.args[1])
                products = a**k
                counts[id(node)] = min(products, sum(math.comb(a, j) for j in range(1, k + 1)))
            case _:
                counts[id(node)] = sum(terms)
        total += products
        if total > MAX_COLUMNS:
            raise DataError(
                f"The products of the formula expand to more than {MAX_COLUMNS:,} terms. {REMEDY}"
            )


def _children_first(tree: Any) -> Iterator[Any]:
    """Yield the operators of a formula, each after its arguments, without recursion."""
    stack, order = [tree], []
    while stack:
        node = stack.pop()
        if hasattr(node, "operator"):
            order.append(node)
            stack.extend(node.args)
    return reversed(order)


def _exponent(node: Any) -> int:
    """Return the exponent of a power of terms; 1 where formulaic refuses it."""
    text = str(getattr(node, "token", ""))
    if not text.isdecimal():
        return 1
    if len(text) > len(str(MAX_EXPONENT)) or int(text) > MAX_EXPONENT:
        raise DataError(f"A power of terms has an exponent of at most {MAX_EXPONENT}, not {text}.")
    return int(text)


def refuse_wide_expression(text: str) -> int:
    """Return a bound on the columns of an expression; refuse one that is too wide.

    Parameters
    ----------
    text : str
        Python, as formulaic would evaluate it; levels of labels are not counted.

    Raises
    ------
    DataError
        A function has too many degrees of freedom, or their number is not a constant.
    """
    tree = _parsed(text)
    width = 1
    knots: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            width *= _degrees_of_freedom(node, knots)
        elif isinstance(node, ast.List | ast.Tuple) and id(node) not in knots:
            width *= max(len(node.elts), 1)
        if width > MAX_COLUMNS:
            raise DataError(
                f"{short_quote(text)} in the formula has more than {MAX_COLUMNS:,} columns. "
                f"{REMEDY}"
            )
    return width


def _parsed(text: str) -> ast.Expression:
    """Return the syntax tree of an expression; that of a constant if it is no valid Python."""
    try:
        return ast.parse(QUOTED.sub("column", text), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # reported by formulaic
        return ast.parse("1", mode="eval")


def _degrees_of_freedom(call: ast.Call, lists: set[int]) -> int:
    """Return a bound on the columns of a function, and enter its lists of constants."""
    assert isinstance(call.func, ast.Name)
    name = call.func.id
    if any(keyword.arg is None for keyword in call.keywords):
        raise DataError(f"{name}() in the formula cannot have arguments with **.")
    given = dict(zip(SIZES.get(name, ()), call.args[1:], strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    if name == "C":
        lists |= {id(node) for node in ast.walk(call) if isinstance(node, ast.List | ast.Tuple)}
    sizes = {
        parameter: _size(name, parameter, given[parameter], lists)
        for parameter in SIZES.get(name, ())
        if parameter in given
    }
    if not sizes:
        return DEFAULT_SIZE if name in SIZES else 1
    placed = sum(sizes.values()) + DEFAULT_SIZE if "knots" in sizes else 1
    return max(placed, *sizes.values())


def _size(name: str, parameter: str, node: ast.expr, lists: set[int]) -> int:
    """Return the number of columns that an argument stands for; refuse too many."""
    most = LIMITS.get((name, parameter), MAX_DEGREES_OF_FREEDOM)
    if parameter == "knots" and isinstance(node, ast.List | ast.Tuple):
        lists.add(id(node))
        parts = list(ast.walk(node))
        called = {id(part.func) for part in parts if isinstance(part, ast.Call)}
        names = (part for part in parts if isinstance(part, ast.Name) and id(part) not in called)
        size = most + 1 if any(part.id != "np" for part in names) else len(node.elts)
    else:
        try:
            value = ast.literal_eval(node)
            size = math.ceil(min(value or 0, most + 1))
        except (ValueError, TypeError):  # not a constant number
            size = most + 1
    if size > most:
        numbers = ", or a list of as many numbers" if parameter == "knots" else ""
        raise DataError(
            f"{name}() in a formula takes {parameter} as a whole number of at most {most:,}"
            f"{numbers}, not {short_quote(ast.unparse(node))}. {REMEDY}"
        )
    return size


def refuse_many_columns(
    terms: Iterable[Any], varying: Mapping[str, object], data: pd.DataFrame
) -> None:
    """Refuse terms whose columns are too many, or do not fit into memory.

    Parameters
    ----------
    terms : iterable of formulaic's Term
        The terms of X.
    varying : mapping
        Setting ``time_varying`` of the terms with an effect that changes with time.

    Raises
    ------
    DataError
        The message names the term.
    """
    widths: dict[str, int] = {}
    total = products = bases = 0
    for term in terms:
        width = 1
        for text in (factor.expr for factor in term.factors):
            if text not in widths:
                widths[text] = _columns_of(text, data)
                bases += _columns_of_basis(text, data)
            width *= widths[text]
        if bases > MAX_BASIS_COLUMNS:
            raise DataError(
                f"Splines, polynomials and other bases of the formula have more than "
                f"{MAX_BASIS_COLUMNS:,} columns up to its term {short_quote(str(term))}. {REMEDY}"
            )
        times = varying.get(str(term))
        width *= len(times) + 1 if isinstance(times, list) else 1
        total += width
        # The columns and categories of the data themselves are limited by memory alone.
        products += width if len(term.factors) > 1 or str(term) in varying else 0
        if products > MAX_COLUMNS:
            raise DataError(
                f"The formula has more than {MAX_COLUMNS:,} columns up to its term "
                f"{short_quote(str(term))}. {REMEDY}"
            )
    if len(data) * total > free_memory():  # a byte for each, as in indicators of categories
        raise DataError(
            f"The columns of the formula do not fit into memory: {total:,} columns of "
            f"{len(data):,} rows. Pass X as a sparse matrix instead, or leave out terms."
        )


def _columns_of_basis(text: str, data: pd.DataFrame) -> int:
    """Return a bound on the columns of a spline, a polynomial or another basis; 0 for others."""
    width = 1 if text.strip("`") in data.columns else refuse_wide_expression(text)
    return width if width > 1 else 0


def _columns_of(text: str, data: pd.DataFrame) -> int:
    """Return a bound on the columns of a factor."""
    if text.strip("`") in data.columns:
        return _levels(data[text.strip("`")])
    width = refuse_wide_expression(text)
    tree = _parsed(text)
    match tree.body:
        case ast.Call(func=ast.Name(id="C")) as call:
            levels = _levels_of_expression(first_argument(text), data)
            given = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "contrasts")]
            if given and levels > MAX_DEGREES_OF_FREEDOM and not _is_treatment(given[0]):
                raise DataError(
                    f"{short_quote(text)} in the formula has {levels:,} levels; a coding other "
                    f"than contr.treatment() has at most {MAX_DEGREES_OF_FREEDOM:,}. {REMEDY}"
                )
            return levels * width
    texts = {x.value for x in ast.walk(tree) if isinstance(x, ast.Constant)}  # of Q("a column")
    names = {str(name) for name in data.columns} & (names_in(text) | texts)
    return width * max((_levels(data[name]) for name in names), default=1)


def _is_treatment(node: ast.expr) -> bool:
    """Return whether a coding needs no square matrix of the levels."""
    called = node.func if isinstance(node, ast.Call) else node
    return ast.unparse(called) in ("contr.treatment", "Treatment")


def _levels_of_expression(text: str, data: pd.DataFrame) -> int:
    """Return the number of labels that an expression has in the data."""
    try:
        values = data[text] if text in data else evaluate_expression(text, data)
        return max(pd.Series(values).nunique(), 1)
    except (DataError, TypeError, ValueError):  # reported by formulaic
        return len(data)


def _levels(column: pd.Series) -> int:
    """Return the number of levels of a column of labels; 1 for numbers."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return max(len(column.cat.categories), 1)
    if pd.api.types.is_numeric_dtype(column.dtype):
        return 1
    try:
        return max(int(column.nunique()), 1)
    except TypeError:  # objects that cannot be compared, which formulaic reports
        return 1
