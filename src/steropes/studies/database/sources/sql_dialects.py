"""SQL dialects of the supported servers, for the few plain queries that a study sends.

Every query is a SELECT: the list of tables and columns, or columns of one table for some people or
some concepts. Names are quoted in the server's spelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from steropes.studies.database.sources.column_type_conversion import meaning

__all__ = ["Column", "Dialect", "Table"]

Kind = Literal["whole", "real", "date", "time", "text"]
MOST = 2_000  # The largest number of values in one list.

WHOLE = ("int", "serial", "long", "byteint")
EXACT = ("num", "dec")  # Prefixes of decimal types.
REAL = ("double", "float", "real", "numeric", "decimal", "number", "money")


@dataclass(frozen=True)
class Column:
    """A column in the server's spelling, with the kind of its values.

    Attributes
    ----------
    type_name : str
        Declared type, in lower case.
    as_text : bool
        Whether the values are sent as text and converted on arrival. An error then does not quote a
        value, and no number is rounded.
    """

    name: str
    kind: Kind
    type_name: str = ""
    as_text: bool = False

    @classmethod
    def declared(cls, name: str, type_name: str, scale: object) -> Column:
        """Create a column from the server's catalogue, or else from the CDM's definition.

        Columns that a site has never filled are often declared as text.
        """
        type_name, meant = type_name.lower(), meaning(name.lower())
        kind = _kind(type_name, scale)
        decimal = kind == "real" and type_name.startswith(EXACT)
        if meant and (kind == "text" or (decimal and meant == "whole")):
            return cls(name, meant, type_name, as_text=True)
        return cls(name, kind, type_name)

    @property
    def is_text(self) -> bool:
        """Whether the server stores text where the CDM has dates or numbers."""
        return self.as_text and not self.type_name.startswith(EXACT)


@dataclass(frozen=True)
class Table:
    """A table in the server's spelling."""

    schema: str
    name: str
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column | None:
        """Find a column by its name, in any case."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)


@dataclass(frozen=True)
class Dialect:
    """The SQL dialect of a server.

    Attributes
    ----------
    usual_schema : str
        Default schema of the CDM tables; "" if the server has none.
    whole, real, date, time, text : str
        Types of 64-bit integers, double precision numbers, dates, times and text.
    instants : str
        Pattern of the types (in lower case) of instants: times that are stored without a time zone
        and displayed in that of the session.
    shown : str
        Expression of the local time of the instant ``{name}`` in the time zone ``{zone}``.
    quotes : (str, str)
        Quotation marks of names.
    quote_in_name, quote_in_text : str
        Forms of a quotation mark within names ("" for two marks) and within texts.
    backslashes : bool
        Whether a backslash in a text escapes the next character.
    catalogue : str
        The view of columns; ``{schema}`` in it is replaced by the quoted schema.
    scale : str
        Expression of the number of decimal places of a decimal type.
    """

    name: str
    usual_schema: str = ""
    whole: str = "BIGINT"
    real: str = "DOUBLE PRECISION"
    date: str = "DATE"
    time: str = "TIMESTAMP"
    text: str = "VARCHAR"
    instants: str = r"timestamp.* with time zone|timestamptz"
    shown: str = "{name} AT TIME ZONE {zone}"
    quotes: tuple[str, str] = ('"', '"')
    quote_in_name: str = ""
    quote_in_text: str = "''"
    backslashes: bool = False
    catalogue: str = "INFORMATION_SCHEMA.COLUMNS"
    scale: str = "NUMERIC_SCALE"

    def quote(self, name: str) -> str:
        """Quote a name."""
        first, last = self.quotes
        return f"{first}{name.replace(last, self.quote_in_name or last + last)}{last}"

    def literal(self, value: int | str) -> str:
        """Write a number or text as a literal."""
        if isinstance(value, int):
            return str(int(value))
        if self.backslashes:
            value = value.replace("\\", "\\\\")
        return "'" + value.replace("'", self.quote_in_text) + "'"

    def listing(self, schema: str) -> str:
        """Select schema, table, column, type and scale of every column in a schema."""
        view = self.catalogue.format(schema=self.quote(schema))
        return (
            f"SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, {self.scale} AS SCALE "
            f"FROM {view} WHERE LOWER(TABLE_SCHEMA) = {self.literal(schema.lower())} "
            "ORDER BY TABLE_NAME, ORDINAL_POSITION"
        )

    def schemas(self) -> str | None:
        """Select the schemas with a table ``person``; None if the server has no such view."""
        if "{schema}" in self.catalogue:
            return None
        return (
            f"SELECT DISTINCT TABLE_SCHEMA FROM {self.catalogue} "
            "WHERE LOWER(TABLE_NAME) = 'person' ORDER BY TABLE_SCHEMA"
        )

    def select(
        self, table: Table, columns: Sequence[Column], where: str = "", zone: str = "UTC"
    ) -> str:
        """Select columns of a table, in types that do not depend on the server.

        Instants are converted to local times in ``zone``, whatever the session's time zone.
        """
        listed = ", ".join(self._cast(c, zone) for c in columns)
        place = f"{self.quote(table.schema)}.{self.quote(table.name)}"
        return f"SELECT {listed} FROM {place}" + (f" WHERE {where}" if where else "")

    def distinct_days(self, table: Table, column: Column, zone: str = "UTC") -> str:
        """Select the distinct days of a column; text is sent as it is."""
        days = self.select(table, [replace(column, kind="date")], zone=zone)
        return days.replace("SELECT", "SELECT DISTINCT", 1)

    def exists(self, table: Table, where: str) -> str:
        """Select 1 if a row of a table satisfies a condition, and 0 otherwise."""
        place = f"{self.quote(table.schema)}.{self.quote(table.name)}"
        found = f"EXISTS (SELECT 1 FROM {place} WHERE {where})"
        return f"SELECT CASE WHEN {found} THEN 1 ELSE 0 END AS found"

    def among(self, column: Column, values: Sequence[int | str]) -> Iterator[str]:
        """Yield conditions that a column has one of some values, in lists of limited length."""
        if column.as_text:
            values = [str(v) for v in values]
        for at in range(0, len(values), MOST):
            listed = ", ".join(self.literal(v) for v in values[at : at + MOST])
            yield f"{self.quote(column.name)} IN ({listed})"

    def naming(self, column: Column, words: Sequence[str]) -> str:
        """Write a condition that includes all rows whose text has all of some words, in any case.

        Servers differ in case folding beyond ASCII and in escape characters, so that wildcards
        replace such characters; the condition may include further rows.
        """
        parts = []
        for word in words:
            plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in word.lower())
            pattern = self.literal(f"%{plain}%")
            parts.append(f"LOWER({self.quote(column.name)}) LIKE {pattern}")
        return " AND ".join(parts)

    def has_record(self, person: Column, records: Sequence[tuple[Table, Column, str]]) -> str:
        """Write the condition that a person has one of some records.

        Each element of ``records`` has the table, its person column, and the condition.
        """
        parts = [
            f"SELECT {self.quote(who.name)} FROM {self.quote(t.schema)}.{self.quote(t.name)} "
            f"WHERE {condition}"
            for t, who, condition in records
        ]
        return f"{self.quote(person.name)} IN ({' UNION ALL '.join(parts)})"

    def _cast(self, column: Column, zone: str) -> str:
        """Cast a column to the dialect's type of its kind."""
        types = {"whole": self.whole, "real": self.real, "date": self.date, "time": self.time}
        name = self.quote(column.name)
        if re.fullmatch(self.instants, column.type_name):
            name = self.shown.format(name=name, zone=self.literal(zone))
        kind = self.text if column.as_text else types.get(column.kind, self.text)
        return f"CAST({name} AS {kind}) AS {self.quote(column.name.lower())}"


def _kind(declared: str, scale: object) -> Kind:
    """Classify a declared type; decimal numbers without decimal places are whole."""
    plain = declared.partition("(")[0].strip()
    if plain.startswith(("timestamp", "datetime", "smalldatetime")):
        return "time"
    if plain == "date":
        return "date"
    if plain == "interval":
        return "text"
    if any(word in plain for word in WHOLE) and "point" not in plain:
        return "whole"
    if any(word in plain for word in REAL):
        return "whole" if plain.startswith(EXACT) and scale == 0 else "real"
    return "text"
