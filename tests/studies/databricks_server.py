"""A warehouse with Databricks' Thrift protocol whose queries DuckDB runs, to test the client.

The messages are those of the client's package. Results are sent at once, as Arrow batches, which
Databricks does for small results.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import duckdb
import pyarrow as pa
from databricks.sql.thrift_api.TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer
from transpiled_server import translated

DONE = ttypes.TStatus(ttypes.TStatusCode.SUCCESS_STATUS)
HANDLE = ttypes.THandleIdentifier(b"0123456789abcdef", b"0123456789abcdef")
OPERATION = ttypes.TOperationHandle(HANDLE, ttypes.TOperationType.EXECUTE_STATEMENT, True)
TYPES = {
    pa.int64(): ttypes.TTypeId.BIGINT_TYPE,
    pa.int32(): ttypes.TTypeId.INT_TYPE,
    pa.float64(): ttypes.TTypeId.DOUBLE_TYPE,
    pa.date32(): ttypes.TTypeId.DATE_TYPE,
    pa.timestamp("us"): ttypes.TTypeId.TIMESTAMP_TYPE,
}


class Warehouse:
    """The methods of the service that a query needs."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection, self.lock = connection, threading.Lock()
        self.sessions: list[Any] = []

    def OpenSession(self, request: Any) -> Any:
        """Open a session."""
        self.sessions.append(request)
        return ttypes.TOpenSessionResp(
            DONE,
            ttypes.TProtocolVersion.SPARK_CLI_SERVICE_PROTOCOL_V7,
            ttypes.TSessionHandle(HANDLE),
            canUseMultipleCatalogs=True,
        )

    def CloseSession(self, request: Any) -> Any:
        """Close a session."""
        return ttypes.TCloseSessionResp(DONE)

    def CloseOperation(self, request: Any) -> Any:
        """Forget a query."""
        return ttypes.TCloseOperationResp(DONE)

    def ExecuteStatement(self, request: Any) -> Any:
        """Run a query and return its rows."""
        try:
            with self.lock:
                found = self.connection.sql(translated(request.statement, "databricks"))
                table = found.to_arrow_table()
        except duckdb.Error as error:
            return ttypes.TExecuteStatementResp(
                ttypes.TStatus(ttypes.TStatusCode.ERROR_STATUS, errorMessage=str(error))
            )
        columns = [
            ttypes.TColumnDesc(field.name, _type(field.type), position=k)
            for k, field in enumerate(table.schema, 1)
        ]
        rows = ttypes.TRowSet(
            startRowOffset=0,
            rows=[],
            arrowBatches=[
                ttypes.TSparkArrowBatch(batch.serialize().to_pybytes(), batch.num_rows)
                for batch in table.to_batches(max_chunksize=500)
            ],
        )
        return ttypes.TExecuteStatementResp(
            DONE,
            OPERATION,
            directResults=ttypes.TSparkDirectResults(
                ttypes.TGetOperationStatusResp(DONE, ttypes.TOperationState.FINISHED_STATE),
                ttypes.TGetResultSetMetadataResp(
                    DONE,
                    ttypes.TTableSchema(columns),
                    resultFormat=ttypes.TSparkRowSetType.ARROW_BASED_SET,
                    lz4Compressed=False,
                    arrowSchema=table.schema.serialize().to_pybytes(),
                ),
                ttypes.TFetchResultsResp(DONE, hasMoreRows=False, results=rows),
                ttypes.TCloseOperationResp(DONE),
            ),
        )


def _type(kind: Any) -> Any:
    """Describe a type as Hive does."""
    name = TYPES.get(kind, ttypes.TTypeId.STRING_TYPE)
    return ttypes.TTypeDesc([ttypes.TTypeEntry(ttypes.TPrimitiveTypeEntry(name))])


class Handler(BaseHTTPRequestHandler):
    """Requests of one client: a Thrift message in, another out."""

    protocol_version = "HTTP/1.1"
    processor: Any
    tokens: list[str]

    def do_POST(self) -> None:
        """Answer a message."""
        self.tokens.append(self.headers.get("Authorization", ""))
        asked = TMemoryBuffer(self.rfile.read(int(self.headers["Content-Length"])))
        answer = TMemoryBuffer()
        self.processor.process(TBinaryProtocol(asked), TBinaryProtocol(answer))
        body = answer.getvalue()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-thrift")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def databricks_server(
    connection: duckdb.DuckDBPyConnection,
) -> Iterator[tuple[str, Warehouse, list[str]]]:
    """Serve the tables of a connection; yields the address, the warehouse and the tokens sent."""
    warehouse, tokens = Warehouse(connection), []
    processor = TCLIService.Processor(warehouse)
    handler = type("Bound", (Handler,), {"processor": processor, "tokens": tokens})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/sql", warehouse, tokens
        finally:
            server.shutdown()
            thread.join()
