"""Linear hypotheses in words, such as "a + 2*b = 0", and combinations, such as "a - b"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import DataError, listed

__all__ = ["is_combination", "is_equation", "read_combinations", "read_equations"]

NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
OPERATORS = "+-*/()=,"


def is_equation(text: object, names: Sequence[str]) -> bool:
    """Return whether a text is an equation and not the name of a coefficient."""
    return isinstance(text, str) and "=" in text and text not in names


def is_combination(text: object, names: Sequence[str]) -> bool:
    """Return whether a text is a combination such as "a - b" and not the name of a coefficient."""
    return isinstance(text, str) and text not in names and any(sign in text for sign in "+-*/")


def read_combinations(texts: Sequence[str], names: Sequence[str]) -> np.ndarray:
    """Read linear combinations of coefficients, such as "a - b" or "(a + b) / 2", as R (r, p).

    Raises
    ------
    DataError
        If a combination cannot be read, is not linear, has a constant or refers to an unknown
        coefficient.
    """
    return np.array([_Parser(text, names).combination() for text in texts])


def read_equations(texts: Sequence[str], names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Read equations between coefficients.

    Parameters
    ----------
    texts : sequence of str
        Each has one or more equations, separated by commas; "a = b = 0" is two.
    names : sequence of str
        Names of the coefficients. They may contain any characters; the longest name that fits
        is read.

    Returns
    -------
    R : (r, p) array
    q : (r,) array

    Raises
    ------
    DataError
        If an equation cannot be read, is not linear, refers to an unknown coefficient, or has a
        number that is the name of a coefficient.
    """
    rows: list[np.ndarray] = []
    values: list[float] = []
    for text in texts:
        if not isinstance(text, str):
            raise DataError(f"A hypothesis in words is text such as 'a = b', not {text!r}.")
        for row, value in _Parser(text, names).equations():
            rows.append(row)
            values.append(value)
    return np.array(rows), np.array(values)


@dataclass(frozen=True)
class _Linear:
    """A linear expression: coefficients' multipliers (p,) and a constant."""

    row: np.ndarray
    constant: float

    def scaled(self, by: float) -> _Linear:
        """Multiply by a number."""
        return _Linear(by * self.row, by * self.constant)

    def plus(self, other: _Linear) -> _Linear:
        """Add another expression."""
        return _Linear(self.row + other.row, self.constant + other.constant)

    @property
    def is_number(self) -> bool:
        """Whether no coefficient is part of it."""
        return not self.row.any()


class _Parser:
    """Recursive-descent parser of equations."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self.text, self.names = text, names
        self.tokens = self._tokens()
        self.at = 0

    def _refuse(self, reason: str) -> DataError:
        """Return an error about the text."""
        return DataError(
            f"{self.text!r} cannot be read: {reason}. Write equations between coefficients, such "
            "as 'a = b' or 'a + 2*b = 0', or combinations such as 'a - b'."
        )

    def _tokens(self) -> list[str | float | int]:
        """Split the text into operators (str), numbers (float) and coefficients (int)."""
        text, at = self.text, 0
        out: list[str | float | int] = []
        # Longest names first, because one name may be the beginning of another.
        by_length = sorted(range(len(self.names)), key=lambda j: -len(self.names[j]))
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            found = next((j for j in by_length if self._has_name(self.names[j], at)), None)
            number = NUMBER.match(text, at)
            if found is not None:
                name = self.names[found]
                if list(self.names).count(name) > 1:
                    raise self._refuse(f"two coefficients are called {name!r}")
                if number and number[0] == name:
                    raise self._refuse(
                        f"{name!r} is a number and the name of a coefficient; rename the columns, "
                        "or give a matrix"
                    )
                out.append(found)
                at += len(name)
            elif number:
                if not np.isfinite(float(number[0])):
                    raise self._refuse(f"{number[0]} is not finite")
                out.append(float(number[0]))
                at = number.end()
            elif text[at] in OPERATORS:
                out.append(text[at])
                at += 1
            else:
                rest = re.split(r"[\s+*/=,]", text[at:])[0] or text[at]
                raise self._refuse(
                    f"there is no coefficient {rest!r}; there are {listed(list(self.names))}"
                )
        return out

    def _has_name(self, name: str, at: int) -> bool:
        """Return whether a name starts at a position and ends where a word does."""
        end = at + len(name)
        if not name or not self.text.startswith(name, at):
            return False
        inside = name[-1].isalnum() or name[-1] == "_"
        return not (inside and re.match(r"[\w\[@]", self.text[end : end + 1]))

    def _next(self) -> str | float | int | None:
        """Return the token at the current position; None at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def _take(self, *wanted: str) -> str | None:
        """Consume and return the next token if it is one of the operators wanted."""
        token = self._next()
        if isinstance(token, str) and token in wanted:
            self.at += 1
            return token
        return None

    def equations(self) -> list[tuple[np.ndarray, float]]:
        """Read all equations, each as a row of R and its entry of q."""
        out = []
        while True:
            sides = [self._sum()]
            while self._take("="):
                sides.append(self._sum())
            if self._next() not in (None, ","):
                raise self._refuse("an operator is missing")
            if len(sides) == 1:
                raise self._refuse("an equation needs '='")
            for a, b in zip(sides[:-1], sides[1:], strict=True):
                gap = a.plus(b.scaled(-1.0))
                if gap.is_number:
                    raise self._refuse("no coefficient is left in an equation")
                out.append((gap.row, -gap.constant))
            if not self._take(","):
                return out

    def combination(self) -> np.ndarray:
        """Read one expression without a constant as a row of R."""
        value = self._sum()
        if self._next() is not None:
            raise self._refuse("a combination has no '=' or ',', and an operator between terms")
        if value.constant != 0 or value.is_number:
            raise self._refuse("a combination has coefficients and no constant")
        return value.row

    def _sum(self) -> _Linear:
        """Read a sum of products."""
        total = self._product()
        while sign := self._take("+", "-"):
            total = total.plus(self._product().scaled(1.0 if sign == "+" else -1.0))
        return total

    def _product(self) -> _Linear:
        """Read a product in which at most one factor is not a number."""
        value = self._factor()
        while sign := self._take("*", "/"):
            other = self._factor()
            if sign == "/":
                if not other.is_number or other.constant == 0:
                    raise self._refuse("it divides by something that is not a number, or by zero")
                value = value.scaled(1.0 / other.constant)
            elif other.is_number:
                value = value.scaled(other.constant)
            elif value.is_number:
                value = other.scaled(value.constant)
            else:
                raise self._refuse("a product of coefficients is not linear")
        return value

    def _factor(self) -> _Linear:
        """Read a number, a coefficient, a signed factor or a sum in parentheses."""
        zero = np.zeros(len(self.names))
        if sign := self._take("+", "-"):
            return self._factor().scaled(1.0 if sign == "+" else -1.0)
        if self._take("("):
            inside = self._sum()
            if not self._take(")"):
                raise self._refuse("a parenthesis is not closed")
            return inside
        token = self._next()
        if token is None or isinstance(token, str):
            raise self._refuse("a number or a coefficient is missing")
        self.at += 1
        if isinstance(token, float):
            return _Linear(zero, token)
        zero[token] = 1.0
        return _Linear(zero, 0.0)
