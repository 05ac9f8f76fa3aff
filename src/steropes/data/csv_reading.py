"""Reading of CSV files in which a name or a label may be "NA", "null" or "None".

R writes missing values as NA, and in quotes only the text "NA"; our files leave them empty. Only
these are missing here, because cohorts and databases may have any other name.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import DataError

__all__ = ["read_csv_content", "read_csv_file"]

MISSING = ("", "NA")
NOT_A_NUMBER = ("NaN", "nan", "NULL", "null")
# Further texts of files that people make, which mean no number if all others are numbers.
NO_NUMBER_OF_PEOPLE = ("None", "N/A", "n/a", "<NA>", "#N/A")
# A cell that is the text "NA", and a text without meaning that stands for it while it is parsed.
QUOTED_NA = re.compile(rb'(?<![^,\r\n])"NA"(?=[,\r\n]|$)')
# Equal times must remain equal. From pandas 3.1 on, numbers are always read exactly, and the option
# is deprecated.
_OLD = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
_EXACT: dict[str, Any] = {"float_precision": "round_trip"} if _OLD else {}
STAND_IN = "\x1aNA"


def read_csv_content(
    content: bytes,
    *,
    columns: Callable[[str], bool] | None = None,
    texts: Collection[str] = (),
    no_numbers: Collection[str] = NOT_A_NUMBER,
) -> pd.DataFrame:
    """Read a table from the content of a CSV file.

    Parameters
    ----------
    content : bytes
        The file.
    columns : callable, optional
        Whether to read a column, by its name. Default: all.
    texts : collection of str
        Columns of text. Others are numbers, if all their values are.
    no_numbers : collection of str
        Texts that are missing values in columns of numbers.

    Returns
    -------
    DataFrame
        The table.

    Raises
    ------
    ValueError
        The content is no table, or has values of other types.
    """
    quoted = b'"NA"' in content
    if quoted:
        content = QUOTED_NA.sub(STAND_IN.encode(), content)
    found = pd.read_csv(
        io.BytesIO(content),
        usecols=columns,
        dtype=dict.fromkeys(texts, str),
        keep_default_na=False,
        na_values=list(MISSING),
        low_memory=False,
        **_EXACT,
    )
    other = [c for c in found if not pd.api.types.is_numeric_dtype(found[c])]
    for c in other:
        found[c] = found[c].replace(STAND_IN, "NA") if quoted else found[c]
        if c not in texts:
            found[c] = _numbers(found[c], no_numbers)
    return found


def read_csv_file(path: Path) -> pd.DataFrame:
    """Read a table from a CSV file of a user; a label may have any name."""
    try:
        return read_csv_content(path.read_bytes(), no_numbers=NOT_A_NUMBER + NO_NUMBER_OF_PEOPLE)
    except ValueError as error:
        raise DataError(f"{path.name} is not a CSV file: {error}") from error


def _numbers(values: pd.Series, no_numbers: Collection[str]) -> pd.Series:
    """Return numbers, some of which are no numbers by name; other text is unchanged."""
    try:
        return pd.to_numeric(values.mask(values.isin(no_numbers)))
    except ValueError:
        return values
