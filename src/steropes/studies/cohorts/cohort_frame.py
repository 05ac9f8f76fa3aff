"""A table of people that does not print them.

What a notebook shows is saved with it and sent around. The table itself therefore says only how
large it is; a selection of it (``people.head()``, a column) is a plain DataFrame and prints.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

__all__ = ["People"]


class People(pd.DataFrame):
    """One row a person; a DataFrame in every way but that its ``repr`` shows no row."""

    def __repr__(self) -> str:
        return f"{self._size()}; rows of people are not printed"

    def _repr_html_(self) -> str:
        return f"<p>{self._size()}; rows of people are not printed</p>"

    def _repr_data_resource_(self) -> Any:
        return None

    def _size(self) -> str:
        from steropes.studies.disclosure import LEAST, shown

        return f"Table of {shown(len(self), LEAST)} people ({', '.join(map(str, self.columns))})"
