"""A DataFrame with one row per person, whose ``repr`` shows its size and no rows.

Notebooks are saved and shared with their output, so displaying the table must not disclose rows. A
selection of it (``people.head()``, a column) is an ordinary pandas object and prints its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

if TYPE_CHECKING:
    from steropes.studies.disclosure import DisclosureRules

__all__ = ["People", "rules_of_run"]

# Former names of columns, which some tables had.
FORMER = {"propensity": "score", "matched_set": "set"}


class People(pd.DataFrame):
    """A DataFrame with one row per person, whose ``repr`` shows no rows.

    Its size is shown by the disclosure rules of the run that made the table or by those of the
    site, whichever are stricter.
    """

    _metadata: ClassVar[list[str]] = ["_of_run"]  # pandas keeps these attributes in pickles.

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        from steropes.studies.disclosure import rules_in_force

        super().__init__(*args, **kwargs)
        self._of_run = rules_in_force()

    def __getitem__(self, key: Any) -> Any:
        asked = (key,) if isinstance(key, str) else key if isinstance(key, list) else ()
        for name in asked:
            now = FORMER.get(name) if isinstance(name, str) else None
            if now is not None and name not in self.columns and now in self.columns:
                raise KeyError(f"the column {name!r} is {now!r} now, as in all tables of people")
        return super().__getitem__(key)

    def __repr__(self) -> str:
        return f"{self._size()}; rows of people are not printed"

    def _repr_html_(self) -> str:
        return f"<p>{self._size()}; rows of people are not printed</p>"

    def _repr_data_resource_(self) -> object:
        return None

    def _size(self) -> str:
        """Describe the size of the table, with small counts suppressed."""
        from steropes.studies.disclosure import shown_count

        columns = ", ".join(map(str, self.columns))
        return f"Table of {shown_count(len(self), self._of_run)} people ({columns})"


def rules_of_run(table: pd.DataFrame) -> DisclosureRules | None:
    """Return the disclosure rules of the run that made a table of people; None if not known."""
    return table._of_run if isinstance(table, People) else None
