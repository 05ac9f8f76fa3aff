"""What a server or DuckDB must offer as a source of tables, dialects and types of columns."""
