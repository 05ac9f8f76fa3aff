"""Results of several databases read from the archives that grids write, and put together."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from steropes.errors import DataError
from steropes.studies.evidence.combine import Profile, combine_normal, combine_profiles
from steropes.studies.evidence.random_effects import random_effects

__all__ = ["combine_archives"]

KEY = ["target_comparator_id", "outcome_id", "analysis_id"]
FLAG = "unblind_for_evidence_synthesis"
# The tables that are read, and their columns of numbers.
NEEDED = {
    "cm_result": ("log_rr", "se_log_rr"),
    "cm_diagnostics_summary": (FLAG,),
    "cm_likelihood_profile": ("log_rr", "log_likelihood"),
}


def combine_archives(paths: Sequence[str | Path], *, unblind: bool = False) -> pd.DataFrame:
    """Combine the results of databases.

    Parameters
    ----------
    paths : sequence of path
        Archives (``results.zip``), one a database: of steropes, or of R's CohortMethod.
    unblind : bool, default False
        Use estimates that fail a diagnostic too. Otherwise a database takes part only with those
        that ``unblind_for_evidence_synthesis`` lets.

    Returns
    -------
    DataFrame
        One row a question, outcome, analysis and ``method``: "fixed, profile", "fixed, normal",
        "random, normal" and "random, Bayesian"; ``databases``, ``rr``, ``ci_95_lb``,
        ``ci_95_ub``, ``log_rr``, ``se_log_rr``, ``i_squared``, ``tau`` and ``note``.

    Raises
    ------
    DataError
        A file that is not such an archive, or one database twice.
    """
    if not paths:
        raise DataError("name the archives to combine")
    read = [_read(Path(p)) for p in paths]
    results, checks, profiles = (_together([r[table] for r in read]) for table in NEEDED)
    names = results.groupby("database_id").size()
    # a database in which no question could be answered has an archive without results
    held = sum(len(r["cm_result"]) > 0 for r in read)
    if len(names) < held:
        raise DataError(
            f"{held} archives hold {len(names)} databases ({', '.join(names.index)}); each "
            "needs a database_id of its own"
        )
    results = results.merge(
        checks[[*KEY, "database_id", FLAG]], on=[*KEY, "database_id"], how="left"
    )
    if not unblind:
        results = results[results[FLAG] == 1]
    by_result = dict(tuple(profiles.groupby([*KEY, "database_id"])))
    lines = []
    for key, of in results.groupby(KEY, sort=True):
        lines += _combined(dict(zip(KEY, key, strict=True)), of, by_result)
    columns = [*KEY, "method", "databases", "rr", "ci_95_lb", "ci_95_ub", "log_rr", "se_log_rr"]
    return pd.DataFrame(lines, columns=[*columns, "i_squared", "tau", "note"])


def _together(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all; empty tables would leave columns without a type."""
    return pd.concat([t for t in tables if len(t)] or tables[:1], ignore_index=True)


def _read(path: Path) -> dict[str, pd.DataFrame]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = {Path(n).name: n for n in archive.namelist()}
            tables = {}
            for table, numbers in NEEDED.items():
                if f"{table}.csv" not in names:
                    raise DataError(f"{path} holds no {table}.csv; it is not an archive of results")
                with archive.open(names[f"{table}.csv"]) as file:
                    found = pd.read_csv(file, dtype={"database_id": str})
                gone = [c for c in (*KEY, "database_id", *numbers) if c not in found]
                if gone:
                    raise DataError(f"{path}: {table}.csv lacks the columns {', '.join(gone)}")
                tables[table] = found.assign(**{c: pd.to_numeric(found[c]) for c in numbers})
            return tables
    except DataError:
        raise
    except (OSError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        # of texts that pandas cannot read, too
        raise DataError(f"{path} is not an archive of results: {error}") from None


def _combined(
    key: dict[str, int], of: pd.DataFrame, by_result: dict[tuple, pd.DataFrame]
) -> list[dict]:
    """A line for each method."""

    def profiles() -> list[Profile]:
        found = [by_result.get((*key.values(), database)) for database in of["database_id"]]
        return [_profile(rows) for rows in found if rows is not None and len(rows) > 1]

    lines = []
    normal = of["log_rr"].to_numpy(float), of["se_log_rr"].to_numpy(float)
    for method, make in (
        ("fixed, profile", lambda: combine_profiles(profiles())),
        ("fixed, normal", lambda: combine_normal(*normal)),
        ("random, normal", lambda: combine_normal(*normal, random=True)),
        ("random, Bayesian", lambda: random_effects(profiles())),
    ):
        line: dict = {**key, "method": method, "databases": 0, "note": ""}
        try:
            c = make()
            line |= {
                "databases": c.databases,
                "rr": np.exp(c.log_rr),
                "ci_95_lb": np.exp(c.lower),
                "ci_95_ub": np.exp(c.upper),
                "log_rr": c.log_rr,
                "se_log_rr": c.se if math.isfinite(c.se) else math.nan,
                "i_squared": getattr(c, "i_squared", math.nan),
                "tau": c.tau,
            }
        except DataError as error:
            line["note"] = str(error)
        lines.append(line)
    return lines


def _profile(rows: pd.DataFrame) -> Profile:
    """The profile of one database."""
    p = rows.drop_duplicates("log_rr")
    slope = p["gradient"] if "gradient" in p and p["gradient"].notna().all() else None
    try:
        return Profile(p["log_rr"], p["log_likelihood"], slope)
    except DataError as error:
        raise DataError(f"database {p['database_id'].iloc[0]}: {error}") from None
