"""How the servers' SQL differs: the few plain queries that a study sends, for each of them.

Every query is a SELECT: the list of tables and columns, and columns of one table, of some people or
of some concepts. Names are quoted as the server itself spells them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["DIALECTS", "Column", "Dialect", "Table"]

Kind = Literal["whole", "real", "date", "time", "text"]
MOST = 2_000  # values in one list

WHOLE = ("int", "serial", "long", "byteint")
MEASURED = ("value_as_number", "range_low", "range_high", "quantity")
REAL = ("double", "float", "real", "numeric", "decimal", "number", "money")


@dataclass(frozen=True)
class Column:
    """A column as the server spells it, and what it holds."""

    name: str
    kind: Kind

    @classmethod
    def declared(cls, name: str, type_name: str, scale: object) -> Column:
        """From what the server's catalogue says, and for want of that from the CDM's names.

        Columns that a site has never filled are often declared as text.
        """
        plain = name.lower()
        kind = _kind(plain, type_name.lower(), scale)
        if kind == "text":
            kind = "real" if plain in MEASURED else kind
            kind = "whole" if plain.endswith("_concept_id") else kind
            kind = "date" if plain.endswith("_date") else kind
        return cls(name, kind)


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

    def select(self, table: Table, columns: Sequence[Column], where: str = "") -> str:
        """Columns of a table, in types that do not depend on the server."""
        listed = ", ".join(self._cast(c) for c in columns)
        place = f"{self.quote(table.schema)}.{self.quote(table.name)}"
        return f"SELECT {listed} FROM {place}" + (f" WHERE {where}" if where else "")

    def exists(self, table: Table, where: str) -> str:
        """One number: 1 if a row of a table satisfies a condition, and 0 otherwise."""
        place = f"{self.quote(table.schema)}.{self.quote(table.name)}"
        found = f"EXISTS (SELECT 1 FROM {place} WHERE {where})"
        return f"SELECT CASE WHEN {found} THEN 1 ELSE 0 END AS found"

    def among(self, column: Column, values: Sequence[int | str]) -> Iterator[str]:
        """The condition that a column has one of some values, in parts of a bearable length."""
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

    def _cast(self, column: Column) -> str:
        types = {"whole": self.whole, "real": self.real, "date": self.date, "time": self.time}
        name = self.quote(column.name)
        kind = types.get(column.kind, self.text)
        return f"CAST({name} AS {kind}) AS {self.quote(column.name.lower())}"


def _kind(name: str, declared: str, scale: object) -> Kind:
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
        exact = plain.startswith(("num", "dec"))
        return "whole" if exact and (scale == 0 or name.endswith("_id")) else "real"
    return "text"


DIALECTS: dict[str, Dialect] = {
    d.name: d
    for d in (
        Dialect("postgresql", "public"),
        Dialect("snowflake", "PUBLIC", real="DOUBLE", time="TIMESTAMP_NTZ"),
        Dialect(
            "bigquery",
            whole="INT64",
            real="FLOAT64",
            time="DATETIME",
            text="STRING",
            quotes=("`", "`"),
            catalogue="{schema}.INFORMATION_SCHEMA.COLUMNS",
            scale="NULL",
        ),
        Dialect("databricks", "default", real="DOUBLE", text="STRING", quotes=("`", "`")),
        Dialect(
            "sqlserver",
            "dbo",
            real="FLOAT",
            time="DATETIME2",
            text="NVARCHAR(MAX)",
            quotes=("[", "]"),
        ),
    )
}
