"""A coordinator of Trino's HTTP protocol, whose queries DuckDB runs, for tests of the client.

https://trino.io/docs/current/develop/client-protocol.html
"""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import duckdb
from transpiled_server import translated

PAGE = 500  # rows of an answer


class Coordinator(ThreadingHTTPServer):
    """Queries and the pages of their results."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.connection, self.lock = connection, threading.Lock()
        self.numbers, self.pages = itertools.count(1), {}
        self.headers: list[dict[str, str]] = []

    def submit(self, sql: str) -> dict[str, Any]:
        """Run a query, and return the first page of its results, which has no rows."""
        number = f"q{next(self.numbers)}"
        try:
            with self.lock:
                found = self.connection.sql(translated(sql, "trino"))
                columns = [_column(*c) for c in zip(found.columns, found.types, strict=True)]
                rows = [[_value(v) for v in row] for row in found.fetchall()]
        except duckdb.Error as error:
            reason = {"message": str(error), "errorName": "SYNTAX_ERROR", "errorCode": 1}
            return {**self._page(number), "error": {**reason, "errorType": "USER_ERROR"}}
        parts = [rows[at : at + PAGE] for at in range(0, len(rows), PAGE)] or [[]]
        for k, part in enumerate(parts):
            last = k + 1 == len(parts)
            page = {**self._page(number, None if last else k + 1), "columns": columns}
            self.pages[f"/v1/statement/{number}/{k}"] = {**page, **({"data": part} if part else {})}
        return self._page(number, 0)

    def _page(self, number: str, following: int | None = None) -> dict[str, Any]:
        """Create a page without data."""
        here = f"http://127.0.0.1:{self.server_port}/v1/statement/{number}"
        page = {"id": number, "infoUri": here, "warnings": []}
        page["stats"] = {"state": "FINISHED" if following is None else "RUNNING"}
        return page if following is None else {**page, "nextUri": f"{here}/{following}"}


class Handler(BaseHTTPRequestHandler):
    """Requests of one client."""

    server: Coordinator

    def do_POST(self) -> None:
        """Accept a query."""
        self.server.headers.append({k.lower(): v for k, v in self.headers.items()})
        sql = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._answer(self.server.submit(sql))

    def do_GET(self) -> None:
        """Send a page of results."""
        self._answer(self.server.pages.pop(self.path))

    def do_DELETE(self) -> None:
        """Cancel a query."""
        self._answer({})

    def _answer(self, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def trino_server(connection: duckdb.DuckDBPyConnection) -> Iterator[Coordinator]:
    """Serve the tables of a connection until the end of a test."""
    with Coordinator(connection) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def _column(name: str, kind: object) -> dict[str, Any]:
    """Describe a column as Trino does, with its type in two forms."""
    shown = str(kind)
    length = None
    if shown.startswith("TIMESTAMP"):
        shown, length = "timestamp(6)", 6
    elif shown == "VARCHAR":
        length = 2_147_483_647
    shown = shown.lower()
    signature: dict[str, Any] = {"rawType": shown.partition("(")[0], "arguments": []}
    if length is not None:
        signature["arguments"].append({"kind": "LONG", "value": length})
    return {"name": name, "type": shown, "typeSignature": signature}


def _value(value: object) -> object:
    """Write a value in JSON as Trino does."""
    plain = value is None or isinstance(value, int | float | str | bool)
    return value if plain else str(value)
