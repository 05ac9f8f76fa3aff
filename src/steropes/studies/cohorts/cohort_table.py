"""Cohorts as an in-memory table of entries, independent of any database.

An entry is a person who is in a cohort from one day to another, both inclusive. The four columns
are those of an OMOP ``cohort`` table. Because the entries are stored here and not in a temporary
table, sets of cohorts from one connection cannot interfere.
"""

from __future__ import annotations

import copy
import hashlib
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.data.array_conversion import refuse_lazy_query
from steropes.data.html_representations import TextInHtml
from steropes.designs.values.dates_and_ages import as_days
from steropes.errors import DataError
from steropes.studies.cohorts.people_frame_with_hidden_rows import People
from steropes.studies.database.data_quality_notes import DataNote, distinct
from steropes.studies.database.omop import Workspace

if TYPE_CHECKING:
    from steropes.studies.disclosure import DisclosureRules

__all__ = ["CohortTable"]

COLUMNS = ("cohort_definition_id", "subject_id", "cohort_start_date", "cohort_end_date")
EXACT = 2.0**53  # Floating point numbers from here on do not distinguish neighbouring integers.


@dataclass(frozen=True, repr=False, eq=False)
class CohortTable(TextInHtml):
    """Entries of one or more cohorts, ordered by cohort, person, start and end.

    Parameters
    ----------
    definition : array_like of int, shape (n,)
        Cohort id of each entry.
    subject : array_like of int, shape (n,)
        Person id.
    start, end : array_like of dates, shape (n,)
        First and last day in the cohort: dates, timestamps or text such as "2010-12-31". The date
        of a timestamp with a time zone is the one in that zone.
    database : str, default ""
        The database of the people, as in ``OmopDatabase.identity``; empty if unknown.
    names : dict of int to str, optional
        Names of cohorts.
    notes : tuple of DataNote
        Irregularities of the database found when the cohorts were built; default none.

    Raises
    ------
    DataError
        Arrays differ in length, ids are not whole numbers, values are not dates, dates are missing,
        or an end precedes its start.

    See Also
    --------
    CohortTable.from_frame : Read a data frame with the columns of an OMOP cohort table.
    read_cohorts : Read the cohort table of a database.

    Examples
    --------
    >>> from steropes.studies.cohorts import CohortTable
    >>> first, last = ["2010-01-01", "2011-05-01"], ["2010-03-01", "2011-06-01"]
    >>> cohorts = CohortTable([1, 1], [7, 9], first, last, names={1: "new users"})
    >>> cohorts.counts().to_numpy().tolist()
    [[1, 2, 2]]
    """

    definition: NDArray
    subject: NDArray
    start: NDArray
    end: NDArray
    database: str = ""
    names: dict[int, str] | None = None
    notes: tuple[DataNote, ...] = ()
    # The rules of the run that made the table, which its repr follows.
    _of_run: DisclosureRules = field(init=False)

    def __post_init__(self) -> None:
        """Check, convert and sort the columns, which are copied and then read-only."""
        from steropes.studies.disclosure import rules_in_force

        columns = {
            "definition": whole_numbers(COLUMNS[0], self.definition),
            "subject": whole_numbers(COLUMNS[1], self.subject),
            "start": as_days(self.start, f"cohort table: {COLUMNS[2]}"),
            "end": as_days(self.end, f"cohort table: {COLUMNS[3]}"),
        }
        if len({len(c) for c in columns.values()}) > 1:
            raise DataError(
                "a cohort needs a definition, subject, start and end for every entry; there are "
                + ", ".join(f"{len(c)} of {name}" for name, c in columns.items())
            )
        _refuse_dates(columns["definition"], columns["start"], columns["end"])
        order = _order([*columns.values()])
        for name, values in columns.items():
            kept = values.copy() if order is None else values[order]
            kept.flags.writeable = False
            object.__setattr__(self, name, kept)
        object.__setattr__(self, "names", dict(self.names or {}))
        object.__setattr__(self, "_of_run", rules_in_force())

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled table, whose arrays are read-only again."""
        for name, value in state.items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    # -- construction ----------------------------------------------------------------------------

    @classmethod
    def from_frame(cls, frame: Any, database: str = "") -> CohortTable:
        """Read a table with the columns of an OMOP cohort table, in any case.

        Parameters
        ----------
        frame : DataFrame
            A pandas, polars or pyarrow table.
        database : str, default ""
            The database of the people.

        Returns
        -------
        CohortTable
            The entries.

        Raises
        ------
        DataError
            A column is missing, or an entry is invalid.

        Examples
        --------
        >>> import pandas as pd
        >>> from steropes.studies.cohorts import CohortTable
        >>> frame = pd.DataFrame({
        ...     "cohort_definition_id": [1], "subject_id": [7],
        ...     "cohort_start_date": ["2010-01-01"], "cohort_end_date": ["2010-03-01"],
        ... })
        >>> CohortTable.from_frame(frame).ids
        (1,)
        """
        refuse_lazy_query(frame, "the cohort table")
        known = nw.from_native(frame, eager_only=True, pass_through=True)
        if not isinstance(known, nw.DataFrame):
            raise DataError(
                "a cohort table must be a pandas, polars or pyarrow table, not "
                f"{type(frame).__name__}"
            )
        frame = known.to_pandas()
        lower = {str(c).lower(): c for c in frame.columns}
        gone = [c for c in COLUMNS if c not in lower]
        if gone:
            raise DataError(
                f"a cohort table needs the columns {', '.join(COLUMNS)}; it lacks {', '.join(gone)}"
            )
        values = [frame[lower[c]] for c in COLUMNS]
        for name, column in zip(COLUMNS, values, strict=True):
            if column.isna().any():
                from steropes.studies.disclosure import shown_count

                missing = shown_count(int(column.isna().sum()))
                raise DataError(f"cohort table: {missing} entries have no {name}")
        return cls(values[0].to_numpy(), values[1].to_numpy(), values[2], values[3], database)

    def __add__(self, other: CohortTable) -> CohortTable:
        """Concatenate two tables of one database that share no cohort id."""
        if self.database and other.database and self.database != other.database:
            raise DataError(
                f"cohorts of {self.database} and of {other.database} cannot be combined: "
                "person ids are not comparable across databases"
            )
        shared = sorted({*self.ids} & {*other.ids})
        if shared:
            raise DataError(f"cohort {shared[0]} is in both tables; give one of them another id")
        both = CohortTable(
            np.concatenate((self.definition, other.definition)),
            np.concatenate((self.subject, other.subject)),
            np.concatenate((self.start, other.start)),
            np.concatenate((self.end, other.end)),
            self.database or other.database,
            {**(self.names or {}), **(other.names or {})},
            distinct((*self.notes, *other.notes)),
        )
        return both._as_private_as(self, other)

    # -- access ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.subject)

    def __repr__(self) -> str:
        """Show the numbers of entries of the first cohorts by the rules of the table's run."""
        from steropes.studies.disclosure import shown_count

        parts = [f"{i}: {shown_count(n, self._of_run)}" for i, n in self._sizes()[:6]]
        more = ", …" if len(self._sizes()) > 6 else ""
        return f"CohortTable({{{', '.join(parts)}{more}}} entries)"

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the cohorts that have entries, ascending."""
        return tuple(int(i) for i in np.sort(pd.unique(self.definition)))

    def name(self, cohort: int) -> str:
        """Return the name of a cohort.

        Parameters
        ----------
        cohort : int
            Id of the cohort.

        Returns
        -------
        str
            Its name, or "cohort 3" for cohort 3 without a name.
        """
        cohort = cohort_id(cohort)
        return (self.names or {}).get(cohort, f"cohort {cohort}")

    def only(self, cohorts: int | Iterable[int]) -> CohortTable:
        """Select the entries of some cohorts.

        Parameters
        ----------
        cohorts : int or iterable of int
            Ids of the cohorts.

        Returns
        -------
        CohortTable
            The entries of these cohorts.
        """
        some = cohorts if isinstance(cohorts, Iterable) else [cohorts]
        # The table has no ids of more than 64 bits, which NumPy would refuse.
        known = [n for n in map(cohort_id, some) if abs(n) < 2**63]
        ids = np.unique(np.array(known, np.int64))
        first, after = (np.searchsorted(self.definition, ids, side) for side in ("left", "right"))
        if (after - first).sum() == len(self):
            return self._take(slice(None))  # Shares the columns, which are read-only.
        rows = [np.arange(a, b) for a, b in zip(first, after, strict=True)]
        return self._take(np.concatenate([np.empty(0, np.int64), *rows]))

    def renumbered(self, numbers: Mapping[int, int]) -> CohortTable:
        """Give cohorts other ids.

        Parameters
        ----------
        numbers : mapping of int to int
            The new id of each cohort of the table.

        Returns
        -------
        CohortTable
            The same entries under the new ids.

        Examples
        --------
        >>> from steropes.studies.cohorts import CohortTable
        >>> CohortTable([8], [7], ["2010-01-01"], ["2010-03-01"]).renumbered({8: 1}).ids
        (1,)
        """
        ids, place = np.unique(self.definition, return_inverse=True)
        new = np.array([numbers[int(i)] for i in ids], dtype=np.int64)
        names = {numbers[i]: name for i, name in (self.names or {}).items() if i in numbers}
        definition = new[place] if len(ids) else self.definition
        return replace(self, definition=definition, names=names)._as_private_as(self)

    def counts(self) -> pd.DataFrame:
        """Count entries and people of each cohort.

        Returns
        -------
        DataFrame
            Columns ``cohort_definition_id``, ``entries`` and ``people``.
        """
        sizes = self._sizes()
        ends = np.cumsum([n for _, n in sizes])
        rows = [
            (i, n, len(pd.unique(self.subject[end - n : end])))  # The table is sorted by cohort.
            for (i, n), end in zip(sizes, ends, strict=True)
        ]
        return pd.DataFrame(rows, columns=[COLUMNS[0], "entries", "people"])

    def frame(self) -> People:
        """Return the entries as a table.

        Returns
        -------
        DataFrame
            The four columns of an OMOP cohort table. Its ``repr`` shows no people.
        """
        # In seconds: open ends are often written 9999-12-31, and nanoseconds overflow in 2262.
        dates = [d.astype("datetime64[s]") for d in (self.start, self.end)]
        return People(
            dict(zip(COLUMNS, (self.definition.copy(), self.subject.copy(), *dates), strict=True))
        )

    def hashes(self) -> list[str]:
        """Return hashes of the columns, which distinguish tables with different entries.

        Returns
        -------
        list of str
            A SHA-256 of each column.
        """
        columns = (self.definition, self.subject, self.start, self.end)
        return [hashlib.sha256(np.ascontiguousarray(c).tobytes()).hexdigest() for c in columns]

    # -- in a workspace --------------------------------------------------------------------------

    def place(self, work: Workspace, table: str) -> str:
        """Copy the entries to a temporary table of a workspace.

        Parameters
        ----------
        work : Workspace
            A workspace of an `OmopDatabase`.
        table : str
            Name of the new table.

        Returns
        -------
        str
            The name of the table, which has the columns ``cohort_definition_id``, ``subject_id``,
            ``cohort_start_date`` and ``cohort_end_date``.
        """
        view = f"{table}_brought"
        work.connection.register(view, pd.DataFrame(self.frame()))
        try:
            work.run(
                f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT cohort_definition_id, subject_id, "
                "cohort_start_date::DATE AS cohort_start_date, "
                f"cohort_end_date::DATE AS cohort_end_date FROM {view}"
            )
        finally:
            work.connection.unregister(view)
        return table

    # -- helpers ---------------------------------------------------------------------------------

    def _take(self, rows: NDArray | slice) -> CohortTable:
        """Select entries in their order; they have been checked and sorted."""
        from steropes.studies.disclosure import rules_in_force

        taken = copy.copy(self)
        for name in ("definition", "subject", "start", "end"):
            kept = getattr(self, name)[rows]
            kept.flags.writeable = False
            object.__setattr__(taken, name, kept)
        object.__setattr__(taken, "names", dict(self.names or {}))
        object.__setattr__(taken, "_of_run", rules_in_force())
        return taken._as_private_as(self)

    def _as_private_as(self, *sources: CohortTable) -> CohortTable:
        """Apply the strictest rules of the tables from which this new one was made."""
        for source in sources:
            object.__setattr__(self, "_of_run", self._of_run.stricter(source._of_run))
        return self

    def _sizes(self) -> list[tuple[int, int]]:
        """Count the entries of each cohort."""
        ids, counts = np.unique(self.definition, return_counts=True)
        return [(int(i), int(n)) for i, n in zip(ids, counts, strict=True)]


def cohort_id(value: Any) -> int:
    """Convert a cohort id to an integer; a float must be whole, so that no id is rounded."""
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    if whole or (isinstance(value, numbers.Integral) and not isinstance(value, bool)):
        return int(value)
    raise DataError(f"the id of a cohort must be a whole number, not {value!r}")


def whole_numbers(name: str, values: ArrayLike, table: str = "cohort table") -> NDArray:
    """Copy ids to integers; rounding is an error, because it could give another person's id."""
    given = np.asarray(values).ravel()
    if given.dtype.kind not in "iufOUS":  # Dates would be accepted as numbers of days.
        raise DataError(f"{table}: {name} must hold whole numbers, not {given.dtype}")
    try:
        with np.errstate(invalid="ignore"):  # Values that are not finite are rejected below.
            found = given.astype(np.int64)
        bad = ~(found == given) if given.dtype.kind in "fu" else np.zeros(len(given), bool)
        if given.dtype.kind == "O":
            bad = np.array([not _same(a, b) for a, b in zip(found, given, strict=True)], bool)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{table}: {name} holds a value that is no whole number") from None
    if given.dtype.kind == "f":
        bad |= np.abs(given) >= EXACT
    if bad.any():
        # The message omits the value, because it may identify a person.
        raise DataError(f"{table}: {name} is no whole number in row {int(np.argmax(bad))}")
    return found


