"""Access to the tables of an OMOP database in DuckDB, in Parquet files or on a server.

All analysis runs in DuckDB. A server is read by a handful of plain queries, which are streamed as
Arrow into a temporary DuckDB file of the study; the file is removed when the study ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steropes.studies._optional_packages import lazy_names

if TYPE_CHECKING:  # the same names for editors and type checkers
    from .simulated_hypertension import hypertension_database

__all__ = [
    "hypertension_database",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "simulated_hypertension": ["hypertension_database"],
        },
    )
