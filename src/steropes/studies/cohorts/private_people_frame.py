"""A DataFrame with one row per person, whose ``repr`` shows its size and no rows.

Notebooks are saved and shared with their output, so displaying the table must not disclose rows. A
selection of it (``people.head()``, a column) is an ordinary pandas object and prints its rows.
"""

from __future__ import annotations

import pandas as pd

__all__ = ["People"]


class People(pd.DataFrame):
    """A DataFrame with one row per person, whose ``repr`` shows no rows."""

    def __repr__(self) -> str:
        return f"{self._size()}; rows of people are not printed"

    def _repr_html_(self) -> str:
        return f"<p>{self._size()}; rows of people are not printed</p>"

    def _repr_data_resource_(self) -> object:
        return None

    def _size(self) -> str:
        """Describe the size of the table, with small counts suppressed."""
        from steropes.studies.disclosure import shown_count

        return f"Table of {shown_count(len(self))} people ({', '.join(map(str, self.columns))})"
