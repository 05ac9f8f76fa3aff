"""Access to the tables of an OMOP database in DuckDB, in Parquet files or on a server.

All analysis runs in DuckDB. A server is read by a handful of plain queries, which are streamed as
Arrow into a temporary DuckDB file of the study; the file is removed when the study ends.
"""
