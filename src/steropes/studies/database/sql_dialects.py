"""How the servers' SQL differs: the few plain queries that a study sends, for each of them.

Every query is a SELECT: the list of tables and columns, and columns of one table, of some people or
of some concepts. Names are quoted as the server itself spells them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from steropes.studies.database.column_types import meaning

__all__ = ["DIALECTS", "Column", "Dialect", "Table"]

Kind = Literal["whole", "real", "date", "time", "text"]
MOST = 2_000  # values in one list

WHOLE = ("int", "serial", "long", "byteint")
EXACT = ("num", "dec")  # decimal numbers
REAL = ("double", "float", "real", "numeric", "decimal", "number", "money")


@dataclass(frozen=True)
class Column:
    """A column as the server spells it, and what it holds.

    Attributes
    ----------
    name : str
    kind : str
    type_name : str
        The declared type, in lower case.
    as_text : bool
        Whether the values are sent as text and converted on arrival, where a value that cannot be
        converted is an error that does not quote it, and no number is rounded.
    """

    name: str
    kind: Kind
    type_name: str = ""
    as_text: bool = False

    @classmethod
    def declared(cls, name: str, type_name: str, scale: object) -> Column:
        """From what the server's catalogue says, and for want of that from the CDM's names.

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
        """Whether the server holds text where the CDM has dates or numbers."""
        return self.as_text and not self.type_name.startswith(EXACT)


@dataclass(frozen=True)
class Table:
    """A table as the server spells it."""

    schema: str
    name: str
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column | None:
        """A column by its name in any case."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)


@dataclass(frozen=True)
class Dialect:
    """One server's SQL.

    Attributes
    ----------
    name : str
    usual_schema : str
        Of the CDM tables where nobody says another; "" if there is none that is usual.
    whole, real, date, time, text : str
        Types of 64-bit integers, double precision numbers, dates, times and text.
    instants : str
        A pattern of the types, in lower case, that hold instants: times that the server shows in
        the time zone of the session, and stores without one.
    shown : str
        The time that the instant ``{name}`` shows in the time zone ``{zone}``.
    quotes : (str, str)
        Around names.
    catalogue : str
        The view of columns; ``{schema}`` in it stands for the quoted schema.
    scale : str
        The expression that tells the digits after the point of a decimal number.
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
    catalogue: str = "INFORMATION_SCHEMA.COLUMNS"
    scale: str = "NUMERIC_SCALE"

    def quote(self, name: str) -> str:
        """A name."""
        first, last = self.quotes
        doubled = "\\" + last if self.name == "bigquery" else last + last
        return f"{first}{name.replace(last, doubled)}{last}"

    def literal(self, value: int | str) -> str:
        """A number, or text."""
        if isinstance(value, int):
            return str(int(value))
        if self.name in ("bigquery", "databricks", "snowflake"):
            value = value.replace("\\", "\\\\")
        escaped = value.replace("'", "\\'" if self.name in ("bigquery", "databricks") else "''")
        return f"'{escaped}'"

    def listing(self, schema: str) -> str:
        """Schema, table, column, type and scale of every column in a schema."""
        view = self.catalogue.format(schema=self.quote(schema))
        return (
            f"SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, {self.scale} AS SCALE "
            f"FROM {view} WHERE LOWER(TABLE_SCHEMA) = {self.literal(schema.lower())} "
            "ORDER BY TABLE_NAME, ORDINAL_POSITION"
        )

    def schemas(self) -> str | None:
        """Which schemas have a table ``person``, for a hint; None where that cannot be asked."""
        if "{schema}" in self.catalogue:
            return None
        return (
            f"SELECT DISTINCT TABLE_SCHEMA FROM {self.catalogue} "
            "WHERE LOWER(TABLE_NAME) = 'person' ORDER BY TABLE_SCHEMA"
        )

    def select(
        self, table: Table, columns: Sequence[Column], where: str = "", zone: str = "UTC"
    ) -> str:
        """Columns of a table, in types that do not depend on the server.

        Instants are the times that they show in ``zone``, whatever the session's time zone.
        """
        listed = ", ".join(self._cast(c, zone) for c in columns)
        place = f"{self.quote(table.schema)}.{self.quote(table.name)}"
        return f"SELECT {listed} FROM {place}" + (f" WHERE {where}" if where else "")

    def exists(self, table: Table, where: str) -> str:
        """One number: 1 if a row of a table satisfies a condition, and 0 otherwise."""
        place = f"{self.quote(table.schema)}.{self.quote(table.name)}"
        found = f"EXISTS (SELECT 1 FROM {place} WHERE {where})"
        return f"SELECT CASE WHEN {found} THEN 1 ELSE 0 END AS found"

    def among(self, column: Column, values: Sequence[int | str]) -> Iterator[str]:
        """The condition that a column has one of some values, in parts of a bearable length."""
        if column.as_text:
            values = [str(v) for v in values]
        for at in range(0, len(values), MOST):
            listed = ", ".join(self.literal(v) for v in values[at : at + MOST])
            yield f"{self.quote(column.name)} IN ({listed})"

    def naming(self, column: Column, words: Sequence[str]) -> str:
        """A condition that holds, among others, where text has all of some words in any case.

        Servers differ in how they fold letters beyond ASCII, and in what escapes a character; any
        one stands for such ones here.
        """
        parts = []
        for word in words:
            plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in word.lower())
            pattern = self.literal(f"%{plain}%")
            parts.append(f"LOWER({self.quote(column.name)}) LIKE {pattern}")
        return " AND ".join(parts)

    def whose(self, person: Column, records: Sequence[tuple[Table, Column, str]]) -> str:
        """The condition that a person has a record: its table, whose column, and which records."""
        parts = [
            f"SELECT {self.quote(who.name)} FROM {self.quote(t.schema)}.{self.quote(t.name)} "
            f"WHERE {condition}"
            for t, who, condition in records
        ]
        return f"{self.quote(person.name)} IN ({' UNION ALL '.join(parts)})"

    def _cast(self, column: Column, zone: str) -> str:
        types = {"whole": self.whole, "real": self.real, "date": self.date, "time": self.time}
        name = self.quote(column.name)
        if re.fullmatch(self.instants, column.type_name):
            name = self.shown.format(name=name, zone=self.literal(zone))
        kind = self.text if column.as_text else types.get(column.kind, self.text)
        return f"CAST({name} AS {kind}) AS {self.quote(column.name.lower())}"


