"""Where the tables of a database are: in DuckDB, in Parquet files, on a server.

The analysis is DuckDB's in every case. What is on a server is read by a handful of plain queries
and streamed as Arrow into a DuckDB file of the study's own, which goes when the study ends.
"""
