"""Terms of a formula by their role: covariates, strata, clusters and offsets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import pandas as pd

from ...errors import DataError
from .formula_data_types import (
    refuse_misread_operators,
)
from .formula_evaluation import (
    refuse_missing_arguments,
)
from .formula_safety import short_quote

__all__ = ["SPECIAL", "FormulaTerms"]

SPECIAL = re.compile(r"^(strata|offset|cluster)\((.*)\)$", re.DOTALL)
DATES = {"date", "datetime", "datetime64", "time", "timedelta", "timedelta64", "period"}


@dataclass
class FormulaTerms:
    """The terms of a formula by their role.

    Attributes
    ----------
    covariates : list of formulaic.Term
        Terms that give columns of X.
    labels : dict of str to str
        The expressions of ``strata`` and ``cluster``.
    offsets : list of str
        Expressions.
    varying : dict
        Value of ``time_varying`` of each term with an effect that changes with time.
    constant : set of str
        The terms whose effects do not change with time.
    """

    covariates: list[Any] = field(default_factory=list)
    has_intercept: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    offsets: list[str] = field(default_factory=list)
    varying: dict[str, object] = field(default_factory=dict)
    constant: set[str] = field(default_factory=set)

    def add(self, term: Any, constant: bool, data: pd.DataFrame) -> None:
        """Add a term to those of its role; refuse one that has no meaning."""
        texts = [factor.expr for factor in term.factors]
        special = [SPECIAL.match(x) for x in texts]
        if any(special) and len(texts) > 1:
            raise DataError(
                f"{term} is not possible: strata(), cluster() and offset() are terms of their own. "
                "For effects that differ by stratum write its column's interaction, such as "
                "x:C(site)."
            )
        if not special or special[0] is None:
            self._add_covariate(term, constant, texts, data)
        elif special[0].group(1) == "offset":
            self.offsets.append(texts[0])
        elif (kind := special[0].group(1)) in self.labels:
            raise DataError(f"The formula has {kind}() twice; write {kind}(a, b).")
        else:
            self.labels[kind] = texts[0]

    def _add_covariate(
        self, term: Any, constant: bool, texts: list[str], data: pd.DataFrame
    ) -> None:
        """Add a term that gives columns of X."""
        _refuse_unknown_names(term, data)
        _refuse_dates(texts, data)
        for expression in texts:
            refuse_misread_operators(expression, data)
            refuse_missing_arguments(expression, data)
        self.has_intercept |= texts == ["1"]
        self.constant |= {str(term)} if constant else set()
        if str(term) in self.constant & set(self.varying):
            raise DataError(
                f"The formula has {term} with a constant effect and with one that changes with "
                "time, which contains it: leave the constant one out."
            )
        self.covariates.append(term)


def _refuse_unknown_names(term: Any, data: pd.DataFrame) -> None:
    """Refuse a name that is no column of data; it could be that of a function."""
    for factor in term.factors:
        if factor.eval_method.value != "lookup":
            continue
        name = factor.expr.strip("`")
        if name == "Intercept" and name in data:
            raise DataError(f"{name!r} is the intercept in formulas; rename the column.")
        if name not in data:
            near = get_close_matches(name[:100], map(str, data.columns), 1)
            meant = f"; did you mean {near[0]!r}?" if near else "."
            raise DataError(
                f"The formula names {short_quote(name)}, which is not a column of the data{meant}"
            )


def _refuse_dates(texts: list[str], data: pd.DataFrame) -> None:
    """Refuse a term that is a column of dates; expressions may convert dates to numbers."""
    for text in texts:
        name = text.strip("`")
        if name in data.columns and pd.api.types.infer_dtype(data[name]) in DATES:
            raise DataError(
                f"Column {name!r} holds dates or durations, not numbers; turn it into a number of "
                f"days, or of years, since a day that you choose, or say C({text}) for labels."
            )
