"""Result tables in CSV files, in which a name may be "NA" or "null".

R writes missing values as NA, and in quotes only the text "NA"; our files leave them empty. Only
these are missing here, because cohorts and databases may have any other name.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection

import pandas as pd

__all__ = ["read_result_csv"]

MISSING = ("", "NA")
NOT_A_NUMBER = ("NaN", "nan", "NULL", "null")
# A cell that is the text "NA", and a text without meaning that stands for it while it is parsed.
QUOTED_NA = re.compile(rb'(?<![^,\r\n])"NA"(?=[,\r\n]|$)')
STAND_IN = "\x1aNA"


def read_result_csv(
    content: bytes,
    *,
    columns: Callable[[str], bool] | None = None,
    texts: Collection[str] = (),
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
    )
    other = [c for c in found if not pd.api.types.is_numeric_dtype(found[c])]
    for c in other:
        found[c] = found[c].replace(STAND_IN, "NA") if quoted else found[c]
        if c not in texts:
            found[c] = _numbers(found[c])
    return found


def _numbers(values: pd.Series) -> pd.Series:
    """Return numbers, some of which are no numbers by name; other text is unchanged."""
    try:
        return pd.to_numeric(values.mask(values.isin(NOT_A_NUMBER)))
    except ValueError:
        return values
