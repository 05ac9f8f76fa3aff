"""Results of several databases read from the archives that grids write, and put together."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from steropes.errors import DataError
from steropes.studies.evidence.combine import Profile, combine_normal, combine_profiles
from steropes.studies.evidence.random_effects import random_effects

__all__ = ["combine_archives"]

KEY = ["target_comparator_id", "outcome_id", "analysis_id"]
NEEDED = ("cm_result", "cm_diagnostics_summary", "cm_likelihood_profile")


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
    results = pd.concat([r["cm_result"] for r in read], ignore_index=True)
    names = results.groupby("database_id").size()
    if len(names) < len(paths):
        raise DataError(
            f"{len(paths)} archives hold {len(names)} databases ({', '.join(names.index)}); each "
            "needs a database_id of its own"
        )
    checks = pd.concat([r["cm_diagnostics_summary"] for r in read], ignore_index=True)
    profiles = pd.concat([r["cm_likelihood_profile"] for r in read], ignore_index=True)
    flag = "unblind_for_evidence_synthesis"
    results = results.merge(
        checks[[*KEY, "database_id", flag]], on=[*KEY, "database_id"], how="left"
    )
    if not unblind:
        results = results[results[flag] == 1]
    by_result = dict(tuple(profiles.groupby([*KEY, "database_id"])))
    lines = []
    for key, of in results.groupby(KEY, sort=True):
        lines += _combined(dict(zip(KEY, key, strict=True)), of, by_result)
    columns = [*KEY, "method", "databases", "rr", "ci_95_lb", "ci_95_ub", "log_rr", "se_log_rr"]
    return pd.DataFrame(lines, columns=[*columns, "i_squared", "tau", "note"])


def _read(path: Path) -> dict[str, pd.DataFrame]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = {Path(n).name: n for n in archive.namelist()}
            tables = {}
            for table in NEEDED:
                if f"{table}.csv" not in names:
                    raise DataError(f"{path} holds no {table}.csv; it is not an archive of results")
                with archive.open(names[f"{table}.csv"]) as file:
                    tables[table] = pd.read_csv(file, dtype={"database_id": str})
            return tables
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not an archive of results: {error}") from None


def _combined(
    key: dict[str, int], of: pd.DataFrame, by_result: dict[tuple, pd.DataFrame]
) -> list[dict]:
    """A line for each method."""
    profiles = []
    for one in of.itertuples(index=False):
        found = by_result.get((*key.values(), one.database_id))
        if found is not None and len(found) > 1:
            p = found.drop_duplicates("log_rr")
            slope = p["gradient"] if "gradient" in p and p["gradient"].notna().all() else None
            profiles.append(Profile(p["log_rr"], p["log_likelihood"], slope))
    lines = []
    normal = of["log_rr"].to_numpy(float), of["se_log_rr"].to_numpy(float)
    for method, make in (
        ("fixed, profile", lambda: combine_profiles(profiles)),
        ("fixed, normal", lambda: combine_normal(*normal)),
        ("random, normal", lambda: combine_normal(*normal, random=True)),
        ("random, Bayesian", lambda: random_effects(profiles)),
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
