"""The description of a database as Strategus records it, and its identifier."""

from __future__ import annotations

from typing import Any

import pandas as pd

from steropes.studies.database.omop import OmopDatabase

__all__ = ["DATABASE", "database_identifier", "database_tables"]

DATABASE = "DatabaseMetaData"
SOURCE = (
    "cdm_source_name", "cdm_source_abbreviation", "cdm_holder", "source_description",
    "source_documentation_reference", "cdm_etl_reference", "source_release_date",
    "cdm_release_date", "cdm_version", "cdm_version_concept_id", "vocabulary_version",
)  # fmt: skip
UNKNOWN = "unknown"  # The value of a required text that the database does not have.
_WORD = 0xFFFFFFFF  # The largest number of 32 bits.


def database_identifier(source: dict[str, object]) -> str:
    """Return the identifier that Strategus computes from name, release date and holder.

    Parameters
    ----------
    source : dict
        Values of ``cdm_source``.

    Returns
    -------
    str
        A whole number of 32 bits, as R's ``digest2int`` computes it.
    """
    names = ("cdm_source_name", "cdm_release_date", "cdm_holder")
    return str(_digest2int(" ".join(str(source.get(n) or "NA") for n in names)))


def database_tables(
    db: OmopDatabase, database_id: str | None = None
) -> tuple[str, dict[str, pd.DataFrame]]:
    """Return the identifier of a database and the table that describes it.

    Parameters
    ----------
    database_id : str, optional
        The identifier. Default: that of Strategus.

    Returns
    -------
    str
        The identifier.
    dict of str to DataFrame
        The table ``database_meta_data``.
    """
    have = db.columns("cdm_source")
    wanted = [name for name in SOURCE if name in have]
    row: dict[str, Any] = dict.fromkeys(SOURCE)
    if wanted:
        listed = ", ".join(f"{name}::VARCHAR" for name in wanted)
        found = db.rows(f"SELECT {listed} FROM {db.table('cdm_source')} ORDER BY ALL LIMIT 1")
        row |= dict(zip(wanted, found[0], strict=True)) if found else {}
    for name in ("source_release_date", "cdm_release_date"):
        row[name] = None if row[name] is None else str(row[name])[:10]
    source = dict(row)
    row["cdm_source_name"] = row["cdm_source_name"] or db.name
    row["cdm_source_abbreviation"] = row["cdm_source_abbreviation"] or row["cdm_source_name"]
    row["cdm_version_concept_id"] = row["cdm_version_concept_id"] or 1147638  # CDM 5.3
    row["vocabulary_version"] = _vocabulary(db) or row["vocabulary_version"]
    row |= {name: UNKNOWN for name in ("cdm_holder", "vocabulary_version") if not row[name]}
    last = db.rows(
        "SELECT max(observation_period_end_date)::DATE::VARCHAR "
        f"FROM {db.table('observation_period')}"
    )
    row["max_obs_period_end_date"] = last[0][0]
    row["database_id"] = database_id or database_identifier(source)
    return row["database_id"], {"database_meta_data": pd.DataFrame([row])}


def _vocabulary(db: OmopDatabase) -> str | None:
    """Return the version of the vocabulary."""
    if not {"vocabulary_id", "vocabulary_version"} <= {*db.columns("vocabulary")}:
        return None
    found = db.rows(
        f"SELECT max(vocabulary_version) FROM {db.table('vocabulary')} WHERE vocabulary_id = 'None'"
    )
    return None if found[0][0] is None else str(found[0][0])


def _digest2int(text: str) -> int:
    """Hash a text by Jenkins's one-at-a-time function (Jenkins 1997) to a signed integer."""
    h = 0
    for byte in text.encode():
        h = (h + byte) & _WORD
        h = (h + (h << 10)) & _WORD
        h ^= h >> 6
    h = (h + (h << 3)) & _WORD
    h ^= h >> 11
    h = (h + (h << 15)) & _WORD
    return h - 2**32 if h >= 2**31 else h
