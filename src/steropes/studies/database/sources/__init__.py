"""Interfaces of servers and of DuckDB as sources of tables; SQL dialects and column types."""