def _same(found: np.int64, given: object) -> bool:
    """Check that an integer id equals its source, which may be text of digits."""
    if isinstance(given, float | np.floating) and abs(float(given)) >= EXACT:
        return False
    return isinstance(given, str) or bool(int(found) == given)


def _order(columns: list[NDArray]) -> NDArray | None:
    """Return the order of rows by the first column, then by the next ones; None if sorted."""
    ordered = np.ones(max(len(columns[0]) - 1, 0), dtype=bool)
    for column in reversed(columns):
        before, after = column[:-1], column[1:]
        ordered = (before < after) | ((before == after) & ordered)
    return None if ordered.all() else np.lexsort(columns[::-1])


def _refuse_dates(definition: NDArray, start: NDArray, end: NDArray) -> None:
    """Raise for missing dates and ends before starts; the message names the cohort only."""
    from steropes.studies.disclosure import shown_count

    for problem, bad in (
        ("no start", np.isnat(start)),
        ("no end", np.isnat(end)),
        ("an end before the start", end < start),
    ):
        if bad.any():
            cohort = int(definition[np.argmax(bad)])
            n = shown_count(int((bad & (definition == cohort)).sum()))
            raise DataError(f"cohort {cohort}: {n} entries have {problem}")


def require_cohorts(table: CohortTable, cohorts: Sequence[int], role: str) -> None:
    """Raise if one of the cohorts has no entries."""
    gone = [int(c) for c in cohorts if int(c) not in table.ids]
    if gone:
        have = ", ".join(map(str, table.ids[:20])) or "none"
        raise DataError(f"{role}: cohort {gone[0]} has no entries (cohorts with entries: {have})")
