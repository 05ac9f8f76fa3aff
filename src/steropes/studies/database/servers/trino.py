"""Trino, by its Python client; tested against an imitation of its protocol only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from steropes.studies._optional_packages import need
from steropes.studies.database.sources.server_address import Address
from steropes.studies.database.sources.server_connection import (
    BATCH,
    Server,
    empty_batch,
    read_options,
)
from steropes.studies.database.sources.server_kind import ServerKind
from steropes.studies.database.sources.sql_dialects import Dialect

__all__ = ["SERVER"]


# Arrow types of the types that a query of `Dialect.select` has.
TYPES = {"bigint": "int64", "integer": "int64", "double": "float64", "date": "date32"}


class TrinoServer(Server):
    """A connection of Trino's client, whose rows are tuples."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def batches(self, sql: str) -> Iterator[Any]:
        """Yield the rows of a SELECT."""
        import pyarrow as pa

        cursor = self.connection.cursor()
        cursor.execute(sql)
        rows = cursor.fetchmany(BATCH)
        fields = [(name.lower(), _arrow_type(kind)) for name, kind, *_ in cursor.description]
        schema = pa.schema(fields)
        yield empty_batch(schema)
        while rows:
            columns = [
                pa.array(values, kind)
                for values, (_, kind) in zip(zip(*rows, strict=True), fields, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
            rows = cursor.fetchmany(BATCH)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def _arrow_type(name: str) -> Any:
    """Return the Arrow type of a type of Trino."""
    import pyarrow as pa

    plain = name.partition("(")[0].lower()
    if plain == "timestamp":
        return pa.timestamp("us")
    return pa.type_for_alias(TYPES.get(plain, "string"))


def _connect(address: Address, writing: bool) -> Server:
    """Connect to ``trino://user@host:443/catalog?schema=cdm`` by password, token or neither."""
    trino = need("trino", "trino")
    known = read_options(address, {"http_scheme": "http_scheme"})
    user, secrets = address.secrets.get("user", ""), address.secrets
    auth = None
    if "token" in secrets:
        auth = trino.auth.JWTAuthentication(secrets["token"])
    elif "password" in secrets:
        auth = trino.auth.BasicAuthentication(user, secrets["password"])
    return TrinoServer(
        trino.dbapi.connect(
            host=address.host,
            port=address.port or 443,
            user=user,
            catalog=address.path,
            schema=address.schema or None,
            auth=auth,
            **{"http_scheme": "https", **known},
        )
    )


SERVER = ServerKind(
    ("trino",), Dialect("trino", real="DOUBLE", time="TIMESTAMP(6)", scale="NULL"), _connect
)