def _kind(declared: str, scale: object) -> Kind:
    """What a column holds; decimal numbers without digits after the point are whole."""
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


DIALECTS: dict[str, Dialect] = {
    d.name: d
    for d in (
        Dialect("postgresql", "public"),
        Dialect(
            "snowflake",
            "PUBLIC",
            real="DOUBLE",
            time="TIMESTAMP_NTZ",
            instants="timestamp_ltz.*",
            shown="CONVERT_TIMEZONE({zone}, {name})",
        ),
        Dialect(
            "bigquery",
            whole="INT64",
            real="FLOAT64",
            time="DATETIME",
            text="STRING",
            instants="timestamp",
            shown="DATETIME({name}, {zone})",
            quotes=("`", "`"),
            catalogue="{schema}.INFORMATION_SCHEMA.COLUMNS",
            scale="NULL",
        ),
        Dialect(
            "databricks",
            "default",
            real="DOUBLE",
            time="TIMESTAMP_NTZ",
            text="STRING",
            instants="timestamp|timestamp_ltz",
            shown="CONVERT_TIMEZONE(CURRENT_TIMEZONE(), {zone}, CAST({name} AS TIMESTAMP_NTZ))",
            quotes=("`", "`"),
        ),
        Dialect(
            "sqlserver",
            "dbo",
            real="FLOAT",
            time="DATETIME2",
            text="NVARCHAR(MAX)",
            instants=r"(?!)",  # a DATETIMEOFFSET has an offset, and shows its own time when cast
            quotes=("[", "]"),
        ),
    )
}
